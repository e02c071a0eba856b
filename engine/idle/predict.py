"""Jobs that predict questions (PerCache 4.1.2) and precompute their answers: `predict`, `populate` and `standing`.

predict: views (chunks, history) -> shares of the budget by hit rate -> predictions -> queued `populate` jobs.
A prediction depends on its view alone; a language model is called through a function.
standing: the questions of `predict.standing` -> newest meetings -> drop what is cached. Each
answer is the one that asking within the meeting, so pkb declines the same questions.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from math import sqrt
from typing import Literal

from msgspec import Struct

from engine.ask.candidates import wanted
from engine.ask.keys import begin, normalise, understood
from engine.ask.semantic import why_different
from engine.idle.refresh import Reasker, is_lasting
from engine.text.people import correspondents, named
from engine.text.question import synthesis, understand
from engine.text.spans import Kind as SpanKind
from engine.text.spans import find
from engine.text.terminal import shorten
from engine.text.time_sensitive import whole_document_question
from engine.text.words import FUNCTION_WORDS, words
from prompts import prompt
from store.answers import known_questions, predicted_use
from store.documents import TitledDocument
from store.jobs import Job, JobRow, Jobs, Kind, Outcome, OutOfTime, check_time, link_predictions
from store.types import Chunk, Hit, Scope, replace

KIND: Kind = "populate"  # under which predicted questions are queued
_PREFIX = "predicted."  # of the ledger values that name what a view was made of at its last prediction


@dataclass(frozen=True, slots=True)
class View:
    """A basis of predictions: `predict(n)` returns about n, `seen` identifies the current content of the view."""

    name: str
    reason: str
    seen: str
    sources: Sequence[str]
    predict: Callable[[int], Sequence["Prediction"]]


def plan_predictions(reasker: Reasker, views: Iterable[View]) -> list[Job]:
    """Return a job for each view that has something new."""
    return [
        Job("predict", view.name, f"predict questions from {view.name}", view.reason, 0.0, cost_s=2.0)
        for view in views
        if view.seen and reasker.ledger.get(_PREFIX + view.name) != view.seen
    ]


def predict(reasker: Reasker, view: View, count: int, is_similar: Callable[[str], bool]) -> Outcome:
    """Predict `count` questions from a view and queue them; none that `is_similar` to a stored one."""
    given = shares(view.sources, predicted_use(reasker.ledger), count)
    found = view.predict(count)
    queued = (row.subject for row in Jobs(reasker.ledger).all(KIND))  # those given up included
    chosen = pick(found, given, [*queued, *known_questions(reasker.ledger)], is_similar)
    offer(reasker, chosen)
    reasker.ledger.set(_PREFIX + view.name, view.seen)
    return Outcome()


_PRIOR_ASKED, _PRIOR_NOT = 2.0, 18.0  # beta prior of an untried predictor: one prediction in ten is asked


def shares(sources: Sequence[str], counts: Mapping[str, tuple[int, int]], budget: int) -> dict[str, int]:
    """Split a budget of predictions among predictors by their hit rates; each gets 1 or more.

    If the budget does not allow 1 for each, the best come first. `counts` are how many answers were used, and made.
    """
    rates, given = {source: hit_rate(*counts.get(source, (0, 0))) for source in sources}, dict.fromkeys(sources, 0)
    for _ in range(budget):
        given[max(sources, key=lambda one: (not given[one], rates[one] / (given[one] + 1)))] += 1
    return given


def hit_rate(used: int, made: int) -> float:
    """Return an optimistic hit rate: the mean of a beta distribution plus one standard deviation."""
    count = made + _PRIOR_ASKED + _PRIOR_NOT
    mean = (used + _PRIOR_ASKED) / count
    return min(1.0, mean + sqrt(mean * (1 - mean) / (count + 1)))


Write = Callable[[Sequence[str]], str]  # from prompt segments, all but the last ending in a newline, to a completion
AskAbout = Callable[[Sequence[Chunk], str], str]  # from chunks and a request about them to a completion


class Prediction(Struct, frozen=True):
    """A question that may be asked, the predictor under which it is counted, and its probability, 0 to 1."""

    question: str
    source: str
    probability: float = 0.5
    chunks: tuple[str, ...] = ()  # that it was made from: it goes when one of them is removed


def from_history(questions: Sequence[str], kind: str, stride: int, write: Write) -> list[Prediction]:
    """Have a model predict `stride` questions about a collection of this `kind` from past ones, oldest first."""
    shown = [shorten(one, 300) for one in questions]
    if not shown or stride < 1:
        return []
    system, _, cue = prompt("predict_history").rpartition("\n")
    system = system.replace("{kind}", kind).replace("{count}", str(stride))
    written = write([system + "\n", *(f"- {one}\n" for one in shown), cue])
    asked = set(map(normalise, shown))
    found = [one for one in parse(written, 4 * stride) if normalise(one) not in asked]
    return [Prediction(one, "history/model") for one in found[:stride]]


_EACH = 3  # questions about a chunk


def from_chunks(hits: Iterable[Hit], stride: int, ask: AskAbout) -> list[Prediction]:
    """Have a model predict `stride` questions, a few a chunk, or as many as there is time; OutOfTime if for none."""
    found, said = list[Prediction](), prompt("predict_chunks").format(count=_EACH)
    for hit in hits:
        if len(found) >= stride:
            break
        try:
            questions = parse(ask([hit.chunk], said), _EACH)
        except OutOfTime:
            if found:
                break
            raise
        found += [Prediction(one, "chunks/model", chunks=(hit.chunk.id,)) for one in questions]
    return found[:stride]


def pick(
    found: Iterable[Prediction], shares: Mapping[str, int], known: Iterable[str], is_similar: Callable[[str], bool]
) -> list[Prediction]:
    """Return the best lasting predictions of each source, up to its share, none known or similar to a known one."""
    seen, left, taken = {"", *map(normalise, known)}, Counter(shares), list[Prediction]()
    for one in sorted(found, key=lambda one: -one.probability):
        compared = normalise(one.question)
        if left[one.source] < 1 or compared in seen or not is_lasting(one.question):
            continue
        seen.add(compared)
        if not is_similar(one.question):  # which takes longest
            left[one.source] -= 1
            taken.append(one)
    return taken


LONGEST = 200  # characters of a question
_JSON = re.compile(r'[\[{]\s*"')
_BULLET = re.compile(r"^(?:[-*•+–—>#|]+\s*|\(?(?:\d{1,3}|[a-zA-Z])[.):\]]\s+|\[\d{1,3}\]\s*)+")
_LABEL = re.compile(r"^\**(?:questions?|q|prediction)\s*\d{0,3}\**\s*[:.)]\**\s*", re.IGNORECASE)
_MARKS = "\"'“”„«»‘’`*_ \t"
_END = re.compile(r"[?？]+[\"'”’»)*_]*(?=\s+[^\Wa-z]|\s*$)|？", re.MULTILINE)
_SPECIAL = re.compile(r"<\|[^|>]{0,40}\|>|</?s>")
_BLANK = re.compile(r"\[[^\]\d]*\]|<[^>]*>|\{[^}]*\}|_{2,}|\.{3}|…")  # a placeholder
_WIDE = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def parse(written: str, most: int) -> list[str]:
    """Return the first `most` questions in a text, without duplicates, one line each; strings of JSON are lines."""
    found, text = dict[str, str](), _SPECIAL.sub("\n", written[:20_000])
    for line in _END.sub(r"\g<0>\n", text.replace('"', "\n") if _JSON.search(text) else text).splitlines():
        if question := _question(line):
            found.setdefault(normalise(question), question)
    return list(found.values())[: max(0, most)]


def _question(piece: str) -> str | None:
    """Return the question on one line; None if there is none, it is too long, or it holds a placeholder."""
    text = "".join(" " if unicodedata.category(c)[0] == "C" else c for c in piece)
    text = " ".join(text.split())
    before = ""
    while text != before:
        before, text = text, _LABEL.sub("", _BULLET.sub("", text.strip(_MARKS))).strip(_MARKS)
    text = text.rstrip(",;" + _MARKS)
    has_words = len(re.findall(r"[^\W\d_]+", text)) > 1 or len(_WIDE.findall(text)) > 2
    is_question = text.endswith(("?", "？")) and 5 <= len(text) <= LONGEST and has_words and not _BLANK.search(text)
    return text if is_question else None


MOST_QUEUED = 1000  # predicted questions


def offer(reasker: Reasker, found: Sequence[Prediction]) -> None:
    """Queue predicted questions, of which the least valuable go once they are too many."""
    jobs, seconds, at = Jobs(reasker.ledger), reasker.answer_s(), reasker.now.timestamp()
    link_predictions(reasker.ledger, {one.question: one.chunks for one in found})
    jobs.offer([JobRow(KIND, one.question, seconds, one.probability * seconds, at, one.source) for one in found])
    for row in jobs.pending(KIND)[MOST_QUEUED:]:
        jobs.remove(KIND, row.subject)


def plan_population(reasker: Reasker) -> list[Job]:
    """Return a job for each queued question that has no stored answer, best first.

    Those that were given up are among them: a stored job that is not planned is removed, and would be tried again.
    """
    jobs = list[Job]()
    for row in Jobs(reasker.ledger).all(KIND):
        if is_lasting(row.subject) and not reasker.is_cached(row.subject, reasker.options):
            by = f"predicted by {row.source}" if row.source else "predicted"
            reason, expected = by + "; prefill only" * (not reasker.decode), row.benefit_s / (row.cost_s or 1.0)
            jobs.append(Job(KIND, row.subject, row.subject, reason, expected, row.cost_s, source=row.source))
    return jobs


def populate(reasker: Reasker, job: Job) -> Outcome:
    """Precompute a question, unless it or a similar one is stored."""
    question = job.subject
    if reasker.is_cached(question, reasker.options) or has_similar(reasker, question):
        return Outcome("cached")
    return Outcome("done", (reasker.prepare(question, reasker.options, job.source, decode=reasker.decode).key,))


def has_similar(reasker: Reasker, question: str) -> bool:
    """Return whether a stored question is similar enough to be a semantic hit for this one."""
    ask = begin(reasker.backend, reasker.ledger, question, reasker.options, reasker.now)
    vector, questions = reasker.backend.embed(ask.wording.text, ask.trace), reasker.backend.question_vectors()
    if vector is None or questions is None:
        return False
    key, asked = ask.key, understood(reasker.ledger, question, reasker.now)
    near = questions.near(vector, scope=key.scope, writer=key.writer, day=key.day, least=reasker.settings.bank.tau)
    others = (understood(reasker.ledger, one.answer.question, reasker.now) for one in near)
    return any(why_different(asked, other) is None for other in others)


Slot = Literal["name", "title"]
_ANY_DAY = datetime(2000, 1, 1, tzinfo=UTC)  # dates do not matter here
# Answers that the text must hold literally.
_LITERAL: tuple[SpanKind, ...] = ("phone", "link", "amount")


@dataclass(frozen=True, slots=True)
class QuestionForm:
    """A question with a slot; `share` is its part of all questions."""

    before: str
    after: str
    slot: Slot
    share: float

    def filled(self, filler: str) -> str:
        """Return the question with this filler."""
        return f"{self.before}{filler}{self.after}"


def forms(questions: Sequence[str]) -> list[QuestionForm]:
    """Return the forms that were asked with several fillers, the most frequent first."""
    found = defaultdict[tuple[str, str, Slot], list[tuple[str, str, str]]](list)
    for question in questions:
        for before, filler, after, slot in _slots(question):
            found[normalise(before + "x")[:-1], normalise(after), slot].append((before, filler, after))
    learned = list[QuestionForm]()
    for (_, _, slot), uses in found.items():
        if len({normalise(filler) for _, filler, _ in uses}) > 1:
            before, _, after = uses[-1]
            learned.append(QuestionForm(before, after, slot, len(uses) / len(questions)))
    return sorted(learned, key=lambda form: (-form.share, form.before, form.after))


def fillers(hit: Hit, slot: Slot, names: Sequence[str]) -> list[str]:
    """Return the fillers that a chunk offers: its title, or its people and names of past questions that it mentions."""
    if slot == "title":
        title = " ".join(hit.title.split())
        return [title] if 2 < len(title) <= 100 and hit.chunk.position == 0 else []
    text = f" {' '.join(words(hit.chunk.text))} "
    known = [name for name in names if f" {' '.join(words(name))} " in text]
    return list(dict.fromkeys([*correspondents(hit), *named(hit), *known]))


def may_answer(form: QuestionForm, filler: str, hit: Hit) -> bool:
    """Return whether a chunk could answer a filled form: it holds what the form asks for, such as a phone number."""
    kind, text = wanted(understand(form.filled(filler), _ANY_DAY)), hit.chunk.text
    if kind == "email":  # one with a part of the name in it
        text = "\n".join([hit.sender, *hit.recipients, text])
        parts = [word for word in filler.casefold().split() if len(word) > 2]
        addresses = [text[one.start : one.end].partition("@")[0].casefold() for one in find(text, "email")]
        return any(part in address for part in parts for address in addresses)
    if kind in _LITERAL:
        at = text.find(filler.split()[-1])
        return at >= 0 and bool(find(text[max(0, at - 200) : at + 300], kind))
    return True


def _slots(question: str) -> Iterator[tuple[str, str, str, Slot]]:
    understood = understand(question, _ANY_DAY)
    for name in understood.names:
        start = question.find(name)
        if start < 0:
            continue
        before, after = question[:start], question[start + len(name) :]
        slot: Slot = "title" if name in understood.quoted else "name"
        if set(words(before + " " + after)) - FUNCTION_WORDS or slot == "name":
            yield before, name, after, slot


_RECENCY = 0.3  # share of the probability that the last chunk lacks against the newest
_SWAPPED = {"when is ": "Where is ", "when was ": "Where was ", "where is ": "When is ", "where was ": "When was "}


def from_forms(hits: Sequence[Hit], past: Sequence[str], is_over: Callable[[], bool]) -> list[Prediction]:
    """Return past questions about new chunks' names and subjects, and with where for when; OutOfTime once `is_over`."""
    names = list(dict.fromkeys(name for one in past for name in understand(one, _ANY_DAY).names))
    learned, found = forms(past)[:20], list[Prediction]()
    for place, hit in enumerate(hits):
        check_time(is_over)
        fillers_of = {slot: fillers(hit, slot, names) for slot in dict.fromkeys(form.slot for form in learned)}
        for form in learned:
            probability = form.share * (1 - _RECENCY * place / len(hits))
            for rank, filler in enumerate(fillers_of[form.slot]):
                if may_answer(form, filler, hit):
                    question, chance = form.filled(filler), probability / (1 + rank / 10)
                    found.append(Prediction(question, "history/form", chance, (hit.chunk.id,)))
    for question in reversed(past):
        for opening, other in _SWAPPED.items():
            if question.casefold().startswith(opening):
                found.append(Prediction(other + question[len(opening) :], "history/form", 0.2))
    return found


