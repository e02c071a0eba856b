"""What every command says of itself, and what it says to a mistake."""

import re
import shlex
from importlib.metadata import version
from typing import Any

import pytest

from cli.app import _SHORT, COMMANDS, _invoke
from tests.cli.conftest import Pkb, commands
from tests.cli.test_terminal import KEY
from tests.demo import DATA
from tests.test_architecture import run_light

HARMLESS = {
    "ask",
    "search",
    "list",
    "todo",
    "people",
    "stats",
    "doctor",
    "config get",
    "config path",
    "config show",
    "config set",
    "model list",
}


def leaves() -> dict[str, Any]:
    """Return every command that does something, by the words that call it."""
    found: dict[str, Any] = {}
    for name, command in commands().items():
        inner = getattr(command, "commands", {})
        found |= {f"{name} {sub}": one for sub, one in inner.items()} if inner else {name: command}
    return found


def example(command: Any) -> str:
    (line,) = re.findall(r"^ *Example: (pkb .+)$", command.help, re.MULTILINE)
    return str(line)


@pytest.mark.parametrize("name", leaves())
def test_help_is_one_sentence_and_an_example(fresh: Pkb, name: str) -> None:
    ran = fresh(*name.split(), "--help")
    sentence, _, rest = leaves()[name].help.partition("\n")
    assert (ran.code, ran.err) == (0, "")
    assert re.fullmatch(r"[A-Z][^.]+\.", sentence)
    assert rest.strip() == f"Example: {example(leaves()[name])}"
    assert sentence in ran.out
    assert example(leaves()[name]).startswith(f"pkb {name}")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_of_each_what_its_own_help_says(name: str) -> None:
    assert commands()[name].help.partition("\n")[0] == COMMANDS[name][2]


def test_help_imports_no_command() -> None:
    found = run_light("--help", whole=True)
    assert not [name for name in found if re.fullmatch(r"cli\.(?!app|output).*|engine\.(app|types|settings)", name)]


@pytest.mark.parametrize("name", leaves())
def test_no_flag_is_without_a_word_of_help(name: str) -> None:
    silent = [p.name for p in leaves()[name].params if p.name != "help" and not getattr(p, "help", None)]
    assert silent == []


@pytest.mark.parametrize("name", leaves())
def test_no_default_in_the_help_is_a_marker_for_none(fresh: Pkb, name: str) -> None:
    ran = fresh(*name.split(), "--help", env={"COLUMNS": "200"})
    defaults = re.findall(r"default: \(?([^];)]*)", ran.out)
    assert [one for one in defaults if re.search(r"<|object|None|inf|\d{4}", one)] == []


def test_folders_may_be_several(fresh: Pkb) -> None:
    assert fresh("ingest", "--help").out.startswith("Usage: pkb ingest [OPTIONS] [PATH...]")


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_the_example_works(pkb: Pkb, name: str) -> None:
    assert pkb(*shlex.split(example(leaves()[name]))[1:]).code in (0, 4)


@pytest.mark.parametrize("name", sorted(leaves().keys() - HARMLESS))
def test_the_example_parses(fresh: Pkb, name: str) -> None:
    words = shlex.split(example(leaves()[name]))[1:]
    command = leaves()[name]
    assert command.parse_args(command.make_context(name, [], resilient_parsing=True), words[len(name.split()) :]) == []


def test_the_list_of_commands_has_a_whole_sentence_for_each(fresh: Pkb) -> None:
    ran = [fresh(*words, env={"COLUMNS": "80"}) for words in (("--help",), ("help", "expert"))]
    lines = [line for one in ran for line in one.out.splitlines()]
    assert [line for line in lines if line.endswith("...") and "ARGS" not in line] == []
    shown = [set(commands()) & {*re.findall(r"^  ([a-z]+)  ", one.out, re.MULTILINE)} for one in ran]
    assert (shown[0] | shown[1], shown[0] & shown[1]) == (set(commands()), set())
    assert fresh("help") == ran[0]
    assert fresh("help", "ask").out == fresh("ask", "--help").out


def test_without_words_pkb_says_how_to_begin_and_later_what_it_can_do(fresh: Pkb, pkb: Pkb) -> None:
    for line in re.findall(r"^  (pkb .+?)(?:  |$)", fresh().out, re.MULTILINE):
        assert shlex.split(line)[1] == "ingest"
    assert not fresh.folder.exists()
    assert pkb().out == pkb("--help").out


def test_a_question_alone_is_asked(pkb: Pkb) -> None:
    asked = pkb("ask", KEY, "--json").row
    assert pkb(KEY, "--json").row["answer"] == asked["answer"]
    assert pkb("igest", "mail").err.startswith("pkb: no such command 'igest'")


