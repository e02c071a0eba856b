// One document: its indexed text with line numbers, the cited lines marked.

import { Failure, get, post } from "./api.js";
import { $, day, h, oneLine, plain, time } from "./dom.js";

const BLOCK = 200; // lines that a browser lays out at once
let shown = null; // the document on show
let siblings = null; // all documents of its file, once asked for
let loading = new AbortController();
let opens = false; // whether the server is on this machine, and opens files
export const allowOpening = (allowed) => (opens = allowed);

// Why a source or a document may not be what it says it is.
export function warnings(one) {
  const later = one.date_claimed !== one.date ? [`dated ${day(one.date_claimed)}, first seen ${day(one.date)}`] : [];
  return [...one.warnings, ...later].map(oneLine);
}

// Show the document of a source, or of a row of a list, which cites no lines.
export async function view(source) {
  const title = oneLine(source.title) || "no subject";
  begin(title);
  if (!$("viewer").open) $("viewer").showModal();
  $("viewer-title").focus();
  try {
    const { documents } = await get("/v1/show", { path: source.path, message_id: source.message_id }, loading.signal);
    const found = documents.find((one) => isOf(one, source)) ?? documents[0];
    if (!found) throw new Failure("This file is no longer indexed");
    siblings = source.message_id ? null : documents;
    show(found, source);
  } catch (error) {
    if (error.name !== "AbortError") report(error);
  }
}

// Show the document that the address names, as a source of an answer in a chat program does.
export function resume() {
  const given = new URLSearchParams(location.search), [path, id, lines] = ["path", "message_id", "lines"].map((name) => given.get(name));
  if (path) view({ path, message_id: id, title: path, ...lines && { lines: lines.split("-").map(Number), own_lines: true } });
}

// Without Message-IDs a file's documents differ in title and day; a row of a list has its place in the file, too.
const isOf = (one, { item, title, date }) => (item === undefined || one.item === item) && one.title === title && one.date === date;

function begin(title) {
  loading.abort();
  loading = new AbortController();
  siblings = shown = null;
  $("viewer-title").textContent = title;
  $("viewer-about").replaceChildren();
  $("viewer-text").replaceChildren(h("p", { class: "wait" }, "Loading"));
  $("viewer-neighbours").hidden = true;
}

function report(error) {
  $("viewer-text").replaceChildren(h("p", { class: "wait" }, plain(error.message), error.next && h("code", {}, plain(error.next))));
}

function show(found, source = {}) {
  shown = found;
  $("viewer-title").textContent = oneLine(found.title) || "no subject";
  $("viewer-about").replaceChildren(about(found));
  const cited = source.own_lines === undefined ? [] : cite(found, source);
  $("viewer-text").replaceChildren(...blocks(found, cited));
  place();
  const first = $("viewer-text").querySelector("mark") ?? $("viewer-text").querySelector(".cited");
  if (first) first.scrollIntoView({ block: "center" });
  else $("viewer-text").scrollTop = 0;
}

function about(found) {
  const list = found.recipients.map(plain).join(", ");
  const rows = [
    ["From", plain(found.sender)],
    [found.kind === "mail" ? "To" : "With", list],
    ["Date", found.date && time(found.date)],
    ["File", [h("span", { class: "path" }, plain(found.path)), opens && h("button", { type: "button", class: "quiet", click: () => openFile(found) }, "Open")]],
    ["Note", warnings(found).join("; ")],
  ];
  const made = rows.filter(([, value]) => value).map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, h("bdi", {}, value))));
  return h("dl", {}, made);
}

async function openFile({ path, message_id }) {
  try {
    await post("/v1/open", { path, message_id });
  } catch (error) {
    $("viewer-about").append(h("p", { class: "warning" }, plain(error.message)));
  }
}

// The rows of a document: its lines, or the turns of subtitles, each with the first and last line of the file.
function rows(found) {
  const start = found.lines[0];
  return found.turns ?? found.text.split("\n").map((text, index) => ({ lines: [start + index, start + index], text }));
}

