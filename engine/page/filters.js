// What questions and searches are limited to: one set of fields, which the view on show carries.

import { $, h } from "./dom.js";

const NAMES = ["sender", "recipient", "since", "until", "collection"];
const SAID = { sender: "from", recipient: "to", since: "since", until: "until", collection: "in" };
const field = (name) => $(`filter-${name}`);

// The filters that are set, by the names of the API.
export function filters() {
  return Object.fromEntries(NAMES.map((name) => [name, field(name).value.trim()]).filter(([, value]) => value));
}

export function carry(view) {
  view.querySelector(".slot")?.append($("filters"));
}

export function offer(collections) {
  field("collection").append(...collections.map((name) => h("option", {}, name)));
}

export function toggle() {
  const box = $("filters");
  box.open = !box.open;
  (box.open ? field("sender") : $("filters-summary")).focus();
}

export function start(changed) {
  const update = () => {
    const set = Object.entries(filters()).map(([name, value]) => `${SAID[name]} ${value}`);
    $("filters-summary").textContent = set.length ? `Filters: ${set.join(", ")}` : "Filters";
    changed();
  };
  for (const name of NAMES) field(name).addEventListener("input", update);
  $("filters-clear").addEventListener("click", () => {
    for (const name of NAMES) field(name).value = "";
    update();
  });
}
