"""Meetings: how many of the decisions and action items that the calls' own minutes list are found.

    python -m tests.bench.meeting_items ../shared/data/zoom [--home FOLDER] [--show]

tests/data/meeting_items.txt names each by file, turn and sentence. An item counts as found if pkb lists one of its
sentences under its kind. Files are split in two by a digest of their names, for rules fitted to the first.
`--show` prints what is missing, and of the second half only what is listed.
"""

import argparse
import tempfile
from collections import Counter
from hashlib import sha256
from os.path import relpath
from pathlib import Path

from engine.app import Pkb
from engine.retrieval.open_loops import read_documents
from engine.retrieval.reports import found_in, turns_of
from tests.bench.home import environment, pkb
from tests.bench.judged import wilson

JUDGED = Path(__file__).parents[1] / "data" / "meeting_items.txt"


def read() -> dict[str, list[tuple[str, list[str]]]]:
    """Return the items of each file: kind, and sentences as turn.sentence."""
    rows = (line.split(": ", 1) for line in JUDGED.read_text().splitlines() if not line.startswith("#"))
    pairs = {file: [item.split() for item in items.split("; ")] for file, items in rows}
    return {file: [(kind, places) for kind, *places in items] for file, items in pairs.items()}


def is_held_out(file: str) -> bool:
    """Return whether a file is of the half that no rule was changed by."""
    return sha256(file.encode()).digest()[0] % 2 == 1


def main() -> None:
    """Print recall by half and kind, with 95 % intervals."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    home, items = given.home or Path(tempfile.mkdtemp()), read()
    if not (home / "home").exists():
        pkb(home, "ingest", str(given.data.resolve()), "--vectors", "later")
    hits, listed = Counter[tuple[bool, str, bool]](), Counter[tuple[bool, str]]()
    with Pkb(environ=environment(home)) as opened:
        catalogue, reader = opened.session.catalogue, opened.session.reader
        for hit in reader.matching(opened.scope(), "transcript").by_date(1_000):
            file = relpath(catalogue.places(hit.chunk.document)[0].path, given.data.resolve())
            document = read_documents(reader, [hit.chunk.document])[0]
            if file not in items:
                continue
            turns, held = turns_of(document), is_held_out(file)
            said = {f"{turn}.{at}": one.text for turn, own in enumerate(turns) for at, one in enumerate(own)}
            found = {(one.found.kind, one.text) for one in found_in(document)}
            listed.update((held, kind) for kind, _ in found)
            for kind, places in items[file]:
                is_found = any((kind, said[place]) in found for place in places)
                hits[held, kind, is_found] += 1
                if given.show and not is_found and not held:
                    print("MISSED", kind, file.rpartition("/")[2], places, *(said[one][:300] for one in places))
            if given.show:
                for kind, text in sorted(found):
                    right = any(kind == of and text in [said[one] for one in places] for of, places in items[file])
                    print("held" if held else "seen", kind, "+" if right else "?", text[:300])
    for held in (False, True):
        for kind in ("decision", "task"):
            known, missed = hits[held, kind, True], hits[held, kind, False]
            low, high = wilson(known, known + missed)
            where = "held out" if held else "seen"
            print(
                f"{where:<9}{kind:<9}{known} of {known + missed} [{low:.2f}, {high:.2f}], {listed[held, kind]} listed"
            )


if __name__ == "__main__":
    main()
