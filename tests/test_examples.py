"""Runs that can be trusted: `make test` and `make test-slow` draw the same examples each time, `make soak` new ones."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

PROJECT = Path(__file__).parents[1]
# Where chance is wanted, and this file, which has examples of it.
CHANCE = ("tests/soak/", "tests/fuzz/", "tests/test_examples.py")
# What draws without a seed, however it is called; `mlx.core.random` draws from a stream that begins with the time.
UNSEEDED = ("os.urandom", "secrets.", "uuid.uuid1", "uuid.uuid4", "random.SystemRandom")
SEEDED = ("random.Random", "numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.Generator")
MLX = "mlx.core.random."
LIBRARIES = ("random.", "numpy.random.")


def whole(node: ast.expr, names: dict[str, str]) -> str:
    """Return the dotted name of what is called, as it was imported; empty where it is no name."""
    if isinstance(node, ast.Attribute):
        before = whole(node.value, names)
        return f"{before}.{node.attr}" if before else ""
    return names.get(node.id, "") if isinstance(node, ast.Name) else ""


def imported(tree: ast.AST) -> dict[str, str]:
    """Return what each imported name stands for."""
    found = dict[str, str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {one.asname or one.name.split(".")[0]: one.name if one.asname else one.name.split(".")[0]
                      for one in node.names}  # fmt: skip
        elif isinstance(node, ast.ImportFrom):
            found |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    return found


def draws(call: ast.Call, name: str, *, seeded: bool) -> bool:
    """Return whether a call of a name draws what no seed decides; `seeded`: mlx was seeded beside it."""
    if name.startswith(MLX):
        return name not in (f"{MLX}seed", f"{MLX}key") and not seeded and all(one.arg != "key" for one in call.keywords)
    if name in SEEDED:
        return not call.args and not call.keywords
    if name in (f"{library}seed" for library in LIBRARIES):
        return not call.args
    return name.startswith(UNSEEDED) or name.startswith(LIBRARIES)


def unseeded(tree: ast.AST, names: dict[str, str]) -> Iterator[str]:
    """Yield the calls that draw without a seed, in a module and in the programs that stand in it as text."""
    if not isinstance(tree, ast.Module):
        return
    for part in [*tree.body, *(inner for one in tree.body if isinstance(one, ast.ClassDef) for inner in one.body)]:
        calls = [node for node in ast.walk(part) if isinstance(node, ast.Call)]
        seeded = any(whole(one.func, names) == f"{MLX}seed" for one in [*calls, *top_calls(tree)])
        for call in calls:
            if not isinstance(part, ast.ClassDef) and draws(call, name := whole(call.func, names), seeded=seeded):
                yield f"{call.lineno}: {name}"


def top_calls(tree: ast.Module) -> list[ast.Call]:
    """Return the calls that are statements of a module."""
    return [one.value for one in tree.body if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call)]


def programs(text: str) -> Iterator[tuple[ast.Module, dict[str, str]]]:
    """Yield a module, and each program that stands in it as text, with the names that each imports."""
    tree = ast.parse(text)
    yield tree, imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "import " in node.value:
            try:
                inner = ast.parse(node.value)
            except (SyntaxError, ValueError):
                continue
            yield inner, imported(inner)


def found_in(text: str) -> list[str]:
    """Return the draws without a seed in a module; one that names none of their sources need not be parsed."""
    if not re.search("random|secrets|uuid", text):
        return []
    return [place for tree, names in programs(text) for place in unseeded(tree, names)]


def test_no_test_draws_without_a_seed() -> None:
    wrong = {}
    for path in sorted((PROJECT / "tests").rglob("*.py")):
        name = path.relative_to(PROJECT).as_posix()
        if not name.startswith(CHANCE) and (places := found_in(path.read_text("utf-8"))):
            wrong[name] = places
    assert wrong == {}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("import random\nrandom.Random(1).random()", 0),
        ("import random\nrandom.Random()", 1),
        ("from random import Random as Chance\nChance()", 1),
        ("from random import shuffle\ndef test(): shuffle([1])", 1),
        ("import random as chance\nchance.shuffle([1])", 1),
        ("random = made(1)\nrandom.shuffle([1])", 0),
        ("import numpy as np\nnp.random.default_rng(3)", 0),
        ("import numpy as np\nnp.random.default_rng()", 1),
        ("import numpy\nnumpy.random.rand(3)", 1),
        ("from os import urandom\nclass Test:\n    def test(self): urandom(3)", 1),
        ("import secrets\nsecrets.token_hex()", 1),
        ("def test():\n    from uuid import uuid4\n    uuid4()", 1),
        ("def test():\n    import mlx.core as mx\n    mx.random.normal((1,))", 1),
        ("def test():\n    import mlx.core as mx\n    mx.random.seed(1)\n    mx.random.normal((1,))", 0),
        ("import mlx.core as mx\nmx.random.normal((1,), key=mx.random.key(3))", 0),
        ("import random\nrandom.seed(2)", 0),
        ('CODE = """\nimport random\nrandom.random()\n"""', 1),
    ],
)
def test_a_draw_without_a_seed_is_found_however_it_is_written(text: str, count: int) -> None:
    assert len(found_in(text)) == count


def test_examples_of_hypothesis_are_the_same_in_every_run() -> None:
    if settings.get_current_profile_name() != "soak":
        assert (settings().derandomize, settings().database) == (True, None)


def test_a_property_meets_the_same_examples_twice() -> None:
    seen: list[list[str]] = [[], []]

    def note(text: str) -> None:
        seen[-1].append(text)

    for _ in range(2):
        given(st.text())(note)()
        seen.reverse()
    assert seen[0] == seen[1]


def drawn(folder: Path, seed: int, *words: str) -> dict[str, str]:
    """Run tests in a process of their own; returns a digest of the examples that each drew."""
    path = folder / f"{seed}.json"
    command = [sys.executable, "-m", "pytest", "-p", "tests.drawn", "--drawn", str(path), "-p", "no:cacheprovider"]
    subprocess.run([*command, *words], cwd=PROJECT, env={**os.environ, "PYTHONHASHSEED": str(seed)}, check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    found = json.loads(path.read_text("utf-8"))
    return {name: digest for name, digest in found.items() if name.startswith("tests/store/test_kv_tree")}


TREE = "tests/store/test_kv_tree.py"


@pytest.mark.slow
def test_neither_hashes_nor_other_tests_change_what_is_drawn(tmp_path: Path) -> None:
    alone, beside = drawn(tmp_path, 1, TREE), drawn(tmp_path, 2, "tests/engine/text/test_words.py", TREE)
    assert len(alone) > 3
    assert alone == beside


@pytest.mark.slow
def test_soak_draws_anew(tmp_path: Path) -> None:
    one, other = (drawn(tmp_path, seed, "--hypothesis-profile=soak", TREE, "-k", "packed") for seed in (1, 2))
    assert one.keys() == other.keys() != set()
    assert not one.items() & other.items()
