"""Fine-tunes an adapter on the user's own bank: questions with accepted answers, whose evidence is read again.

collect -> score what answers now on held-out questions -> train in legs -> score again -> keep it if it is better. A
question is held out or not for good, by its digest, so that no later training learns what an earlier one was judged by.
"""

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from engine.ask.prepare import answer_of, understood
from engine.idle.types import Job, Outcome, OutOfTime, check_time
from engine.inventory import adapter_folder, local_model_of, question_digest, use_adapter
from engine.models.adapters import Adapter, AdapterFolder, KeptAdapter, Training, check_name, read_adapter
from engine.models.role_adapter import rank_of
from engine.session import Session
from engine.text.words import words
from engine.types import Trace
from store.answers import AnswerBank, CachedAnswer, RejectedAnswers
from store.errors import Locked, UsageError
from store.locks import Lease

if TYPE_CHECKING:
    from engine.backends import LocalModel
    from engine.llm.prefill import PromptReader
    from engine.llm.prompt import Segments
    from engine.models.mlx import Mlx
    from engine.models.trainer import Batch, Start
    from engine.operations import OnProgress
    from engine.text.question import Question
    from engine.types import Evidence

OWN = "own"  # the adapter that is trained unless another one is named
UPDATES = 60  # of four examples each
LEAST_TRAINED, LEAST_HELD_OUT = 12, 4  # examples, under which nothing is trained
MORE = 12  # new examples from which on an idle run trains again
_HELD_OUT = 5  # one question in so many
_DECLINED = 4  # at most one example in so many is an answer "not found"
_LEG = 5  # updates, after which what was reached is stored
_RANK, _SCALE = 8, 2.0  # of fresh factors
_FRESH_RATE, _ROLE_RATE = 1e-3, 1e-4  # for fresh factors, and for those that have learnt much already
_MOST, _MOST_HELD_OUT = 1000, 50  # examples; questions that judge, the latest
_NOT_FOUND = "not found"
_TRAINED = "adapter.trained"  # ledger value: how many answers were cached when an idle run trained last
_LEG_S = 20.0  # estimated: as much as must fit a run, since the next one goes on


@dataclass(frozen=True, slots=True)
class LearntAnswer:
    """A question with the answer to learn, None where it was declined, and the passages that it is from."""

    question: "Question"
    asked: str
    read: tuple[str, ...]  # what identifies the evidence
    evidence: "Evidence"
    answer: str | None
    lead: int
    quote: str
    now: datetime

    @property
    def is_held_out(self) -> bool:
        """Return whether it judges trainings instead of being learnt."""
        return blake2b(self.asked.encode(), digest_size=4).digest()[0] % _HELD_OUT == 0


