"""`pkb watch`: follows folders until a signal comes, and brings what was read from them up to date."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from cli import deeds
from cli.given import duration
from cli.ingest import choose
from cli.out import session
from cli.queue import queue
from store.errors import Locked

if TYPE_CHECKING:
    from cli.vigil import Queue
    from engine.ingest.follow import Pace


def watch(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH...", help="Folders or files; none for all indexed before.")
    ] = None,
    quiet: Annotated[
        str, typer.Option("--quiet", metavar="TIME", help="Index after this long without changes.")
    ] = "5s",
    rescan: Annotated[str, typer.Option("--rescan", metavar="TIME", help="Rescan everything this often.")] = "1h",
    poll: Annotated[
        str | None,
        typer.Option("--poll", metavar="TIME", help="Poll this often instead of using file events."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON event per line.")] = False,
) -> None:
    """Watch folders, and index changes as they happen.

    Example: pkb watch ~/Mail
    """
    from engine.ingest.follow import Pace

    usual, example = Pace(), "pkb watch --quiet 5s"
    looks = usual.poll if poll is None else max(1.0, duration("--poll", poll, example))
    pace = Pace(duration("--quiet", quiet, example), rescan=duration("--rescan", rescan, example), poll=looks)
    start(paths or [], None, None, pace=pace, polling=poll is not None, queue=queue, as_json=as_json)


def start(
    paths: Sequence[Path],
    kind: str | None,
    collection: str | None,
    *,
    pace: "Pace | None" = None,
    polling: bool = False,
    embeds: bool = True,
    queue: "Queue | None" = None,
    as_json: bool = False,
) -> NoReturn:
    """Follow roots until a signal comes; `queue` is called once after every batch of changes, when they have rested."""
    import logging

    from cli.signals import heed
    from cli.tidings import Tidings
    from cli.vigil import Vigil
    from engine.ingest.follow import Follow, Pace

    pace = pace or Pace()
    # The library would tell the terminal of lost events, which the next look makes up for.
    logging.getLogger("watchdog").addHandler(logging.NullHandler())
    heed()
    with session() as opened:
        roots, missing = choose(opened, paths, kind, collection)
        opened.make()
        aside = [str(folder) for folder in (opened.home.data, opened.home.cache)]
        with suppress(Locked):  # else the next time
            deeds.ingest(opened, [], missing, prune=False)
    with Follow(pace, polling=polling, aside=aside) as follow:
        vigil = Vigil(follow, pace, Tidings(as_json=as_json), embeds=embeds, queue=queue)
        for root in (*roots, *missing):
            vigil.add(root)
        while True:
            vigil.turn()
