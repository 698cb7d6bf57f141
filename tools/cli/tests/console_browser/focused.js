// Removes the focused control from window.wanted. The result is the control if its focus is not visible.
const element = document.activeElement;
if (element === document.body) return null;
// An updated region has new elements with the same ids.
window.wanted = window.wanted.filter(other => other !== element && (!other.id || other.id !== element.id));
const {outlineStyle, outlineWidth} = getComputedStyle(element);
return outlineStyle === 'none' || parseFloat(outlineWidth) < 1 ? element.outerHTML.slice(0, 200) : null;
