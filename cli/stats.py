"""`pkb stats`: the figures on one screen, or as JSON. Loads rich only to print them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import output
from cli.output import open_pkb
from engine.text.terminal import count, line, plain, size

if TYPE_CHECKING:
    from rich.table import Table

_REMOVED = {"evicted": "for lack of space", "deleted": "deleted"}  # any other reason: a missing or damaged file
_REFUSED = {
    "no_space": "for lack of space",
    "daily_limit": "over the daily write limit",
    "write_error": "after a write error",
    "no_parent": "without their parent",
}  # any other reason: another process was faster
Line = tuple[str, str]
_FOLDERS = 5  # listed
_PATH = 26  # columns of a folder's path


def kv_lines(row: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines about the KV cache: size, hits, evictions, and what more space would have saved."""
    cache, prompts = row["kv"], row["prompts"]
    if cache["nodes"] or cache["written_by_day"]:
        today = f"{size(cache['written_today'])} of {size(cache['daily_budget'])} written today"
        yield "KV cache", f"{count(cache['nodes'], 'segment')}, {size(cache['bytes'])}; {today}"
    if prompts["questions"]:
        share = _share(prompts["reused"] / prompts["tokens"])
        among = f"in {prompts['with_reuse']:,} of {count(prompts['questions'], 'prompt')}"
        tokens = f"{prompts['reused']:,} of {prompts['tokens']:,} tokens ({share})"
        yield "reused", f"{tokens}, {among}; {cache['saved_s']:.1f} s saved"
    if cache["removed"]:
        yield "evicted", _reasons(cache["removed"], _REMOVED, "with a missing or damaged file")
    if "evicted" in cache["removed"] and cache["other_bytes"] < cache["budget"]:
        yield "", f"more room would have saved {cache['more_would_save_s']:.1f} s"
    if cache["refused"]:
        yield "not stored", _reasons(cache["refused"], _REFUSED, "already stored by another process")


def _reasons(counts: Mapping[str, int], words: Mapping[str, str], others: str) -> str:
    """Return how many for which reason, most frequent first."""
    merged: dict[str, int] = {}
    for reason, number in counts.items():
        label = words.get(reason, others)
        merged[label] = merged.get(label, 0) + number
    return ", ".join(f"{number:,} {label}" for label, number in sorted(merged.items(), key=lambda one: -one[1]))


def _share(share: float) -> str:
    return f"{share * 100:.0f} %"


_LABEL = 12  # columns


def show_figures(row: dict[str, Any]) -> None:
    """Print the figures of `pkb stats`."""
    console = output.console()
    _print(_index_lines(row))
    if row["tiers"]:
        console.print()
        console.print(_tiers(row))
    else:
        _print([("asked", "nothing yet; try: pkb ask QUESTION")])
    if shown := [*_idle_lines(row["idle"]), *kv_lines(row)]:
        console.print()
        _print(shown)


def _print(rows: Iterable[tuple[str, str]]) -> None:
    """Print lines, each under its label or the one above it."""
    from rich.text import Text  # not before there is something to show

    for label, shown in rows:
        output.console().print(Text.assemble((label.ljust(_LABEL), "bold"), shown))