// The cited rows, and from where to where to mark in each: the quote, where it is found in them and not all they say.
function cite(found, { lines: [first, last], quote, span }) {
  const cited = rows(found).filter((row) => row.lines[0] <= last && first <= row.lines[1]);
  const wanted = (span ? Array.from(quote).slice(...span).join("") : quote ?? "").trim();
  const text = cited.map((row) => row.text).join("\n"), range = locate(text, wanted);
  const [from, to] = range[1] - range[0] < text.trim().length ? range : [0, 0];
  let at = 0;
  return cited.map((row) => {
    const begins = at;
    at += row.text.length + 1;
    return { number: row.lines[0], from: Math.max(0, from - begins), to: Math.min(row.text.length, to - begins) };
  });
}

// Where a quote stands in a text, whose spaces, line ends and marks of quoted lines may differ; [0, 0] if nowhere.
function locate(text, quote) {
  const there = spaced(text), wanted = spaced(quote).text.trim();
  const exact = quote ? text.indexOf(quote) : -1, at = wanted ? there.text.indexOf(wanted) : -1;
  if (exact >= 0) return [exact, exact + quote.length];
  return at < 0 ? [0, 0] : [there.from[at], there.from[at + wanted.length - 1] + 1];
}

// A text with one blank for whatever stands between its words, and where each of its characters is from.
function spaced(text) {
  const units = text.replace(/(?:^|\n)[\s>]+|[\s\u001c-\u001f\u0085]/g, (found) => " ".repeat(found.length)).split("");
  const from = units.map((_, index) => index).filter((index) => units[index] !== " " || units[index - 1] !== " ");
  return { from, text: from.map((index) => units[index]).join("") };
}

function blocks(found, cited) {
  const numbers = new Map(cited.map((one) => [one.number, one]));
  const lines = rows(found).map((row) => line(row.text, row.lines[0], numbers));
  return Array.from({ length: Math.ceil(lines.length / BLOCK) }, (_, n) =>
    h("div", { class: "block" }, lines.slice(n * BLOCK, (n + 1) * BLOCK)));
}

function line(text, number, numbers) {
  const { from = 0, to = 0 } = numbers.get(number) ?? {};
  const parts = to > from ? [plain(text.slice(0, from)), h("mark", {}, plain(text.slice(from, to))), plain(text.slice(to))] : [plain(text)];
  return h("p", { class: numbers.has(number) ? "line cited" : "line", "data-number": number, dir: "auto" }, parts);
}

// Files of many messages can be large: the others are read when asked for. A file with one name for one message has none.
function place() {
  const many = siblings ? siblings.length > 1 : shown.item > 0 || /mbox$/i.test(shown.path);
  $("viewer-neighbours").hidden = !many;
  if (!many) return;
  const last = siblings ? siblings.at(-1).item : Infinity;
  $("viewer-previous").disabled = shown.item === (siblings ? siblings[0].item : 0);
  $("viewer-next").disabled = shown.item === last;
  const index = siblings?.findIndex((one) => one.item === shown.item);
  $("viewer-position").textContent = siblings ? `${index + 1} of ${siblings.length} in this file` : `message ${shown.item + 1} of this file`;
}

async function move(step) {
  if (!shown || $("viewer-neighbours").hidden) return;
  const before = shown;
  try {
    siblings ??= (await get("/v1/show", { path: before.path }, loading.signal)).documents;
  } catch (error) {
    if (error.name !== "AbortError") report(error);
    return;
  }
  if (shown !== before) return;
  const index = siblings.findIndex((one) => one.item === before.item) + step;
  if (siblings[index]) show(siblings[index]);
  else place();
}

export function start() {
  const viewer = $("viewer");
  $("viewer-close").addEventListener("click", () => viewer.close());
  $("viewer-previous").addEventListener("click", () => move(-1));
  $("viewer-next").addEventListener("click", () => move(1));
  viewer.addEventListener("click", (event) => event.target === viewer && viewer.close());
  viewer.addEventListener("close", () => loading.abort());
  viewer.addEventListener("keydown", ({ key }) => {
    if (key === "[") move(-1);
    if (key === "]") move(1);
  });
}
