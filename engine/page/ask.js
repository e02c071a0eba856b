// Questions and answers: one conversation, the newest turn last.

import * as api from "./api.js";
import { $, age, announce, count, day, duration, h, marked, oneLine, percent, plain, sentence } from "./dom.js";
import { filters } from "./filters.js";
import { grouped, item } from "./sources.js";

const REMEMBERED = 6; // earlier turns that are sent along
const FULL = 3; // sources that are shown at once
const LONG = 220; // characters, from which an answer is set smaller
const WORDS = 3, PAUSE = 300; // words of a question, and milliseconds without a key, before its sources are read
const WAITING = "Searching your messages", READING = "Reading what was found";
const SLOW = 2; // seconds, after which they are counted
const RECENT = 50; // documents whose writers are asked about in the examples
let turns = []; // what was asked and answered
let running = null;
let typing; // the timer of the pause
let waiting; // that of the seconds

export const stop = () => running?.abort() ?? false;
export const isRunning = () => running !== null;

export function start() {
  $("ask-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const question = $("ask-input").value.trim();
    if (!question) return;
    $("ask-input").value = "";
    ask(question);
  });
  $("ask-input").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(readAhead, PAUSE);
  });
  $("stop-button").addEventListener("click", stop);
  $("new-button").addEventListener("click", renew);
  addEventListener("popstate", resume);
}

// What was asked before, and questions that the newest documents can answer, to begin with.
export async function suggest() {
  const [{ questions, opens }, { documents }] = await Promise.all([api.get("/v1/recent"), api.get("/v1/list", { limit: RECENT })]);
  const groups = [["Recent questions", questions], ["For example", examples(documents)]].filter(([, list]) => list.length);
  $("suggested").replaceChildren(...groups.map(([title, list]) => h("section", {}, h("h2", {}, title),
    h("ol", {}, list.map((one) => h("li", {}, h("button", { type: "button", class: "quiet", dir: "auto", click: () => ask(one) }, plain(one))))))));
  $("suggested").hidden = !groups.length;
  return opens;
}

function examples(documents) {
  const times = new Map();
  for (const { kind, sender } of documents) if (kind === "mail") times.set(sender, (times.get(sender) ?? 0) + 1);
  const [most] = [...times].sort(([, one], [, other]) => other - one), name = most && oneLine(most[0].split(" <")[0]);
  return [
    ...name ? [`When did ${name} last write?`, `How many mails did ${name} send?`] : [],
    ...documents.some(({ kind }) => kind !== "mail") ? ["What was decided in the last meeting?"] : [],
  ];
}

// Show the question of the address: where its answer stands, or asked (again, after a reload).
export function resume() {
  const question = addressed(), turn = turns.findLast((one) => one.whole === question)?.turn;
  if (turn) reveal(turn);
  else if (question && running?.question !== question) ask(question, "use", false);
}

const addressOf = (question) => `?${new URLSearchParams({ q: question })}#ask`;
const addressed = () => new URLSearchParams(location.search).get("q")?.trim();

// Forget the conversation.
export function renew() {
  stop();
  turns = [];
  if (addressed()) history.pushState(null, "", `${location.pathname}#ask`);
  $("turns").replaceChildren();
  $("new-button").hidden = true;
  $("view-ask").classList.remove("begun");
  $("ask-input").focus();
  suggest().catch(() => {}); // what there is stays
}

// Have a local model read the sources of what is typed so far: its first word then comes sooner.
function readAhead() {
  const q = $("ask-input").value.trim();
  if (!running && q.split(/\s+/).length >= WORDS) api.get("/v1/ahead", { q, ...filters() }).catch(() => {});
}

async function ask(question, cache = "use", isNew = true) {
  stop();
  clearTimeout(typing);
  if (isNew && addressed() !== question) history.pushState(null, "", addressOf(question));
  const turn = made(question), before = messages(), control = (running = Object.assign(new AbortController(), { question }));
  begin(turn);
  try {
    const options = { ...filters(), cache, record: true, footnotes: false, ...before.length ? followed() : {} };
    const said = await api.ask([...before, { role: "user", content: question }], options, (text) => stream(turn, text), control.signal);
    finish(turn, said);
    const whole = said.answer.question || question; // a follow-up means nothing without the turns before it
    if (addressed() === question) history.replaceState(null, "", addressOf(whole));
    turns.push({ turn, question, whole, text: said.text, source: said.answer.answered ? said.answer.sources[0] : null });
  } catch (error) {
    fail(turn, error);
  } finally {
    turn.article.removeAttribute("aria-busy");
    if (running === control) end();
  }
}

