// The figures of `pkb stats`, as plots.

import { get } from "./api.js";
import { $, count, duration, h, percent, plain, sentence, shortDay, size } from "./dom.js";
import { bars, columns, figure, legend, ranges } from "./plots.js";

const TIERS = {
  exact: "same question",
  semantic: "paraphrase",
  prefix: "prefix reused",
  blocks: "blocks reused",
  full: "nothing reused",
};
const JOBS = { prefetch: "prefetch", predict: "predictions", refresh: "refresh", verify: "verification" };
const seconds = (value) => duration(value * 1000);

export async function show() {
  try {
    const stats = await get("/v1/stats");
    $("figures").replaceChildren(numbers(stats), ...plots(stats));
  } catch (error) {
    $("figures").replaceChildren(h("p", { class: "warning" }, sentence(plain(error.message))));
  }
}

function numbers({ index, tiers, saved_s: saved }) {
  const asked = tiers.reduce((sum, one) => sum + one.questions, 0);
  const cached = tiers.filter((one) => ["exact", "semantic"].includes(one.tier)).reduce((sum, one) => sum + one.questions, 0);
  const shown = [
    [index.documents.toLocaleString("en-GB"), index.documents === 1 ? "document" : "documents"],
    [asked.toLocaleString("en-GB"), asked === 1 ? "question" : "questions"],
    [asked ? percent(cached / asked) : "–", "from cache"],
    [saved > 0 ? seconds(saved) : "–", "saved"],
  ];
  return h("dl", { class: "numbers" }, shown.map(([value, label]) => h("div", {}, h("dt", {}, label), h("dd", {}, value))));
}

function plots(stats) {
  const made = [tiersPlot, latencyPlot, weeksPlot, bytesPlot, idlePlot].map((plot) => plot(stats)).filter(Boolean);
  const none = stats.tiers.length ? [] : [h("p", { class: "count" }, "No questions asked yet: the other figures come with them.")];
  return [...none, h("div", { class: "plots" }, made)];
}

function tiersPlot({ tiers }) {
  if (!tiers.length) return null;
  const asked = tiers.reduce((sum, one) => sum + one.questions, 0);
  const rows = Object.keys(TIERS).map((tier) => [tier, tiers.filter((one) => one.tier === tier)]).filter(([, found]) => found.length)
    .map(([tier, found]) => ({ tier, questions: total(found, "questions"), answered: total(found, "answered"), saved: total(found, "saved_s") }));
  const drawn = bars(rows.map((row) => ({
    label: TIERS[row.tier],
    lanes: [[row.questions, row.tier]],
    end: `${row.questions} · ${percent(row.questions / asked)}`,
  })));
  return figure("Questions by tier", "How much pkb could reuse", drawn, ["Tier", "Questions", "Share", "Answered", "Saved"],
    rows.map((row) => [`${TIERS[row.tier]} (${row.tier})`, row.questions, percent(row.questions / asked), row.answered, seconds(row.saved)]));
}

const total = (rows, key) => rows.reduce((sum, row) => sum + row[key], 0);

function latencyPlot({ tiers }) {
  const rows = tiers.filter((one) => one.p50_ms > 0).map((one) => ({
    label: `${TIERS[one.tier] ?? one.tier}, ${one.by_model ? "generated" : "quoted"}`,
    low: one.p50_ms,
    high: one.p95_ms,
    cells: [one.questions, duration(one.p50_ms), duration(one.p95_ms)],
  }));
  if (!rows.length) return null;
  const note = legend([["low", "median"], ["high", "95th percentile"]]);
  return figure("Time to answer", note, ranges(rows, (ms) => (ms < 1000 ? `${ms} ms` : `${ms / 1000} s`)), ["Tier", "Questions", "Median", "95th percentile"], rows.map((row) => [row.label, ...row.cells]));
}

function weeksPlot({ history }) {
  const weeks = (history?.weeks ?? []).slice(-26);
  if (!weeks.length) return null;
  const order = Object.keys(TIERS), used = order.filter((tier) => weeks.some((week) => week.tiers[tier]));
  const drawn = columns(weeks.map((week) => ({ label: shortDay(week.start), parts: order.map((tier) => [week.tiers[tier] ?? 0, tier]) })));
  return figure("Questions by week", legend(used.map((tier) => [tier, TIERS[tier]])), drawn, ["Week of", ...used.map((tier) => TIERS[tier]), "Saved"],
    weeks.map((week) => [week.start, ...used.map((tier) => week.tiers[tier] ?? 0), seconds(week.saved_s)]));
}

function bytesPlot({ answers, kv, bytes }) {
  const limited = [
    ["answer cache", answers.bytes, answers.budget],
    ["KV cache", kv.bytes, kv.budget],
    ["KV written today", kv.written_today, kv.daily_budget],
  ];
  const rows = limited.map(([label, used, budget]) => ({ label, lanes: [[used, "exact"]], of: budget, end: size(used), cells: [size(used), size(budget)] }));
  const index = bytes.tables + bytes.ledger;
  return figure("Disk space and budgets", `Index and ledger: ${size(index)}, without a limit`, bars(rows), ["", "Used", "Budget"],
    [...rows.map((row) => [row.label, ...row.cells]), ["tables", size(bytes.tables), "–"], ["ledger", size(bytes.ledger), "–"]]);
}

function idlePlot({ idle }) {
  const jobs = idle.so_far.filter((one) => one.units > 0);
  if (!jobs.length) return null;
  const rows = jobs.map((one) => ({
    label: JOBS[one.job] ?? one.job,
    lanes: [[one.seconds, "spent"], [one.saved_s, "saved"]],
    end: `${seconds(one.seconds)} · ${seconds(one.saved_s)}`,
  }));
  const spent = total(jobs, "seconds"), saved = total(jobs, "saved_s");
  const note = legend([["spent", `spent, ${seconds(spent)} in all`], ["saved", `saved, ${seconds(saved)}`]]);
  return figure("Idle runs: time spent and saved", note, bars(rows), ["Job", "Units", "Spent", "Hits", "Saved"],
    jobs.map((one) => [JOBS[one.job] ?? one.job, one.units, seconds(one.seconds), one.hits, seconds(one.saved_s)]));
}

export const about = ({ index, collections }) => `${count(index.documents, "document")} in ${count(Object.keys(collections).length, "collection")}`;
