// The page: its views, its keys, and what happens first.

import * as ask from "./ask.js";
import { get, takeToken } from "./api.js";
import { $, h, plain, sentence } from "./dom.js";
import * as filters from "./filters.js";
import * as search from "./search.js";
import * as stats from "./stats.js";
import * as todo from "./todo.js";
import * as viewer from "./viewer.js";

const VIEWS = { ask: "Ask", search: "Search", todo: "To do", stats: "Stats" };
const KEYS_OFF = "pkb-keys-off";
let current = null;

function show(name) {
  current = name;
  document.title = `${VIEWS[name]} · pkb`;
  for (const view of Object.keys(VIEWS)) $(`view-${view}`).hidden = view !== name;
  for (const link of document.querySelectorAll("a[data-view]")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  filters.carry($(`view-${name}`));
  if (name === "search") search.search();
  if (name === "stats") stats.show();
  if (name === "todo") todo.show();
}

function route() {
  if (takeToken()) return location.reload();
  const name = location.hash.slice(1);
  const known = name in VIEWS && !(name === "todo" && $("todo-link").hidden) ? name : "ask";
  if (known !== current) show(known);
}

function go(name, field) {
  if (current !== name) {
    location.hash = name;
    show(name); // the field can be focused now, not when the event comes
  }
  if (field) $(field).focus(), $(field).select();
  else $("main").focus();
}

function notice(error) {
  const next = error.next ? [" Type: ", h("code", {}, plain(error.next))] : [];
  $("notice").replaceChildren(h("p", {}, sentence(plain(error.message)), next));
  $("notice").hidden = false;
}

// Learn what is indexed; where nothing is, or the token is wrong, say so above everything.
async function begin() {
  $("notice").hidden = true;
  route();
  try {
    const found = await get("/v1/stats");
    if (!found.index.documents) return notice({ message: "Nothing has been ingested yet", next: "pkb ingest FOLDER" });
    filters.offer(Object.keys(found.collections));
    $("ask-lead").prepend(`${stats.about(found)}. `);
    if (await todo.exists()) $("todo-link").hidden = $("todo-key").hidden = false;
    if (location.hash === "#todo") route();
    viewer.allowOpening(await ask.suggest());
    ask.resume();
    viewer.resume();
  } catch (error) {
    notice(error);
  }
}

function step(by) {
  const items = [...$(`view-${current}`).querySelectorAll(".open")].filter((one) => one.checkVisibility());
  const at = items.indexOf(document.activeElement);
  const next = items[at < 0 ? (by > 0 ? 0 : items.length - 1) : at + by];
  next?.focus();
  next?.closest("li").scrollIntoView({ block: "nearest" });
}

const ACTIONS = {
  "/": () => go("ask", "ask-input"),
  s: () => go("search", "search-input"),
  t: () => $("todo-link").hidden || go("todo"),
  g: () => go("stats"),
  j: () => step(1),
  k: () => step(-1),
  n: () => (go("ask"), ask.renew()),
  f: () => $(`view-${current}`).contains($("filters")) && filters.toggle(),
  "?": () => $("keys").showModal(),
};

const isField = (element) => element.matches("input:not([type=checkbox]), select, textarea");

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape") {
    if (ask.isRunning()) ask.stop();
    else if (isField(event.target)) event.preventDefault(), event.target.blur(); // a search field would be cleared
    return;
  }
  if (event.key === "ArrowDown" && event.target === $("search-input")) return event.preventDefault(), step(1);
  const act = ACTIONS[event.key];
  if (!act || isField(event.target) || localStorage.getItem(KEYS_OFF)) return;
  event.preventDefault();
  act();
}

function startKeys() {
  document.addEventListener("keydown", onKey);
  $("keys-button").addEventListener("click", ACTIONS["?"]);
  $("keys-close").addEventListener("click", () => $("keys").close());
  $("keys").addEventListener("click", (event) => event.target === $("keys") && $("keys").close());
  $("keys-on").checked = !localStorage.getItem(KEYS_OFF);
  $("keys-on").addEventListener("change", ({ target }) =>
    target.checked ? localStorage.removeItem(KEYS_OFF) : localStorage.setItem(KEYS_OFF, "1"));
  $("skip").addEventListener("click", (event) => (event.preventDefault(), $("main").focus()));
}

startKeys();
viewer.start();
ask.start();
search.start();
todo.start();
filters.start(() => current === "search" && search.search(160));
addEventListener("hashchange", route);
takeToken();
begin();
