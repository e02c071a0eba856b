"""Immutable values shared by all packages: documents, chunks, places, search scopes and results.

Which person a name stands for, `PersonFilter` alone decides. Loads neither LanceDB nor numpy.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timezone
from functools import lru_cache
from hashlib import blake2b
from math import log
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct
from msgspec.structs import astuple
from msgspec.structs import replace as replace  # of all values that are Structs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from store.catalog import NamedAddress, Provenance

    Vectors = NDArray[np.float32]
else:
    Vectors = Any  # numpy is slow to import

Kind = Literal["mail", "transcript", "file"]
Role = Literal["body", "quote", "forward", "signature", "attachment", "event"]


class DocumentPassage(Struct, frozen=True, gc=False):
    """One paragraph or speaker turn of a document, with its 1-based inclusive lines of the decoded text."""

    text: str
    first: int
    last: int
    role: Role = "body"
    speaker: str | None = None
    at: float | None = None  # seconds from the start of the recording
    written: datetime | None = None  # aware; of a quoted or forwarded message, where its own header says so
    author: str = ""  # of a quoted or forwarded message, as its own header says; of a file, see `Chunk`

    @property
    def file(self) -> str:
        """Return the attached file that it is from, empty for none."""
        return re.split(r", (?=(?:page|slide) \d+$|sheet )", self.author)[0] if self.role == "attachment" else ""

    @property
    def is_repeated(self) -> bool:
        """Return whether other documents may hold it, too: a quote, forward, signature or attached file."""
        names = self.text == f"[attachment: {self.file}]"  # it belongs to each message that has the file
        return self.role in ("quote", "forward", "signature") or bool(self.file and not names)


class Document(Struct, frozen=True):
    """One mail message, transcript or file; `id` is a digest of its content, so that copies are the same document."""

    id: str
    kind: Kind
    title: str
    sender: str
    recipients: tuple[str, ...]
    date: datetime | None  # aware, in its writer's zone: its `.date()` is the document's day
    message_id: str | None
    text: str  # what `pkb show` prints
    passages: tuple[DocumentPassage, ...]  # in lines of the text
    claimed: datetime | None = None  # the date that it gives itself, if that is later than its first sight, its `date`
    received: datetime | None = None  # as its last mail server says
    warnings: tuple[str, ...] = ()  # of its header, in words
    delivered: tuple[str, ...] = ()  # the addresses of the mailbox that it came to


class ParsedItem(Struct, frozen=True):
    """One parsed item of a file: a document, a problem in words that quote no content, or both."""

    item: int  # counts the documents of one file from 0
    document: Document | None
    offset: int | None = None  # lines of the file before line 1 of the text; None if it has not the text as it is
    problem: str | None = None
    kinds: tuple[str, ...] = ()  # what looks misread in the document, or the state of mail that was left out
    prepared: "PreparedDocument | None" = None


class FilePart(Struct, frozen=True):
    """The text of a part of a file, and which part it is, such as "page 3"; empty if it is all of it."""

    place: str
    text: str


class FileText(Struct, frozen=True):
    """The text of a file, and the date that it gives itself; why there is none, or what could not be read."""

    parts: tuple[FilePart, ...] = ()
    date: datetime | None = None
    unread: str = ""  # what any program shows of it, as that it is encrypted
    problem: str = ""  # that it is damaged or too large


class Chunk(Struct, frozen=True, gc=False):
    """About 100 words of one document; `header` (who, when, what) is searched and embedded with its text."""

    id: str
    document: str
    position: int  # 0-based, in order of the document
    header: str
    text: str
    first: int  # 1-based inclusive lines of the decoded text
    last: int
    role: Role = "body"
    written: datetime | None = None  # of a quote or forward, in its writer's zone; None where that is not known
    author: str = ""  # of a quote or forward, as it says; empty where it does not; of a file, the part of it
    origin: str = ""  # the header that a model is shown instead, with addresses

    @property
    def place(self) -> str:
        """Return where in a file it was read, such as "contract.pdf, page 3"; empty for what is not from one."""
        return "" if self.role in ("quote", "forward") else self.author


_UNSPACED = r"([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff])"  # scripts without spaces
_PLAIN = re.compile(r"[^\W_]+")
_UNSEEN = re.compile(r"[\xad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")
FEW_WORDS = 8  # which many messages may share
OWN_ROLES: Final[tuple[Role, ...]] = ("body", "attachment", "event")  # without quotes and signatures


def plain_words(text: str) -> list[str]:
    """Return the words of a text in order, whatever its case, marks and line breaks; of unspaced scripts, letters."""
    if text.isascii():
        return _PLAIN.findall(text.lower())
    return _PLAIN.findall(re.sub(_UNSPACED, r" \1 ", unicodedata.normalize("NFKC", _UNSEEN.sub("", text)).casefold()))


def text_names(row: "Row", own: str) -> list[str]:
    """Return the names by which a message is recognised: id, sender and own words, few words with the title."""
    words = plain_words(own)
    few = plain_words(row["title"]) if len(words) < FEW_WORDS else []
    # The second name has no sender: a mailing list may have put its own address there.
    senders = (address(row["sender"]), "") if words and row["message_id"] else ()
    return [f"text\0{row['message_id']}\0{one}\0{' '.join(few + words)}" for one in senders]


def address(person: str) -> str:
    """Return the address of a person as mail names it."""
    return person.rpartition("<")[2].rstrip(">").casefold()


def is_rewritten(sender: str, recipients: Iterable[str]) -> bool:
    """Return whether a mailing list put its own address where the sender's was."""
    return address(sender) in map(address, recipients)


