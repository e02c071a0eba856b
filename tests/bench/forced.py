"""Teacher-forced answers: random weights of a real shape read the real prompt and write what a data set has as answer.

So times, tiers, tokens and FLOPs are real, and no words are pretended: the answer that is kept is the set's own, in the
form that the prompt asks for, and it stands whether or not its sources were found; where the set has none it is "not
found". For a question that was foreseen it is what the quote writer says to it. The model's one word on a like
question's answer would be noise: it takes its time, and is always yes, so that whatever the other checks let through is
a hit, and counts as false where it is. A word from the set would be a judge that no model is.
"""

import subprocess
import sys
from collections.abc import Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from engine.ask.extract import QuoteSettings, quote
from engine.ask.keys import normalise
from engine.llm.prompt import candidates
from engine.llm.resident import ResidentModel
from engine.models import kv_cache
from engine.models.mlx import Mlx
from engine.models.types import Drafter, Meter
from engine.session import Session
from engine.text.question import Question
from engine.text.words import words
from engine.types import Evidence, GeneratedAnswer, OnText, Trace
from tests.engine.ask.backend import Wrapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.models.kv_cache import Cache

NOT_FOUND = "not found"  # as the answer prompt has it
NO_STOP = -1  # for a model that has none: no token
YES = "yes"  # as the check's prompt has it
PIECES = 16_384  # of words that the tokenizer learns at most, so that a word takes as many tokens as of a real model


@dataclass(slots=True)
class Script:
    """What the model is to say next, None where it speaks for itself; its ids, and what the cache held before them.

    What is quoted is not guessed, since guesses are quotes.
    """

    says: str | None = None
    quoted: bool = False
    ids: list[int] = field(default_factory=list)
    begun: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Forced(Mlx):
    """A model that reads all it is given and writes what the script says, every token of it computed."""

    script: Script = field(default_factory=Script, repr=False)

    def decode(
        self, cache: "Cache", ids: Sequence[int], most: int, drafts: Drafter | None = None
    ) -> Generator[str, None, None]:
        """Read the last segment and yield the text of each token of the script, and a stop behind the last one."""
        script = self.script
        script.ids = [] if script.says is None else [*self.tokens(script.says), min(self.stops)]
        script.begun = None
        return Mlx.decode(self, cache, ids, most, None if script.quoted else drafts)

    def _likeliest(self, cache: "Cache", logits: Any) -> Any:
        """Compute as one does who writes, and say what the script has behind as many tokens as the cache has read."""
        import mlx.core as mx

        found = Mlx._likeliest(self, cache, logits)
        script, read = self.script, kv_cache.length(cache)
        if not script.ids:
            return found
        script.begun = read if script.begun is None else script.begun
        behind = read - script.begun + 1
        said = [*script.ids, *(behind - len(script.ids)) * script.ids[-1:]][behind - len(found) : behind]
        return mx.array(said) + 0 * found  # which is there when that is


class Following(ResidentModel):
    """Models that follow a script; their weights are taken from those that are in memory, or left there."""

    def __init__(self, locks: Path, script: Script, loaded: dict[Hashable, Mlx]) -> None:
        super().__init__(locks)
        self._script, self._loaded = script, loaded

    def get(self, key: Hashable, load: "Callable[[], Mlx]") -> Mlx:
        """Return the model of this key, which counts its own work, in place of another one."""

        def own() -> Mlx:
            if key not in self._loaded:
                self._loaded[key] = load()
            return follow(replace(self._loaded[key], meter=Meter()), self._script)

        return super().get(key, own)


def follow(model: Mlx, script: Script) -> Forced:
    """Return a model that follows a script."""
    parts = {name: getattr(model, name) for name in Mlx.__dataclass_fields__}
    return Forced(**parts | {"stops": model.stops or frozenset((NO_STOP,))}, script=script)


def force(session: Session, golds: Mapping[str, str], loaded: dict[Hashable, Mlx] | None = None) -> None:
    """Have the session's model write these answers, by normalised question; it is loaded and keeps as ever.

    Sessions that are given the same `loaded` have its weights in memory once.
    """
    script = Script()
    session.__dict__["models"] = Following(session.home.locks, script, {} if loaded is None else loaded)
    session.__dict__["backend"] = ForcedBackend(session, script, golds)


class ForcedBackend(Wrapped):
    """Has the model of a session follow a script that gives the known answers."""

    def __init__(self, session: Session, script: Script, golds: Mapping[str, str]) -> None:
        super().__init__(session.backend)
        self._session, self._script, self._golds = session, script, golds

    def generate(self, question: Question, evidence: Evidence, trace: Trace, on_text: OnText | None) -> GeneratedAnswer:
        begun, script = perf_counter(), self._script
        shown = self._session.order(candidates(evidence))
        gold = gold_of(question, evidence, self._golds, self._session.settings.ask.decline_below)
        script.quoted = normalise(question.text) not in self._golds
        script.says = reply(gold, [one.chunk.text for one in shown])
        trace.started += perf_counter() - begun  # nobody who asks waits for that
        try:
            made = super().generate(question, evidence, trace, on_text)
        finally:
            script.says = None
        return replace(made, reply=replace(made.reply, text=" ".join(gold.split()) or None)) if shown else made

    def entails(self, question: Question, evidence: Evidence, answer: str, trace: Trace) -> bool:
        self._script.says = YES
        try:
            return super().entails(question, evidence, answer, trace)
        finally:
            self._script.says = None


def gold_of(question: Question, evidence: Evidence, golds: Mapping[str, str], least: float) -> str:
    """Return the answer to a question, "" where there is none: of the set, else quoted from its evidence."""
    known = golds.get(normalise(question.text))
    return (quote(question, evidence.passages, QuoteSettings(least=least)).answer or "") if known is None else known


def reply(answer: str, chunks: Sequence[str]) -> str:
    """Write an answer on one line as the prompt asks for it: with the number, from 1, of the chunk that says most."""
    flat = " ".join(answer.split())
    if not flat or not chunks:
        return NOT_FOUND
    wanted = frozenset(words(flat))
    held = [len(wanted & frozenset(words(chunk))) for chunk in chunks]
    return f"{flat} [{held.index(max(held)) + 1}]"


def model(size: str, folder: Path, texts: Iterable[str]) -> Path:
    """Return folder of a model of random weights, made when first asked for; its tokenizer is learnt from the texts.

    The weights are made in a process of their own, and the folder has its name once it is whole.
    """
    there = folder / size
    if there.is_dir():
        return there
    making = folder / f"making.{size}"
    rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    command = [sys.executable, "-m", "tests.bench.reuse", size, "--part", "weights", "--home", str(making)]
    subprocess.run(command, check=True)
    learnt(texts).save(str(making / size / "tokenizer.json"))
    return (making / size).rename(there)


def learnt(texts: Iterable[str]) -> Tokenizer:
    """Learn a byte-level tokenizer."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|begin|>", "<|im_start|>", "<|im_end|>"]  # as the folder's other files name them
    trainer = trainers.BpeTrainer(
        vocab_size=PIECES, initial_alphabet=alphabet, special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
