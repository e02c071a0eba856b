// Small plots in SVG. Every plot is a figure with a title, a picture with a name, and the same as a table.

import { h, svg } from "./dom.js";

const ROW = 30, THICK = 12, END = 100, GAP = 10, NARROW = 440; // px

// A figure: `draw` makes the picture for a width in pixels, and again when that changes.
export function figure(title, note, draw, heading, rows) {
  const stage = h("div", { class: "stage" });
  let width = 0;
  const watch = new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now > 0 && now !== width) stage.replaceChildren(named(title, draw((width = now))));
  });
  watch.observe(stage);
  return h("figure", {}, h("figcaption", {}, h("h2", {}, title), note && h("p", {}, note)), stage, table(title, heading, rows));
}

function named(title, drawn) {
  drawn.setAttribute("role", "img");
  drawn.setAttribute("aria-label", `${title}; the table below has the figures`);
  return drawn;
}

function table(title, heading, rows) {
  const cells = (row) => row.map((cell, index) => (index ? h("td", {}, cell) : h("th", { scope: "row" }, cell)));
  return h("details", {}, h("summary", {}, "Table"),
    h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": `${title}, table` }, h("table", {},
      h("thead", {}, h("tr", {}, heading.map((cell) => h("th", { scope: "col" }, cell)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, cells(row)))))));
}

const frame = (width, height, ...children) => svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height }, children);
const text = (x, y, anchor, said, name = "") => svg("text", { x, y, "text-anchor": anchor, class: name }, said);
const block = (x, y, width, height, name) => svg("rect", { x, y, width: Math.max(width, 0), height, rx: Math.min(2, height / 2), class: name });
// Where rows stand: their labels beside them or, where that is too narrow, above.
function layout(width) {
  const narrow = width < NARROW;
  const row = narrow ? ROW + 18 : ROW, left = narrow ? 0 : 176;
  return { narrow, row, left, label: (index, said) => text(0, index * row + (narrow ? 14 : ROW / 2 + 4), "start", said), middle: (index) => (index + 1) * row - ROW / 2 };
}

// Horizontal bars; each row has a label, a text at its end, and lanes [value, class]. With `of`, the track to a limit.
export function bars(rows) {
  return (width) => {
    const { row, left, label, middle } = layout(width), room = width - left - END - GAP;
    const most = Math.max(...rows.flatMap((one) => one.lanes.map(([value]) => value)), 1e-9);
    const drawn = rows.flatMap((one, index) => {
      const thick = THICK / one.lanes.length, top = middle(index) - THICK / 2, scale = room / (one.of ?? most);
      const track = one.of ? [block(left, top, room, THICK, "track")] : [];
      const lanes = one.lanes.map(([value, name], lane) => {
        const long = value > 0 ? Math.min(Math.max(value * scale, 2), room) : 0;
        return block(left, top + lane * (thick + 1), long, thick, name);
      });
      return [label(index, one.label), ...track, ...lanes, text(width, middle(index) + 4, "end", one.end, "value")];
    });
    return frame(width, rows.length * row, drawn);
  };
}

// Two points and the line between them on a logarithmic scale; each row has a label, `low` and `high`, both over zero.
export function ranges(rows, format) {
  return (width) => {
    const { narrow, row, left, label, middle } = layout(width), room = width - left - 56, height = rows.length * row;
    const values = rows.flatMap((one) => [one.low, one.high]).map(Math.log10);
    const first = Math.floor(Math.min(...values)), last = Math.max(first + 1, Math.ceil(Math.max(...values)));
    const at = (value) => left + 28 + ((Math.log10(value) - first) / (last - first)) * room;
    const places = Array.from({ length: last - first + 1 }, (_, n) => 10 ** (first + n));
    const grid = places.flatMap((value, n) => [
      svg("line", { x1: at(value), x2: at(value), y1: 0, y2: height, class: "grid" }),
      ...(narrow && places.length > 5 && n % 2 ? [] : [text(at(value), height + 16, "middle", format(value), "value")]),
    ]);
    const points = rows.flatMap((one, index) => [
      label(index, one.label),
      svg("line", { x1: at(one.low), x2: at(one.high), y1: middle(index), y2: middle(index), class: "span" }),
      svg("circle", { cx: at(one.high), cy: middle(index), r: 5, class: "high" }),
      svg("circle", { cx: at(one.low), cy: middle(index), r: 5, class: "low" }),
    ]);
    return frame(width, height + 22, grid, points);
  };
}

// Columns by week; each has a label and parts [value, class], stacked from below.
export function columns(weeks) {
  return (width) => {
    const height = 120, foot = 22, head = 16, step = Math.min(width / weeks.length, 72), thick = Math.min(step - 4, 36);
    const sums = weeks.map((week) => week.parts.reduce((sum, [value]) => sum + value, 0));
    const most = Math.max(...sums, 1), every = Math.ceil(52 / step);
    const drawn = weeks.flatMap((week, index) => {
      const x = index * step + (step - thick) / 2;
      let y = head + height;
      const parts = week.parts.filter(([value]) => value > 0).map(([value, name]) => {
        const tall = (value / most) * height;
        y -= tall;
        return block(x, y, thick, Math.max(tall - 1, 1), name);
      });
      const middle = x + thick / 2, shown = (weeks.length - 1 - index) % every === 0;
      const sum = sums[index] && thick > 14 ? [text(middle, y - 5, "middle", `${sums[index]}`, "value")] : [];
      return [...parts, ...sum, ...(shown ? [text(middle, head + height + 16, "middle", week.label, "value")] : [])];
    });
    const base = svg("line", { x1: 0, x2: weeks.length * step, y1: head + height + 0.5, y2: head + height + 0.5, class: "grid" });
    return frame(width, head + height + foot, base, drawn);
  };
}

// What the colours mean.
export const legend = (names) => h("span", { class: "legend" }, names.map(([name, said]) => h("span", {}, h("i", { class: name }), said)));
