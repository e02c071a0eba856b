// Search as you type; without words, the newest documents.

import { get } from "./api.js";
import { $, announce, count, h, oneLine, plain, sentence, time } from "./dom.js";
import { filters } from "./filters.js";
import { grouped, item } from "./sources.js";
import { view, warnings } from "./viewer.js";

const WAIT = 160; // ms after the last key
const K = 20;
let timer = 0, running = null, last = null;

export function start() {
  $("search-input").addEventListener("input", () => search(WAIT));
  $("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    $("results").querySelector(".open")?.focus();
  });
}

// Search for what the field says, unless that is on show already.
export function search(wait = 0) {
  const wanted = { q: $("search-input").value.trim(), ...filters() };
  const key = JSON.stringify(wanted);
  if (key === last) return;
  last = key;
  clearTimeout(timer);
  running?.abort(); // an answer to what the field said before may not come after this one's
  const control = (running = new AbortController());
  timer = setTimeout(() => run(wanted, control.signal), wait);
}

async function run(wanted, signal) {
  try {
    if (wanted.q) showPassages(wanted.q, await get("/v1/search", { ...wanted, k: K }, signal));
    else showNewest(wanted, await get("/v1/list", { ...wanted, limit: K }, signal));
  } catch (error) {
    if (error.name === "AbortError") return;
    last = null;
    $("results").replaceChildren();
    $("search-count").replaceChildren(sentence(plain(error.message)), error.next ? h("code", {}, plain(error.next)) : "");
  }
}

function say(text) {
  $("search-count").textContent = text;
  announce(text);
}

function showPassages(query, { sources }) {
  const words = query.split(/[^\p{L}\p{M}\p{N}]+/u).filter(Boolean);
  const groups = grouped(sources);
  $("results").replaceChildren(...groups.map((group) => item(group, { words })));
  say(groups.length ? `${count(groups.length, "passage")}, best first` : "Nothing found. Try other words, or fewer filters.");
}

function showNewest(wanted, { total, documents }) {
  $("results").replaceChildren(...documents.map(row));
  const limited = Object.keys(filters()).length > 0;
  const all = `${count(total, "document")}${limited ? " fit the filters" : ""}`;
  say(total > documents.length ? `${all}; the newest ${documents.length}` : `${all}, newest first`);
}

function row(found) {
  const who = oneLine(found.sender || found.recipients.join(", "));
  const noted = warnings(found);
  return h("li", { class: "source" },
    h("div", { class: "heading" },
      h("button", { type: "button", class: "open", dir: "auto", click: () => view(found) }, oneLine(found.title) || "no subject")),
    h("p", { class: "meta" }, h("bdi", {}, who), who && " · ", found.date ? time(found.date) : "no date", ` · ${plain(found.collection)}`),
    noted.length > 0 && h("p", { class: "warning" }, noted.join("; ")));
}
