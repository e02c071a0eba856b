"""What all parsers share: their version, limits, the error for an unreadable item, and ids derived from content.

Also the facts about a document besides its text: when it was first seen, the people in its header, and signs of
misreading. A date later than the first sight is a claim: the document counts as written when it was first seen, and
keeps the claim.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from hashlib import blake2b
from typing import Final, TypeVar

from msgspec import Struct

from engine.text.people import DELIVERED, LOOK_ALIKE, folded_address, folded_name, name_and_address, traces
from prompts import word_patterns
from store.catalog import BUG, NamedAddress
from store.errors import PkbError
from store.types import OWN_ROLES, Document, FileState, FileText, ParsedItem, replace

# Raise it with each change after which a file is decoded to another text, date, sender or role: every file is then read
# again by the next `pkb ingest`, and what is decoded anew replaces what was decoded before.
PARSER_VERSION: Final = 11
LEFT_OUT: Final = ("deleted", "spam", "drafts")  # states of mail that a setting keeps out of the index


class ParseLimits(Struct, frozen=True):
    """How files are read, with caps that keep one bad item from costing too much; what exceeds them is a problem."""

    kind: str | None = None  # mail, mbox or transcript, of every file; None: as detected
    root: str = ""  # a folder below it may name the state of the mail in it
    inside: int = 0  # archives that the file is in
    message_bytes: int = 64 << 20  # of one message, attachments included; mail servers accept less
    file_bytes: int = 256 << 20  # of one file read into memory; mbox files are streamed without a cap
    parts: int = 500  # MIME parts of one message
    depth: int = 20  # of nested multiparts and messages
    header_bytes: int = 256 << 10  # of one message's header
    text_chars: int = 2_000_000  # of one document's decoded text
    archive_bytes: int = 256 << 30  # unpacked from one archive, and at most this often its own size, or a message's
    archive_ratio: int = 100
    archive_members: int = 100_000
    seconds: float = 10.0  # for one item
    leave_out: frozenset[str] = frozenset(LEFT_OUT)  # mail in these states
    state: str | None = None  # of all mail in the file, by its place
    names: dict[str, str] = {}  # of the people in an export, by their ids
    attachments: bool = False  # read files of office programs, and zip files in mail
    ocr: str = ""  # languages in which pages that are pictures are read; empty: they are named
    text_of: Callable[[bytes], FileText] | None = None  # how such a file is read
    members: Callable[[bytes], Iterator[tuple[str, bytes]]] | None = None  # how a zip file is: names and contents
    on_file: Callable[[str, bytes], None] | None = None  # is given every attached file
    changed: float | None = None  # when the file was, in seconds since the epoch


Files = Sequence[tuple[bytes, FileState]]
Read = FileState | ParsedItem  # of each file its state, with the digest of its content, and then its items


class UnreadableItem(Exception):
    """An item that cannot be read; its text is the reason, which contains none of the item's."""


class Bug(UnreadableItem):
    """An item on which pkb itself failed, by an exception that no parser expects."""


T = TypeVar("T")
_ENDS_THE_RUN = (MemoryError, OSError, PkbError, UnreadableItem)  # these are not bugs


def isolate(work: Callable[[], T]) -> T:
    """Do work on one document and return its result; raise Bug for an exception that only a bug in pkb explains."""
    try:
        return work()
    except Exception as error:
        if isinstance(error, _ENDS_THE_RUN):
            raise
        from traceback import walk_tb  # slow to import

        frames = [(str(frame.f_globals.get("__name__")), line) for frame, line in walk_tb(error.__traceback__)]
        where = next((f" at {name}:{line}" for name, line in frames[::-1] if name.startswith("engine.")), "")
        # Without its message, which could hold mail.
        said = f"{BUG} {type(error).__name__}{where}; please report it; it is read again after an update of pkb"
        raise Bug(said) from error


def item_or_bug(item: int, parse: Callable[[], ParsedItem]) -> ParsedItem:
    """Parse one item of a file; a bug fails that item alone."""
    try:
        return isolate(parse)
    except Bug as bug:
        return ParsedItem(item, None, problem=str(bug))


def content_id(*parts: str) -> str:
    """Return a digest of some texts, each prefixed by its length so that no other split gives the same id."""
    digest = blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()


# What looks misread: in documents of which kind, in words, and how it shows. A rare sign is looked for first.

_FEW = 3  # signs that a text may have for other reasons
_LINES_ALONE = 20  # of a transcript: as many may well be of one speaker
_ESCAPES = {
    "=": re.compile(r"=(?:3D|20\n|\n[a-z]|[C-F][\dA-F](?:=[89AB][\dA-F]|[a-z])|\?[\w-]{2,20}\?[BbQq]\?)"),
    "&": re.compile(r"&(?:nbsp|lt|gt|quot|#\d{2,5});"),
}
_PERCENT = re.compile(r"(?<!\S)[^\s/:?%]*(?:%20[^\s/:?%]*){3}")
_END_TAG = re.compile(r"</[A-Za-z][A-Za-z0-9]{0,9}>")
_UNOPENED = re.compile(
    r"\[attachment: (?:winmail\.dat|smime\.p7m|application/(?:(?:x-)?pkcs7-mime|pgp-encrypted|(?:vnd\.)?ms-tnef)"
    r"|[^\n]*: encrypted)\]"
)
_PICTURES = re.compile(r"\[(?:attachment|file): [^\n]*: pictures without text\]")
_SAID = frozenset((*OWN_ROLES, "forward"))


