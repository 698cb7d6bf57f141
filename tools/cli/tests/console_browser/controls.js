// Number of the controls that Tab reaches, which become window.wanted.
document.activeElement.blur();
window.scrollTo(0, 0);
// Without collapsed content.
const visible = element => element.checkVisibility({visibilityProperty: true});
const all = [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]')]
  .filter(element => visible(element) && element.tabIndex >= 0 && !element.disabled);
const groups = new Set();
window.wanted = all.filter(element => {
  if (element.type !== 'radio') return true;
  // Tab reaches the checked radio button of a group.
  const checked = [...element.form.elements[element.name]].some(other => other.checked);
  if (checked ? !element.checked : groups.has(element.name)) return false;
  groups.add(element.name);
  return true;
});
return window.wanted.length;