// The source of the last answer, in which a follow-up that means nothing by itself is looked for first.
function followed() {
  const source = turns.map((one) => one.source).filter(Boolean).pop();
  return source?.path.isWellFormed() ? { after: { path: source.path, message_id: source.message_id, quote: source.quote } } : {};
}

function messages() {
  return turns.slice(-REMEMBERED).flatMap(({ question, text }) => [
    { role: "user", content: question },
    { role: "assistant", content: text },
  ]);
}

function made(question) {
  const title = h("h2", { tabindex: "-1", dir: "auto" }, plain(question));
  const answer = h("p", { class: "answer", dir: "auto" });
  const above = h("div"), below = h("div"), sources = h("section", { class: "sources", "aria-label": "Sources" });
  const article = h("article", { class: "turn", "aria-label": question, "aria-busy": "true" },
    h("div", { class: "said" }, title, above, answer, below), sources);
  return { article, title, question, answer, above, below, sources };
}

function begin(turn) {
  $("view-ask").classList.add("begun");
  $("new-button").hidden = false;
  $("ask-button").hidden = true;
  $("stop-button").hidden = false;
  $("turns").append(turn.article);
  turn.answer.classList.add("pending");
  turn.answer.textContent = WAITING;
  const since = Date.now();
  clearInterval(waiting);
  waiting = setInterval(() => {
    const seconds = Math.round((Date.now() - since) / 1000);
    if (seconds >= SLOW) turn.answer.textContent = `${READING}, ${seconds} s`;
  }, 1000);
  reveal(turn);
  announce("Answering");
}

function reveal(turn) {
  turn.title.focus({ preventScroll: true });
  turn.article.scrollIntoView({ block: "start" });
}

function end() {
  running = null;
  clearInterval(waiting);
  $("ask-button").hidden = false;
  $("stop-button").hidden = true;
}

function stream(turn, text) {
  clearInterval(waiting);
  turn.answer.classList.toggle("long", text.length > LONG);
  turn.answer.textContent = plain(text);
}

function fail(turn, error) {
  if (turn.answer.classList.contains("pending") && [WAITING, READING].some((said) => turn.answer.textContent.startsWith(said))) turn.answer.textContent = "";
  turn.answer.classList.remove("pending");
  if (error.name === "AbortError") {
    turn.below.append(h("p", { class: "how" }, "Stopped"));
    return announce("Stopped");
  }
  const next = error.next ? [" Type: ", h("code", {}, plain(error.next))] : [];
  turn.below.append(h("p", { class: "warning" }, sentence(plain(error.message)), next));
  announce(error.message);
}

function finish(turn, { answer }) {
  const text = answer.answered ? answer.answer : declined(answer);
  turn.answer.classList.remove("pending");
  turn.answer.classList.toggle("long", text.length > LONG);
  turn.answer.classList.toggle("none", !answer.answered);
  turn.answer.replaceChildren(...marked(text, spanOf(answer)));
  if (answer.before) turn.answer.append(h("small", {}, ` (before: ${oneLine(answer.before)})`));
  turn.above.append(...understood(turn.question, answer), ...corrected(answer.correction), ...graded(answer));
  turn.below.append(how(turn, answer), ...noted(answer));
  showSources(turn, answer);
  if (document.activeElement === turn.title) turn.article.scrollIntoView({ block: "start" }); // there is room for it now
  const groups = grouped(answer.sources).length;
  announce(`${text} ${words(answer)}. ${groups ? count(groups, "source") : "No sources"}.`);
}

// The part of an answer to mark: none where that would be all of it.
function spanOf({ answer, answered, highlight }) {
  const all = answered && highlight && highlight[0] === 0 && highlight[1] === Array.from(answer).length;
  return answered && !all ? highlight : null;
}

const NOT_QUOTED = {
  summary: "This needs a summary, and pkb only quotes",
  list: "This needs a complete list, and pkb only quotes",
  count: "This needs a count, and pkb only quotes",
  comparison: "This needs a comparison, and pkb only quotes",
  decisions: "This needs several passages, and pkb quotes one",
  opinions: "This needs several people's words, and pkb quotes one passage",
};

function declined(answer) {
  const passages = answer.sources.length > 0;
  if (!answer.synthesis) return passages ? "No answer found. These passages come closest." : "No answer found.";
  return `${NOT_QUOTED[answer.synthesis] ?? "This cannot be quoted"}${passages ? "; these passages are about it, by date" : ""}.`;
}

const same = (a, b) => oneLine(a).toLowerCase() === oneLine(b).toLowerCase();

