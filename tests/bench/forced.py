"""Teacher-forced answers: random weights of a real shape read the real prompt and write the data set's answer.

Times, tiers, tokens and FLOPs are real, and no words are invented: an answer is the gold one in the form that the
prompt asks for, "not found" where there is none, and for a predicted question what the quote writer says.
"""

from collections.abc import Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from shutil import rmtree
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from engine.ask.extract import QuoteSettings, quote
from engine.ask.keys import normalise
from engine.llm import prompt
from engine.llm.prompt import candidates
from engine.llm.resident import ResidentModel
from engine.models import kv_cache, runtime
from engine.models.mlx import Mlx
from engine.models.types import Drafter
from engine.session import Session
from engine.text.question import Question
from engine.text.words import words
from engine.types import Answer, Evidence, OnText, Trace
from store.types import replace
from tests.bench.metered import Metered, parts_of
from tests.engine.ask.backend import Wrapped
from tests.engine.models.shapes import REAL, make

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.models.kv_cache import Cache

NOT_FOUND = "not found"  # as in the answer prompt
NO_STOP = -1  # for a model without stop tokens: no token
VOCABULARY = 16_384  # tokens at most, so that a word takes as many as with a real model


@dataclass(slots=True)
class Script:
    """The text to write next, None for the model's own; its ids, and the length of the cache before them.

    Quotes are not drafted: all of them is in the prompt, from which drafts are guessed.
    """

    text: str | None = None
    quoted: bool = False
    ids: list[int] = field(default_factory=list)
    begun: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Forced(Metered):
    """A model that reads its prompt and writes the script, computing every token."""

    script: Script = field(default_factory=Script, repr=False)

    def decode(
        self, cache: "Cache", ids: Sequence[int], most: int, drafts: Drafter | None = None
    ) -> Generator[str, None, None]:
        """Read the last segment and yield the text of each token of the script, which a stop token ends."""
        script = self.script
        script.ids = [] if script.text is None else [*self.tokens(script.text), min(self.stops)]
        script.begun = None
        return Metered.decode(self, cache, ids, most, None if script.quoted else drafts)

    def _likeliest(self, cache: "Cache", logits: Any) -> Any:
        """Compute the likeliest tokens, and return those of the script at the cache's position."""
        import mlx.core as mx

        found = Mlx._likeliest(self, cache, logits)
        script, read = self.script, kv_cache.length(cache)
        if not script.ids:
            return found
        script.begun = read if script.begun is None else script.begun
        behind = read - script.begun + 1
        said = [*script.ids, *(behind - len(script.ids)) * script.ids[-1:]][behind - len(found) : behind]
        return mx.array(said) + 0 * found  # evaluated together


class ForcedResident(ResidentModel):
    """Keeps forced models, whose weights several sessions share."""

    def __init__(self, locks: Path, script: Script, loaded: dict[Hashable, Mlx]) -> None:
        super().__init__(locks)
        self._script, self._loaded = script, loaded

    def get(self, key: Hashable, load: "Callable[[], Mlx]") -> Mlx:
        """Return the model of this key with counts of its own."""

        def own() -> Mlx:
            if key not in self._loaded:
                self._loaded[key] = load()
            return forced(self._loaded[key], self._script)

        return super().get(key, own)


def forced(model: Mlx, script: Script) -> Forced:
    """Return a model that writes a script."""
    return Forced(**parts_of(model) | {"stops": model.stops or frozenset((NO_STOP,))}, script=script)


def force(session: Session, golds: Mapping[str, str], loaded: dict[Hashable, Mlx] | None = None) -> None:
    """Have the session's model write these answers, by normalised question.

    Sessions with the same `loaded` share its weights.
    """
    script = Script()
    session.__dict__["models"] = ForcedResident(session.home.locks, script, {} if loaded is None else loaded)
    session.__dict__["backend"] = ForcedBackend(session, script, golds)


class ForcedBackend(Wrapped):
    """Has the model of a session write the known answers."""

    def __init__(self, session: Session, script: Script, golds: Mapping[str, str]) -> None:
        super().__init__(session.backend)
        self._session, self._script, self._golds = session, script, golds

    def generate(self, question: Question, evidence: Evidence, trace: Trace, on_text: OnText | None) -> Answer:
        begun, script = perf_counter(), self._script
        shown = prompt.in_document_order(candidates(evidence))
        gold = self._gold(question, evidence)
        script.quoted = normalise(question.text) not in self._golds
        script.text = reply(gold, [one.chunk.text for one in shown])
        trace.started += perf_counter() - begun  # not a part of answering
        try:
            made = super().generate(question, evidence, trace, on_text)
        finally:
            script.text = None
        return replace(made, text=" ".join(gold.split()) or None) if shown else made

    def _gold(self, question: Question, evidence: Evidence) -> str:
        return gold_of(question, evidence, self._golds, self._session.settings.ask.decline_below)


def gold_of(question: Question, evidence: Evidence, golds: Mapping[str, str], least: float) -> str:
    """Return the gold answer, "" where there is none; of another question, a quote from its evidence."""
    known = golds.get(normalise(question.text))
    return (quote(question, evidence.passages, QuoteSettings(least=least)).answer or "") if known is None else known


def reply(answer: str, chunks: Sequence[str]) -> str:
    """Return an answer as the prompt asks for it: one line, with the number of the chunk that has most of its words."""
    flat = " ".join(answer.split())
    if not flat or not chunks:
        return NOT_FOUND
    wanted = frozenset(words(flat))
    held = [len(wanted & frozenset(words(chunk))) for chunk in chunks]
    return f"{flat} [{held.index(max(held)) + 1}]"


def random_model(size: str, folder: Path, texts: Iterable[str]) -> Path:
    """Return the folder of a model with random weights and a tokenizer trained on the texts, made on the first call."""
    there = folder / size
    if there.is_dir():
        return there
    making = folder / f"making.{size}"
    rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    process = get_context("spawn").Process(target=weights, args=(size, making))  # whose memory is free afterwards
    process.start()
    process.join()
    assert process.exitcode == 0, f"making {size} failed"
    tokenizer(texts).save(str(making / size / "tokenizer.json"))
    return (making / size).rename(there)


def weights(size: str, folder: Path) -> None:
    """Make a model of random weights below a folder."""
    runtime.load_blas()
    make(folder / size, REAL[size], dtype="float16")


def tokenizer(texts: Iterable[str]) -> Tokenizer:
    """Train a byte-level tokenizer."""
    found = Tokenizer(models.BPE())
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|begin|>", "<|im_start|>", "<|im_end|>"]  # as the model folder's other files name them
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, initial_alphabet=alphabet, special_tokens=special, show_progress=False
    )
    found.train_from_iterator(texts, trainer)
    return found
