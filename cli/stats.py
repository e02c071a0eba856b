"""`pkb stats`: the figures on one screen, or as JSON."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from cli import output
from cli.output import open_pkb
from cli.render import from_home, show_table, tell
from engine.text.terminal import count, duration, line, plain, size

Line = tuple[str, str]
_FOLDERS = 5  # listed
_PATH = 26  # columns of a folder's path


def kv_lines(row: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines about the KV cache: hits, size."""
    cache, prompts = row["kv"], row["prompts"]
    if prompts["questions"]:
        share = _share(prompts["reused"] / prompts["tokens"])
        tokens = f"{prompts['reused']:,} of {prompts['tokens']:,} prompt tokens ({share})"
        yield "reused", f"{tokens}, {duration(cache['saved_s'])} saved"
    if cache["fetched_tokens"]:
        came = f"{cache['fetched_tokens']:,} tokens, {size(cache['fetched_bytes'])} from elsewhere"
        yield "fetched", f"{came}, {duration(cache['fetched_saved_s'])} saved"
    if cache["nodes"] or cache["written_today"]:
        today = f"{size(cache['written_today'])} of {size(cache['daily_budget'])} written today"
        yield "KV cache", f"{count(cache['nodes'], 'segment')}, {size(cache['bytes'])}; {today}"


def _share(share: float) -> str:
    return f"{share * 100:.0f} %"


_LABEL = 12  # columns


def _print(rows: Iterable[Line]) -> None:
    for label, shown in rows:
        tell(typer.style(label.ljust(_LABEL), bold=True) + shown, indent=" " * _LABEL)


TIERS = ("exact", "semantic", "prefix", "blocks", "full")  # of the tiers: the least work first


def _show_tiers(row: dict[str, Any]) -> None:
    rank = {tier: place for place, tier in enumerate(TIERS)}
    tiers = sorted(row["tiers"], key=lambda tier: (rank.get(tier["tier"], len(TIERS)), not tier["by_model"]))
    questions = sum(tier["questions"] for tier in tiers)
    rows: list[tuple[str, ...]] = [("tier", "asked", "share", "p50", "p95", "saved")]
    for tier in tiers:
        spent = (tier["p50_ms"] / 1000, tier["p95_ms"] / 1000, tier["saved_s"])
        is_model = tier["by_model"] and tier["tier"] == "full"  # without a cache hit it is the model's, or quoted
        name = f"{tier['tier']} (model)" if is_model else str(tier["tier"])
        share = _share(tier["questions"] / questions)
        rows.append((name, f"{tier['questions']:,}", share, *map(duration, spent)))
    rows.append(("all", f"{questions:,}", "", "", "", duration(row["saved_s"])))
    print()
    show_table(rows, "<>>>>>")
    print()


def _size_lines(row: dict[str, Any]) -> Iterator[Line]:
    answers, cache = row["answers"], row["kv"]
    kinds = [("answered", "cached"), ("predicted", "predicted"), ("prefilled", "prefilled without one")]
    counted = [f"{answers[key]:,} {words}" for key, words in kinds if answers[key] or key == "answered"]
    yield "answers", f"{', '.join(counted)}; {size(answers['bytes'])} of {size(answers['budget'])}"
    if answers["pending"]:
        yield "", f"{count(answers['pending'], 'semantic hit')} to be verified by pkb idle"
    if answers["verified"]:
        most = f"at most {answers['false_hit_upper'] * 100:.1f} % (95 %)"
        yield "", f"wrong of {count(answers['verified'], 'verified semantic hit')}: {answers['wrong']:,}, {most}"
    if answers["rejected"]:
        yield "", f"{answers['rejected']:,} marked wrong"
    disk = ", ".join(f"{name} {size(used)}" for name, used in row["bytes"].items())  # the cache comes last
    yield "on disk", f"{disk} of {size(cache['budget'])}"
    if cache["other_bytes"] >= cache["budget"]:
        yield "", f"no KV cache is stored: other cache files take {size(cache['other_bytes'])}"


def _index_lines(row: dict[str, Any]) -> Iterator[Line]:
    index, names = row["index"], row["collections"].items()
    files = f"{count(index['documents'], 'document')} in {count(index['files'], 'file')}"
    yield "indexed", f"{files}, {count(index['chunks'], 'chunk')}"
    if index["vectors"] < index["chunks"]:
        yield "", f"{index['vectors']:,} of them have embeddings; the others are found by keywords only"
    if len(names) > 1 and len(names) != len(row["folders"]):  # else each has the line of its folder
        yield "", ", ".join(f"{plain(name)}: {documents:,}" for name, documents in names)
    if index["problems"]:
        yield "", f"{count(index['problems'], 'item')} skipped; list them with: pkb list --problems"
    for number, one in enumerate(row["folders"][:_FOLDERS]):
        path = from_home(line(one["path"]))
        parts = [path if len(path) <= _PATH else f"…{path[1 - _PATH :]}", count(one["documents"], "document")]
        parts += [f"{one['first'][:10]} to {one['last'][:10]}"] if one["first"] else []
        parts += [f"read {one['read'][:10]}"] if one["read"] else []
        yield "" if number else "folders", ", ".join(parts)
    if len(row["folders"]) > _FOLDERS:
        yield "", f"and {len(row['folders']) - _FOLDERS:,} more; list them with: pkb stats --json"
    if row["model"]:
        adapter = f", adapter {line(row['adapters']['answer'])}" if row["adapters"]["answer"] else ""
        yield "model", from_home(line(row["model"])) + adapter


_JOBS = 3  # kinds that are listed


def _idle_lines(idle: dict[str, Any]) -> Iterator[Line]:
    done = sorted((one for one in idle["so_far"] if one["units"]), key=lambda one: -one["seconds"])
    if done:
        seconds, saved = (duration(sum(one[key] for one in done)) for key in ("seconds", "saved_s"))
        hits = count(sum(one["hits"] for one in done), "cache hit")
        yield "idle work", f"{seconds} spent, {saved} saved by {hits}"
        listed, others = done[:_JOBS], sum(one["seconds"] for one in done[_JOBS:])
        parts = [f"{one['job']} {duration(one['seconds'])}" for one in listed]
        yield "", ", ".join([*parts, *([f"other jobs {duration(others)}"] if others else [])])
    if idle["predicted"]:
        yield "", f"{count(idle['predicted'], 'predicted question')} answered, {idle['asked_later']:,} asked later"
    if idle["pending"]:
        pending = ", ".join(f"{jobs:,} {kind}" for kind, jobs in idle["pending"].items())
        yield "", f"pending for pkb idle: {pending}"


def stats(as_json: Annotated[bool, typer.Option("--json", help="Print the statistics as JSON.")] = False) -> None:
    """Show the time that caches saved, hit rates, latency and sizes.

    Example: pkb stats --json
    """
    with open_pkb() as pkb:
        row = pkb.stats()
    if as_json:
        output.data(row)
        return
    if row["tiers"]:  # the savings first
        asked, answered = (sum(tier[key] for tier in row["tiers"]) for key in ("questions", "answered"))
        since = f" since {row['history']['first']}" if row["history"]["first"] else ""
        said = f"{duration(row['saved_s'])} in {count(asked, 'question')}{since}, {_share(answered / asked)} answered"
        _print([("saved", said)])
        _show_tiers(row)
    _print([*kv_lines(row), *_idle_lines(row["idle"]), *_size_lines(row), *_index_lines(row)])
    if not row["tiers"]:
        _print([("asked", "nothing yet; try: pkb ask QUESTION")])