LONGEST_SPEAKER = 100  # characters of a speaker's name


class ChunkTurn(Struct, frozen=True):
    """Consecutive lines of one speaker, or of nobody known, in a chunk of a transcript: offsets of its text."""

    speaker: str | None
    start: int  # of the name, where there is one
    said: int  # of what is said
    end: int


def turns(text: str, speakers: Collection[str]) -> list[ChunkTurn]:
    """Return the turns in the text of a chunk: a speaker's name and a colon begin one, an empty line ends it."""
    found, at, goes_on = list[ChunkTurn](), 0, False
    for line in text.split("\n"):
        front = line[: LONGEST_SPEAKER + 1]
        ends = [place for place, sign in enumerate(front) if sign == ":" and line[place + 1 : place + 2] in ("", " ")]
        name = next((line[:place] for place in reversed(ends) if line[:place] in speakers), None)  # the longest
        end = at + len(line)
        if name is not None:
            said = at + len(name) + 1
            found.append(ChunkTurn(name, at, said + text.startswith(" ", said), end))
        elif line.strip():
            found[-1:] = [replace(found[-1], end=end)] if goes_on else [*found[-1:], ChunkTurn(None, at, at, end)]
        goes_on, at = bool(line.strip()), end + 1
    return found


class Scope(Struct, frozen=True):
    """The filters of a question; None filters nothing."""

    sender: str | None = None  # an address or a domain, or words of a name or of a local part: see `PersonFilter`
    recipient: str | None = None  # the same; of several, one a line, any will do
    since: date | None = None  # inclusive, and compared with the local day of a document, as is `until`
    until: date | None = None  # exclusive
    collection: str | None = None
    document: str | None = None  # an id

    def inside(self, collection: str | None) -> "Scope":
        """Return the scope within a collection that a view is limited to, if any."""
        return self if collection is None else replace(self, collection=collection)

    def has_day(self, day: date | None) -> bool:
        """Return whether a day is within the days; no day is within none."""
        if day is None:
            return self.since is None and self.until is None
        return (self.since or date.min) <= day and (self.until is None or day < self.until)


ASIDE = 1 << 32  # the item of a place set aside while its file is being read is below minus this, or a multiple of it


class Place(Struct, frozen=True, gc=False):
    """A place of a document: the `item`th of a file, its line 1 after `lines_before` source lines (or None)."""

    path: str
    item: int  # below 0 for a former place: the document is gone from the file, or that is not read completely yet
    document: str
    message_id: str | None
    lines_before: int | None
    collection: str

    @property
    def position(self) -> int | None:
        """Return the position of the item in the file; None if the document is gone from it."""
        if self.item >= 0:
            return self.item
        return (-self.item - 1) % ASIDE if self.item < -ASIDE else None


class FileState(Struct, frozen=True, gc=False):
    """What `stat` tells of a file (a ctime of -1: it is compared), and the digest of what was read (empty: none)."""

    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int = -1
    digest: bytes = b""

    def is_as(self, now: "FileState") -> bool:
        """Return whether `stat` tells the same `now`."""
        return replace(self, digest=now.digest) == now


Row = dict[str, Any]


class PreparedDocument(Struct, frozen=True):
    """What is computed of a document alone: digests of its passages, its people's names, and what else they tell."""

    digests: tuple[bytes, ...]
    names: Mapping[str, str]
    people: "tuple[NamedAddress, ...]"
    own: tuple[tuple[Chunk, ...], tuple[str, ...]] | None = None  # chunks and their words, of what no other may hold


