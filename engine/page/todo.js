// Tasks and questions that are still open, with the messages they are from.

import { get } from "./api.js";
import { $, day, h, oneLine, plain, sentence } from "./dom.js";
import { item } from "./sources.js";

let running = null;

// Whether the server has such a list.
export async function exists() {
  try {
    await get("/v1/todo", { since: "7d" });
  } catch (error) {
    return error.status !== 404 && error.status !== 401;
  }
  return true;
}

export function start() {
  $("todo-since").addEventListener("change", show);
}

export async function show() {
  running?.abort();
  const control = (running = new AbortController());
  try {
    const { items } = await get("/v1/todo", { since: $("todo-since").value }, control.signal);
    $("todo-list").replaceChildren(...parts(items));
  } catch (error) {
    if (error.name !== "AbortError") $("todo-list").replaceChildren(h("p", { class: "warning" }, sentence(plain(error.message))));
  }
}

function parts(items) {
  if (!items.length) return [h("p", { class: "count" }, "Nothing is open.")];
  const kinds = [["task", "Tasks"], ["question", "Questions"]];
  return kinds.map(([kind, title]) => [title, items.filter((one) => one.kind === kind)]).filter(([, found]) => found.length)
    .map(([title, found]) => h("section", {}, h("h2", {}, title, h("span", { class: "number" }, ` ${found.length}`)), h("ol", { class: "results" }, found.map(loop))));
}

function loop({ text, who, asked_by, due, source }) {
  const late = due && due < new Date().toISOString().slice(0, 10);
  const when = due && h("span", { class: late ? "late" : "" }, `due ${day(due)}${late ? ", overdue" : ""}`);
  const people = [["for ", who], ["asked by ", asked_by]].filter(([, one]) => one).map(([role, one]) => h("span", {}, role, h("bdi", {}, oneLine(one))));
  const facts = [...people, ...(when ? [when] : [])].flatMap((one, place) => (place ? [" · ", one] : [one]));
  const made = item([source], { brief: true });
  made.prepend(h("p", { class: "loop", dir: "auto" }, oneLine(text)), ...(facts.length ? [h("p", { class: "facts" }, ...facts)] : []));
  return made;
}

