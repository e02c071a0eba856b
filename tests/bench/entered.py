"""Counts the product files, functions and file-to-file edges that one pkb command enters, and the size of the product.

Run `python -m tests.bench.entered COMMAND [ARG...]`, for example `... ask "when is rehearsal?" --no-daemon`. The
command runs in this process, threads included; it prints to stderr, and one line of JSON goes to stdout at the end.
Other processes, such as the background server, are not counted. An edge is a call from one product file into another,
library code in between included.
"""

import ast
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from inspect import CO_OPTIMIZED
from pathlib import Path
from statistics import median
from types import CodeType, FrameType
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = ("cli", "engine", "store", "prompts")


class Entered:
    """The product functions that were entered so far, and the calls between product files."""

    def __init__(self) -> None:
        self.functions = set[tuple[str, str, int]]()
        self.edges = set[tuple[str, str]]()
        self._files = dict[str, str | None]()  # product file by the name that its code goes under

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Note one event, as `sys.setprofile` wants it."""
        if event != "call" or (file := self.entered(frame.f_code)) is None:
            return
        if not frame.f_code.co_name.startswith("<"):  # a lambda or comprehension is a part of its function
            self.functions.add((file, frame.f_code.co_qualname, frame.f_code.co_firstlineno))
        if (caller := self._caller(frame)) not in (None, file):
            self.edges.add((str(caller), file))

    def entered(self, code: CodeType) -> str | None:
        """Return the product file of a function; None for the body of a module or class, and for code of others."""
        if not code.co_flags & CO_OPTIMIZED:
            return None
        if code.co_filename not in self._files:
            self._files[code.co_filename] = product_file(Path(code.co_filename))
        return self._files[code.co_filename]

    def _caller(self, frame: FrameType) -> str | None:
        above = frame.f_back
        while above:
            if file := self.entered(above.f_code):
                return file
            above = above.f_back
        return None

    def to_json(self) -> dict[str, int]:
        """Return the counts."""
        files = {file for file, _, _ in self.functions}
        return {"files": len(files), "functions": len(self.functions), "edges": len(self.edges)}


@contextmanager
def watched() -> Iterator[Entered]:
    """Count what this thread and all threads that it starts enter."""
    found = Entered()
    threading.setprofile(found)
    sys.setprofile(found)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def product_file(path: Path) -> str | None:
    """Return a file's path within the project; None where it is no part of the product."""
    if not path.is_relative_to(PROJECT):
        return None
    inner = path.relative_to(PROJECT)
    return inner.as_posix() if inner.parts[0] in PACKAGES else None


def size() -> dict[str, float]:
    """Return the modules and lines of the product, its functions, and the median lines of a module and a function."""
    texts = [path.read_text("utf-8") for package in PACKAGES for path in (PROJECT / package).rglob("*.py")]
    lines = [len(text.splitlines()) for text in texts]
    nodes = [node for text in texts for node in ast.walk(ast.parse(text))]
    functions = [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for node in nodes
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    return {
        "modules": len(lines),
        "lines": sum(lines),
        "module_median": median(lines),
        "defined": len(functions),
        "function_median": median(functions),
    }


def run(words: Sequence[str]) -> dict[str, Any]:
    """Run one pkb command, and return its exit code, what it entered, and the size of the product."""
    from cli.app import run as command

    with redirect_stdout(sys.stderr), watched() as found:
        code = command(list(words))
    return {"command": words[0] if words else "", "exit": code, **found.to_json(), "product": size()}


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1:])))