class IndexedDocument(Struct, frozen=True):
    """A document ready to be stored: its chunks, their words (joined by spaces), and its collections."""

    document: Document
    chunks: tuple[Chunk, ...]
    tokens: tuple[str, ...]
    collections: tuple[str, ...]
    owned: tuple[bytes, ...] = ()  # digests of the passages that are indexed under it
    quoted: tuple[bytes, ...] = ()  # of those that are indexed under another one
    names: Mapping[str, str] = {}  # of its people as questions may write them, each with the form that it has here
    provenance: "Provenance | None" = None

    @property
    def date(self) -> str | None:
        """Return the date as the ledger stores it: in UTC, so that texts sort by time."""
        return self.document.date.astimezone(UTC).isoformat() if self.document.date else None


def document_row(entry: IndexedDocument) -> Row:
    """Return the row of the document itself."""
    names = ("id", "kind", "message_id", "text", "sender")
    return {name: getattr(entry.document, name) for name in names} | _about(entry)


def chunk_rows(entry: IndexedDocument) -> list[Row]:
    """Return the rows of its chunks, in order."""
    about = _about(entry)
    return [
        {
            "id": chunk.id, "document": chunk.document, "position": chunk.position, "header": chunk.header,
            "text": chunk.text, "words": tokens, "first": chunk.first, "last": chunk.last, "role": chunk.role,
            "written": chunk.written and chunk.written.isoformat(),
            "author": chunk.author, "origin": chunk.origin, "sender": _sender(entry.document, chunk), **about,
        }
        for chunk, tokens in zip(entry.chunks, entry.tokens, strict=True)
    ]  # fmt: skip


def _about(entry: IndexedDocument) -> Row:
    document, moment, claimed = entry.document, entry.document.date, entry.document.claimed
    return {
        "title": document.title, "claimed": claimed and claimed.isoformat(),
        "date": moment, "local": moment and moment.replace(tzinfo=None),
        "recipients": "\n".join(document.recipients), "collections": list(entry.collections),
    }  # fmt: skip


def in_own_zone(moment: datetime | None, local: datetime | None) -> datetime | None:
    """Return a stored UTC moment in its writer's zone, given its local time; without one, it stays in UTC."""
    return moment.astimezone(timezone(local - moment.replace(tzinfo=None))) if moment and local else moment


def _sender(document: Document, chunk: Chunk) -> str:
    """Return who speaks in a chunk: a mail's sender, or the attendees of a meeting whose turns are in it."""
    if document.kind == "mail":
        return document.sender
    speaking = {turn.speaker for turn in turns(chunk.text, frozenset(document.recipients))}
    return "\n".join(name for name in document.recipients if name in speaking)


def table_of(fingerprint: str) -> str:
    """Name the table of an embedder's vectors."""
    return f"vectors_{blake2b(fingerprint.encode(), digest_size=8).hexdigest()}"


_ADDRESS = re.compile(r"[^\s<>@]+@[^\s<>@]+")
_OWN_ADDRESS = re.compile(r"(?:\A|<)([^\s<>@]+@([^\s<>@]+))>?\Z")  # of a person as shown, and its domain
_DOMAIN = re.compile(r"@[^\s<>@]+")
_UNSPACED_SIGN = r"\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"  # each sign is a word
_WORD = rf"[{_UNSPACED_SIGN}]|[^\W_{_UNSPACED_SIGN}]+"  # compiled when it is used, since it takes 2 ms


class PersonFilter(Struct, frozen=True):
    """Whom a scope wants, folded: an address or a domain as a whole, or words of a name or a local part."""

    address: str
    domain: str
    words: frozenset[str]
    needle: str  # that whoever is wanted holds; empty if nobody can be

    @classmethod
    @lru_cache(256)
    def of(cls, wanted: str) -> "PersonFilter":
        """Return the filter for what a person typed."""
        text = fold(wanted.strip())
        if own := _OWN_ADDRESS.search(text):
            return cls(own[1], "", frozenset(), own[1])
        domain = text.removeprefix("@") if "." in text or text.startswith("@") else ""
        needle = max(re.findall(_WORD, text), key=len, default="")
        return cls("", domain, frozenset(re.findall(_WORD, _DOMAIN.sub(" ", text))), needle)

    def accepts(self, shown: str) -> bool:
        """Return whether it is the person shown, folded."""
        own = _OWN_ADDRESS.search(shown)
        if self.address:
            return own is not None and own[1] == self.address
        if self.domain and own and f".{own[2]}".endswith(f".{self.domain}"):
            return True
        return bool(self.words) and self.words.issubset(re.findall(_WORD, _DOMAIN.sub(" ", shown)))


