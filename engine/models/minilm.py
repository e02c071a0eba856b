"""Embedders: all-MiniLM-L6-v2 and E5 in numpy, Qwen3-Embedding on mlx-lm; and the reader on MiniLM's encoder.

Models are loaded, and MLX imported, with the first text. Knows no documents. The reader is trained to mark in a text
what answers a question, and whether anything does. Its input is `[CLS] question [SEP] header, window [SEP]`, with token
type 1 after the question. Heads on the last layer score where an answer starts and ends and which sentence supports it;
at `[CLS]` they score that the window holds no answer, and how relevant it is. Its weights are a difference of low rank
on the installed embedder's.
"""

import mmap
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import accumulate, groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from engine.models import lookup, runtime
from engine.models.lookup import MINILM_WEIGHTS, READER, TOKENS, InstalledModel
from engine.models.runtime import mx
from engine.models.types import Embedder, Tokens, batches, open_tokenizer
from store.errors import NoModel, PkbError, UsageError
from store.types import Vectors

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer


Floats = NDArray[np.float32]
TokenIds = list[list[int]]  # of each text
Tensors = Mapping[str, NDArray[Any]]  # of a published BERT checkpoint, by name
EMBEDDINGS, POSITIONS = "embeddings.word_embeddings.weight", "positions"  # (vocabulary, width); (longest text, width)


def encoder(tensors: Tensors) -> Tensors:
    """Return the tensors of a checkpoint with the sum of what a position and the first token type add to a token."""
    types = tensors["embeddings.token_type_embeddings.weight"]
    return {**tensors, POSITIONS: tensors["embeddings.position_embeddings.weight"] + types[0]}


def dense(bert: Tensors, name: str, x: Floats) -> Floats:
    """Map rows (n, in) to rows (n, out) by a linear layer as published: weight (out, in), bias (out)."""
    y: Floats = x @ bert[f"{name}.weight"].T
    y += bert[f"{name}.bias"]
    return y


def encode(bert: Tensors, batch: Sequence[Sequence[int]]) -> Floats:
    """Return the mean-pooled unit vectors of token id sequences: (len(batch), width)."""
    pooled = np.concatenate([part.mean(axis=1) for part in _texts(hidden(bert, batch), _runs(batch))])
    rows: Floats = pooled / (pooled * pooled).sum(axis=-1, keepdims=True) ** 0.5
    return rows.astype(np.float32, copy=False)


