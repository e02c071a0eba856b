// Sources and search results: what a passage is, where it stands, and what it says.

import { count, day, h, marked, oneLine, plain } from "./dom.js";
import { view, warnings } from "./viewer.js";

// Each source with its copies.
export function grouped(sources) {
  const groups = [];
  for (const source of sources) {
    if (source.copy && groups.length) groups.at(-1).push(source);
    else groups.push([source]);
  }
  return groups;
}

const name = (person) => oneLine(person.split(" <")[0]);
const BY = { quote: "quoted by", forward: "forwarded by" };

function people(source) {
  if (!source.sender) return oneLine(source.speaker ?? "");
  const by = BY[source.role];
  const from = by ? [name(source.author ?? ""), `${by} ${name(source.sender)}`].filter(Boolean).join(", ") : name(source.sender);
  const [first, ...others] = source.recipients;
  return from + (first ? ` to ${name(first)}${others.length ? ` +${others.length}` : ""}` : "");
}

function where(source, copies) {
  const [first, last] = source.lines;
  const path = plain(source.path), tail = path.split("/").slice(-2).join("/");
  const lines = source.place ? plain(source.place) : first === last ? `line ${first}` : `lines ${first}–${last}`;
  const also = copies ? `, and ${count(copies, "copy", "copies")}` : "";
  return h("p", { class: "place" }, h("span", { class: "path", title: path }, tail), h("span", {}, `${lines}${also}`));
}

const WORD = /([\p{L}\p{M}\p{N}]+)/u;

// A list item; `number` if it is counted, `rests` if the answer is from it, `words` to be marked in its text, `context` around it; or `brief`.
export function item([source, ...copies], { number = null, rests = false, words = [], brief = false, context = "" } = {}) {
  const title = oneLine(source.title) || "no subject";
  const noted = warnings(source);
  const dated = day(source.date) + (source.written ? `, quoting ${day(source.written)}` : "");
  return h("li", { class: rests ? "source rests" : "source" },
    h("div", { class: "heading" },
      number && h("span", { class: "number" }, `${number}`),
      h("button", { type: "button", class: "open", dir: "auto", click: () => view(source) }, title),
      rests && h("span", { class: "tag" }, "answer")),
    h("p", { class: "meta" }, h("bdi", {}, people(source)), people(source) && " · ", dated),
    !brief && where(source, copies.length),
    noted.length > 0 && h("p", { class: "warning" }, noted.join("; ")),
    !brief && source.quote && h("blockquote", { dir: "auto" }, words.length ? wordsMarked(source.quote, words) : inContext(source, context)));
}

// A quote between the sentences beside it, which are less dark.
function inContext({ quote, span }, context) {
  const at = context.indexOf(quote);
  if (at < 0) return marked(quote, span);
  const [before, after] = [context.slice(0, at), context.slice(at + quote.length)];
  return [h("span", { class: "beside" }, plain(before)), ...marked(quote, span), h("span", { class: "beside" }, plain(after))];
}

// Text with every word that begins with one of these marked.
function wordsMarked(text, words) {
  const wanted = words.map((word) => word.toLowerCase());
  return plain(text).split(WORD).map((part, index) => {
    const begun = index % 2 ? wanted.find((word) => part.toLowerCase().startsWith(word)) : "";
    return begun ? [h("mark", {}, part.slice(0, begun.length)), part.slice(begun.length)] : part;
  });
}
