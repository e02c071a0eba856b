"""Bars for long work: on a terminal, on stderr, and nowhere else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cli import out

Tick = Callable[[str, int, int | None], None]


@contextmanager
def bars(*, quiet: bool) -> Iterator[Tick]:
    """Give a function that moves the bar of a step; it does nothing where nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield lambda step, done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:<8}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=out.console(stderr=True), transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def tick(step: str, done: int, total: int | None) -> None:
            if step not in tasks:
                tasks[step] = progress.add_task(step, total=total)
            progress.update(tasks[step], completed=done, total=total)

        yield tick