_STANDING: Kind = "standing"
MEETINGS = 30  # the newest ones


def plan_standing(reasker: Reasker, meetings: Sequence[TitledDocument], *, quotes: bool) -> list[Job]:
    """Return a job for each question of the setting and meeting without a cached answer; `meetings` come newest first.

    With `quotes`, questions that only a language model answers are left out.
    """
    counts, seconds = predicted_use(reasker.ledger), reasker.answer_s()
    said = (" ".join(part.split()) for part in reasker.settings.predict.standing.split("?"))
    first = dict[str, str]()
    for one in filter(normalise, said):
        first.setdefault(normalise(one), f"{one}?")
    asked = list(first.values())
    if quotes:
        read = ((one, whole_document_question(one)) for one in asked)
        asked = [one for one, it in read if (it.aspect != "summary" if it else synthesis(one) is None)]
    jobs = list[Job]()
    for meeting, one in product(meetings, asked):
        if not reasker.is_cached(one, replace(reasker.options, scope=Scope(document=meeting.id))):
            what, source = f"{one} ({' '.join(meeting.title.split())})", f"{_STANDING}/{normalise(one)}"
            about = (f"{meeting.id} {one}", what, "asked of every meeting", hit_rate(*counts.get(source, (0, 0))))
            jobs.append(Job(_STANDING, *about, seconds, source=source))
    return jobs


def prepare_standing(reasker: Reasker, job: Job) -> Outcome:
    """Answer a standing question within its meeting, unless it is cached."""
    document, _, question = job.subject.partition(" ")
    options = replace(reasker.options, scope=Scope(document=document))
    if reasker.is_cached(question, options):
        return Outcome("cached")
    return Outcome("done", (reasker.prepare(question, options, job.source, decode=reasker.decode).key,))
