"""The shape of the code: which way imports point, who may use what, how large things are. Reads sources alone."""

import ast
import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
OURS = ("cli", "engine", "store", "prompts")
MAY_IMPORT = {
    "cli": {"cli", "engine", "store"},
    "engine": {"engine", "store", "prompts"},
    "store": {"store"},
    "prompts": {"prompts"},
}
# Every library, and the modules that may know it; whatever stands in none of these is pure.
LIBRARIES = {
    "typer": ("cli/*",),
    "rich": ("cli/*",),
    "lancedb": ("store/tables.py",),
    "pyarrow": ("store/tables.py",),
    "mlx_lm": (
        "engine/models/mlx.py",
        "engine/models/caches.py",
        "engine/models/attention.py",
        "engine/kv/adapters.py",
    ),
    "mlx": ("engine/models/*", "engine/kv/*"),
    "tokenizers": ("engine/models/*",),
    "jinja2": ("engine/models/frames.py",),
    "huggingface_hub": ("engine/models/hub.py",),
    "numpy": (
        "engine/models/*",
        "engine/kv/*",
        "engine/ingest/embed.py",
        "store/tables.py",
        "store/hits.py",
        "store/bank_*.py",
    ),
    "rank_bm25": ("engine/ask/retrieve.py",),
    "watchdog": ("engine/ingest/watch.py",),
    "selectolax": ("engine/ingest/html.py",),
    "charset_normalizer": ("engine/ingest/charsets.py",),
    "psutil": ("engine/health.py", "engine/models/memory.py", "engine/idle/device.py"),
    "filelock": ("store/locks.py",),
    "platformdirs": ("store/home.py",),
    "tomlkit": ("engine/config.py",),
    "safetensors": ("engine/models/*", "store/kv_files.py"),
}
HEAVY = ("lancedb", "pyarrow", "numpy", "mlx", "transformers", "tokenizers", "rank_bm25")
LONGEST_MODULE, LONGEST_FUNCTION = 250, 60
PAPERS = re.compile(r"\b(?:PerCache|MobiLoRA|SparKV|KVPR|Cake)\b")


def sources() -> list[Path]:
    return sorted(path for package in OURS for path in (PROJECT / package).rglob("*.py"))


def named(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{named(path)}: the path is the import"
            yield node.module or ""


def every(*packages: str) -> list[Path]:
    return [path for path in sources() if named(path).split("/")[0] in packages]


def public(body: list[ast.stmt], within: str = "") -> Iterator[tuple[str, ast.AST]]:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield within + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body, f"{within}{node.name}.")


def run_light(*words: str) -> set[str]:
    """Run a command in a fresh process and give the libraries it imported."""
    code = f"import sys; from cli.app import run; run({list(words)!r}); print(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PROJECT)
    return {name.split(".")[0] for name in done.stdout.splitlines()[-1].split()}


def test_imports_between_our_packages_point_one_way() -> None:
    wrong = [
        f"{named(path)} imports {name}"
        for path in sources()
        for name in imports(path)
        if (top := name.split(".")[0]) in OURS and top not in MAY_IMPORT[named(path).split("/")[0]]
    ]
    assert wrong == []


def test_every_library_is_known_to_its_own_modules_alone() -> None:
    wrong = [
        f"{named(path)} imports {name}"
        for path in sources()
        for name in imports(path)
        if (top := name.split(".")[0]) not in {*OURS, *sys.stdlib_module_names}
        and not any(fnmatch(named(path), place) for place in LIBRARIES.get(top, ()))
    ]
    assert wrong == []


def test_a_library_that_has_places_in_the_code_is_declared_by_the_project() -> None:
    declared = {re.split(r"[<>=;\[ ]", need)[0].replace("-", "_") for need in importlib.metadata.requires("pkb") or ()}
    used = {name.split(".")[0] for path in sources() for name in imports(path)} - {*OURS, *sys.stdlib_module_names}
    assert used - declared - {"mlx"} == set()  # mlx comes with mlx-lm


def test_modules_stay_short_and_say_what_they_are() -> None:
    lengths = {named(path): len(path.read_text("utf-8").splitlines()) for path in sources()}
    assert {name: length for name, length in lengths.items() if length > LONGEST_MODULE} == {}
    assert [named(path) for path in sources() if not ast.get_docstring(tree(path))] == []


def test_functions_stay_short() -> None:
    long = [
        f"{named(path)}:{node.lineno} {node.name}"
        for path in sources()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= LONGEST_FUNCTION
    ]
    assert long == []


def test_packages_are_two_levels_deep_at_most() -> None:
    assert [named(path) for path in sources() if len(path.relative_to(PROJECT).parts) > 3] == []


def test_nothing_outside_the_command_line_prints() -> None:
    printing = re.compile(r"(?<![\w.])print\(|sys\.(?:stdout|stderr)|\blogging\b|\bwarnings\.warn")
    wrong = [named(path) for path in every("engine", "store", "prompts") if printing.search(path.read_text("utf-8"))]
    assert wrong == []


def test_every_public_function_and_class_says_what_it_is_for() -> None:
    silent = [
        f"{named(path)}: {name}"
        for path in sources()
        for name, node in public(tree(path).body)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not ast.get_docstring(node)
    ]
    assert silent == []


def test_numbers_of_the_papers_stand_in_the_settings_alone() -> None:
    number = re.compile(r"^\s*\w+(?:: \w+)? = [\d.]+\b.*#.*")
    lines = [(named(path), line) for path in sources() for line in path.read_text("utf-8").splitlines()]
    cited = {name for name, line in lines if number.match(line) and PAPERS.search(line.partition("#")[2])}
    assert cited <= {"engine/settings.py"}


def test_no_exception_is_caught_whatever_it_is() -> None:
    broad = re.compile(r"except(?: Exception| BaseException)?(?: as \w+)?:")
    wrong = [
        f"{named(path)}:{node.lineno}"
        for path in sources()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ExceptHandler)
        and broad.match(ast.get_source_segment(path.read_text("utf-8"), node) or "")
        and not any(isinstance(inner, ast.Raise) and inner.exc is None for inner in ast.walk(node))
    ]
    assert wrong == []


@pytest.mark.parametrize("words", [("--help",), ("ask", "--nope"), ("ingest", "--help"), ("config", "path")])
def test_help_and_mistakes_load_nothing_heavy(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PKB_HOME", "/nonexistent")
    assert run_light(*words) & {*HEAVY, "rich", "sqlite3"} == set()


def test_no_other_distribution_owns_our_top_level_names() -> None:
    owners = importlib.metadata.packages_distributions()
    assert {name: owners[name] for name in OURS if name in owners and set(owners[name]) != {"pkb"}} == {}
