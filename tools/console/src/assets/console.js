"use strict";
// Keyboard shortcuts: a letter opens a section, an arrow key the previous or next page. They are off in input fields.
const SECTIONS = { e: "/", f: "/failures", h: "/health" };

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
  else if (SECTIONS[key]) location.assign(SECTIONS[key]);
  else return;
  event.preventDefault();
});

// Releasing the slider submits its form.
for (const form of document.querySelectorAll("form[data-slider]")) {
  const range = form.querySelector("input[type=range]");
  const output = form.querySelector("output");
  range.addEventListener("input", () => { output.value = range.value; });
  range.addEventListener("change", () => form.requestSubmit());
}

// An element with data-refresh (milliseconds) is updated from the page, without a reload.
function refresh(id) {
  const region = document.getElementById(id);
  const every = Number(region?.dataset.refresh);
  if (!every) return;
  setTimeout(async () => {
    try {
      const response = document.hidden ? null
        : await fetch(region.dataset.refreshFrom || location.href, { headers: { Accept: "text/html" } });
      if (response?.ok) {
        const page = new DOMParser().parseFromString(await response.text(), "text/html");
        const fresh = page.getElementById(id);
        if (fresh) update(region, fresh);
      }
    } catch {
      // The next attempt may succeed.
    }
    refresh(id);
  }, every);
}

function update(region, fresh) {
  const focused = region.contains(document.activeElement) ? document.activeElement.id : "";
  const open = [...region.querySelectorAll("details[open][id]")].map((details) => details.id);
  const status = region.querySelector(":scope > [role=status][id]");
  const next = status && fresh.querySelector(`#${status.id}`);
  if (next) {
    // The status element stays in the document, so that screen readers announce its changes.
    if (status.textContent !== next.textContent) status.textContent = next.textContent;
    for (const child of [...region.childNodes]) if (child !== status) child.remove();
    let isAfter = false;
    for (const child of [...fresh.childNodes]) {
      if (child === next) isAfter = true;
      else if (isAfter) region.append(child);
      else status.before(child);
    }
  } else {
    region.replaceChildren(...fresh.childNodes);
  }
  if (fresh.dataset.refresh) region.dataset.refresh = fresh.dataset.refresh;
  else delete region.dataset.refresh;
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

for (const region of document.querySelectorAll("[data-refresh][id]")) refresh(region.id);
