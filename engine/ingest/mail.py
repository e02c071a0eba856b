"""One RFC 822 message to one Document: its text, the roles of its paragraphs, its identity; knows nothing of files."""

import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC
from hashlib import blake2b

from engine.ingest.addresses import MOST
from engine.ingest.envelope import Envelope, is_forward, is_reply, read_envelope, topic_of
from engine.ingest.limits import Limits
from engine.ingest.mime import Leaf, Nested, Tree, walk
from engine.ingest.parts import Part, read_part
from engine.ingest.quoting import ANSWERED, NEW, PASSED_ON, Quotes, paragraphs, passages_of
from engine.ingest.sections import Section, sections_of
from store.types import Document, Passage, Reading, Role

_QUOTED_FROM = re.compile(r"^>+From ", re.MULTILINE)
_IN_PLACE = frozenset(("", "7bit", "8bit", "binary"))


def read_mail(raw: bytes, limits: Limits, item: int = 0, clock: Callable[[], float] = time.monotonic) -> Reading:
    """Read one message; what could not be read is named in `problem`, and nothing is raised."""
    if not raw.strip():
        return Reading(item, None, problem="empty")
    tree = Tree(limits, _timer(clock, limits.seconds))
    if len(raw) > limits.message_bytes:
        raw = raw[: limits.message_bytes]
        tree.problem(f"bytes beyond {limits.message_bytes} were not read")
    part = read_part(raw, limits)
    if len(raw) - len(part.body) > limits.header_bytes:
        tree.problem(f"header beyond {limits.header_bytes} bytes was not read")
    envelope = read_envelope(part.headers)
    if len(envelope.recipients) >= MOST:
        tree.problem(f"recipients beyond the first {MOST} of a field were not read")
    walk(part, tree)
    text, passages = _lay_out(sections_of(tree.found, tree), _quotes(envelope), tree)
    if not text and not part.headers.fields and not tree.problems:
        return Reading(item, None, problem="empty")
    document = _document(envelope, text, passages)
    offset = _offset(raw, part, tree.found, text)
    return Reading(item, document, offset, "; ".join(tree.problems) or None)


def _timer(clock: Callable[[], float], seconds: float) -> Callable[[], bool]:
    start = clock()
    return lambda: clock() - start > seconds


def _quotes(envelope: Envelope) -> Quotes:
    if is_forward(envelope.title):
        return PASSED_ON
    answers = is_reply(envelope.title) or set(envelope.links) - {envelope.message_id}
    return ANSWERED if answers else NEW


def _document(envelope: Envelope, text: str, passages: tuple[Passage, ...]) -> Document:
    return Document(
        id=_identity(envelope, text),
        kind="mail",
        title=envelope.title,
        sender=str(envelope.sender),
        recipients=tuple(map(str, envelope.recipients)),
        date=envelope.date,
        message_id=envelope.message_id,
        links=envelope.links,
        topic=topic_of(envelope.title),
        is_reply=is_reply(envelope.title),
        text=text,
        passages=passages,
    )


def _identity(envelope: Envelope, text: str) -> str:
    """Digest what all copies of a message share: no Bcc, no display names, no quoting of From by mbox files."""
    people = [envelope.sender, *envelope.visible]
    parts = (
        "mail",
        envelope.sent.astimezone(UTC).isoformat() if envelope.sent else "",
        *((one.address or one.name).lower() for one in people),
        envelope.title,
        (_QUOTED_FROM.sub("From ", text) if ">From " in text else text).rstrip(),
    )
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def _lay_out(sections: Sequence[Section], quotes: Quotes, tree: Tree) -> tuple[str, tuple[Passage, ...]]:
    """Set the sections below each other, an empty line between, and find the paragraphs of each."""
    lines_before, length = 0, 0
    texts: list[str] = []
    passages: list[Passage] = []
    for section in sections:
        text = section.text.rstrip("\n")
        if not text.strip():
            continue
        room = tree.limits.text_chars - length
        if len(text) > room:
            tree.problem(f"text beyond {tree.limits.text_chars} characters was not read")
            text = text[: max(room, 0)].rstrip("\n")
        if not text:
            break
        passages += _passages(section.role, text, quotes, lines_before + 1)
        texts.append(text)
        length += len(text) + 2
        lines_before += text.count("\n") + 2
    return "\n\n".join(texts), tuple(passages)


def _passages(role: Role | None, text: str, quotes: Quotes, first_line: int) -> Sequence[Passage]:
    if role is None:
        return passages_of(text, quotes, first_line)
    lines = text.split("\n")
    return paragraphs(lines, [role] * len(lines), first_line)


def _offset(raw: bytes, part: Part, found: Sequence[Leaf | Nested], text: str) -> int | None:
    """Count the lines above the text where it stands in the message as it is."""
    if part.type.name != "text/plain" or part.type.flowed or part.encoding not in _IN_PLACE or len(found) != 1:
        return None
    before = len(raw) - len(part.body)
    if text.count("\n") != part.body.rstrip(b"\r\n").count(b"\n"):  # lone returns, or a text that was cut
        return None
    return raw.count(b"\n", 0, before)
