"""What may be asked next (PerCache 4.1.2): from abstracts and from the questions so far, by a language model.

A function of what is known at that time alone; asks a model through a function, and keeps nothing.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, zip_longest
from math import sqrt
from typing import Any

from engine.ask.keys import normalise
from engine.ask.prepare import begin, key_of, prepare
from engine.idle.refresh import Reasker
from engine.idle.summarize import Write
from engine.idle.types import IdleJob, Kind, Outcome
from engine.text.terminal import shorten
from engine.types import AskOptions
from prompts import prompt
from store.answers import AnswerBank, typical_s
from store.jobs import Job, Jobs, PredictionLog, PredictorCounts
from store.summaries import Abstract

KIND: Kind = "populate"
MOST_WAITING = 1000  # foreseen questions
_POPULATION_S = 1.0  # an answer, until one was made


@dataclass(frozen=True, slots=True)
class Strategy:
    """How foreseen questions are readied: in which manner, whether they are answered, which are one to the bank."""

    options: AskOptions
    decode: bool
    tau: float


def decodes(tau: float, cutoff: float) -> bool:
    """Return whether foreseen questions are answered, or only read: where few hits are let through, few pay.

    PerCache 4.3.2.
    """
    return tau <= cutoff


def quota(most: int) -> Callable[[], bool]:
    """Return what tells, each time that it is asked, whether `most` questions were let through before."""
    left = count(most, -1)
    return lambda: next(left) <= 0


def offer(reasker: Reasker, found: "Iterable[Prediction]") -> int:
    """Keep foreseen questions until they are readied; returns how many are waiting."""
    jobs, seconds, at = Jobs(reasker.ledger), _seconds(reasker), reasker.now.timestamp()
    jobs.offer([Job(KIND, one.question, seconds, one.promise * seconds, at, one.source) for one in found])
    waiting = jobs.waiting(KIND)
    for job in waiting[MOST_WAITING:]:
        jobs.end(KIND, job.subject)
    return min(len(waiting), MOST_WAITING)


def plan_population(reasker: Reasker, strategy: Strategy, taken: Callable[[], bool]) -> list[IdleJob]:
    """Return a unit for each foreseen question that the bank lacks, best first; none is done once all are taken.

    Those that were given up are among them: a row that nobody plans is let go of, and would be begun anew.
    """
    jobs = [job for job in Jobs(reasker.ledger).every(KIND) if not _in_bank(reasker, strategy, job.subject)]
    return [_unit(reasker, strategy, job, taken) for job in jobs]


def _seconds(reasker: Reasker) -> float:
    return typical_s(reasker.ledger, reasker.backend.writer) or _POPULATION_S


def _unit(reasker: Reasker, strategy: Strategy, job: Job, taken: Callable[[], bool]) -> IdleJob:
    why = f"predicted by {job.source}" if job.source else "predicted"
    return IdleJob(
        kind=KIND,
        subject=job.subject,
        what=job.subject,
        why=why + ("" if strategy.decode else "; prefill only"),
        expected=job.benefit_s / job.cost_s if job.cost_s else 0.0,
        saves=job.cost_s,
        seconds=job.cost_s,
        do=partial(_populate, reasker, strategy, job, taken),
        source=job.source,
    )


def _in_bank(reasker: Reasker, strategy: Strategy, question: str) -> bool:
    key = key_of(reasker.backend, question, strategy.options, reasker.now)
    return AnswerBank(reasker.ledger).find(key.digest) is not None


def _populate(reasker: Reasker, strategy: Strategy, job: Job, taken: Callable[[], bool]) -> Outcome:
    """Ready a question, unless the bank has learnt it meanwhile or knows one like it."""
    question = job.subject
    if _in_bank(reasker, strategy, question) or is_near(reasker, strategy, question):
        return Outcome("there")
    if taken():
        return Outcome("units")
    parts = (reasker.ledger, reasker.backend, reasker.room, question, strategy.options, reasker.now)
    return Outcome("done", (prepare(*parts, decode=strategy.decode, source=job.source).key,))


def is_near(reasker: Reasker, strategy: Strategy, question: str) -> bool:
    """Return whether a question of the bank is so near that it would be lent its answer."""
    ask = begin(reasker.backend, reasker.ledger, question, strategy.options, reasker.now)
    vector, questions = reasker.backend.embed(question, ask.trace), reasker.backend.questions()
    if vector is None or questions is None:
        return False
    from engine.ask.paraphrase import why_different
    from engine.text.question import understand

    key, asked = ask.key, understand(question, reasker.now)
    near = questions.near(vector, scope=key.scope, writer=key.writer, day=key.day, least=strategy.tau)
    return any(why_different(asked, understand(one.kept.question, reasker.now)) is None for one in near)


WEEK_S = 7 * 86_400.0
WEEKS = 3.0  # without a question that was asked later, after which a predictor rests
_ASKED, _NOT = 2.0, 18.0  # what is thought of a source before it was tried: one in ten pays
_JUDGED = 60  # predictions before a source can be said not to pay
SPARED = 0.25  # of a question that paid, one that only spared all the reading
_LISTED = 3  # sources that a sentence names


def shares(
    sources: Sequence[str], yields: Mapping[str, PredictorCounts], budget: int, now: float, weeks: float, floor: int = 1
) -> dict[str, int]:
    """Part a budget of predictions among sources by what each may be worth; one that does not rest has `floor` of it.

    Where the budget has not `floor` for each, those that promise most come first.
    """
    awake = [source for source in sources if not is_paused(yields.get(source), now, weeks)]
    hopes = {source: _hope(yields.get(source)) for source in awake}
    ordered = sorted(awake, key=lambda source: -hopes[source])
    given = dict.fromkeys(sources, 0)
    for source in ordered:
        given[source] = min(floor, max(0, budget - sum(given.values())))
    left, total = budget - sum(given.values()), sum(hopes.values())
    exact = {source: left * hopes[source] / total for source in ordered}
    for source in ordered:
        given[source] += int(exact[source])
    rest = budget - sum(given.values()) if ordered else 0
    for source in sorted(ordered, key=lambda one: int(exact[one]) - exact[one])[:rest]:
        given[source] += 1
    return given


def is_paused(one: PredictorCounts | None, now: float, weeks: float) -> bool:
    """Return whether a source was given its chance and has not paid for so many weeks, or was last tried since then."""
    if one is None or one.predicted < _JUDGED:
        return False
    paid = one.first if one.last_paid is None else one.last_paid
    silent = one.last - paid >= weeks * WEEK_S
    return silent and now - one.last < weeks * WEEK_S


def paused_predictors(yields: Sequence[PredictorCounts], now: float, weeks: float) -> str | None:
    """Return which sources rest, in one sentence for a person; None where none does."""
    found = sorted(one.source for one in yields if is_paused(one, now, weeks))
    if not found:
        return None
    names = ", ".join(found[:_LISTED]) + (f" and {len(found) - _LISTED} more" if len(found) > _LISTED else "")
    return f"paused predictors (none of their questions asked in {weeks:g} weeks): {names}"


def _hope(one: PredictorCounts | None) -> float:
    """Return the share that may pay at best: the mean of a beta distribution and a standard deviation more."""
    paid, predicted = (one.paid, one.predicted) if one else (0.0, 0)
    count = predicted + _ASKED + _NOT
    worth = (paid + _ASKED) / count
    return min(1.0, worth + sqrt(worth * (1 - worth) / (count + 1)))


LONGEST = 200  # characters of a question
_READ = 20_000  # characters that are looked at
_DEPTH = 20  # brackets within brackets, beyond which a text is no list of questions
_BULLET = re.compile(r"^(?:[-*•+–—>#|]+\s*|\(?(?:\d{1,3}|[a-zA-Z])[.):\]]\s+|\[\d{1,3}\]\s*)+")
_LABEL = re.compile(r"^\**(?:questions?|q|prediction)\s*\d{0,3}\**\s*[:.)]\**\s*", re.IGNORECASE)
_MARKS = "\"'“”„«»‘’`*_ \t"
_END = re.compile(r"[?？]+[\"'”’»)*_]*(?=\s+[^\Wa-z]|\s*$)|？")
_SPECIAL = re.compile(r"<\|[^|>]{0,40}\|>|</?s>")
_ASKS = re.compile(
    r"(?:wh(?:at|en|ere|ich|o|om|ose|y)|how|is|are|was|were|am|do|does|did|has|have|had|can|could|will|would|should|may"
    r"|in which|at what|on which|to whom|by when)(?:['’]s)?\s",
    re.IGNORECASE,
)
_BLANK = re.compile(r"\[[^\]\d]*\]|<[^>]*>|\{[^}]*\}|_{2,}|\.{3}|…")  # what was to be filled in
_WIDE = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def parse(written: str, most: int) -> list[str]:
    """Return the first `most` questions of a text, each once, on one line."""
    found = dict[str, str]()
    for piece in _pieces(_SPECIAL.sub("\n", written[:_READ])):
        question = _question(piece)
        if question:
            found.setdefault(normalise(question), question)
    return list(found.values())[: max(0, most)]


def _pieces(text: str) -> Iterator[str]:
    """Yield the strings of a JSON list or object where one was written, else the lines."""
    for opening, closing in ("[]", "{}"):
        start, end = text.find(opening), text.rfind(closing)
        if 0 <= start < end and '"' in text[start:end]:
            strings = list(_strings(_decoded(text[start : end + 1])))
            if strings:
                yield from strings
                return
    for line in text.splitlines():
        yield from _apart(line)


def _decoded(text: str) -> Any:
    if max(text.count("["), text.count("{")) > _READ // 100:
        return None  # deep enough to exhaust the decoder
    try:
        return json.loads(text)
    except ValueError:
        return None


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield from value.splitlines()
    elif isinstance(value, (list, dict)) and depth < _DEPTH:
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings(one, depth + 1)


def _apart(line: str) -> Iterator[str]:
    """Part a line that asks more than once."""
    start = 0
    for end in _END.finditer(line):
        yield line[start : end.end()]
        start = end.end()
    if line[start:].strip():
        yield line[start:]


def _question(piece: str) -> str | None:
    """Clean one line; None where it asks nothing, asks too long, or leaves a blank to be filled in."""
    text = "".join(" " if unicodedata.category(c)[0] == "C" else c for c in piece)
    text = " ".join(text.split())
    before = ""
    while text != before:
        before, text = text, _LABEL.sub("", _BULLET.sub("", text.strip(_MARKS))).strip(_MARKS)
    text = text.rstrip(",;" + _MARKS)
    asks = text.endswith(("?", "？")) or _ASKS.match(text) is not None
    if not asks or not 5 <= len(text) <= LONGEST or _BLANK.search(text) or not _has_words(text):
        return None
    return text if text.endswith(("?", "？")) else text.rstrip(".:! ") + "?"


def _has_words(text: str) -> bool:
    return len(re.findall(r"[^\W\d_]+", text)) > 1 or len(_WIDE.findall(text)) > 2


_LINE = 300  # characters of a question that is shown to a model


@dataclass(frozen=True, slots=True)
class Prediction:
    """A question that may be asked, which view and which way of predicting it came from, and its promise, 0 to 1."""

    question: str
    view: str  # "abstracts" or "history"
    way: str  # "model", "form" or "where-too"
    promise: float = 0.5

    @property
    def source(self) -> str:
        """Name the predictor, as it is counted and paid by."""
        return f"{self.view}/{self.way}"


def choose(abstracts: Sequence[Abstract], most: int, tokens: Callable[[str], int]) -> list[Abstract]:
    """Choose the newest abstracts and the least asked-about, by turns, within so many tokens; oldest first."""
    newest = sorted(abstracts, key=lambda one: one.age, reverse=True)
    least = sorted(newest, key=lambda one: one.asked + one.drawn)
    chosen, left = list[Abstract](), most
    for one in dict.fromkeys(each for pair in zip_longest(newest, least) for each in pair if each):
        size = tokens(one.text + "\n")
        if size > left:
            break
        chosen.append(one)
        left -= size
    return sorted(chosen, key=lambda one: one.age)


def from_abstracts(abstracts: Sequence[Abstract], kind: str, stride: int, write: Write) -> list[Prediction]:
    """Let a model predict `stride` questions about somebody's `kind` from what sums it up."""
    shown = [shorten(one.text, 4 * _LINE) for one in abstracts]
    return _predicted("abstracts", shown, kind, stride, write)