@pytest.mark.parametrize(
    ("old", "now"),
    [
        (["check", "--json"], ["doctor", "--data", "--json"]),
        (["open", "1", "--json"], ["show", "--open", "1", "--json"]),
        (["watch", "--quiet", "soon"], ["ingest", "--watch", "--quiet", "soon"]),
        (["ask", KEY, "--json", "--no-cache"], ["ask", KEY, "--json", "--cache=off"]),
        (["ask", "--json", "--fresh", KEY], ["ask", "--json", "--cache=refresh", KEY]),
        (["ask", "--json", KEY, "--stale-ok"], ["ask", "--json", KEY, "--cache=stale"]),
        ([KEY, "--json", "--no-cache"], ["ask", KEY, "--json", "--cache=off"]),
    ],
)
def test_spellings_of_the_version_before_work_and_say_the_new_one(pkb: Pkb, old: list[str], now: list[str]) -> None:
    pkb("ask", KEY)
    opener = {"PKB_OPENER": "true"}
    before, after = pkb(*old, env=opener), pkb(*now, env=opener)
    notice, _, rest = before.err.partition("\n")
    assert re.fullmatch(r"pkb: \S+ is now: .+", notice)
    assert (before.code, rest) == (after.code, after.err)


@pytest.mark.parametrize(
    ("short", "long"),
    [(["thread", "1"], ["show", "--thread", "1"]), (["count", "--from", "gus"], ["list", "--count", "--from", "gus"])],
)
def test_short_commands_are_others_with_a_flag(pkb: Pkb, short: list[str], long: list[str]) -> None:
    pkb("ask", KEY)
    assert pkb(*short) == pkb(*long)


def test_the_version_is_that_of_the_package(fresh: Pkb) -> None:
    assert fresh("--version").out == f"pkb {version('pkb')}\n"


@pytest.mark.parametrize(
    ("words", "message", "step"),
    [
        (["nope"], "no such command 'nope'", "pkb --help"),
        (["--nope"], "no such option: --nope", "pkb --help"),
        (["ask", "--nope", "x"], "no such option: --nope", "pkb ask --help"),
        (["ask", "x", "--in"], "option '--in' requires an argument", "pkb ask --help"),
        (["ask", "x", "-k", "0"], "invalid value for '-k'", "pkb ask --help"),
        (["ask", "x", "-k", "many"], "invalid value for '-k'", "pkb ask --help"),
        (["search"], "missing argument 'WORDS'", "pkb search --help"),
        (["show"], "missing argument 'FILE'", "pkb show --help"),
        (["config", "sohw"], "no such command 'sohw'. Did you mean 'show'?", "pkb config --help"),
        (["config", "nope"], "no such command 'nope'", "pkb config --help"),
        (["config", "get"], "missing argument 'KEY'", "pkb config get --help"),
        (["ingest", "--kind", "post", "x"], "invalid value for '--kind'", "pkb ingest --help"),
    ],
)
def test_a_mistyped_command_is_one_line_that_names_it(fresh: Pkb, words: list[str], message: str, step: str) -> None:
    ran, as_json = fresh(*words), fresh(*words, "--json")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"pkb: {message}")
    assert ran.err.endswith(f"; try: {step}\n")
    assert ran.err.count("\n") == 1
    if words[-1] != "--in":  # which takes --json for its argument
        assert (as_json.code, as_json.err) == (2, "")
        assert list(as_json.row) == ["schema", "error"]
        assert list(as_json.row["error"]) == ["code", "message", "next"]
        assert (as_json.row["error"]["code"], as_json.row["error"]["next"]) == (2, step)


def test_what_a_mistake_says_to_type_next_can_be_typed() -> None:
    assert [_invoke([*name.split(), "--help"]) for name in leaves()] == [0] * len(leaves())


def test_show_prints_the_example_of_a_source(pkb: Pkb) -> None:
    ran = pkb("show", str(DATA / "mail" / "archive.mbox"), "--message-id", "<20240220180544.4502@example.org>")
    assert ran.code == 0
    assert re.findall("^(?:From|Message-ID): ", ran.out, re.MULTILINE) == ["Message-ID: ", "From: "]


def test_a_group_without_a_command_lists_what_it_has(pkb: Pkb) -> None:
    assert pkb("model").out == pkb("model", "list").out
    assert pkb("config").out == pkb("config", "show").out


@pytest.mark.parametrize("short", sorted(_SHORT))
def test_help_knows_the_short_commands(fresh: Pkb, short: str) -> None:
    ran = fresh("help", short)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(("Usage: pkb", "pkb "))