@dataclass(frozen=True, slots=True)
class Examples:
    """What can be learnt, what judges it, and how many questions were left out, by reason."""

    trained: tuple[LearntAnswer, ...]
    held_out: tuple[LearntAnswer, ...]
    left_out: Counter[str]

    @property
    def are_enough(self) -> bool:
        """Return whether there are enough to train on."""
        return len(self.trained) >= LEAST_TRAINED and len(self.held_out) >= LEAST_HELD_OUT

    @property
    def learnt(self) -> frozenset[str]:
        """Return the ids of the documents that the examples show, and digests of their questions."""
        passages = [passage for one in self.trained for passage in one.evidence.passages]
        documents = frozenset(chunk.document for passage in passages for chunk in passage.chunks)
        return documents.union(question_digest(one.asked) for one in self.trained)

    @property
    def digest(self) -> str:
        """Identify the questions and answers."""
        said = json.dumps([[one.asked, one.answer, one.read] for one in self.trained])
        return blake2b(said.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Score:
    """How well held-out questions are answered: exact answers, the mean F1 of words, and the number of questions."""

    exact: int
    f1: float
    count: int

    def beats(self, other: "Score") -> bool:
        """Return whether this is better: more of the words are right, and no fewer whole answers."""
        return self.f1 > other.f1 and self.exact >= other.exact


@dataclass(slots=True)
class FineTuning:
    """The course of a training, and its end; `version` is None unless the new adapter is better, and so in use."""

    name: str
    examples: Examples
    updates: int = 0
    resumed: int = 0  # updates of an earlier run
    seconds: float = 0.0
    loss: float | None = None
    context: Counter[str] = field(default_factory=Counter)  # tokens of contexts: reused, computed
    before: Score | None = None
    after: Score | None = None
    version: int | None = None


def collect(session: Session) -> Examples:
    """Return the training examples: the latest answer to each question, newest first."""
    bank, found, left_out = AnswerBank(session.ledger), dict[tuple[str, str], LearntAnswer](), Counter[str]()
    entries = sorted(bank.answered(), key=lambda entry: -entry[1].created)
    for key, cached in entries:
        name = (cached.question, cached.scope)
        if name in found or len(found) >= _MOST or not (cached.origin == "user" or cached.uses):
            continue
        read = _example(session, key, cached)
        if isinstance(read, str):
            left_out[read] += 1
        else:
            found[name] = read
    kept = _few_declined(list(found.values()))
    left_out["declined"] += len(found) - len(kept)
    trained = tuple(one for one in kept if not one.is_held_out)
    return Examples(trained, tuple(one for one in kept if one.is_held_out), +left_out)


def _few_declined(found: Sequence[LearntAnswer]) -> list[LearntAnswer]:
    answered, declined = ([one for one in found if (one.answer is None) == wanted] for wanted in (False, True))
    return [*answered, *declined[: len(answered) // (_DECLINED - 1)]]


def _example(session: Session, key: bytes, cached: CachedAnswer) -> LearntAnswer | str:
    """Return what an entry teaches, or why it teaches nothing."""
    answer = answer_of(cached)
    rejected = RejectedAnswers(session.ledger).find(key)
    if rejected and rejected[0] == (answer.text or ""):
        return "marked wrong"
    if answer.correction or answer.stale or answer.synthesis:
        return "outdated"
    evidence = session.retriever.reread(cached.evidence, answer.scores)
    if not evidence.passages:
        return "sources gone"
    now = datetime.fromtimestamp(cached.created).astimezone()
    question, quote = (
        understood(session.ledger, cached.question, now),
        answer.sources[0].quote if answer.sources else "",
    )
    return LearntAnswer(question, cached.question, cached.evidence, evidence, answer.text, answer.lead, quote, now)


def segments_for(reader: "PromptReader", one: LearntAnswer, most: int) -> "tuple[Segments, str] | None":
    """Return the prompt of an example and the text to answer; None if what is shown does not bear the answer."""
    from engine.llm.generate import cite, parse, segments_of

    segments = segments_of(reader, one.question, one.evidence, one.now, most)
    if one.answer is None:
        return segments, _NOT_FOUND
    numbers = [number for number, source in enumerate(segments.prompt.sources, 1) if source == one.lead]
    if not numbers:
        return None
    chunks = segments.prompt.chunks
    number = next((each for each in numbers if one.quote and one.quote in chunks[each - 1]), numbers[0])
    text = f"{one.answer} [{number}]"
    cited = cite(parse(text), one.question.text, one.evidence.passages, segments.prompt.sources)
    return (segments, text) if cited.stands else None


def f1(given: str, wanted: str) -> float:
    """Return the harmonic mean of precision and recall of the words of an answer; 1 where both are empty."""
    one, other = Counter(words(given)), Counter(words(wanted))
    common = (one & other).total()
    if not common:
        return float(not one and not other)
    return 2 * common / (one.total() + other.total())


def score(model: "LocalModel", examples: Sequence[LearntAnswer], is_over: Callable[[], bool]) -> Score:
    """Have a model answer held-out questions, and compare its words with the accepted answers."""
    exact, total, count = 0, 0.0, 0
    for one in examples:
        check_time(is_over)
        said = _said(model, one)
        if said is None:
            continue
        count, wanted = count + 1, one.answer or ""
        exact, total = exact + (words(said) == words(wanted)), total + f1(said, wanted)
    return Score(exact, total / max(1, count), count)


def _said(model: "LocalModel", one: LearntAnswer) -> str | None:
    """Return what a model answers, empty for "not found"; None if the question cannot judge it."""
    from engine.llm.generate import parse, read
    from engine.llm.stopping import complete

    reader = model.load()
    if model.adapter and not model.adapter.activated:
        reader = replace(reader, kept=None)  # tensors of an adapter that may never be used are not worth their room
    prepared = segments_for(reader, one, model.max_tokens)
    if prepared is None:
        return None
    ids = prepared[0].ids
    with ExitStack() as held:
        found = read(reader, ids[:-1], Trace(asked=False), held)
        text = complete(reader.model.decode(found.cache, ids[-1], model.max_tokens), model.max_tokens)
        found.keep()
        found.release()
    return parse(text).answer or ""


def finetune(
    session: Session,
    name: str = OWN,
    updates: int = UPDATES,
    *,
    activated: bool = True,
    dry_run: bool = False,
    on_progress: "OnProgress" = lambda *_: None,
    is_over: Callable[[], bool] = lambda: False,
) -> FineTuning:
    """Train an adapter, and use it for answers from now on if it beats what answers now.

    UsageError if there is too little to learn or no model here, Locked while another training runs. What is raised at
    a step leaves the legs that were done: the next call goes on from there.
    """
    check_name(name)
    local_model_of(session)
    found = FineTuning(name, collect(session))
    if dry_run:
        return found
    if not found.examples.are_enough:
        raise UsageError(_too_few(found.examples), "pkb adapter train --dry-run")
    lock = Lease(session.home.locks / "train.lock")
    if not lock.acquire():
        raise Locked("another training is running", "try again when it is done")
    try:
        _Course(session, found, updates, activated, on_progress, is_over).run()
    finally:
        lock.release()
    return found


def _too_few(found: Examples) -> str:
    return (
        f"too little to learn from: {len(found.trained)} answers to learn and {len(found.held_out)} to judge by; "
        f"at least {LEAST_TRAINED} and {LEAST_HELD_OUT} are needed"
    )


@dataclass(frozen=True, slots=True)
class _Prepared:
    """An example as token ids: the segments of its prompt, and its reply with the end."""

    segments: tuple[tuple[int, ...], ...]
    reply: list[int]


@dataclass(frozen=True, slots=True)
class _Course:
    """One training from its examples to the adapter that answers afterwards."""

    session: Session
    found: FineTuning
    updates: int
    activated: bool
    on_progress: "OnProgress"
    is_over: Callable[[], bool]

    def run(self) -> None:
        """Score, train, score again, and keep the adapter if it is better."""
        from engine.models.trainer import Trainer

        model = self._model()
        former = self._former()
        began, base = time.monotonic(), model.wearing(self._base_of(former))
        prepared, held_out = self._prepared(base), self._judges(model, base)
        local, identity = local_model_of(self.session)
        folder = adapter_folder(self.session)
        work, start = self._work(folder), self._start(former, model)
        self.on_progress("scoring", 0, 2)
        self.found.before = self._before(model, held_out, work / "before.json")
        trainer = Trainer(_mlx(base), local.folder, start, work)
        self.found.resumed = trainer.done
        while trainer.done < start.updates:
            trainer.run(_LEG, self._batches(base, prepared, trainer.done))
            self.found.updates, self.found.loss = trainer.done, trainer.loss
            self.on_progress("training", trainer.done, start.updates)
        candidate = read_adapter(trainer.adapter_files(), self.found.name)
        self.on_progress("scoring", 1, 2)
        self.found.after = score(model.wearing(candidate), held_out, self.is_over)
        self.found.seconds = time.monotonic() - began
        if self.found.after.beats(self.found.before):
            about = (self._training(), self.found.examples.learnt, identity, local.name)
            kept = folder.add_version(former, self.found.name, candidate.folder, *about)
            self.found.version = kept.version
            use_adapter(self.session, kept.name, "answer", None)
        shutil.rmtree(work.parent, ignore_errors=True)

    def _before(self, model: "LocalModel", held_out: Sequence[LearntAnswer], path: Path) -> Score:
        """Return the score of what answers now: as an interrupted training has found it, or measured."""
        about = [model.fingerprint, [[one.asked, one.answer] for one in held_out]]
        with suppress(OSError, ValueError, TypeError):
            told, values = json.loads(path.read_text("utf-8"))
            if told == about:
                return Score(**values)
        found = score(model, held_out, self.is_over)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(json.dumps([about, asdict(found)]), "utf-8")
        return found

    def _work(self, folder: AdapterFolder) -> Path:
        """Return the folder of this training; those of others, which nobody will go on with, go."""
        work = folder.work(self.found.name) / self.found.examples.digest
        for other in work.parent.iterdir() if work.parent.is_dir() else ():
            if other != work:
                shutil.rmtree(other, ignore_errors=True)
        return work

    def _model(self) -> "LocalModel":
        model = self.session.model_for("answer")
        assert model, "a model was found"
        return model

    def _former(self) -> KeptAdapter | None:
        """Return the adapter whose next version this is; UsageError if it is for another model or of another kind."""
        folder = adapter_folder(self.session)
        if self.found.name not in folder.names():
            return None
        kept = folder.find(self.found.name)
        if kept.base != local_model_of(self.session)[1]:
            raise UsageError(f"adapter {kept.name} is for {kept.model}, another model", "pkb adapter train --name NEW")
        if kept.read().activated != self.activated:
            raise UsageError(f"adapter {kept.name} is of another kind", "pkb adapter train --name NEW")
        return kept

    def _base_of(self, former: KeptAdapter | None) -> Adapter | None:
        """Return the adapter whose prompts are trained on: contexts of an activated one are the base model's."""
        if self.activated:
            return None
        return former.read() if former else None

    def _start(self, former: KeptAdapter | None, model: "LocalModel") -> "Start":
        """Return where to start: at the former version, at the model's role adapter, or with fresh factors."""
        from engine.models.trainer import Start

        role = model.role_adapter if self.activated else None
        if former:
            read = former.read()
            rate = _ROLE_RATE if role else _FRESH_RATE / 2
            return Start(read.weights, read.rank, read.scale, rate, self.activated, self.updates)
        if role:
            return Start(role.path, rank_of(role.path), 1.0, _ROLE_RATE, self.activated, self.updates)
        return Start(None, _RANK, _SCALE, _FRESH_RATE, self.activated, self.updates)

    def _prepared(self, base: "LocalModel") -> "list[_Prepared]":
        """Return the segments of each example, and the ids of its reply."""
        reader, prepared = self._reader(base), list[_Prepared]()
        for one in self.found.examples.trained:
            if made := segments_for(reader, one, base.max_tokens):
                prepared.append(_Prepared(made[0].ids, _mlx(base).reply(made[1])))
            else:
                self.found.examples.left_out["not in the messages shown"] += 1
        self._require(len(prepared), LEAST_TRAINED)
        return prepared

    def _judges(self, model: "LocalModel", base: "LocalModel") -> list[LearntAnswer]:
        """Return the held-out questions that can judge both what answers now and what is trained."""
        readers = (model.load(), self._reader(base))
        found = [
            one
            for one in self.found.examples.held_out
            if all(segments_for(reader, one, model.max_tokens) for reader in readers)
        ][:_MOST_HELD_OUT]
        self._require(len(found), LEAST_HELD_OUT)
        return found

    def _require(self, count: int, least: int) -> None:
        if count < least:
            raise UsageError(
                f"too little to learn from: the messages that the model is shown bear only {count} answers, of {least}",
                "pkb adapter train --dry-run",
            )

    def _reader(self, base: "LocalModel") -> "PromptReader":
        """Return the model as the trained adapter will read prompts: an ordinary one has no role adapter beside it."""
        reader = base.load()
        return reader if self.activated else replace(reader, model=replace(_mlx(base), adapter=None))

    def _batches(self, base: "LocalModel", prepared: "Sequence[_Prepared]", done: int) -> "Iterator[Batch]":
        """Yield examples in an order of chance that is the same each time, from the first of an update on."""
        from engine.models.trainer import ACCUMULATED, Batch

        place, model = done * ACCUMULATED, _mlx(base)
        while True:
            check_time(self.is_over)
            model.yield_point()  # here all is as it always is: a question may be answered
            one = prepared[_nth(place, len(prepared))]
            place += 1
            if self.activated:
                yield from self._on_kept_tensors(base, one)
            else:
                yield Batch([], [*chain.from_iterable(one.segments), *one.reply], len(one.reply))

    def _on_kept_tensors(self, base: "LocalModel", one: "_Prepared") -> "Iterator[Batch]":
        """Yield an example whose context is loaded from the KV cache, or computed where it is not there, and stored."""
        from engine.llm.generate import read
        from engine.models.trainer import Batch, prefix_of

        with ExitStack() as held:
            *context, last = one.segments
            found = read(base.load(), context, Trace(asked=False), held)
            self.found.context["reused"] += sum(found.reused)
            self.found.context["computed"] += sum(map(len, context)) - sum(found.reused)
            yield Batch(prefix_of(found.cache), [*last, *one.reply], len(one.reply))
            found.keep()
            found.release()

    def _training(self) -> Training:
        found = self.found
        assert found.before, "scored before"
        assert found.after, "and after"
        return Training(
            len(found.examples.trained), found.after.count, found.updates, round(found.seconds, 1),
            round(found.before.f1, 4), round(found.after.f1, 4), found.before.exact, found.after.exact,
        )  # fmt: skip


def _nth(place: int, count: int) -> int:
    """Return the example at a place in the order of chance: all once, then all once more."""
    order = list(range(count))
    Random(place // count).shuffle(order)
    return order[place % count]


def _mlx(model: "LocalModel") -> "Mlx":
    from engine.models.mlx import Mlx

    found = model.load().model
    assert isinstance(found, Mlx), "a model of this machine"
    return found


def plan_training(session: Session) -> list[Job]:
    """Return the job of a training, if enough was answered since the last one."""
    if _answered(session) < int(session.ledger.get(_TRAINED) or 0) + MORE:
        return []
    examples = collect(session)
    if not examples.are_enough:
        return []
    what = f"adapter {OWN}, {len(examples.trained)} examples"
    return [Job("train", OWN, what, "new accepted answers", 0.0, 0.0, _LEG_S)]


def _answered(session: Session) -> int:
    return AnswerBank(session.ledger).counts()["answered"]


def train_at_idle(session: Session, is_over: Callable[[], bool]) -> Outcome:
    """Train as far as the time allows; the next idle run goes on."""
    answered = _answered(session)
    try:
        finetune(session, is_over=is_over)
    except OutOfTime:
        return Outcome("continued")
    session.ledger.set(_TRAINED, str(answered))
    return Outcome()
