// Elements that are wider than the window, without those that scroll.
const max = arguments[0];
if (document.documentElement.scrollWidth <= max) return [];
const scrolls = element => element && (getComputedStyle(element).overflowX !== 'visible' || scrolls(element.parentElement));
return [document.documentElement.scrollWidth + ' pixels', ...[...document.body.querySelectorAll('*')]
  .filter(element => element.getBoundingClientRect().right > max && !scrolls(element.parentElement))
  .map(element => element.outerHTML.slice(0, 150))];
