"""Files of the mapped index: rows of chunks and the arrays by which they are searched, written once, mapped read-only.

Knows no ledger and no LanceDB. Words and documents are stored as 64-bit digests, so that looking one up is one binary
search; equal scores go by the digest of the document, then by position.
"""

import json
import mmap
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property, lru_cache, partial
from hashlib import blake2b
from itertools import accumulate, chain, count, islice, pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from store.home import replacing
from store.types import Chunk, Hit, Kind, PersonFilter, Role, Row, Scope, Vectors, fold, in_own_zone, replace

Arrays = Mapping[str, NDArray[Any]]
Found = tuple[NDArray[np.int64], NDArray[Any]]  # chunks, in order, and the score of each
K1, B = 1.2, 0.75  # of BM25 for candidates, as in LanceDB
_ABOVE_0, _ROUNDING = 5e-324, 1e-9
ROW = (
    "id", "document", "position", "header", "text", "words", "first", "last", "role", "written", "author", "origin",
    "claimed", "title", "date", "local", "sender", "recipients",
)  # fmt: skip
_OWN = (*ROW[:5], *ROW[6:12], "words")  # what a chunk has of its own; its words come last
_SEPARATOR = b"\xff"  # no UTF-8 has it
FORMAT = 10  # another number for other arrays: files of an earlier one are built again
_MAGIC = b"pkb index %d\n" % FORMAT
_ALIGN = 64
_UNDATED = np.iinfo(np.int32).min
_PEOPLE = ("sender", "recipients")
_INTERNED = (*_PEOPLE, "collections", "about")
_PLAIN = ("id", "document", "position", "length", "day", "embedded")  # a number for each chunk


def digest(text: str) -> int:
    """Return the 64-bit digest of a word or a document's id."""
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "little")


@dataclass(frozen=True, slots=True)
class Query:
    """Words with their inverse chunk frequencies over the whole index, in order, and the mean length of its chunks."""

    weights: Mapping[str, float]
    mean_words: float


def arrays_of(rows: Sequence[Row], vectors: Mapping[str, Vectors]) -> Arrays:
    """Return the arrays of chunks given as rows of LanceDB, in any order, and of those vectors there are, by id."""
    keys = np.array([digest(row["document"]) for row in rows], np.uint64)
    order = np.lexsort((np.array([row["position"] for row in rows], np.int64), keys))
    rows = [rows[i] for i in order]
    days = (row["local"] or row["date"] for row in rows)
    width = next((len(one) for one in vectors.values()), 0)
    matrix = np.zeros((len(rows), width), np.float32)
    for place, row in enumerate(rows):
        if row["id"] in vectors:
            matrix[place] = vectors[row["id"]]
    found: dict[str, NDArray[Any]] = {
        "id": np.array([digest(row["id"]) for row in rows], np.uint64),
        "document": keys[order],
        "position": np.array([row["position"] for row in rows], np.int32),
        "day": np.array([one.toordinal() if one else _UNDATED for one in days], np.int32),
        "embedded": np.array([row["id"] in vectors for row in rows], np.bool_),
        "vectors": matrix,
        "signs": _signs(matrix),
        **_blob("hits", [_compressed(row[name] for name in _OWN) for row in rows]),
        **_postings([row["words"] for row in rows]),
    }
    for name in _INTERNED:
        values = [_interned(row, name) for row in rows]
        known = {value: number for number, value in enumerate(dict.fromkeys(values))}
        numbers = np.array([known[value] for value in values], np.int64)
        found |= {name: _narrow(numbers), **_values(name, list(known))}
    return found