def fold(text: str) -> str:
    """Return a text without case and accents."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFD", text.casefold())
    return unicodedata.normalize("NFC", "".join(sign for sign in apart if not unicodedata.combining(sign)))


def is_within(row: Row, scope: Scope) -> bool:
    """Return whether the row of a document is within a scope; a meeting, without a sender, is from all its people."""
    people, moment = row["recipients"].split("\n"), row["local"] or row["date"]
    senders = [*row["sender"].split("\n"), *(people if row["kind"] == "transcript" else [])]
    is_of_people = all(
        wanted is None or any(names_person(one, wanted) for one in shown)
        for wanted, shown in ((scope.sender, senders), (scope.recipient, people))
    )
    is_there = scope.document in (None, row["id"]) and scope.collection in (None, *row["collections"])
    return is_of_people and is_there and scope.has_day(moment and moment.date())


def batches(ids: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    """Yield ids in batches of at most `most`."""
    return (ids[start : start + most] for start in range(0, len(ids), most))


def is_address(text: str) -> bool:
    """Return whether a text is an address, which is compared as a whole."""
    return _ADDRESS.fullmatch(text.strip()) is not None


def names_person(shown: str, wanted: str) -> bool:
    """Return whether a person is the one that a scope wants."""
    return any(PersonFilter.of(one).accepts(fold(shown)) for one in wanted.split("\n"))


def among(column: str, values: Iterable[str]) -> str:
    """Return the condition that a column is one of these values."""
    return f"{column} IN ({', '.join(map(quoted, values)) or quoted('')})"


def quoted(value: str) -> str:
    """Return a text as a literal of a condition."""
    text = value.encode("utf-8", "replace").decode()  # an argument may contain surrogates
    return "'" + text.replace("'", "''") + "'"


class Hit(Struct, frozen=True, eq=False, gc=False):
    """A chunk that a search found, with the metadata of its document, and its score once it is ranked."""

    chunk: Chunk
    tokens: str  # `words(header + newline + text)`, joined by single spaces
    vector: Vectors | None  # a unit row, None until embedded; hits are the same whatever it is
    date: datetime | None  # aware, in its writer's zone; not later than its document was first seen
    sender: str
    recipients: tuple[str, ...]
    title: str
    score: float = 0.0
    claimed: datetime | None = None  # the date that its document gives itself, where `date` is not that

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hit) and self._compared == other._compared

    def __hash__(self) -> int:
        return hash(self._compared)

    @property
    def _compared(self) -> tuple[object, ...]:
        return astuple(replace(self, vector=None))

    def scored(self, score: float) -> "Hit":
        """Return the hit with a score."""
        return replace(self, score=score)

    @property
    def written(self) -> datetime | None:
        """Return when its text was written: with its document, unless it is quoted or forwarded."""
        return self.chunk.written if self.is_quoted else self.date

    @property
    def is_meeting(self) -> bool:
        """Return whether its document is a transcript."""
        return self.chunk.header.startswith("Meeting: ")

    @property
    def is_quoted(self) -> bool:
        """Return whether its text is that of another message, which its document quotes or forwards."""
        return self.chunk.role in ("quote", "forward")

    @property
    def author(self) -> str:
        """Return who wrote its text: the sender; of a quoted or forwarded text, whom that names, empty for nobody."""
        return self.chunk.author if self.is_quoted else self.sender

    def speaker_of(self, quote: str) -> str | None:
        """Return the speaker of a quote from a transcript; None for mail, if nobody is known, or two people say it."""
        if not self.is_meeting:
            return None
        text, found = self.chunk.text, turns(self.chunk.text, frozenset(self.recipients))
        whole = [match.start() for match in re.finditer(rf"(?<!\S){re.escape(quote)}(?!\S)", text)]
        before = [[turn for turn in found if turn.start <= place] for place in whole or [text.find(quote)]]
        speakers = {each[-1].speaker if each else None for each in before}
        return speakers.pop() if len(speakers) == 1 else None


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of the whole index: chunks, their mean number of words, and how many of them have a vector."""

    chunks: int
    mean_words: float
    embedded: int

    @property
    def covered(self) -> float:
        """Return the share of chunks that have a vector; 1 where there are none."""
        return self.embedded / self.chunks if self.chunks else 1.0

    def inverse_frequency(self, count: int) -> float:
        """Return the inverse chunk frequency of a word that `count` chunks contain, as in BM25; never negative."""
        count = min(count, self.chunks)  # another process may have removed chunks in between
        return log(1 + (self.chunks - count + 0.5) / (count + 0.5))
