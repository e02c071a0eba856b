"""The shape of the code: which way imports point, who may use what, how large things are. Reads sources alone."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
OURS = ("cli", "engine", "store", "prompts")
# From the ground up: a module imports from its own layer or those before it, lazily or for types alone, too.
LAYERS = (
    ("store", "prompts"),
    ("engine.settings",),
    ("engine.text",),
    ("engine.types",),
    ("engine.models",),
    ("engine.kv",),
    ("engine.ingest", "engine.retrieval"),
    ("engine.llm",),
    ("engine.ask",),
    ("engine.backends",),
    ("engine.session",),
    ("engine.inventory",),
    ("engine.operations",),
    ("engine.operations",),
    ("engine.idle",),
    ("engine.health",),
    ("engine.serve",),
    ("engine.forget",),
    ("engine.watcher",),
    ("engine.app",),
    ("engine.mcp", "engine.http"),
    ("cli",),
)
# Every library, and the modules that may know it; whatever stands in none of these is pure.
LIBRARIES = {
    "typer": ("cli/*",),
    "rich": ("cli/output.py",),
    "lancedb": ("store/tables.py",),
    "pyarrow": ("store/tables.py",),
    "mlx_lm": (
        "engine/models/mlx.py",
        "engine/models/kv_cache.py",
    ),
    "mlx": ("engine/models/*", "engine/kv/blocks.py"),
    "tokenizers": ("engine/models/*",),
    "jinja2": ("engine/models/load.py",),
    "huggingface_hub": ("engine/models/hub.py",),
    "gguf": ("engine/models/gguf.py", "engine/models/gguf_weights.py"),
    "numpy": (
        "engine/models/*",
        "engine/ingest/chunking.py",
        "store/tables.py",
        "store/types.py",
        "store/search.py",
        "store/shards.py",
        "engine/retrieval/retrieve.py",
        "store/mapped_index.py",
        "store/remote.py",
    ),
    "rank_bm25": ("engine/retrieval/retrieve.py",),
    "watchdog": ("engine/ingest/follow.py",),
    "selectolax": ("engine/ingest/html.py",),
    "tinycss2": ("engine/ingest/css.py",),
    "pypdfium2": ("engine/ingest/office.py",),
    "python_calamine": ("engine/ingest/office.py",),
    "charset_normalizer": ("engine/ingest/headers.py",),
    "psutil": ("store/home.py", "engine/health.py", "engine/models/runtime.py"),
    "platformdirs": ("store/home.py",),
    "msgspec": ("store/*", "engine/*"),  # values that are made at every start, or that travel
    "tomlkit": ("engine/settings.py",),
    "safetensors": ("engine/models/*", "store/kv_files.py"),
    "mcp": ("engine/mcp.py",),
    "pydantic": ("engine/mcp.py",),
    "anyio": ("engine/mcp.py", "engine/http/*"),
    "h11": ("engine/http/routes.py",),
    "starlette": ("engine/http/*",),
    "uvicorn": ("engine/http/*",),
    "cryptography": ("store/peers.py",),
    "keyring": ("engine/ingest/imap.py",),
    "ray": ("engine/ingest/chunking.py",),
}
HEAVY = ("lancedb", "pyarrow", "numpy", "mlx", "transformers", "tokenizers", "rank_bm25")
MOST_MODULES, MOST_LINES = 118, 40_272
LONGEST_MODULE, LONGEST_FUNCTION = 600, 60
TWICE = {"__init__", "types", "pipeline"}  # a path each of ask and ingest
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


def run_light(*words: str, whole: bool = False) -> set[str]:
    """Run a command in a fresh process and give the libraries, or the whole modules, that it imported."""
    code = f"import sys; from cli.app import run; run({list(words)!r}); print(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PROJECT)
    return {name if whole else name.split(".")[0] for name in done.stdout.splitlines()[-1].split()}


def layer(module: str) -> int | None:
    """Return the number of a module's layer."""
    return next((n for n, names in enumerate(LAYERS) for name in names if f"{module}.".startswith(f"{name}.")), None)


def package(module: str) -> str:
    return next(name for names in LAYERS for name in names if f"{module}.".startswith(f"{name}."))


def imported_modules(path: Path) -> Iterator[str]:
    """Yield the modules of ours that a module imports, wherever in it and for whatever."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in OURS:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if (PROJECT / f"{inner.replace('.', '/')}.py").is_file() else node.module


def dotted(path: Path) -> str:
    return named(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def test_every_module_has_a_layer_and_imports_from_none_above_it() -> None:
    wrong = []
    for path in sources():
        here = layer(dotted(path))
        if here is None:
            assert path.name == "__init__.py", f"{named(path)} stands in no layer"
            continue
        for module in imported_modules(path):
            there = layer(module)
            if there is None or there > here or (there == here and package(module) != package(dotted(path))):
                wrong.append(f"{named(path)} imports {module}")
    assert wrong == []


def test_what_the_command_line_shows_is_in_modules_that_show_something() -> None:
    shows = re.compile(r"\bprint\(|console\(|typer\.(?:Option|Argument|Typer)|output\.(?:say|data|error)")
    wrong = [named(path) for path in every("cli") if path.name != "__init__.py"]
    assert [name for name in wrong if not shows.search((PROJECT / name).read_text("utf-8"))] == []


def test_sql_stands_in_the_store_alone() -> None:
    sql = re.compile(r"\b(?:SELECT|INSERT INTO|DELETE FROM|UPDATE \w+ SET|PRAGMA)\b|\.execute\(")
    assert [named(path) for path in every("cli", "engine") if sql.search(path.read_text("utf-8"))] == []


def test_a_public_class_has_a_name_of_its_own() -> None:
    names = [
        (node.name, named(path))
        for path in sources()
        for node in tree(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    counts = Counter(name for name, _ in names)
    assert [(name, place) for name, place in names if counts[name] > 1] == []


def test_a_module_has_a_name_of_its_own_within_engine_and_store() -> None:
    counts = Counter(path.stem for path in every("engine", "store"))
    assert {name for name, number in counts.items() if number > 1} - TWICE == set()


@pytest.mark.parametrize(
    ("found", "most"),
    [
        (sum(path.name != "__init__.py" for path in sources()), MOST_MODULES),
        (sum(len(path.read_text("utf-8").splitlines()) for path in sources()), MOST_LINES),
    ],
    ids=["modules", "lines"],
)
def test_there_is_little_code_and_its_limits_follow_it_down(found: int, most: int) -> None:
    assert found <= most  # a change that adds some removes as much
    assert found > most * 0.98, f"lower the limit to {found}"


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
    together = {
        "mlx",
        "anyio",
        "pydantic",
        "h11",
    }  # come with mlx-lm, mcp, huggingface-hub, uvicorn
    assert used - declared - together == set()


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


# Metaphors of our own for which the field has a word: docs/glossary.md
BANNED = re.compile(
    "night nightly nights vigil tidings unrest parcel desk deed deeds foreseen foresee foresight owed owing debt lent "
    "lend lender lends thaw breathe exhume doom oath manner borne".replace(" ", "|")
)


def words_of(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def test_identifiers_are_made_of_the_words_of_the_field() -> None:
    wrong = []
    for path in sources():
        with tokenize.open(path) as file:
            names = {token.string for token in tokenize.generate_tokens(file.readline) if token.type == tokenize.NAME}
        wrong += [f"{named(path)}: {name}" for name in sorted(names) if any(map(BANNED.fullmatch, words_of(name)))]
    assert wrong == []