def _runs(batch: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    return [(len(list(equal)), length) for length, equal in groupby(map(len, batch))]


def hidden(bert: Tensors, batch: Sequence[Sequence[int]], second: tuple[int, Floats] | None = None) -> Floats:
    """Return the last layer's rows of token id sequences, one behind the other: (tokens, width).

    `second` says from which token on each sequence is its second text, and what is added to the rows of that.
    """
    runs = _runs(batch)
    x = bert[EMBEDDINGS][[token for text in batch for token in text]].astype(np.float32, copy=False)
    x += bert[POSITIONS][[position for text in batch for position in range(len(text))]]
    if second is not None:
        is_second = [[float(position >= second[0])] for text in batch for position in range(len(text))]
        x += np.array(is_second, np.float32) * second[1]
    x = layer_norm(bert, "embeddings.LayerNorm", x)
    for number in range(sum(name.endswith(".intermediate.dense.bias") for name in bert)):
        at = f"encoder.layer.{number}"
        y = dense(bert, f"{at}.attention.output.dense", _attend(bert, f"{at}.attention.self", x, runs))
        y += x
        x = layer_norm(bert, f"{at}.attention.output.LayerNorm", y)
        y = dense(bert, f"{at}.output.dense", gelu(dense(bert, f"{at}.intermediate.dense", x)))
        y += x
        x = layer_norm(bert, f"{at}.output.LayerNorm", y)
    return x


def _attend(bert: Tensors, at: str, x: Floats, runs: Sequence[tuple[int, int]]) -> Floats:
    query, key, value = (dense(bert, f"{at}.{part}", x) for part in ("query", "key", "value"))
    width = x.shape[-1]
    query *= (width // HEADS) ** -0.5
    parts = []
    for q, k, v in zip(_texts(query, runs), _texts(key, runs), _texts(value, runs), strict=True):
        # (texts, heads, tokens, share)
        q, k, v = (a.reshape(*a.shape[:2], HEADS, -1).swapaxes(1, 2) for a in (q, k, v))
        attended = softmax(q @ k.swapaxes(2, 3)) @ v
        parts.append(attended.swapaxes(1, 2).reshape(-1, width))
    return np.concatenate(parts)


def _texts(x: Floats, runs: Sequence[tuple[int, int]]) -> list[Floats]:
    """Split packed rows into runs of equally long texts: (texts, tokens, width) each."""
    parts, at = [], 0
    for count, length in runs:
        parts.append(x[at : at + count * length].reshape(count, length, -1))
        at += count * length
    return parts


EPSILON = 1e-12  # the layer norm of BERT
ROWS = 32  # of one GELU block: three blocks of 32 x 1536 floats fit in a core's L2 cache
# -logit(Phi(x)) / x as a polynomial p in x^2, highest power first: weighted minimax fit over |x| < 5.5 (Lawson's
# algorithm), so that x / (1 + exp(x * p(x^2))) is GELU within 7e-8; beyond, p keeps its sign.
PHI = np.array(
    [-3.61123399e-09, 2.66892871e-07, -7.93821976e-06, 1.10480323e-04, 6.62599679e-05, -0.072668567, -1.59576843],
    np.float32,
)


def layer_norm(bert: Tensors, name: str, x: Floats) -> Floats:
    """Return the layer norm over the last axis, in place of `x`."""
    x -= x.mean(axis=-1, keepdims=True)
    spread = np.einsum("nd,nd->n", x, x)
    x *= (1 / np.sqrt(spread / np.float32(x.shape[-1]) + np.float32(EPSILON)))[:, None]
    x *= bert[f"{name}.weight"]
    x += bert[f"{name}.bias"]
    return x


def softmax(x: Floats) -> Floats:
    """Return the softmax over the last axis, in place of `x`."""
    x -= x.max(axis=-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=-1, keepdims=True)
    return x


def gelu(x: Floats) -> Floats:
    """Return the exact GELU, not the tanh approximation, in place of `x`."""
    squares, powers = np.empty((2, min(ROWS, len(x)), x.shape[1]), np.float32)
    with np.errstate(over="ignore"):  # exp of a large number is inf, and x / inf is the right zero
        for at in range(0, len(x), ROWS):
            block = x[at : at + ROWS]
            square, power = squares[: len(block)], powers[: len(block)]
            np.multiply(block, block, out=square)
            np.multiply(square, PHI[0], out=power)
            for coefficient in PHI[1:-1]:
                power += coefficient
                power *= square
            power += PHI[-1]
            power *= block
            np.exp(power, out=power)
            power += np.float32(1)
            block /= power
    return x


DTYPES = {"F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32}
BROKEN = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MemoryError, RecursionError)


def open_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Map a safetensors file into memory as read-only arrays; PkbError if it is damaged."""
    with path.open("rb") as file:
        try:
            header = lookup.read_header(file)
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            header.pop("__metadata__", None)
            found = dict[str, NDArray[Any]]()
            for name, entry in header.items():
                dtype, (first, last) = np.dtype(DTYPES[entry["dtype"]]), entry["data_offsets"]
                count = (last - first) // dtype.itemsize
                found[name] = np.frombuffer(data, dtype, count, file.tell() + first).reshape(entry["shape"])
        except BROKEN as error:
            step = f"delete {path.parent}, then: pkb model pull embedder"
            raise PkbError(f"{path.name} is not a complete safetensors file", step) from error
    return found


MAX_TOKENS = 256  # of one text, as in the model's own settings; the rest is ignored
HEADS = 12
POOLING = "mean-unit-256-v1"  # raised when the same text would get another vector
BATCH = 1024  # tokens; matrix products run at full speed from 512


class MiniLM(Embedder):
    """The embedder, in numpy with `workers` threads, a batch each.

    The folder `notes` caches the digest of the weights. Weights and tokenizer are loaded at first use.
    """

    query = passage = ""  # what it reads in front of a text

    def __init__(self, folder: Path | None = None, *, workers: int = 1, notes: Path | None = None) -> None:
        self._folder, self._notes, self._workers = lookup.find_weights(folder), notes, workers

    @cached_property
    def fingerprint(self) -> str:
        """Name the weights, tokenizer and pooling by digest."""
        weights, tokens = (lookup.digest(self._folder / name, self._notes)[:16] for name in (MINILM_WEIGHTS, TOKENS))
        return f"minilm:{weights}:{tokens}:{POOLING}"

    @property
    def width(self) -> int:
        """Return the number of dimensions."""
        return int(self._bert[EMBEDDINGS].shape[1])

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text, in order: (len(texts), width) float32."""
        from concurrent.futures import ThreadPoolExecutor

        tokens = [found.ids for found in self._tokenizer.encode_batch_fast([self.passage + text for text in texts])]
        rows = np.empty((len(texts), self.width), np.float32)  # whose width loads the weights, in this thread

        def fill(group: list[int]) -> None:
            rows[group] = self._rows([tokens[i] for i in group])

        with ThreadPoolExecutor(self._workers) as pool:
            try:
                list(pool.map(fill, batches([*map(len, tokens)], BATCH)))
            finally:
                pool.shutdown(cancel_futures=True)
        return rows

    def embed_question(self, text: str) -> Vectors:
        """Return the unit row of a question: (width,)."""
        row: Vectors = self._rows([self._tokenizer.encode(self.query + text).ids])[0]
        return row

    def knows(self, word: str) -> bool:
        """Return whether a word is one of its vocabulary, and not a chain of pieces that says little."""
        return len(self._tokenizer.encode(word, add_special_tokens=False).ids) == 1

    def _rows(self, tokens: Sequence[Sequence[int]]) -> Vectors:
        return encode(self._bert, tokens)

    @cached_property
    def _bert(self) -> Tensors:
        return encoder(open_tensors(self._folder / MINILM_WEIGHTS))

    @cached_property
    def _tokenizer(self) -> "Tokenizer":
        return open_tokenizer(self._folder / TOKENS, MAX_TOKENS)


E5_POOLING = "mean-centred-256-v1"  # raised when the same text would get another vector
# The vectors of E5 are all alike; without what these have in common, their cosines are like those of other embedders.
_CENTRE = "the der le el и 的 です 1 2 3 a to in on mail date name 会 で não il per om"


class E5(MiniLM):
    """A multilingual E5 on BERT."""

    query, passage = "query: ", "passage: "

    def __init__(self, local: InstalledModel, *, workers: int = 1, notes: Path) -> None:
        self._local, self._folder, self._digests, self._workers = local, local.folder, notes, workers

    @cached_property
    def fingerprint(self) -> str:
        """Name the weights, tokenizer and pooling by digest."""
        return f"e5:{lookup.fingerprint(self._local, self._digests)}:{E5_POOLING}"

    def _rows(self, tokens: Sequence[Sequence[int]]) -> Vectors:
        rows = super()._rows(tokens) - self._centre
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows

    @cached_property
    def _centre(self) -> Vectors:
        common = self._tokenizer.encode_batch([self.passage + word for word in _CENTRE.split()])
        centre: Vectors = encode(self._bert, [one.ids for one in common]).mean(0)
        return centre


ARCHITECTURE = "qwen3"
FALLBACK = "pkb config set embed.model minilm"
TASK = "Given a question about somebody's own mail and meetings, retrieve the passages that answer it"
END_TOKEN = "<|endoftext|>"  # its hidden state is the embedding
QWEN3_TOKENS = 512  # of one text, including its end; the rest is ignored
QWEN3_POOLING = "last-unit-512-v1"  # raised when the same text would get another vector
QWEN3_BATCH: Mapping[runtime.Device, int] = {"cpu": 512, "metal": 8192, "cuda": 16384}  # tokens


def find_model(name: str, environ: Mapping[str, str]) -> InstalledModel:
    """Find an embedder by name or folder; NoModel if it is missing or incomplete, UsageError if pkb has no such."""
    try:
        found = lookup.find(name, None, environ)
    except NoModel as error:
        raise NoModel(error.message, error.next_step if "pull" in (error.next_step or "") else FALLBACK) from None
    if (kind := lookup.architecture(found.config)) != ARCHITECTURE and not lookup.is_e5(name, found.config):
        raise UsageError(f"{name} cannot embed: its architecture is {kind or 'unknown'}, not {ARCHITECTURE}", FALLBACK)
    return found


class Qwen3(Embedder):
    """The embedder; `cache` is the home's cache folder, and `notes` a folder that caches the digest of the weights."""

    def __init__(self, local: InstalledModel, *, cache: Path, notes: Path, threads: int, memory_share: float) -> None:
        self._local, self._cache, self._notes = local, cache, notes
        self._threads, self._share = threads, memory_share

    @cached_property
    def fingerprint(self) -> str:
        """Name the weights, tokenizer and pooling by digest."""
        return f"{ARCHITECTURE}:{lookup.fingerprint(self._local, self._notes)}:{QWEN3_POOLING}"

    @cached_property
    def width(self) -> int:
        """Return the number of dimensions."""
        return int(self._local.config["hidden_size"])

    def embed_question(self, text: str) -> Vectors:
        """Return the unit row of a question, which the model reads after an instruction: (width,)."""
        row: Vectors = self.embed([f"Instruct: {TASK}\nQuery:{text}"])[0]
        return row

    def knows(self, word: str) -> bool:
        """Return whether a word is one of its vocabulary, and not a chain of pieces that says little."""
        return len(self._loaded[0].text(f" {word}")) == 1

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text, in order: (len(texts), width) float32."""
        tokens, rows = self._tokens(texts), np.empty((len(texts), self.width), np.float32)
        for group in batches([*map(len, tokens)], QWEN3_BATCH[runtime.device()]):
            rows[group] = self._rows([tokens[i] for i in group])
        return rows

    @cached_property
    def _loaded(self) -> tuple[Tokens, tuple[int, ...], tuple[int, ...], Any]:
        """Load the model: its vocabulary, the token ids before and after each text, and its layers."""
        from engine.models.load import load_parts
        from engine.models.mlx import open_headless

        local = self._local
        tokenizer, model = load_parts(
            local.folder, local.name, open_headless, cache=self._cache, threads=self._threads, memory_share=self._share
        )
        vocabulary, end = Tokens(tokenizer), tokenizer.token_to_id(END_TOKEN)
        opening, closing = vocabulary.around()
        closing = closing or ((end,) if end is not None else ())
        if not closing:
            raise PkbError(f"{local.name} cannot embed: its tokenizer has no {END_TOKEN}", FALLBACK)
        return vocabulary, opening, closing, model.model

    def _tokens(self, texts: Sequence[str]) -> TokenIds:
        vocabulary, opening, closing, _ = self._loaded
        limit = QWEN3_TOKENS - len(opening) - len(closing)
        return [[*opening, *vocabulary.text(text)[:limit], *closing] for text in texts]

    def _rows(self, batch: TokenIds) -> Vectors:
        """Return a unit vector for each text; attention is causal, so padding on the right has no effect."""
        ids = np.zeros((len(batch), max(map(len, batch))), np.int32)
        for row, tokens in zip(ids, batch, strict=True):
            row[: len(tokens)] = tokens
        last = mx.array([len(tokens) - 1 for tokens in batch])
        states = self._loaded[-1](mx.array(ids))[mx.arange(len(batch)), last].astype(mx.float32)
        rows: Vectors = np.array(states / mx.linalg.norm(states, axis=1, keepdims=True))
        return rows


MOST = 208  # tokens of a question and a window, as trained
WINDOW, QUESTION, HEADER = 190, 40, 48  # tokens at most
SPAN = 20  # tokens of an answer at most
READ_BATCH = 2048  # tokens
KEPT = 500  # texts whose scores are kept, about 3 KB each; of the words nothing is
_START, _END, _EVIDENCE, _RELEVANCE = range(4)  # columns of logits
_READING = "reading"  # the heads, all of them as one layer
# The layers of a block, by their names in the difference and in the embedder.
PARTS = {
    "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
    "o": "attention.output.dense", "up": "intermediate.dense", "down": "output.dense",
}  # fmt: skip
NORMS = {"n1": "attention.output.LayerNorm", "n2": "output.LayerNorm"}


class Mark(Struct, frozen=True):
    """A span of characters that may answer, and its scores as logits."""

    start: int
    end: int
    margin: float  # its score less that of no answer in its window
    relevance: float
    evidence: float  # the best score of its tokens as support

    @property
    def score(self) -> float:
        """Return how likely it is the answer, among spans of all windows."""
        return self.margin + self.relevance


class WindowScores(Struct, frozen=True):
    """The scores of all tokens of a window of a text, with the characters of the text that each covers."""

    spans: NDArray[np.int64]  # (tokens, 2); negative in the header, which stands before the text
    start: Floats
    end: Floats
    evidence: Floats
    null: float
    relevance: float

    def best(self, first: int, last: int) -> Mark | None:
        """Return the best span within some characters; None if no token of the window is there."""
        places = np.flatnonzero((self.spans[:, 0] >= first) & (self.spans[:, 1] <= last))
        if not len(places):
            return None
        pairs = self.start[places][:, None] + self.end[places][None, :]
        pairs[np.tril(np.ones(pairs.shape, bool), -1) | np.triu(np.ones(pairs.shape, bool), SPAN)] = -np.inf
        one, other = (int(places[place]) for place in divmod(int(pairs.argmax()), len(places)))
        where = int(self.spans[one, 0]), int(self.spans[other, 1])
        margin = float(self.start[one] + self.end[other]) - self.null
        return Mark(*where, margin, self.relevance, float(self.evidence[one : other + 1].max()))


_Window = tuple[int, list[int], list[tuple[int, int]]]  # a text, tokens of header and text, the characters they cover


class SpanReader:
    """Reads texts for a question; weights are loaded at first use."""

    def __init__(self, folder: Path | None = None, *, weights: Path = READER) -> None:
        self._weights, self._folder = weights, lookup.find_weights(folder)
        self._kept = dict[bytes, list[WindowScores]]()
        self.languages: E5 | None = None  # by which texts of other languages than English are compared

    def read(self, question: str, texts: Sequence[tuple[str, str]]) -> list[list[WindowScores]]:
        """Return the scores of the windows of each text, given with its header, in order; those read last are kept."""
        whole = ("\0".join((question, *text)).encode("utf-8", "surrogatepass") for text in texts)
        keys = [blake2b(one, digest_size=16).digest() for one in whole]
        known = {key: self._kept[key] for key in keys if key in self._kept}
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        known |= zip(new, self._read(question, [*new.values()]), strict=True)
        self._kept = (self._kept if len(self._kept) < KEPT else {}) | known
        return [known[key] for key in keys]

    def _read(self, question: str, texts: Sequence[tuple[str, str]]) -> list[list[WindowScores]]:
        first, *asked, last = self._tokenizer.encode(question).ids
        opening = [first, *asked[:QUESTION], last]
        windows = sorted(self._windows(texts, MOST - len(opening) - 1), key=lambda one: len(one[1]))
        found: list[list[WindowScores]] = [[] for _ in texts]
        waiting = iter(windows)
        bert, second = self._model
        while batch := list(islice(waiting, READ_BATCH // MOST)):
            ids = [[*opening, *window, last] for _, window, _ in batch]
            logits = dense(bert, _READING, hidden(bert, ids, (len(opening), second)))  # (tokens of all windows, 4)
            ends = accumulate(map(len, ids))
            for (number, _, places), text, end in zip(batch, ids, ends, strict=True):
                rows, spans = logits[end - len(text) : end], np.array(places, np.int64).reshape(-1, 2)
                own, null = rows[len(opening) : -1], float(rows[0, _START] + rows[0, _END])
                scores = (own[:, _START], own[:, _END], own[:, _EVIDENCE], null, float(rows[0, _RELEVANCE]))
                found[number].append(WindowScores(spans, *scores))
        return [sorted(each, key=lambda one: int(one.spans[-1, 0])) for each in found]

    def _windows(self, texts: Sequence[tuple[str, str]], most: int) -> Iterator[_Window]:
        encoded = self._tokenizer.encode_batch([part for pair in texts for part in pair], add_special_tokens=False)
        for number, (header, text) in enumerate(texts):
            above, body = encoded[2 * number], encoded[2 * number + 1]
            places = [(start - len(header), end - len(header)) for start, end in above.offsets[:HEADER]]
            for first, last in _parts(text, body, min(most, WINDOW) - len(places)):
                yield number, [*above.ids[:HEADER], *body.ids[first:last]], [*places, *body.offsets[first:last]]

    @cached_property
    def _model(self) -> tuple[Tensors, Floats]:
        """Load the encoder with the heads, and what its second token type adds to the first."""
        base = open_tensors(self._folder / MINILM_WEIGHTS)
        own = {name: np.asarray(value, np.float32) for name, value in open_tensors(self._weights).items()}
        kept = ("word_embeddings.weight", "position_embeddings.weight")
        tensors = {name: base[name] for name in base if name.endswith(kept)}
        tensors["embeddings.token_type_embeddings.weight"] = own["types"]
        places = {"norm": "embeddings.LayerNorm"}
        for number in range(sum(name.endswith(".up.A") for name in own)):
            parts = (PARTS | NORMS).items()
            places |= {f"layers.{number}.{part}": f"encoder.layer.{number}.{place}" for part, place in parts}
        for at, place in places.items():
            change = own[f"{at}.B"] @ own[f"{at}.A"] if f"{at}.A" in own else None
            tensors[f"{place}.weight"] = own[f"{at}.weight"] if change is None else base[f"{place}.weight"] + change
            tensors[f"{place}.bias"] = own[f"{at}.bias"]
        for part in ("weight", "bias"):
            tensors[f"{_READING}.{part}"] = np.concatenate([own[f"heads.{part}"], own[f"rel.{part}"]])
        return encoder(tensors), own["types"][1] - own["types"][0]

    @cached_property
    def _tokenizer(self) -> "Tokenizer":
        return open_tokenizer(self._folder / TOKENS)


@lru_cache(maxsize=1)
def open_reader(version: str) -> SpanReader:
    """Return the reader of a version, one for all sessions of a process."""
    del version  # which the cache goes by
    return SpanReader()


def _parts(text: str, body: "Encoding", room: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the end of the tokens of each window: each ends with a line or sentence, if it can."""
    first, offsets = 0, body.offsets
    while first < len(offsets):
        last = min(len(offsets), first + room)
        if last < len(offsets):
            start, end = offsets[first + room // 2][0], offsets[last - 1][1]
            cut = max(text.rfind(mark, start, end) for mark in ("\n", ". ", "? ", "! "))
            last = next((place for place in range(first + room // 2, last) if offsets[place][0] > cut >= 0), last)
        yield first, last
        first = last
