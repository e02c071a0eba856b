"""Orders what a message holds into sections of text: words, events, messages inside, attachments; decodes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.ingest.envelope import read_envelope
from engine.ingest.events import MOST_EVENTS, event_texts
from engine.ingest.headers import Headers
from engine.ingest.mime import Leaf, Nested, Tree
from engine.ingest.parts import Part
from store.types import Role

ATTACHMENT_CHARS = 100_000  # of one attachment's text
_BODIES = frozenset(("text/plain", "text/html", "text/enriched", "text/richtext"))


@dataclass(frozen=True, slots=True)
class Section:
    """A stretch of a document's text; one without a role is a mail's words, whose paragraphs have their own."""

    text: str
    role: Role | None = None


def sections_of(found: Sequence[Leaf | Nested], tree: Tree) -> list[Section]:
    """Give the words first, then the rest as it came, files without text last; problems go to the tree."""
    bodies: list[str] = []
    others: list[Section] = []
    names: list[str] = []
    for one in found:
        if isinstance(one, Nested):
            others += _nested(one, tree)
        elif one.text is None or not one.text.strip():
            names += [_name_line(one.part)] if one.text is None or one.part.filename else []
        elif _is_calendar(one.part):
            others += _events(one, tree)
        elif _is_body(one.part, bool(bodies)):
            bodies.append(one.text.rstrip("\n"))
        else:
            others.append(_attached(one, tree))
    files = [Section("\n".join(names), "attachment")] if names else []
    return [Section("\n\n".join(bodies)), *dict.fromkeys(others), *files]


def _is_body(part: Part, have_body: bool) -> bool:
    """Say whether a text is the mail's own: a named one is, if no other came before it."""
    if part.attached:
        return False
    if part.type.name.startswith("multipart/"):  # one that could not be cut into parts
        return True
    return part.type.name in _BODIES and not (part.filename and have_body)


def _is_calendar(part: Part) -> bool:
    return part.type.name in ("text/calendar", "application/ics") or part.filename.lower().endswith(".ics")


def _events(leaf: Leaf, tree: Tree) -> list[Section]:
    texts = event_texts(leaf.text or "")
    if not texts:
        return [_attached(leaf, tree)]
    if len(texts) >= MOST_EVENTS:
        tree.problem(f"events beyond the first {MOST_EVENTS} were not read")
    return [Section(text, "event") for text in texts]


def _attached(leaf: Leaf, tree: Tree) -> Section:
    text = (leaf.text or "").strip("\n")
    if len(text) > ATTACHMENT_CHARS:
        tree.problem(f"text of an attachment beyond {ATTACHMENT_CHARS} characters was not read")
        text = text[:ATTACHMENT_CHARS]
    return Section(f"{_name_line(leaf.part)}\n{text}", "attachment")


def _name_line(part: Part) -> str:
    return f"[attachment: {part.filename or part.type.name}]"


def _nested(nested: Nested, tree: Tree) -> list[Section]:
    """Write a message inside the message as mail programs write forwarded ones, its attachments behind it."""
    words, *others = sections_of(nested.found, tree)
    lines = ["---------- Forwarded message ----------", *_header_lines(nested.headers), "", words.text]
    return [Section("\n".join(lines).rstrip(), "forward"), *others]


def _header_lines(headers: Headers) -> list[str]:
    envelope = read_envelope(headers)
    fields = {
        "From": str(envelope.sender),
        "Date": envelope.date.isoformat(" ", "minutes") if envelope.date else "",
        "To": ", ".join(map(str, envelope.recipients)),
        "Subject": envelope.title,
    }
    return [f"{name}: {value}" for name, value in fields.items() if value]