def from_history(questions: Sequence[str], kind: str, stride: int, write: Write) -> list[Prediction]:
    """Let a model predict `stride` questions about somebody's `kind` from those asked so far, oldest first."""
    return _predicted("history", [shorten(one, _LINE) for one in questions], kind, stride, write)


def pick(
    found: Iterable[Prediction],
    shares: Mapping[str, int],
    known: Iterable[str],
    near: Callable[[str], bool] | None = None,
) -> list[Prediction]:
    """Take of each source the best of its share, leaving out what is known or near to it; what is not used goes on.

    What one source cannot fill, the others do, but none that has no share.
    """
    ordered = sorted((one for one in found if shares.get(one.source)), key=lambda one: -one.promise)
    seen, left, total = set(map(normalise, known)), Counter(shares), sum(shares.values())
    taken, spare = list[Prediction](), list[Prediction]()
    for one in ordered:
        if left[one.source] < 1:
            spare.append(one)
        elif _is_fresh(one.question, seen, near):
            left[one.source] -= 1
            taken.append(one)
    for one in spare:
        if len(taken) >= total:
            break
        if _is_fresh(one.question, seen, near):
            taken.append(one)
    return taken


def _predicted(view: str, shown: Sequence[str], kind: str, stride: int, write: Write) -> list[Prediction]:
    if not shown or stride < 1:
        return []
    system, _, cue = prompt(f"predict_{view}").rpartition("\n")
    system = system.replace("{kind}", kind).replace("{count}", str(stride))
    written = write([system + "\n", *(f"- {one}\n" for one in shown), cue])
    asked = set(map(normalise, shown))
    found = [one for one in parse(written, 4 * stride) if normalise(one) not in asked]
    return [Prediction(one, view, "model") for one in found[:stride]]


