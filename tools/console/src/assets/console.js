"use strict";
// Keyboard shortcuts: a letter opens the section whose link has it as data-key, an arrow key or a bracket the previous or next page. They are off in
// input fields.
const PAGES = { "[": "prev", "]": "next" };
const STEPS = { j: 1, k: -1 };
const KEYS = [
  ["/", "Find entities"], ["j k", "Next and previous change, or version of a history"], ["[ ]", "Previous and next pair of versions"],
  ["← →", "Previous and next version or page"], ["e", "Entities"], ["c", "Changes"], ["h", "Health"], ["?", "This help"],
];

function follow(rel) {
  const link = document.querySelector(`main a[rel="${rel}"]`);
  if (link) link.click();
  return Boolean(link);
}

// Moves the focus to another change, or another version of a history. The first step begins at the path of the address.
function step(by) {
  const all = [...document.querySelectorAll("main .change, main .log summary")].filter((each) => each.checkVisibility());
  const from = all.indexOf(document.activeElement.closest(".change, .log summary"));
  const next = from < 0 ? all.find((each) => each.id === "path") ?? all[by > 0 ? 0 : all.length - 1] : all[from + by];
  next?.focus({ preventScroll: true });
  next?.scrollIntoView({ block: "center" });
  return all.length > 0;
}

function help() {
  const dialog = document.getElementById("keys") ?? document.createElement("dialog");
  if (!dialog.id) {
    dialog.id = "keys";
    dialog.setAttribute("aria-label", "Keys");
    const title = document.createElement("h2");
    title.textContent = "Keys";
    const list = document.createElement("dl");
    list.className = "facts";
    for (const [keys, text] of KEYS) {
      const [term, description] = ["dt", "dd"].map((name) => list.appendChild(document.createElement(name)));
      term.append(...keys.split(" ").flatMap((key) => [Object.assign(document.createElement("kbd"), { textContent: key }), " "]));
      description.textContent = text;
    }
    const close = Object.assign(document.createElement("button"), { type: "button", textContent: "Close" });
    close.addEventListener("click", () => dialog.close());
    dialog.append(title, list, close);
    document.body.append(dialog);
  }
  if (dialog.open) dialog.close(); else dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  const { target, key } = event;
  const isCommand = (event.ctrlKey || event.metaKey || event.altKey) && !event.getModifierState("AltGraph");
  if (isCommand || target.closest("input, textarea, select")) return;
  if (key === "?") help();
  else if (document.querySelector("dialog[open]")) return;
  else if (PAGES[key]) { if (!follow(PAGES[key])) return; }
  else if (STEPS[key]) { if (!step(STEPS[key])) return; }
  else if (key === "/") document.getElementById("find")?.focus();
  else if (key === "ArrowLeft" && !target.closest(".scroll")) { if (!follow("prev")) return; }
  else if (key === "ArrowRight" && !target.closest(".scroll")) { if (!follow("next")) return; }
  else {
    const section = document.querySelector(`header a[data-key="${CSS.escape(key)}"]`);
    if (!section) return;
    section.click();
  }
  event.preventDefault();
});

// Times are shown in the time zone of the browser, and in UTC on hover. Without this script, they are in UTC.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const date = new Date(time.dateTime);
    if (Number.isNaN(date.getTime()) || !time.textContent.endsWith(" UTC")) continue;
    const fraction = /\.\d+/.exec(time.textContent)?.[0] ?? "";
    time.textContent = date.toLocaleString("sv-SE") + fraction;
  }
}

// The value of a date picker, in the time zone of the browser. Addresses contain UTC.
function localInput(date) {
  const shifted = new Date(date.getTime() - date.getTimezoneOffset() * 60000);
  return shifted.toISOString().replace(/(:00)?\.000Z$|Z$/, "");
}

function localPickers(root) {
  for (const picker of root.querySelectorAll("input[type=datetime-local]")) {
    const date = new Date(`${picker.value}Z`);
    if (!Number.isNaN(date.getTime())) picker.value = localInput(date);
    const label = picker.closest("label")?.querySelector(".zone");
    if (label) label.textContent = "(local time)";
    picker.form.addEventListener("formdata", (event) => {
      const chosen = new Date(picker.value);
      if (!Number.isNaN(chosen.getTime())) event.formData.set(picker.name, chosen.toISOString());
    });
  }
}

localTimes(document);
localPickers(document);
const shownZone = document.getElementById("zone");
if (shownZone) shownZone.textContent = `Times are local (${zone}).`;

// Differences are inline, or side by side if the user chose that before.
const layout = document.querySelector("button.layout");
function showLayout() {
  const isSplit = localStorage.getItem("differences") === "split";
  document.documentElement.classList.toggle("split", isSplit);
  layout.setAttribute("aria-pressed", isSplit);
}
if (layout) {
  layout.hidden = false;
  showLayout();
  layout.addEventListener("click", () => {
    localStorage.setItem("differences", localStorage.getItem("differences") === "split" ? "inline" : "split");
    showLayout();
  });
}
document.getElementById("path")?.scrollIntoView({ block: "center" });

// Copy buttons. They copy their own text, or that of an element.
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Without HTTPS, only this machine has the clipboard interface.
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  if (!isCopied) throw new Error("not copied");
}

for (const button of document.querySelectorAll("button[data-copy], button[data-copy-from]")) {
  const name = button.textContent;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const from = document.getElementById(button.dataset.copyFrom);
    try {
      await copy(from ? from.textContent : button.dataset.copy);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Cannot copy";
    }
    setTimeout(() => { button.textContent = name; }, 2000);
  });
}

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
        : await fetch(location.href, { headers: { Accept: "text/html" } });
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
  localTimes(region);
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

for (const region of document.querySelectorAll("[data-refresh][id]")) refresh(region.id);
