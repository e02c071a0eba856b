"""Reads MISeD (Golany et al. 2024, google-research-datasets/MISeD): dialogs about meetings of QMSum.

Found published: {train,validation,test}.jsonl and woz.jsonl, a dialog a line: `dialogId`, `meeting` {`meetingId`,
`transcriptSegments` [{`speakerName`, `text`}]}, `dialog` {`dialogTurns` [{`query`, `response`, `responseAttribution`,
`queryMetadata` {`queryType`, `isUnanswerable`, `isContextDependent`}}]}. It is proto3 as JSON: what is false is absent.
A user is a meeting, for queries speak of "the meeting"; those that depend on the dialog are marked, and not asked.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from tests.bench.corpus import (
    Query,
    User,
    field,
    lines,
    list_of,
    loaded,
    once,
    parsed,
    safe,
    settled,
    text_of,
)


@dataclass(frozen=True, slots=True)
class Dialog:
    """What one dialog is about, and its queries that stand alone."""

    meeting: str
    transcript: str
    queries: tuple[Query, ...]


def users(folder: Path, scratch: Path) -> list[User]:
    """Return a user a meeting, the transcript as `Speaker: text`; queries in the order of files and dialogs."""
    found = dict[str, list[Dialog]]()
    for file in sorted(folder.rglob("*.jsonl")):
        for one in parsed(lines(file), dialog):
            found.setdefault(one.meeting, []).append(one)
    return [user for meeting, dialogs in sorted(found.items()) if (user := _user(meeting, dialogs, scratch)).queries]


def dialog(line: str) -> Dialog:
    """Read a line of the set; raises ValueError."""
    row = loaded(line)
    meeting = field(row, "meeting")
    name = safe(text_of(meeting, "meetingId"))
    said = [spoken for segment in list_of(meeting, "transcriptSegments") if (spoken := _spoken(segment))]
    if not said:
        raise ValueError("no transcript")
    turns = [_query(turn, f"docs/{name}.txt") for turn in list_of(field(row, "dialog"), "dialogTurns")]
    return Dialog(name, "\n".join(said) + "\n", tuple(query for query in turns if query is not None))


def _spoken(segment: object) -> str:
    text = " ".join(text_of(segment, "text").split()) if field(segment, "text") is not None else ""
    speaker = " ".join(str(field(segment, "speakerName") or "").replace(":", " ").split()) or "Unknown"
    return f"{speaker}: {text}".encode("utf-8", "replace").decode() if text else ""


def _query(turn: object, document: str) -> Query | None:
    marks, text = field(turn, "queryMetadata"), text_of(turn, "query").strip()
    if not text:
        raise ValueError("an empty query")
    if field(marks, "isContextDependent") is True:
        return None
    if field(marks, "isUnanswerable") is True:  # the response says so in words of its own
        return Query(text, "", frozenset())
    return Query(text, text_of(turn, "response"), frozenset((document,)))


def _user(meeting: str, dialogs: list[Dialog], scratch: Path) -> User:
    first, folder = dialogs[0], scratch / meeting / "docs"
    alike = [one for one in dialogs if one.transcript == first.transcript]
    if len(alike) < len(dialogs):
        print(f"mised, {meeting}: skipped: {len(dialogs) - len(alike)} dialogs on other transcripts", file=sys.stderr)
    settled(folder / f"{meeting}.txt", first.transcript)
    return User("mised", meeting, (folder,), once(query for one in alike for query in one.queries))
