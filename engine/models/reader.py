"""The reader: the embedder's encoder, trained to mark in a text what answers a question, and whether anything does.

Input is `[CLS] question [SEP] header, window [SEP]`, with token type 1 after the question. Heads on the last layer
score where an answer starts and ends and which sentence supports it; at `[CLS]` they score that the window holds no
answer, and how relevant it is. The weights are a difference of low rank on the installed embedder's. Knows no
documents.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import accumulate, islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from engine.models.lookup import MINILM_WEIGHTS, READER, TOKENS, find_weights
from engine.models.minilm import (
    Bert,
    Dense,
    Floats,
    Layer,
    hidden,
    open_tensors,
)
from engine.models.tokens import open_tokenizer

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

MOST = 208  # tokens of a question and a window, as trained
WINDOW, QUESTION, HEADER = 190, 40, 48  # tokens at most
SPAN = 20  # tokens of an answer at most
BATCH = 2048  # tokens
KEPT = 500  # texts whose scores are kept, about 3 KB each; of the words nothing is
_START, _END, _EVIDENCE, _RELEVANCE = range(4)  # columns of logits
PARTS = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "o": "attention.output.dense",
    "up": "intermediate.dense",
    "down": "output.dense",
}  # the layers of a block, by their names in the difference and in the embedder


class Mark(Struct, frozen=True):
    """A span of characters that may answer, and its scores as logits.

    `margin` is its score less that of no answer in its window, `evidence` the best score of its tokens as support.
    """

    start: int
    end: int
    margin: float
    relevance: float
    evidence: float

    @property
    def score(self) -> float:
        """Return how likely it is the answer, among spans of all windows."""
        return self.margin + self.relevance


class WindowScores(Struct, frozen=True):
    """The scores of all tokens of a window of a text, with the characters of the text that each covers.

    Offsets are negative in the header, which stands before the text.
    """

    spans: NDArray[np.int64]  # (tokens, 2)
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


class _Window(Struct, frozen=True):
    """Tokens of a header and of a text, and the characters that they cover."""

    text: int
    ids: list[int]
    spans: list[tuple[int, int]]


class SpanReader:
    """Reads texts for a question; weights are loaded at first use."""

    def __init__(self, folder: Path | None = None, *, weights: Path = READER) -> None:
        self._weights, self._folder = weights, find_weights(folder)
        self._kept = dict[bytes, list[WindowScores]]()

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
        windows = sorted(self._windows(texts, MOST - len(opening) - 1), key=lambda one: len(one.ids))
        found: list[list[WindowScores]] = [[] for _ in texts]
        waiting = iter(windows)
        bert, second, head = self._model
        while batch := list(islice(waiting, BATCH // MOST)):
            ids = [[*opening, *window.ids, last] for window in batch]
            logits = head(hidden(bert, ids, (len(opening), second)))  # (tokens of all windows, 4)
            ends = accumulate(map(len, ids))
            for window, text, end in zip(batch, ids, ends, strict=True):
                rows, spans = logits[end - len(text) : end], np.array(window.spans, np.int64).reshape(-1, 2)
                own, null = rows[len(opening) : -1], float(rows[0, _START] + rows[0, _END])
                scores = (own[:, _START], own[:, _END], own[:, _EVIDENCE], null, float(rows[0, _RELEVANCE]))
                found[window.text].append(WindowScores(spans, *scores))
        return [sorted(each, key=lambda one: int(one.spans[-1, 0])) for each in found]

    def _windows(self, texts: Sequence[tuple[str, str]], most: int) -> Iterator[_Window]:
        encoded = self._tokenizer.encode_batch([part for pair in texts for part in pair], add_special_tokens=False)
        for number, (header, text) in enumerate(texts):
            above, body = encoded[2 * number], encoded[2 * number + 1]
            places = [(start - len(header), end - len(header)) for start, end in above.offsets[:HEADER]]
            for first, last in _parts(text, body, min(most, WINDOW) - len(places)):
                ids, spans = [*above.ids[:HEADER], *body.ids[first:last]], [*places, *body.offsets[first:last]]
                yield _Window(number, ids, spans)

    @cached_property
    def _model(self) -> tuple[Bert, Floats, Dense]:
        """Load the encoder, what its second token type adds to the first, and the heads."""
        base = open_tensors(self._folder / MINILM_WEIGHTS)
        own = {name: np.asarray(value, np.float32) for name, value in open_tensors(self._weights).items()}

        def dense(number: int, part: str) -> Dense:
            at = f"layers.{number}.{part}"
            weight = base[f"encoder.layer.{number}.{PARTS[part]}.weight"] + own[f"{at}.B"] @ own[f"{at}.A"]
            return Dense(weight, own[f"{at}.bias"])

        def norm(at: str) -> tuple[Floats, Floats]:
            return own[f"{at}.weight"], own[f"{at}.bias"]

        def layer(number: int) -> Layer:
            query, key, value, mix, up, down = (dense(number, part) for part in PARTS)
            return Layer(query, key, value, mix, up, down, norm(f"layers.{number}.n1"), norm(f"layers.{number}.n2"))

        layers = tuple(layer(number) for number in range(sum(name.endswith(".up.A") for name in own)))
        positions = base["embeddings.position_embeddings.weight"] + own["types"][0]
        bert = Bert(base["embeddings.word_embeddings.weight"], positions, norm("norm"), layers)
        heads = (np.concatenate([own[f"heads.{part}"], own[f"rel.{part}"]]) for part in ("weight", "bias"))
        return bert, own["types"][1] - own["types"][0], Dense(*heads)

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
