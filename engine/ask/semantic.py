"""What may stand for a fresh answer: another question's answer, the semantic tier; and what a language model wrote.

near? -> guard -> still fresh? -> in other words: quoted alike? -> served; an idle run makes the question's own answer.
Any doubt is a miss. No number that a model cites is believed: the reader finds the source that bears what it wrote,
also for a model that wrote nothing else, and a quote stands in for what none bears.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

from msgspec import Struct

from engine.ask import keys
from engine.ask.candidates import Candidate, candidates, is_beyond, read_sources, wanted
from engine.ask.extract import QuoteSettings, quote, write
from engine.ask.keys import EmbeddedQuestion, PendingQuestion
from engine.ask.question_features import QuestionFeatures, normal_question, question_features
from engine.ask.updates import settled
from engine.llm.generate import ParsedAnswer
from engine.settings import Settings
from engine.text.dates import spell_date
from engine.text.question import Question, synthesis
from engine.text.relative_dates import resolve, time_constraint
from engine.text.spans import find
from engine.text.words import FUNCTION_WORDS, base, content_words, one_root, terms, words
from engine.types import Answer, Backend, Evidence, Passage, Trace, resting
from prompts import word_groups, word_sets
from store.answers import AnswerBank, PendingVerification, RejectedAnswers, Verifications
from store.database import Ledger
from store.history import History, HistoryEntry
from store.types import replace

if TYPE_CHECKING:
    from engine.models.minilm import SpanReader
    from store.search import Near


def reject_answer(ledger: Ledger, now: datetime, collection: str | None, question: str | None) -> HistoryEntry | None:
    """Drop the last answer, or the last to a question, from the cache; None if it is not cached, or of elsewhere.

    Asked again, the question is answered from scratch. An answer made for it is never served for another question; one
    of another question is no longer served for questions of the same or a lower similarity.
    """
    with ledger.transaction():
        ledger.renew()
        last = History(ledger).last(question)
        cached = AnswerBank(ledger).find(last.key) if last and last.key else None
        if last is None or last.key is None or cached is None:
            return None
        if collection not in (None, keys.scope_of(cached.scope).collection):
            return None
        answer = keys.answer_of(cached).text if cached.state == "answered" else None
        if cached.state != "answered" and (pending := Verifications(ledger).find(last.key)):
            AnswerBank(ledger).raise_tau(pending.matched, above(pending.similarity))
            Verifications(ledger).resolve(last.key, correct=False, at=now.timestamp())
            answer = pending.served
        RejectedAnswers(ledger).add(last.key, answer or "", now.timestamp())
        AnswerBank(ledger).drop(last.key)
    return last


def above(similarity: float) -> float:
    """Return the least threshold that a similarity does not reach."""
    return similarity + 1e-6


class SemanticRules(Struct, frozen=True):
    """The least cosine of two questions, and what may speak against a hit; each part can be left out."""

    tau: float
    least: float  # support below which a quote is not an answer
    guard: bool = True
    verify: bool = True
    reader: "Callable[[], SpanReader | None]" = lambda: None  # chooses quotes


class SemanticLookup:
    """Looks up an answer of a paraphrase."""

    def __init__(self, backend: Backend, ledger: Ledger, rules: SemanticRules) -> None:
        self._backend, self._ledger, self._rules = backend, ledger, rules
        self._wrong = RejectedAnswers(ledger)
        self._verified = 0

    def find(self, ask: PendingQuestion, asked: EmbeddedQuestion) -> "Near | None":
        """Return the nearest cached question whose answer can be reused, None if there is none."""
        questions = self._backend.question_vectors()
        if questions is None or asked.vector is None:
            return None
        with ask.trace.step("similar") as step:
            if self._wrong.find(ask.key.digest):
                step.note = "an answer to it was marked wrong"
                return None
            key, notes, self._verified = ask.key, list[str](), 0
            near = questions.near(
                asked.vector, scope=key.scope, writer=key.writer, day=key.day, least=self._rules.tau, most=8
            )
            for one in near:
                found = self._judged(ask, asked, one)
                if not isinstance(found, str):
                    step.note = f"{one.similarity:.3f}"
                    return found
                notes.append(f"{one.similarity:.3f} {found}")
                if self._verified == 2:  # that the guard lets through
                    break
            step.note = "; ".join(notes) or f"none above {self._rules.tau:g}"
        return None

    def _judged(self, ask: PendingQuestion, asked: EmbeddedQuestion, near: "Near") -> "Near | str":
        """Return the cached question if its answer may be served, with current sources; else the reason."""
        answer, doubted = keys.answer_of(near.answer).text, self._wrong.find(near.key)
        if near.answer.tau is not None and near.similarity < near.answer.tau:
            return f"below its own threshold of {near.answer.tau:.3f}"
        if answer is None:
            return "has no answer"
        if doubted and doubted[0] == answer:
            return "its answer was marked wrong"
        kept = keys.understood(self._ledger, near.answer.question, ask.now)
        reason = why_different(asked.question, kept) if self._rules.guard else None
        if reason is not None:
            return reason
        self._verified += 1
        return self._verify(ask, asked, kept, near)

    def _verify(self, ask: PendingQuestion, asked: EmbeddedQuestion, kept: Question, near: "Near") -> "Near | str":
        """Return the cached question if its answer is still valid, and valid for this question; else the reason."""
        rules, cached = self._rules, keys.answer_of(near.answer)
        alike = asks_in_same_words(asked.question, kept) and wanted(asked.question) == wanted(kept)
        quotes = rules.verify and not (rules.guard and alike)
        fresh, evidence = near, None
        if near.answer.generation != ask.generation:
            wording = keys.wording_of(self._ledger, near.answer.question)
            again = keys.gather_context(self._backend, replace(ask, wording=wording, trace=Trace()))
            evidence = again.evidence
            if again.read == near.answer.evidence:  # its sources may have moved
                fresh = replace(near, answer=keys.relocate(near.answer, evidence))
        elif quotes:
            evidence = settled(kept, self._backend.reread(near.answer.evidence, cached.scores))
        if evidence and keys.fingerprint(evidence, ask.key.writer) != near.answer.evidence:
            return "its evidence has changed"
        if evidence and quotes:
            found = keys.gather_context(self._backend, replace(ask, trace=Trace()), asked).evidence
            quoted = cached.text if cached.writer == "quote" else None
            settings = QuoteSettings(least=rules.least, reader=rules.reader())
            if why := why_unlike(asked.question, kept, found, evidence, quoted, settings):
                return why
        return fresh


def defer_verification(
    ledger: Ledger, settings: Settings, ask: PendingQuestion, asked: EmbeddedQuestion, near: "Near"
) -> None:
    """Count the use of the matched answer, and mark this question as pending verification."""
    bank, at, served = AnswerBank(ledger), ask.now.timestamp(), keys.answer_of(near.answer).text or ""
    with ask.trace.step("count"):
        cached = bank.find(near.key)
        if cached and cached.evidence == near.answer.evidence and cached.reply != near.answer.reply:
            bank.put(near.key, near.answer, settings.bank.bytes)  # with the new places of its sources
        bank.record_use(near.key, ask.generation, at, near.answer.evidence)
        pending = keys.pending_entry(ask, near.answer.evidence)
        bank.put(ask.key.digest, pending, settings.bank.bytes, keys.vector_of(asked), None, asked.embedder)
        Verifications(ledger).add(PendingVerification(ask.key.digest, near.key, near.similarity, served, at))


LITTLE = 0.2  # of a question's words that say what it is about: so many may be missing where its answer stands


def why_unlike(
    asked: Question, kept: Question, found: Evidence, evidence: Evidence, answer: str | None, settings: QuoteSettings
) -> str | None:
    """Return why a kept answer is not that of a question in other words; None if it is.

    What is quoted from what was `found` for the question must be the same. `answer` is the kept one where the quote
    writer made it; None if a model did: then what is quoted for the kept question from its evidence counts.
    """
    settings = replace(settings, forced=answer is None)
    quoted = quote(asked, found.passages, settings)
    expected = quote(kept, evidence.passages, settings).answer if answer is None else answer
    if found.fact or quoted.source is None or quoted.answer != expected:
        return "another answer"
    is_supported = _entailed(asked, kept, found.passages[quoted.source])
    return None if is_supported else "a word that the evidence does not support"


def _entailed(new: Question, cached: Question, source: Passage) -> bool:
    """Return whether the source of the answer holds most words that only one of the two questions has."""
    supported = set(words(f"{source.header} {source.text}"))
    for question, unmatched in zip((new, cached), unmatched_words(new, cached), strict=True):
        own = question_features(question)
        alone = (token for form, token in zip(own.content, own.written, strict=True) if form in unmatched)
        if sum(not supported.issuperset(words(token)) for token in alone) > LITTLE * len(own.content):
            return False
    return True


@cache
def _synonyms() -> dict[str, set[str]]:
    found = defaultdict[str, set[str]](set)
    for group in word_groups("synonyms"):
        forms = set(map(base, group))
        for form in forms:
            found[form] |= forms
    return found


def synonymous(one: str, other: str) -> bool:
    """Whether two base forms ask for the same: equal, of one root, or synonyms."""
    return one == other or other in _synonyms().get(one, ()) or one_root(one, other)


def why_different(new: Question, cached: Question) -> str | None:
    """Return why two questions may not share an answer; None if they may, provided that the evidence agrees."""
    one, two = question_features(new), question_features(cached)
    pairs = _aligned(one.content, two.content)
    left = unmatched_words(new, cached)
    # The evidence may support one more word in one of the two, but no other action or owner.
    more = [*_narrowing(left[0], one), *_narrowing(left[1], two)]
    new, cached = normal_question(new), normal_question(cached)
    # For a scheduled event, "is" and "will be" mean the same.
    scheduled = frozenset([frozenset(("present", "future"))] * (new.asked in ("date", "time", "place")))
    times, alike = {frozenset(pair) for pair in product(one.tenses, two.tenses)}, _ALIKE | scheduled
    doubts = {
        "not in English": not (one.english and two.english) and one.content != two.content,
        "another kind of question": new.asked != cached.asked or (new.asked == "other" and one.asking != two.asking),
        "another name": not one.names.isdisjoint(left[0]) or not two.names.isdisjoint(left[1]),
        "other numbers": one.numbers != two.numbers,
        "other dates": new.dates != cached.dates,
        "one of the two is negated": one.negations != two.negations,
        "about another person": bool(one.persons and two.persons) and one.persons.isdisjoint(two.persons),
        "about another time": not any("any" in pair or len(pair) == 1 or pair in alike for pair in times),
        "another of several": one.places != two.places,
        "who does it to whom may differ": _other_role(one, two, pairs),
        "another direction": bool((one.ways ^ two.ways) - _VAGUE_WAYS),
        "other words": more not in ([], [False]),
    }
    return next((why for why, is_so in doubts.items() if is_so), None)


def asks_in_same_words(new: Question, cached: Question) -> bool:
    """Return whether two questions have the same words as written: synonyms and other forms are other words."""
    one, two = question_features(new), question_features(cached)
    same = one.literal == two.literal and sorted(one.content) == sorted(two.content)
    return same and (one.persons, one.ways) == (two.persons, two.ways)


def unmatched_words(new: Question, cached: Question) -> tuple[list[str], list[str]]:
    """Return the words of each question that have no partner in the other, as base forms."""
    one, two = question_features(new).content, question_features(cached).content
    pairs = _aligned(one, two)
    ours, theirs = {one[a] for a, _ in pairs}, {two[b] for _, b in pairs}
    return [word for word in one if word not in ours], [word for word in two if word not in theirs]


def _aligned(one: Sequence[str], two: Sequence[str]) -> list[tuple[int, int]]:
    """Pair equal words first, then related ones, each word at most once; returns pairs of positions in order."""
    pairs, free = dict[int, int](), list(range(len(two)))
    for same in (str.__eq__, synonymous):
        for place, word in enumerate(one):
            partner = None if place in pairs else next((other for other in free if same(word, two[other])), None)
            if partner is not None:
                pairs[place] = partner
                free.remove(partner)
    return sorted(pairs.items())


def _narrowing(unmatched: Sequence[str], own: QuestionFeatures) -> list[bool]:
    """Return of each word that only one question has whether it asks for something else: a verb, or whose."""
    found, is_short = zip(own.content, own.heads, strict=True), len(own.content) < 7  # else one word more hardly counts
    return [is_short and is_head for form, is_head in found if form in unmatched]


_LISTED = word_sets("question_words")
# Tenses that mean the same, and roles of one name that do not turn a question round.
_ALIKE = {frozenset((kind[6:], one)) for kind, words in _LISTED.items() if kind.startswith("alike ") for one in words}
_VAGUE_WAYS = frozenset(("to", "for", "with", "about"))  # "of", "on" and no word at all may stand for them
_NEUTRAL = frozenset(("of", "owner", "in", "on", "at", "near", "within", "per", "through", "toward", "towards", ""))


def _other_role(one: QuestionFeatures, two: QuestionFeatures, pairs: Sequence[tuple[int, int]]) -> bool:
    """Distinguish agent from object, and destination from origin."""
    if one.asked_for and two.asked_for and one.asked_for != two.asked_for:
        return True
    alike = (synonymous(ours, theirs) for ours in one.subject for theirs in two.subject)
    if one.passive == two.passive and one.subject and two.subject and not any(alike):
        return True
    named = [
        (one.roles[a], two.roles[b]) for a, b in pairs if one.content[a] in one.names or two.content[b] in two.names
    ]
    other = [pair for pair in named if pair[0] != pair[1]]
    return any((frozenset(pair) not in _ALIKE and _NEUTRAL.isdisjoint(pair)) or pair[::-1] in named for pair in other)


# Fitted on answers of two models to judged questions; docs/log/answers.md has the figures.
_HELD = 0.6  # least share of an answer's content words in the sentence that supports it
_BEHIND = 10.0  # log odds by which another sentence may be likelier for the reader
_SAME = 12.0  # of these, what a sentence with all words of an answer counts more than one with none


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges what a model writes on one question, whose sentences were `found`; a quote needs a support of `least`."""

    question: Question
    evidence: Evidence
    found: tuple[Candidate, ...]
    least: float
    reader: "SpanReader"

    def __call__(self, said: ParsedAnswer) -> Answer:
        """Return the model's answer if a source supports it, else a quote."""
        if said.answer and (one := self._bearing(said.answer)):
            quotes = [one.text if at == one.read else "" for at in range(len(self.evidence.passages))]
            place = one.highlight if one.marked else None  # who says it is marked with nothing
            sources = resting(self.evidence.sources(quotes, one.read), place)
            asked = self.question.text
            return Answer(asked, said.answer, "full", "model", None, sources, {}, lead=one.read, grade="answer")
        evidence = replace(self.evidence, scored=self.found)
        return write(self.question, evidence, Trace(asked=False), self.least, self.reader)

    def likeliest(self, most: int) -> tuple[int, ...]:
        """Return the indices of the sources with the sentences that are likeliest to answer, in order of rank."""
        reads = self.evidence.passages
        known = read_sources(self.reader, self.question, reads, self.found).found
        likely = (one.read for one in sorted(known, key=lambda one: -one.score) if not reads[one.read].is_outranked())
        return tuple(sorted([*dict.fromkeys(likely)][:most]))

    def _bearing(self, answer: str) -> Candidate | None:
        """Return the sentence that supports an answer: it has its numbers and most of its words, and may answer."""
        known = read_sources(self.reader, self.question, self.evidence.passages, self.found).found
        told = {one: _told(one) for one in known if one.mark and one.day is not False}
        said, asked = terms(answer) - FUNCTION_WORDS, terms(self.question.text)
        telling = said - asked or said
        if not told or not telling:
            return None

        def held(one: Candidate) -> float:
            return len(telling & told[one]) / len(telling)

        one = max(told, key=lambda one: one.score + _SAME * held(one))
        is_near = one.score >= max(other.score for other in told) - _BEHIND
        has_numbers = all(term in told[one] for term in said - asked if term.isdecimal())
        # An answer with only the question's words must have those that the reader marks.
        is_answer = telling.isdisjoint(asked) or not said.isdisjoint(terms(one.marked))
        return one if is_near and has_numbers and is_answer and held(one) >= _HELD else None


