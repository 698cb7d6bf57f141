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

// What goes on is looked at again without a reload: an element that says so becomes what the page says of it now.
function refresh(id) {
  const region = document.getElementById(id);
  const every = Number(region?.dataset.refresh);
  if (!every) return;
  setTimeout(async () => {
    try {
      const answer = document.hidden ? null
        : await fetch(region.dataset.refreshFrom || location.href, { headers: { Accept: "text/html" } });
      if (answer?.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.getElementById(id);
        if (fresh) become(region, fresh);
      }
    } catch {
      // The console may come back.
    }
    refresh(id);
  }, every);
}

function become(region, fresh) {
  const focused = region.contains(document.activeElement) ? document.activeElement.id : "";
  const open = [...region.querySelectorAll("details[open][id]")].map((details) => details.id);
  const status = region.querySelector(":scope > [role=status][id]");
  const next = status && fresh.querySelector(`#${status.id}`);
  if (next) {
    // It stays where it is, so that it is read out when it changes, and only then.
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