def _is_fresh(question: str, seen: set[str], near: Callable[[str], bool] | None) -> bool:
    """Return whether a question is new, and count it as seen; what is dear to look at is looked at last."""
    compared = normalise(question)
    if not compared or compared in seen:
        return False
    seen.add(compared)
    return not (near and near(question))


_PREFIX = "predicted."  # of the small values that say what a view saw last
_PREDICTION_S = 2.0


@dataclass(frozen=True, slots=True)
class View:
    """One way to look ahead: `predict` gives about so many questions, `seen` names what it would look at now."""

    name: str
    why: str
    seen: str
    sources: Sequence[str]
    predict: Callable[[int], Sequence[Prediction]]


def plan_predictions(
    reasker: Reasker, views: Sequence[View], usual: int, near: Callable[[str], bool] | None = None
) -> list[IdleJob]:
    """Return a unit for each view that has something new to look at.

    `usual` is the number of questions to predict, `near` tells of one that the bank knows one like.
    """
    new = [view for view in views if view.seen and reasker.ledger.get(_PREFIX + view.name) != view.seen]
    return [
        IdleJob("predict", view.name, f"predict questions from {view.name}", view.why, 0.0, 0.0, _PREDICTION_S,
             partial(_predict, reasker, view, usual, near))
        for view in new
    ]  # fmt: skip


def _predict(reasker: Reasker, view: View, usual: int, near: Callable[[str], bool] | None) -> Outcome:
    prediction_log, now = PredictionLog(reasker.ledger), reasker.now.timestamp()
    yields = {one.source: one for one in prediction_log.all()}
    given = shares(view.sources, yields, usual, now, WEEKS)
    found = view.predict(usual) if sum(given.values()) else ()
    chosen = pick(found, given, _known_questions(reasker), near)
    offer(reasker, chosen)
    prediction_log.predicted(Counter(one.source for one in chosen), now)
    reasker.ledger.set(_PREFIX + view.name, view.seen)
    return Outcome()


def _known_questions(reasker: Reasker) -> list[str]:
    """Return the questions of the bank, of the history, and those that wait to be readied or were given up."""
    rows = reasker.ledger.rows.execute("SELECT question FROM answers UNION SELECT question FROM asked")
    waiting = [job.subject for job in Jobs(reasker.ledger).every(KIND)]
    return [*waiting, *(question for (question,) in rows)]