def _many(text: str, sign: str, pattern: re.Pattern[str]) -> bool:
    return sign in text and len(pattern.findall(text)) >= _FEW


def _read(one: Document) -> str:
    """Return what was read, without the layout of a transcript."""
    return one.text if one.kind == "mail" else "\n".join(turn.text for turn in one.passages)


def _is_undecoded(one: Document) -> bool:
    text = _read(one)
    escaped = any(_many(text, *escape) for escape in _ESCAPES.items())
    return escaped or "\ufffd" in text or "=?" in one.title or ("%20" in text and bool(_PERCENT.search(text)))


def _has_no_speakers(one: Document) -> bool:
    speakers = {turn.speaker for turn in one.passages} - {None}
    timed = any(turn.at is not None for turn in one.passages)
    return one.text.count("\n") > _LINES_ALONE and (len(speakers) == 1 or (timed and not speakers))  # notes have none


KINDS: Final[Mapping[str, tuple[str, str, Callable[[Document], bool]]]] = {
    "no-sender": ("mail", "no sender", lambda one: not one.sender),
    "no-date": ("mail", "no date in the header", lambda one: one.date is None),
    "no-words": ("mail", "no own words", lambda one: _SAID.isdisjoint(passage.role for passage in one.passages)),
    "unopened": ("mail", "a part was not opened", lambda one: "[" in one.text and bool(_UNOPENED.search(one.text))),
    "pictures": ("", "pages that are pictures", lambda one: bool(_PICTURES.search(one.text))),
    "no-speakers": ("transcript", "one speaker or none", _has_no_speakers),
    "undecoded": ("", "characters not decoded", _is_undecoded),
    "markup": ("", "tags of HTML or XML", lambda one: "<" in one.text and _many(_read(one), "</", _END_TAG)),
}


def doubts(document: Document) -> tuple[str, ...]:
    """Return the kinds of what looks misread in a document."""
    return tuple(kind for kind, (of, _, test) in KINDS.items() if of in ("", document.kind) and test(document))


_OFFSETS = dict(pair.split() for pair in word_patterns("mail_programs")["hours"].split("|"))


def named_zone(name: str) -> timezone | None:
    """Return the zone that an abbreviation stands for, in America if it stands for several; None if it is unclear."""
    return timezone(timedelta(hours=float(_OFFSETS[name]))) if name in _OFFSETS else None


def in_users_zone(clock: datetime) -> datetime:
    """Return a time of day that was written without a zone as one of the user's zone: its day stays as written."""
    return clock.replace(tzinfo=None).astimezone()


_SKEW = timedelta(hours=1)  # between the clocks of a sender and of who receives: a date this much later is believed
_ZONES = timedelta(hours=26)  # between any two zones: a date this much later has another reason than a clock
_OLDEST = datetime(1990, 1, 1, tzinfo=UTC)  # a server's clock that says an earlier time was not set
_PEOPLE = 20  # recipients whose names are kept; a longer list knows nobody better


def as_seen(document: Document, before: datetime | None, now: datetime) -> tuple[Document, datetime]:
    """Return a document whose dates are not later than it was first seen, in the zones they were written in, and when.

    It was first read by pkb `before`, or is `now`; or received by the last mail server, if that was earlier.
    """
    seen = min(before or now, now.replace(microsecond=0))
    seen = min(document.received, seen) if document.received and document.received >= _OLDEST else seen
    latest, date, claimed = seen + _SKEW, document.date, document.claimed
    passages = tuple(
        replace(one, written=None) if one.written and one.written > latest else one for one in document.passages
    )
    if date and date > latest:
        date, claimed = seen.astimezone(date.tzinfo), date if date > seen + _ZONES else None
    return replace(document, date=date, claimed=claimed, passages=passages), seen


def people_of(document: Document) -> tuple[NamedAddress, ...]:
    """Return what is recorded of the people of a document."""
    people = list[NamedAddress]()
    if document.kind == "mail":
        named = [(document.sender, True), *((one, False) for one in document.recipients[:_PEOPLE])]
        for shown, sends in named:  # by name, and by what the address looks like
            name, address = name_and_address(shown)
            alike = f"{LOOK_ALIKE}{folded_address(address)}" if address else ""
            people += [NamedAddress(one, address.lower(), sends) for one in (folded_name(name), alike) if one]
        sent = document.received or document.date  # whoever forges a mail writes its date, not when it was received
        traced = traces([one for one, _ in named], document.warnings, sent)
        people += [NamedAddress(name, one, sends=False) for name, one in traced]
        people += [NamedAddress(f"{DELIVERED}{one}", one, sends=False) for one in document.delivered]
    return tuple(dict.fromkeys(people))
