// Elements and small formats. Text becomes text nodes alone: nothing of a message is ever parsed as HTML.

export const $ = (id) => document.getElementById(id);

// An element; attributes that are functions listen to the event of that name, and those that are false or null are left out.
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== false && child != null));
  return element;
}

// Control characters and those that turn the direction of text show as U+FFFD, one for one: offsets stay true.
const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;
export const plain = (text) => (text ?? "").replace(UNSAFE, "\ufffd");
export const oneLine = (text) => plain(text).replace(/\s+/g, " ").trim();

// Text with the part from `first` to `last` marked; the server counts code points, strings here UTF-16 units.
export function marked(text, span) {
  if (!span) return [plain(text)];
  const points = Array.from(text);
  const [before, within, after] = [points.slice(0, span[0]), points.slice(...span), points.slice(span[1])];
  return [plain(before.join("")), h("mark", {}, plain(within.join(""))), plain(after.join(""))];
}

const DAY = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
const SHORT_DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

// The day on the clock of its writer, which is the one the ISO text begins with.
const utc = (iso) => new Date(`${iso.slice(0, 10)}T00:00:00Z`);
export const day = (iso) => (iso ? DAY.format(utc(iso)).replace(",", "") : "no date");
export const shortDay = (iso) => SHORT_DAY.format(utc(iso));
export const time = (iso) => h("time", { datetime: iso }, day(iso));

export const count = (n, one, many = `${one}s`) => `${n.toLocaleString("en-GB")} ${n === 1 ? one : many}`;

export function duration(ms) {
  if (ms < 1) return ms > 0 ? "under 1 ms" : "0 s";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60e3) return `${(ms / 1000).toFixed(ms < 10e3 ? 1 : 0)} s`;
  if (ms < 3600e3) return `${(ms / 60e3).toFixed(ms < 600e3 ? 1 : 0)} min`;
  return `${(ms / 3600e3).toFixed(1)} h`;
}

export function age(seconds) {
  for (const [size, unit] of [[86400, "day"], [3600, "hour"], [60, "minute"]])
    if (seconds >= size) return `${count(Math.round(seconds / size), unit)} old`;
  return "just made";
}

export function size(bytes) {
  const unit = bytes < 1e3 ? 0 : bytes < 1e6 ? 1 : bytes < 1e9 ? 2 : 3;
  const value = bytes / 1e3 ** unit;
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${["B", "kB", "MB", "GB"][unit]}`;
}

export const percent = (share) => `${Math.round(share * 100)} %`;
export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

// Say it once to who listens instead of looking.
export function announce(text) {
  $("status").textContent = plain(text);
}
