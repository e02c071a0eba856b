"""`pkb ingest`: reads folders, shows how far it is, and sums up."""

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cli import output
from cli.output import bars, open_pkb
from engine.operations import refuse_missing
from engine.text.terminal import count, line
from store.errors import NoModel, UsageError

if TYPE_CHECKING:
    from engine.app import Pkb
    from engine.ingest.pipeline import Summary


_LISTED = 10
When = Literal["now", "background", "later"]


def ingest(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH...", help="Folders or files; none to update all indexed before."),
    ] = None,
    kind: Annotated[
        Literal["mail", "mbox", "transcript"] | None, typer.Option(help="Treat every file as this kind.")
    ] = None,
    collection: Annotated[
        str | None, typer.Option("--in", metavar="NAME", help="Collection to add to (default: the folder's name).")
    ] = None,
    prune: Annotated[bool, typer.Option("--prune", help="Remove documents of missing files, however many.")] = False,
    restore: Annotated[bool, typer.Option("--restore", help="Index forgotten messages of these paths again.")] = False,
    vectors: Annotated[When, typer.Option(help="When to compute embeddings; keyword search works at once.")] = "now",
    watch: Annotated[bool, typer.Option("--watch", help="Keep running and watch the folders, like pkb watch.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Index mail and transcripts: new, changed and removed files.

    Example: pkb ingest ~/Mail ~/Meetings
    """
    if watch:
        from cli.watch import start

        if restore:
            raise UsageError("--restore cannot be combined with --watch", "pkb ingest PATH --restore, then: pkb watch")
        if prune:
            raise UsageError("--prune cannot be combined with --watch", "pkb ingest --prune, then: pkb watch")
        start(paths or [], kind, collection, embeds=vectors != "later", as_json=as_json)
    if restore and not paths:
        raise UsageError("--restore needs the files or folders to restore", "pkb ingest FILE --restore")
    began = time.perf_counter()
    with open_pkb() as pkb:
        for check in pkb.unfit_places():
            output.say(f"pkb: warning: {check.found}; try: {check.next_step}")
        with bars(quiet=as_json) as tick:
            summary, missing = pkb.index(
                paths or [], kind=kind, collection=collection, prune=prune, restore=restore, on_progress=tick
            )
        chunks = pkb.session.ledger.count("chunks")
        if not as_json:
            _show(summary, chunks)
        left = _embed(pkb, vectors, quiet=as_json)
        if as_json:
            output.data(_row(summary, chunks, left, time.perf_counter() - began))
    refuse_missing(summary, missing)
    raise typer.Exit(3 if summary.problems else 0)


def _embed(pkb: "Pkb", when: When, *, quiet: bool) -> int:
    """Embed what has no vector yet, or leave it; returns how many chunks are left without."""
    missing = pkb.missing_embeddings
    if not missing or when == "later":
        return missing
    if when == "background":
        # -P: a folder named cli where the user stands must not be taken for ours
        words = [sys.executable, "-P", "-c", "from cli.app import main; main()", "ingest", "--json"]
        subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         start_new_session=True)  # fmt: skip
        return missing
    try:
        return _embed_now(pkb, missing, quiet=quiet)
    except NoModel as error:
        from cli.pull import offer_embedder, tell_keywords_only

        if not quiet and offer_embedder(pkb.session):
            return _embed_now(pkb, missing, quiet=quiet)
        tell_keywords_only(pkb.session, error)
    return missing


def _embed_now(pkb: "Pkb", missing: int, *, quiet: bool) -> int:
    """Embed what has no vector yet; returns how many chunks are left without. NoModel without an embedding model."""
    with bars(quiet=quiet) as tick:
        tick("embed", 0, None)
        for done, missing in pkb.embed():
            tick("embed", done, done + missing)
    return missing


def _row(summary: "Summary", chunks: int, left: int, seconds: float) -> dict[str, Any]:
    counters = ("read", "kept", "duplicates", "removed", "refused", "forgotten")
    return {
        "schema": output.SCHEMA,
        "files": {name: getattr(summary, name) for name in ("files", "new", "changed", "gone")},
        "documents": {name: getattr(summary, name) for name in counters},
        "chunks": chunks,
        "without_vector": left,
        "skipped": [
            {"path": p.path, "item": p.item, "reason": p.reason, "new": new}
            for new, found in ((True, summary.problems), (False, summary.known_problems))
            for p in found
        ],
        "seconds": round(seconds, 3),
    }


def _show(summary: "Summary", chunks: int) -> None:
    changes = {"new": summary.new, "changed": summary.changed, "gone": summary.gone}
    files = ", ".join(f"{number:,} {name}" for name, number in changes.items() if number) or "nothing new"
    print(f"{count(summary.files, 'file')}: {files}")
    documents = [f"{count(summary.kept, 'document')} added"]
    documents += [count(summary.duplicates, "duplicate")] if summary.duplicates else []
    documents += [f"{summary.removed:,} removed"] if summary.removed else []
    print(f"{', '.join(documents)}; {count(chunks, 'chunk')} indexed")
    if summary.forgotten:
        print(f"kept out {count(summary.forgotten, 'forgotten document')}")
    for problem in summary.problems[:_LISTED]:
        item = f" item {problem.item + 1}" if problem.item else ""
        print(f"skipped {line(problem.path)}{item}: {problem.reason}")
    if len(summary.problems) > _LISTED:
        print(f"skipped {len(summary.problems) - _LISTED:,} more; list them with: pkb ingest --json")
    if summary.known_problems:
        print(f"skipped again: {len(summary.known_problems):,}; list them with: pkb ingest --json")