function understood(question, answer) {
  return answer.question && !same(question, answer.question) ? [h("p", { class: "how" }, `Understood as: ${oneLine(answer.question)}`)] : [];
}

function graded({ grade }) {
  return grade === "closest" ? [h("p", { class: "how" }, "The closest passage, which may not answer:")] : [];
}

function corrected(correction) {
  if (!correction) return [];
  const before = correction.before ? `“${oneLine(correction.before)}”` : "no answer";
  const cause = correction.cause && `${oneLine(correction.cause.title) || "no subject"}, ${day(correction.cause.date)}`;
  const text = correction.kind === "wrong"
    ? [h("strong", {}, "Corrected"), `. Said before: ${before}. That answers a similar question.`]
    : [h("strong", {}, "Changed"), cause ? ` by “${cause}”` : "", `. Before: ${before}.`];
  return [h("p", { class: "warning" }, text)];
}

// How an answer was found, in words.
export function words(answer) {
  const { tier, writer, ms, tokens, age_s: aged } = answer;
  const old = aged == null ? "" : `, ${age(aged)}`;
  if (tier === "exact") return `from cache${old}`;
  if (tier === "semantic") return `same answer as: “${oneLine(answer.matched_question ?? "")}”${likeness(answer)}${old}`;
  const took = `in ${duration(ms.total)}`;
  if (!answer.answered) return `searched ${took}`;
  if (writer === "quote") return `quoted ${took}`;
  const reused = tokens?.prompt ? `, ${tokens.reused} of ${tokens.prompt} tokens reused` : "";
  return `generated ${took}${reused}`;
}

const likeness = ({ similarity }) => (similarity == null ? "" : `, ${percent(similarity)} alike`);

function how(turn, answer) {
  const model = answer.model ? ` · ${oneLine(answer.model.split("/").at(-1))}` : "";
  const cached = ["exact", "semantic"].includes(answer.tier);
  const again = h("button", { type: "button", class: "quiet", click: () => afresh(turn) }, "Ask again without the cache");
  const copied = h("button", { type: "button", class: "quiet", click: () => copy(answer, copied) }, "Copy");
  const wrong = h("button", { type: "button", class: "quiet", click: () => reject(turn, answer, wrong) }, "Wrong");
  return h("p", { class: "how" }, words(answer) + model, (cached || answer.stale) && again, answer.answered && copied, wrong);
}

// Drop an answer from the cache: the next time, the question is answered from scratch.
async function reject(turn, answer, button) {
  try {
    await api.post("/v1/wrong", { question: answer.question || turn.question });
    button.replaceWith(h("span", {}, "Marked as wrong"));
    announce("Marked as wrong");
  } catch (error) {
    turn.below.append(h("p", { class: "warning" }, sentence(plain(error.message))));
    announce(error.message);
  }
}

// Copy an answer with the source that it rests on.
async function copy(answer, button) {
  const source = answer.sources[answer.answer_source ?? 0];
  const from = source ? `\n— ${[oneLine(source.title) || "no subject", oneLine(source.sender || source.speaker || ""), day(source.date)].filter(Boolean).join(", ")}` : "";
  await navigator.clipboard.writeText(plain(answer.answer) + from);
  button.textContent = "Copied";
}

// Ask the same once more in its place in the conversation: what was said to it before is not sent along.
function afresh(turn) {
  turns = turns.filter((one) => one.turn !== turn);
  turn.article.remove();
  ask(turn.question, "refresh");
}

function noted(answer) {
  const stale = answer.stale ? ["Newer messages may change this answer."] : [];
  return [...stale, ...(answer.notices ?? [])].map((notice) => h("p", { class: "warning" }, sentence(plain(notice))));
}

function showSources(turn, answer) {
  const items = grouped(answer.sources).map((group, index) =>
    item(group, { number: index + 1, rests: answer.answered && index === (answer.answer_source ?? 0), context: (index === 0 && answer.context) || "" }));
  const cited = answer.answered ? Array.from(answer.answer.matchAll(/^\[(\d{1,3})\] /gm), (found) => Number(found[1])) : [];
  const full = Math.max(FULL, ...cited), [shown, others] = [items.slice(0, full), items.slice(full)];
  if (!items.length) return;
  turn.sources.append(h("h3", {}, answer.answered ? "Sources" : "Closest passages"), h("ol", {}, shown));
  if (!others.length) return;
  const list = h("ol", { start: full + 1 }, others);
  turn.sources.append(h("details", {}, h("summary", {}, count(others.length, "more source")), list));
}
