"""Kills a process before every single step of a change to the KV tree, and opens the tree again; run as a module.

A step is an SQL statement, the opening, renaming or removing of a file, or a file half written. Each death is a
`kill -9` of a fork; what it left, and how that was mended, is printed as a line of JSON.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

from tests.store.kv_kit import ROOT, A, B, C, Kept

SIZE, BUDGET = 40_000, 190_000  # of a node; for three of them
D, E = (2,) * 6, (3,) * 6
Change = Callable[[Kept], object]


def keep(kept: Kept) -> None:
    """Keep one more than there is room for."""
    kept.keep(C, D, size=SIZE)


def forget(kept: Kept) -> None:
    """Forget a node with one below it."""
    kept.store.folder.remove([kept.store.match(ROOT, [A]).nodes[0].key])


def lose(kept: Kept) -> None:
    """Come upon a damaged file."""
    kept.path_of(A).write_bytes(b"damaged")
    kept.has(A)


def let_go(kept: Kept) -> None:
    """Let go of two leaves, and of what is no leaf."""
    matches = [kept.store.match(ROOT, path) for path in ([A, B], [C])]
    kept.store.evict_unused([node.key for match in matches for node in match.nodes])


CHANGES: dict[str, Change] = {"keep": keep, "forget": forget, "lose": lose, "let_go": let_go}


def main(name: str, folder: Path) -> None:
    """Die before each step of a change in turn, until there are no more steps."""
    (folder / "sound").mkdir(parents=True)
    with closing(Kept(folder / "sound", budget=BUDGET)) as kept:
        for segments in ((A,), (A, B), (C,)):
            kept.keep(*segments, size=SIZE)
    length, died = 1, True
    while died:
        home = folder / str(length)
        shutil.copytree(folder / "sound", home)
        died = _died(home, CHANGES[name], length)
        print(json.dumps(dict(_mended(home))))
        shutil.rmtree(home)
        length += 1


def _died(home: Path, change: Change, length: int) -> bool:
    """Make a change in a process that dies before its step of that number; False where it has fewer."""
    child = os.fork()
    if not child:
        kept, steps = Kept(home, budget=BUDGET), count(1)

        def step(*_: object) -> None:
            if next(steps) == length:
                os.kill(os.getpid(), signal.SIGKILL)

        kept.meanwhile = step
        kept.ledger.rows.set_trace_callback(step)
        sys.addaudithook(lambda event, words: step() if _touches(str(home), event, words) else None)
        change(kept)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def _touches(home: str, event: str, words: tuple[object, ...]) -> bool:
    return event in ("open", "os.rename", "os.remove", "os.mkdir") and str(words[0]).startswith(home)


def _mended(home: Path) -> Iterator[tuple[str, object]]:
    """Open what was left, write to it, tidy it up, and say what was found."""
    with closing(Kept(home, budget=BUDGET)) as kept:
        yield "left", len(kept.store.folder.orphans())
        before = kept.used()
        again = kept.keep(E, size=SIZE)
        yield "within budget", max(before, kept.used()) <= BUDGET
        kept.store.collect()
        nodes = kept.store.index.all_keys()
        yield "usable", again is not None and kept.has(E) and kept.used() <= BUDGET
        yield "tidy", kept.files() == {f"{key.hex()}.safetensors" for key in nodes}
        yield "parents", kept.orphans() == []
        kept.keep(C, size=SIZE)
        yield "again", kept.keep(C, D, size=SIZE) is not None and kept.has(C, D)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