def _index_lines(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    index, answers, names = row["index"], row["answers"], row["collections"].items()
    yield (
        "indexed",
        f"{count(index['documents'], 'document')} in {count(index['files'], 'file')}, "
        f"{count(index['chunks'], 'chunk')}",
    )
    if index["vectors"] < index["chunks"]:
        yield "", f"{index['vectors']:,} of them have embeddings; the others are found by keywords only"
    if len(names) > 1:
        yield "", ", ".join(f"{plain(name)}: {documents:,}" for name, documents in names)
    if index["problems"]:
        yield "", f"{count(index['problems'], 'item')} could not be read; list them with: pkb ingest --json"
    yield from _folder_lines(row["folders"])
    if row["model"]:
        yield "model", line(row["model"])
    yield "answers", f"{answers['answered']:,} cached, {size(answers['bytes'])} of {size(answers['budget'])}"
    yield from (("", words) for words in _semantic_lines(answers))
    disk = ", ".join(f"{name} {size(used)}" for name, used in row["bytes"].items())  # the cache comes last
    cache = row["kv"]
    yield "on disk", f"{disk} of {size(cache['budget'])}"
    if cache["other_bytes"] >= cache["budget"]:
        yield "", f"no KV cache is stored: other cache files take {size(cache['other_bytes'])}"


def _folder_lines(folders: list[dict[str, Any]]) -> Iterator[Line]:
    """Yield a line for each folder that is read: how much of it, from when to when, and when it was read."""
    from cli.render import from_home

    for number, one in enumerate(folders[:_FOLDERS]):
        path = from_home(line(one["path"]))
        parts = [path if len(path) <= _PATH else f"…{path[1 - _PATH :]}", count(one["documents"], "document")]
        parts += [f"{one['first'][:10]} to {one['last'][:10]}"] if one["first"] else []
        parts += [f"read {one['read'][:10]}"] if one["read"] else []
        yield "" if number else "folders", ", ".join(parts)
    if len(folders) > _FOLDERS:
        yield "", f"and {len(folders) - _FOLDERS:,} more; list them with: pkb stats --json"


def _semantic_lines(answers: dict[str, Any]) -> Iterator[str]:
    """Yield the lines about predicted questions and semantic hits."""
    if answers["predicted"] or answers["prefilled"]:
        yield f"{answers['predicted']:,} predicted, {answers['prefilled']:,} prefilled without an answer"
    if answers["pending"]:
        yield f"{count(answers['pending'], 'semantic hit')} to be verified by pkb idle"
    if answers["verified"]:
        most = f"at most {answers['false_hit_upper'] * 100:.1f} % (95 %)"
        yield f"wrong of {count(answers['verified'], 'verified semantic hit')}: {answers['wrong']:,}, {most}"
    if answers["judged"]:
        yield f"{count(answers['judged'], 'similar question')} judged by the model, {answers['aliases']:,} ask the same"
    if answers["rejected"]:
        yield f"{answers['rejected']:,} marked wrong"


def _idle_lines(idle: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the lines about idle jobs: cost, cache hits, predictions, pending jobs."""
    done = [one for one in idle["so_far"] if one["units"]]
    if done:
        seconds, saved = sum(one["seconds"] for one in done), sum(one["saved_s"] for one in done)
        hits = count(sum(one["hits"] for one in done), "cache hit")
        yield "idle work", f"{seconds:.1f} s, {hits}, {saved:.1f} s saved"
        yield "", ", ".join(f"{one['job']}: {one['units']:,} in {one['seconds']:.1f} s" for one in done)
    if idle["predicted"]:
        yield "", f"{count(idle['predicted'], 'question')} predicted, {idle['asked_later']:,g} asked later"
    if idle["paused"]:
        yield "", plain(idle["paused"])
    if idle["pending"]:
        pending = ", ".join(f"{jobs:,} {kind}" for kind, jobs in idle["pending"].items())
        yield "", f"pending for pkb idle: {pending}"


def _tiers(row: dict[str, Any]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), title=None)
    for heading in ("tier", "asked", "answered", "median", "saved"):
        table.add_column(heading, justify="left" if heading == "tier" else "right")
    for tier in row["tiers"]:
        cells = (
            f"{tier['questions']:,}",
            f"{tier['answered']:,}",
            f"{tier['median_ms']:.1f} ms",
            f"{tier['saved_s']:.1f} s",
        )
        table.add_row(tier["tier"] + (", by the model" if tier["by_model"] and tier["tier"] == "full" else ""), *cells)
    table.add_row(Text("all", style="bold"), *_sum(row))
    return table


def _sum(row: dict[str, Any]) -> tuple[str, str, str, str]:
    questions = sum(tier["questions"] for tier in row["tiers"])
    answered = sum(tier["answered"] for tier in row["tiers"])
    return f"{questions:,}", f"{answered:,}", "", f"{row['saved_s']:.1f} s"


def stats(as_json: Annotated[bool, typer.Option("--json", help="Print the statistics as JSON.")] = False) -> None:
    """Show the size of index and caches, and the time they saved.

    Example: pkb stats --json
    """
    with open_pkb() as pkb:
        row = pkb.stats()
    if as_json:
        output.data(row)
        return
    show_figures(row)
