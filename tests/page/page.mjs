// The scripts of the page on as much of a document as they use: reads steps as JSON from standard input, one a line, and
// prints a line for each. Run as: node page.mjs FOLDER, with the scripts and {"type": "module"} in the folder.

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

class Element {
  constructor(tag) {
    Object.assign(this, { tag, attributes: {}, children: [], listeners: {}, open: false });
  }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  append(...children) { this.children.push(...children); }
  replaceChildren(...children) { this.children = children; }
  get textContent() { return this.children.map((child) => child.textContent ?? child).join(""); }
  set textContent(text) { this.children = [text]; }
  get all() { return this.children.flatMap((child) => (child instanceof Element ? [child, ...child.all] : [])); }
  get classes() { return (this.attributes.class ?? "").split(" "); }
  querySelector(wanted) {
    return this.all.find((one) => (wanted.startsWith(".") ? one.classes.includes(wanted.slice(1)) : one.tag === wanted)) ?? null;
  }
  showModal() { this.open = true; }
  focus() {}
  scrollIntoView() {}
}

const elements = new Map();
const documents = { value: [] };
globalThis.document = {
  createElement: (tag) => new Element(tag),
  createElementNS: (_, tag) => new Element(tag),
  getElementById: (id) => elements.get(id) ?? elements.set(id, new Element(id)).get(id),
};
globalThis.localStorage = { getItem: () => "token" };
globalThis.fetch = async () => ({ ok: true, json: async () => ({ documents: documents.value }) });

const load = (name) => import(pathToFileURL(`${process.argv[2]}/${name}`));
const [{ view }, { item }] = [await load("viewer.js"), await load("sources.js")];
const texts = (elements) => elements.map((one) => one.textContent);

for await (const line of createInterface({ input: process.stdin })) {
  const step = JSON.parse(line);
  let shown;
  if (step.words) {
    shown = item([step.source], { words: step.words });
  } else {
    documents.value = step.documents;
    await view(step.source);
    shown = document.getElementById("viewer-text");
  }
  const lines = shown.all.filter((one) => one.classes.includes("line"));
  const said = { marked: texts(shown.all.filter((one) => one.tag === "mark")), text: shown.textContent, lines: texts(lines) };
  console.log(JSON.stringify({ ...said, cited: texts(lines.filter((one) => one.classes.includes("cited"))) }));
}