def judge_of(question: Question, evidence: Evidence, least: float, reader: "SpanReader") -> Judge | None:
    """Return the reader's judge of answers to a question; None for questions that it was not trained on."""
    kind = wanted(question)
    found = evidence.scored or candidates(question, evidence.passages, kind, time_constraint(question, kind))
    is_known = not synthesis(question.text) and not is_beyond(question, found)
    return Judge(question, evidence, tuple(found), least, reader) if is_known else None


def part_of_quote(question: Question, evidence: Evidence, least: float, said: ParsedAnswer) -> Answer:
    """Return the quoted answer, or the part of it that a model wrote: for models too small to be trusted."""
    quoted = write(question, evidence, Trace(asked=False), least)
    own = content_words(said.answer or "")
    is_part = bool(own) and own <= content_words(quoted.text or "")
    return replace(quoted, text=said.answer, writer="model", highlight=None) if is_part else quoted


def _told(one: Candidate) -> frozenset[str]:
    """Return the words of a sentence, with those of who says it and of the days that it means."""
    told = [one.speaker or "", one.text]
    for span in find(one.text, "date") if one.written else ():
        days = resolve(" ".join(one.text[span.start : span.end].split()), one.written) if one.written else None
        told += [spell_date(days.first, weekday=True)] if days and days.first == days.last else []
    return terms(" ".join(told))