def joined(parts: Sequence[tuple[Arrays, NDArray[np.bool_]]]) -> Arrays:
    """Return the arrays of the chunks of several shards that are to stay (True), as one; nothing of others is left."""
    stay = np.concatenate([keep for _, keep in parts])
    together = {name: np.concatenate([arrays[name][keep] for arrays, keep in parts]) for name in _PLAIN}
    order = np.lexsort((together["position"], together["document"]))
    place = np.full(len(stay), -1, np.int64)
    place[np.flatnonzero(stay)[order]] = np.arange(len(order))  # the new number of each chunk
    found: dict[str, NDArray[Any]] = {name: each[order] for name, each in together.items()}
    width = max(arrays["vectors"].shape[1] for arrays, _ in parts)
    vectors = (arrays["vectors"][keep] for arrays, keep in parts)
    filled = [one if one.shape[1] else np.zeros((len(one), width), np.float32) for one in vectors]
    found["vectors"] = np.concatenate(filled)[order]
    found["signs"] = _signs(found["vectors"])
    texts = [text for arrays, keep in parts for text in _texts(arrays, "hits", np.flatnonzero(keep))]
    found |= _blob("hits", [texts[i] for i in order])
    for name in _INTERNED:
        known, numbers = dict[bytes, int](), list[NDArray[np.int64]]()
        for arrays, keep in parts:
            used, own = np.unique(arrays[name][keep], return_inverse=True)
            values = _texts_of(arrays, name, used)
            numbers.append(np.array([known.setdefault(value, len(known)) for value in values], np.int64)[own])
        found |= {name: _narrow(np.concatenate(numbers)[order]), **_values(name, list(known))}
    return found | _joined_postings(parts, place)


def _signs(vectors: Vectors) -> NDArray[np.uint64]:
    """Return a bit for each component above 0, 64 in a number, a row for each number of all vectors."""
    packed = np.packbits(vectors > 0, axis=1)
    return np.ascontiguousarray(np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8))).view(np.uint64).T)


def _joined_postings(
    parts: Sequence[tuple[Arrays, NDArray[np.bool_]]], place: NDArray[np.int64]
) -> dict[str, NDArray[Any]]:
    before, words, chunks, counts = 0, list[Any](), list[Any](), list[Any]()
    for arrays, keep in parts:
        own = arrays["chunks"]
        stay = keep[own]
        words.append(np.repeat(arrays["word"], np.diff(arrays["word_ends"], prepend=0))[stay])
        chunks.append(place[before + own[stay].astype(np.int64)])
        counts.append(arrays["counts"][stay])
        before += len(keep)
    return _sorted_postings(np.concatenate(words), np.concatenate(chunks), np.concatenate(counts))


