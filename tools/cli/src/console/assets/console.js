"use strict";
// Keys: pages are reached by one letter, neighbours by arrows. Not while something is typed.
const PLACES = { e: "/", f: "/failures", h: "/health" };

function follow(rel) {
  const link = document.querySelector(`main a[rel="${rel}"]`);
  if (link) link.click();
  return Boolean(link);
}

document.addEventListener("keydown", (event) => {
  const { target, key } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select")) return;
  if (key === "/") document.getElementById("find")?.focus();
  else if (key === "ArrowLeft" && !target.closest(".scroll")) { if (!follow("prev")) return; }
  else if (key === "ArrowRight" && !target.closest(".scroll")) { if (!follow("next")) return; }
  else if (PLACES[key]) location.assign(PLACES[key]);
  else return;
  event.preventDefault();
});

// The slider goes where it is let go.
for (const form of document.querySelectorAll("form[data-slider]")) {
  const range = form.querySelector("input[type=range]");
  const output = form.querySelector("output");
  range.addEventListener("input", () => { output.value = range.value; });
  range.addEventListener("change", () => form.requestSubmit());
}
