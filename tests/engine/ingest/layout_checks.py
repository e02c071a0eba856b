"""Turns of a meeting, and the checks that every layout of them passes."""

import re
from collections.abc import Mapping
from pathlib import Path

from engine.ingest.files import read
from engine.ingest.types import ParseLimits
from store.types import Document
from tests.engine.ingest.layouts import Turn, Turns, Writer

SAID = (
    *("Did anybody count the tickets?", "Yes, we sold ninety of them.", "I had expected fewer than that."),
    *("Then the hall is full, is it not?", "Nearly: six seats are left.", "Keep two for my aunt."),
    *("She can have the front row.", "And who opens the doors at 18:30?", "Dora does that."),
    *("No, Dora sings in the first part.", "Then I open them.", "Good, that is settled."),
)
NAMES = ("Mia Torres", "Jonas Weber", "Li Na")


def turns() -> Turns:
    order = (0, 1, 2, 0, 1, 2, 1, 0, 2, 0, 1, 2)
    starts = [4, 13, 22, 30, 41, 52, 65, 73, 85, 94, 106, 118]
    return [Turn(NAMES[who], at, at + 5, text) for who, at, text in zip(order, starts, SAID, strict=True)]


def documents(folder: Path, ending: str, text: str) -> list[Document]:
    path = folder / f"call.{ending}"
    path.write_text(text, "utf-8")
    return [item.document for item in read(path, ParseLimits()) if item.document]


def plain(text: str) -> str:
    return re.sub(r"[^\w]+", "", text).lower()


Read = list[tuple[str, float | None, str]]


def spoken(found: list[Document]) -> Read:
    return [(one.speaker or "", one.at, plain(one.text)) for document in found for one in document.passages]


def labels(found: Read) -> list[int]:
    """Return the speakers as numbers, in order of first turns: some programs write letters or numbers."""
    order = list(dict.fromkeys(who for who, _, _ in found))
    return [order.index(who) for who, _, _ in found]


def of_turns(found: Read) -> Read:
    said = {plain(text) for text in SAID}
    return [one for one in found if one[2] in said]


EXPECTED: Read = [(turn.name, turn.at, plain(turn.text)) for turn in turns()]


def check_turns(folder: Path, layout: str, layouts: Mapping[str, tuple[str, Writer]]) -> None:
    """Each turn has its speaker, second and words."""
    ending, write = layouts[layout]
    found = of_turns(spoken(documents(folder, ending, write(turns()))))
    assert [one[2] for one in found] == [one[2] for one in EXPECTED]
    assert labels(found) == labels(EXPECTED)
    if ending != "json" or found[0][0] in NAMES:
        assert [one[0] for one in found] == [one[0] for one in EXPECTED]
    first = found[0][1] or 0
    zero = first if layout == "Zoom, text" else 4  # the time of day, which begins with the call
    assert [round((-9 if at is None else at) - first + zero) for _, at, _ in found] == [
        round((at or 0) - 4 + zero) for _, at, _ in EXPECTED
    ]


def check_messages(folder: Path, layout: str, layouts: Mapping[str, tuple[str, Writer]]) -> None:
    """Each message has its speaker and words, and the chat its day."""
    ending, write = layouts[layout]
    read = documents(folder, ending, write(turns()))
    found = of_turns(spoken(read))
    assert [(one[0], one[2]) for one in found] == [(one[0], one[2]) for one in EXPECTED]
    assert [document.date.isoformat()[:10] for document in read if document.date] == ["2026-03-04"]


def check_captions(folder: Path, layout: str, layouts: Mapping[str, tuple[str, Writer]]) -> None:
    """Each word is there once, with its second and nobody's."""
    ending, write = layouts[layout]
    found = documents(folder, ending, write(turns()))
    assert "".join(text for _, _, text in spoken(found)) == "".join(text for _, _, text in EXPECTED)
    assert all(one.speaker is None for document in found for one in document.passages)
    assert found[0].passages[0].at == 4