def _postings(texts: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return for each word the chunks that have it and how often; words are numbered as they first occur."""
    known = defaultdict[str, int](count().__next__)
    lengths = np.array([text.count(" ") + 1 if text else 0 for text in texts], np.uint32)
    found = (map(known.__getitem__, text.split(" ")) for text in texts if text)
    numbers = np.fromiter(chain.from_iterable(found), np.int64, int(lengths.sum()))  # a list would take 60 MB
    chunks = np.repeat(np.arange(len(texts), dtype=np.int64), lengths)
    pairs, counts = np.unique(numbers * max(1, len(texts)) + chunks, return_counts=True)
    keys = np.array([digest(word) for word in known], np.uint64)
    own, chunks = np.divmod(pairs, max(1, len(texts)))
    return {"length": lengths, **_sorted_postings(keys[own] if len(keys) else keys, chunks, counts)}


def _sorted_postings(words: NDArray[Any], chunks: NDArray[Any], counts: NDArray[Any]) -> dict[str, NDArray[Any]]:
    order = np.lexsort((chunks, words))
    distinct, held = np.unique(words[order], return_counts=True)
    return {
        "word": distinct.astype(np.uint64),
        "word_ends": np.cumsum(held, dtype=np.int64),
        "chunks": _narrow(chunks[order]),
        "counts": _narrow(counts[order]),
    }


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    most = int(values.max(initial=0))
    return values.astype(np.uint8 if most < 1 << 8 else np.uint16 if most < 1 << 16 else np.uint32)


def _values(name: str, values: Sequence[bytes]) -> dict[str, NDArray[Any]]:
    """Return the distinct values of a column; of people, who are in each, and each person once."""
    if name not in _PEOPLE:
        return _blob(f"{name}_values", values)
    known, lines = defaultdict[bytes, int](count().__next__), [value.split(b"\n") for value in values]
    of = np.array([known[one] for some in lines for one in some], np.int64)
    ends = np.cumsum([len(some) for some in lines], dtype=np.int64)
    return {
        f"{name}_of": _narrow(of),
        f"{name}_of_ends": ends,
        **_blob(f"{name}_people", [b"%b\n" % one for one in known]),
    }


def _texts_of(arrays: Arrays, name: str, values: NDArray[Any]) -> list[bytes]:
    """Return some of the distinct values of a column."""
    if name not in _PEOPLE:
        return _texts(arrays, f"{name}_values", values)
    ends, values = arrays[f"{name}_of_ends"], values.astype(np.int64)
    counts = np.diff(ends, prepend=0)[values]
    rows = np.repeat(ends[values] - np.cumsum(counts), counts) + np.arange(counts.sum())
    people = iter(_texts(arrays, f"{name}_people", arrays[f"{name}_of"][rows]))  # at once: most values have one
    return [b"".join(islice(people, number))[:-1] for number in counts.tolist()]


def _blob(name: str, texts: Sequence[bytes]) -> dict[str, NDArray[Any]]:
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    return {name: np.frombuffer(b"".join(texts), np.uint8), f"{name}_ends": ends}


def _text(arrays: Arrays, name: str, place: int) -> bytes:
    ends = arrays[f"{name}_ends"]
    return arrays[name][ends[place - 1] if place else 0 : ends[place]].tobytes()


def _texts(arrays: Arrays, name: str, places: NDArray[Any]) -> list[bytes]:
    blob, ends, places = np.ascontiguousarray(arrays[name]).data, arrays[f"{name}_ends"], places.astype(np.int64)
    starts = np.where(places > 0, ends[places - 1], 0) if len(places) else places
    return [bytes(blob[start:end]) for start, end in zip(starts.tolist(), ends[places].tolist(), strict=True)]


def _compressed(values: Iterable[object]) -> bytes:
    """Return texts as bytes; JSON takes three times as long to read back, and zlib's usual codes twice as long."""
    packer = zlib.compressobj(1, strategy=zlib.Z_FIXED)
    return (
        packer.compress(_SEPARATOR.join(b"" if one is None else str(one).encode() for one in values)) + packer.flush()
    )


def _decompressed(packed: bytes) -> list[str]:
    return [*map(bytes.decode, zlib.decompress(packed).split(_SEPARATOR))]


def _moment(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _interned(row: Row, name: str) -> bytes:
    """Return a value as scopes compare it: people without case and accents, one a line; collections as JSON.

    Or what most chunks of a document share.
    """
    if name == "about":
        date = in_own_zone(row["date"], row["local"])
        return _compressed((date and date.isoformat(), row["sender"], row["recipients"], row["title"], row["claimed"]))
    if name == "collections":
        return json.dumps(row[name]).encode()
    return fold(row[name]).encode("utf-8", "replace")


def write(path: Path, arrays: Arrays) -> None:
    """Write arrays into a new file of the owner's alone, and wait for the disk."""
    listed, at = dict[str, Any](), 0
    for name, array in arrays.items():
        listed[name] = [array.dtype.str, array.shape, at]
        at += -(-array.nbytes // _ALIGN) * _ALIGN
    header = json.dumps({"bytes": at, "arrays": listed}).encode()
    head = np.frombuffer(_MAGIC + b"%08x\n" % len(header) + header, np.uint8)
    with replacing(path, lasting=True) as file:
        for array in (head, *arrays.values()):
            data = np.ascontiguousarray(array).tobytes()
            file.write(data + b"\0" * (-len(data) % _ALIGN))


def load(path: Path) -> Arrays | None:
    """Map a file; None where it is missing, or not as long as it was."""
    start = len(_MAGIC) + 9
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        end = start + int(mapped[len(_MAGIC) : start], 16)
        known, at = json.loads(mapped[start:end]), -(-end // _ALIGN) * _ALIGN
        if mapped[: len(_MAGIC)] != _MAGIC or len(mapped) != at + known["bytes"]:
            return None
    except (OSError, ValueError):
        return None
    return {
        name: np.frombuffer(mapped, dtype, int(np.prod(shape, dtype=np.int64)), at + offset).reshape(shape)
        for name, (dtype, shape, offset) in known["arrays"].items()
    }


class Shard:
    """Some chunks of the index: `live` are those that count, all others were replaced or removed."""

    def __init__(self, arrays: Arrays, dead: Sequence[int] = ()) -> None:
        self.arrays, self.dead = arrays, tuple(dead)
        documents = arrays["document"]
        self.live: NDArray[np.bool_] = ~np.isin(documents, np.array(self.dead, np.uint64))
        self._named, self._spoken = lru_cache(64)(self._find_named), lru_cache(1)(partial(self.holding, "document"))
        self._norms = lru_cache(1)(self._find_norms)

    @property
    def size(self) -> int:
        """Return how many chunks it holds, those that do not count among them."""
        return len(self.live)

    @cached_property
    def count(self) -> int:
        """Return how many chunks count."""
        return int(np.count_nonzero(self.live))

    @cached_property
    def words(self) -> int:
        """Return how many words these have."""
        return int(self.arrays["length"][self.live].sum(dtype=np.int64))

    @cached_property
    def embedded(self) -> int:
        """Return how many of them have a vector."""
        return int(np.count_nonzero(self.arrays["embedded"] & self.live))

    @property
    def worn(self) -> float:
        """Return the part of its chunks that do not count."""
        return 1 - self.count / self.size if self.size else 0.0

    def without(self, documents: Sequence[int]) -> "Shard":
        """Return the shard with further documents that do not count."""
        held = self.arrays["document"]
        fresh = held[np.isin(held, np.array(documents, np.uint64))].tolist()
        return Shard(self.arrays, sorted({*self.dead, *fresh})) if fresh else self

    def score_words(self, query: Query, inside: NDArray[np.bool_], least: float) -> Found:
        """Return the chunks that have any of the words, with their BM25 scores, unless these are below `least`.

        Words too frequent to bring a chunk even halfway there are looked up only where rarer ones may (MaxScore).
        """
        held, weights = self._held([*query.weights]), query.weights
        order = sorted(held, key=weights.__getitem__, reverse=True)  # equal chunks get equal scores
        rests = [*accumulate(((K1 + 1.0) * weights[word] for word in reversed(order)), initial=0.0)][::-1]
        first = next((at for at, rest in enumerate(rests) if rest < least / 2), len(order))
        if not first:
            return np.zeros(0, np.int64), np.zeros(0)
        rare, norms = [held[word] for word in order[:first]], self._norms(max(1.0, query.mean_words))
        chunks = np.concatenate([self.arrays["chunks"][own] for own in rare]).astype(np.intp)
        counts = np.concatenate([self.arrays["counts"][own] for own in rare])
        each = np.repeat([weights[word] for word in order[:first]], [own.stop - own.start for own in rare])
        total: NDArray[Any] = np.bincount(
            chunks, each * _saturated(counts, norms.take(self._lengths.take(chunks))), self.size
        )
        found = np.flatnonzero((total >= max(_ABOVE_0, least - rests[first] * (1.0 + _ROUNDING))) & inside)
        total = total.take(found)
        if first == len(order):
            return found, total
        norms = norms.take(self._lengths.take(found))
        for word in order[first:]:
            total += weights[word] * _saturated(self._counts(held[word], found), norms)
        near = np.flatnonzero(total >= least)
        return found.take(near), total.take(near)

    def _counts(self, held: slice, chunks: NDArray[np.int64]) -> NDArray[Any]:
        """Return how often a word is in some chunks."""
        own = self.arrays["chunks"][held]
        wanted = chunks.astype(own.dtype)
        places = own.searchsorted(wanted)
        is_there: NDArray[np.bool_] = own.take(places, mode="clip") == wanted
        return np.where(is_there, self.arrays["counts"][held].take(places, mode="clip"), 0)

    def _find_norms(self, mean_words: float) -> NDArray[np.float64]:
        """Return what BM25 adds to a count in a chunk of 0, 1, ... words."""
        return K1 * (1.0 - B + B * np.arange(int(self._lengths.max(initial=0)) + 1, dtype=np.float64) / mean_words)

    @cached_property
    def _lengths(self) -> NDArray[Any]:
        return _narrow(self.arrays["length"])

    def frequencies(self, words: Sequence[str]) -> dict[str, int]:
        """Return how many of the chunks that count have each word; unknown words are left out."""
        if not self.dead:
            return {word: held.stop - held.start for word, held in self._held(words).items()}
        return {
            word: int(np.count_nonzero(self.live[self.arrays["chunks"][held]]))
            for word, held in self._held(words).items()
        }

    def _held(self, words: Sequence[str]) -> dict[str, slice]:
        """Return those of the words that it has, each with the place of what is known of it."""
        known, ends, keys = self.arrays["word"], self.arrays["word_ends"], _keys(tuple(words))
        places = known.searchsorted(keys)
        there = np.flatnonzero(known.take(places, mode="clip") == keys) if len(known) else np.zeros(0, np.intp)
        own = places[there]
        parts = map(slice, np.where(own > 0, ends.take(own - 1, mode="clip"), 0).tolist(), ends[own].tolist())
        return dict(zip((words[at] for at in there.tolist()), parts, strict=True))

    def within(self, scope: Scope) -> NDArray[np.bool_]:
        """Return which live chunks are in a scope."""
        inside, days = self.live, self.arrays["day"]
        if scope.document:
            inside = inside & (self.arrays["document"] == np.uint64(digest(scope.document)))
        if scope.since or scope.until:
            inside = inside & (days >= (scope.since or date.min).toordinal())
            inside = inside & (days < (scope.until or date.max).toordinal()) if scope.until else inside
        for name, wanted in (("sender", scope.sender), ("recipients", scope.recipient)):
            inside = inside & self._names(name, wanted)[self.arrays[name]] if wanted else inside
        if scope.collection:
            values = _texts(self.arrays, "collections_values", np.arange(len(self.arrays["collections_values_ends"])))
            held = np.array([scope.collection in json.loads(value) for value in values], np.bool_)
            inside = inside & held[self.arrays["collections"]]
        return inside

    def documents(
        self, scope: Scope, words: Sequence[str], kind: Kind | None, meetings: tuple[str, ...]
    ) -> NDArray[np.int64]:
        """Return the first chunks of documents within a scope, with all these words; a meeting is from its people."""
        inside, own = self.within(replace(scope, sender=None)) & (self.arrays["position"] == 0), self.arrays["document"]
        for word in words:
            held = [self.arrays["chunks"][part] for part in self._held([word]).values()]
            inside &= np.isin(own, own[held[0]][self.live[held[0]]]) if held else False
        spoken = self._spoken(meetings)
        if scope.sender:
            sent = self._names("sender", scope.sender)[self.arrays["sender"]]
            if spoken.any():
                spoke = self._names("recipients", scope.sender)[self.arrays["recipients"]]
                sent = np.where(spoken, spoke, sent)
            inside &= sent
        return np.flatnonzero(inside if kind is None else inside & (spoken == (kind == "transcript")))

    def having(self, words: Sequence[str], scope: Scope) -> NDArray[np.int64]:
        """Return the chunks within a scope that have all these words."""
        inside, held = self.within(scope), self._held(words)
        for word in words:
            own = np.zeros(self.size, np.bool_)
            own[self.arrays["chunks"][held.get(word, slice(0))]] = True
            inside = inside & own
        return np.flatnonzero(inside)

    def senders(self, chunks: NDArray[np.int64]) -> Counter[str]:
        """Count the chunks of each sender, folded."""
        numbers, counts = np.unique(self.arrays["sender"][chunks], return_counts=True)
        people = map(bytes.decode, _texts_of(self.arrays, "sender", numbers))
        return Counter(dict(zip(people, counts.tolist(), strict=True)))

    def people(self, name: str) -> list[bytes]:
        """Return the people, folded, in `sender` or `recipients` of chunks that count."""
        if not self.dead:
            return self.arrays[f"{name}_people"].tobytes().split(b"\n")
        used = np.zeros(len(self.arrays[f"{name}_of_ends"]), np.bool_)
        used[self.arrays[name][self.live]] = True
        rows = np.repeat(used, np.diff(self.arrays[f"{name}_of_ends"], prepend=0))
        numbers = np.unique(self.arrays[f"{name}_of"][rows])
        return [one[:-1] for one in _texts(self.arrays, f"{name}_people", numbers)]

    def known(self, name: str, wanted: str, scope: Scope) -> set[str]:
        """Return the people, folded, in `sender` or `recipients` within a scope whom one with these words would fit."""
        numbers, people = self._named(name, wanted)
        if not people:
            return set()
        values, rows = self._holding(name, numbers)
        used = np.zeros(len(self.arrays[f"{name}_of_ends"]), np.bool_)
        used[self.arrays[name][self.within(scope)]] = True
        there = {*self.arrays[f"{name}_of"][rows[used[values]]].tolist()}
        return {one for number, one in zip(numbers.tolist(), people, strict=True) if number in there}

    def _names(self, name: str, wanted: str) -> NDArray[np.bool_]:
        """Return which distinct values name a person, by the rule of `PersonFilter`."""
        found = np.zeros(len(self.arrays[f"{name}_of_ends"]), np.bool_)
        numbers = [self._named(name, one)[0] for one in wanted.split("\n")]
        found[self._holding(name, np.concatenate(numbers))[0]] = True
        return found

    def _holding(self, name: str, people: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the distinct values that hold some people, once for each of these, and the places in which they do."""
        wanted = np.zeros(len(self.arrays[f"{name}_people_ends"]), np.bool_)
        wanted[people] = True
        places = np.flatnonzero(wanted[self.arrays[f"{name}_of"]])
        return np.searchsorted(self.arrays[f"{name}_of_ends"], places, "right"), places

    def _find_named(self, name: str, wanted: str) -> tuple[NDArray[np.int64], list[str]]:
        """Return the numbers of the people whom a name may mean, and who they are."""
        found = [*people_named(self.arrays[f"{name}_people"].tobytes(), wanted)]
        places = [place for place, _ in found]
        return np.searchsorted(self.arrays[f"{name}_people_ends"], places, "right"), [one for _, one in found]

    def holding(self, column: str, names: Collection[str]) -> NDArray[np.bool_]:
        """Return which chunks have one of these names, all of the column `id` or `document`."""
        wanted, own = _keys(tuple(names)), self.arrays[column]
        if column != "document":
            return np.isin(own, wanted)
        found = np.zeros(self.size, np.bool_)
        first, last = np.searchsorted(own, wanted), np.searchsorted(own, wanted, "right")  # documents stand in order
        for at in np.flatnonzero(first < last).tolist():
            found[first[at] : last[at]] = True
        return found

    def hit(self, chunk: int, *, with_vector: bool = True) -> Hit:
        """Return a chunk as a hit, with its vector if it has one and that is wanted."""
        arrays = self.arrays
        own, about = _text(arrays, "hits", chunk), _text(arrays, "about_values", int(arrays["about"][chunk]))
        id_, document, position, header, text, first, last, role, written, author, origin, tokens = _decompressed(own)
        moment, sender, recipients, title, claimed = _decompressed(about)
        place = (id_, document, int(position), header, text, int(first), int(last))
        known = Chunk(*place, cast("Role", role or "body"), _moment(written), author, origin)
        names = tuple(name for name in recipients.split("\n") if name)
        vector = arrays["vectors"][chunk] if with_vector and arrays["embedded"][chunk] else None
        return Hit(known, tokens, vector, _moment(moment), sender, names, title, claimed=_moment(claimed))


def _saturated(counts: NDArray[Any], norms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what counts of a word are worth in chunks, below `K1` + 1."""
    return (K1 + 1.0) * counts / (counts + norms)


@lru_cache(16)  # for all shards
def _keys(names: tuple[str, ...]) -> NDArray[np.uint64]:
    return np.array([digest(name) for name in names], np.uint64)


def people_named(lines: bytes, wanted: str) -> Iterator[tuple[int, str]]:
    """Yield the people whom a name may mean, of some that are a line each, with places within their lines."""
    person = PersonFilter.of(wanted)
    needles = [one.encode("utf-8", "replace") for one in ([] if person.domain else person.words) or [person.needle]]
    needle, *others = sorted(needles, key=len, reverse=True)  # the longest of a line is likely the rarest
    at = lines.find(needle) if needle else -1
    while at >= 0:
        line = lines[lines.rfind(b"\n", 0, at) + 1 : (last := lines.find(b"\n", at))]  # of one person
        if all(one in line for one in others) and _is_named(one := line.decode(), wanted):
            yield at, one
        at = lines.find(needle, last)


@lru_cache(1 << 14)  # all shards name the same people
def _is_named(shown: str, wanted: str) -> bool:
    return PersonFilter.of(wanted).accepts(shown)


def nearest(shards: Sequence[Shard], vector: Vectors, inside: Sequence[NDArray[np.bool_]], most: int) -> list[Found]:
    """Return the cosines of the chunks inside with a unit vector.

    Of more than `most`, those alone with the fewest components of another sign, and all that have as few.
    """
    signs, total = _signs(vector[None]), 64 * len(shards[0].arrays["signs"])
    near, counted, last = list[Found](), np.zeros(total + 1, np.int64), total
    for one, use in zip(shards, inside, strict=True):  # each for itself: one shard fits in the processor's cache
        far = np.bitwise_count(one.arrays["signs"] ^ signs).sum(axis=0, dtype=np.uint16)
        own = np.flatnonzero((far <= last) & use)
        near.append((own, far := far.take(own)))
        counted += np.bincount(far, minlength=total + 1)
        last = min(int(np.searchsorted(np.cumsum(counted), most)), total)  # falls with each shard
    chosen = [own[far <= last] for own, far in near]
    return [(own, one.arrays["vectors"].take(own, axis=0) @ vector) for one, own in zip(shards, chosen, strict=True)]


def best(shards: Sequence[Shard], found: Sequence[Found], limit: int) -> list[tuple[int, int]]:
    """Return the `limit` best of the chunks found in each shard, best first, each with its shard's number before it.

    Equal ones come by document, in order.
    """
    every = np.concatenate([scores for _, scores in found])
    nth = len(every) - limit
    floor = np.partition(every, nth)[nth] if nth > 0 else -np.inf
    chosen = [chunks[scores >= floor] for chunks, scores in found]
    values = every[every >= floor]
    owner, chunks = np.repeat(np.arange(len(shards)), [*map(len, chosen)]), np.concatenate(chosen)
    documents = np.concatenate([one.arrays["document"][own] for one, own in zip(shards, chosen, strict=True)])
    positions = np.concatenate([one.arrays["position"][own] for one, own in zip(shards, chosen, strict=True)])
    order = np.lexsort((positions, documents, -values))[:limit]
    return [(int(owner[i]), int(chunks[i])) for i in order]


def slices(sizes: Sequence[int], most: int) -> list[range]:
    """Split a sequence of sizes into runs that add up to `most` at most, a larger one alone."""
    ends, total = [0], 0
    for place, size in enumerate(sizes):
        if total and total + size > most:
            ends.append(place)
            total = 0
        total += size
    return [range(first, last) for first, last in pairwise([*ends, len(sizes)]) if first < last]
