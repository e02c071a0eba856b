"""Everything that mail, file names, models and settings say, on the way to a terminal, JSON, CSV, Markdown and HTML."""

import base64
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.http.routes import HEADERS
from engine.page import __file__ as page_file
from engine.text.terminal import in_json, line, one_line, plain, unstyled
from tests.attack.lab import BEN, Lab, mail
from tests.cli.conftest import Pkb, Ran, commands
from tests.cli.test_terminal import acted_on, on_terminal

# What each tries, in subject, names, body, attachment, event, speaker and file name.
PAYLOADS = {
    "title of the window": "\x1b]0;owned\x07",
    "title of the window, C1": "\x9d0;owned\x9c",
    "clipboard": "\x1b]52;c;b3duZWQ=\x07",
    "link of the terminal": "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "color": "\x1b[31m",
    "color, C1": "\x9b31m",
    "clear": "\x1b[2J\x1b[H",
    "report of the cursor": "\x1b[6n\x9b6n",
    "answer back": "\x05\x1bZ\x1b[c",
    "device control": "\x1bP+q544e\x1b\\",
    "application command": "\x1b_Gi=1\x1b\\\x9fx\x9c",
    "other letters": "\x0e\x1b(0\x0f",
    "back over it": "abc\x08\x08\x08xyz\r",
    "delete": "\x7f\x7f",
    "bell": "\x07" * 3,
    "override": "\u202eevil\u202c",
    "isolates": "\u2066a\u2067b\u2068c\u2069",
    "marks": "\u200e\u200f\u061c",
    "line separators": "a\u2028b\u2029c\x85d\x0be\x0cf",
    "tags and annotations": "\U000e0041\ufff9a\ufffab\ufffb",
}
EVERYTHING = "".join(PAYLOADS.values())
FORGED = f"{EVERYTHING}\n[9] forged\rpkb: forged\x0bforged\x85forged\u2028forged"


def encoded(text: str) -> str:
    return f"=?utf-8?b?{base64.b64encode(text.encode()).decode()}?="


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Return a home in which everything that can hold text holds all payloads."""
    lab = Lab(tmp_path_factory.mktemp("terminal"))
    event = f"BEGIN:VEVENT\nSUMMARY:Boat {EVERYTHING}\nDTSTART:20240622T100000\nLOCATION:{EVERYTHING}\nEND:VEVENT"
    for number, payload in enumerate([*PAYLOADS.values(), FORGED]):
        person = f"{encoded(f'Eve {payload}')} <eve{number}@example.org>"
        body = f"The boat {payload} is in the shed. Please send me the key {payload} by Friday. Who {payload} pays?"
        name = f"{number} {payload}.eml".replace("/", "").replace("\n", "").replace("\0", "")
        name = name.encode()[:200].decode("utf-8", "ignore") + ".eml"
        lab.put(name, mail(body, f"Subject: {encoded(f'Boat {payload}')}", sender=person, to=BEN))
    lab.put("event.eml", mail(event, "Content-Type: text/calendar"))
    file = f'Content-Disposition: attachment; filename="{EVERYTHING}.txt"'.replace("\n", "")
    lab.put(
        "file.eml",
        mail(f"--a\n\nboat\n--a\n{file}\n\nboat {EVERYTHING}\n--a--", "Content-Type: multipart/mixed; boundary=a"),
    )
    lab.put(
        "meeting.txt", f"2024-06-03\n\nEve {EVERYTHING}: the boat is in the shed.\nIda: good {EVERYTHING}.\n".encode()
    )
    lab.put(f"broken {PAYLOADS['clear']}{PAYLOADS['override']}.bin", bytes(range(256)) * 20)
    lab.read()
    return lab


@pytest.fixture
def pkb(fresh: Pkb, hostile: Lab, monkeypatch: pytest.MonkeyPatch) -> Pkb:
    """Return pkb in the hostile home."""
    for name, value in hostile.environ.items():
        monkeypatch.setenv(name, value)
    return fresh


ASKED = f"Where is the boat {EVERYTHING}?"
COMMANDS: list[list[str]] = [
    ["ask", "Where is the boat?"],
    ["ask", "Where is the boat?"],
    ["ask", ASKED],
    ["ask", "boat?", "--all", "--explain"],
    ["ask", "Where?", "--from", EVERYTHING],
    ["ask", "Where?", "--doc", EVERYTHING],
    ["ask", "Where?", "--in", EVERYTHING],
    ["ask", "Where?", "--since", EVERYTHING],
    ["ask", "Where?", "--model", f"/nowhere/{EVERYTHING}"],
    ["search", "boat"],
    ["search", EVERYTHING],
    ["list"],
    ["list", "--paths"],
    ["list", "--count"],
    ["list", "--from", EVERYTHING],
    ["list", EVERYTHING],
    ["show", "1"],
    ["show", f"/nowhere/{EVERYTHING}"],
    ["show", EVERYTHING, "--open"],
    ["todo"],
    ["todo", "--from", EVERYTHING],
    ["digest", "--since", "2000"],
    ["meeting"],
    ["meeting", EVERYTHING],
    ["people"],
    ["people", EVERYTHING],
    ["stats"],
    ["doctor", "--data"],
    ["doctor", "--data", "--read-data"],
    ["doctor"],
    ["wrong"],
    ["ask", "Where is the boat?"],
    ["idle", "--dry-run"],
    ["idle", "--force", "--budget", "5s", "--max", "3"],
    ["ingest"],
    ["ingest", f"/nowhere/{EVERYTHING}"],
    ["ingest", "--kind", EVERYTHING],
    ["export", "-"],
    ["export", f"/nowhere/{EVERYTHING}"],
    ["me"],
    ["me", EVERYTHING],
    ["me", ""],
    ["config", "show"],
    ["config", "get", EVERYTHING],
    ["config", "set", EVERYTHING, "1"],
    ["config", "set", "ask.k", EVERYTHING],
    ["model", "list"],
    ["model", "use", EVERYTHING],
    ["model", "rm", EVERYTHING],
    ["kv", "push", f"file:///nowhere/{EVERYTHING}"],
    ["kv", "push", EVERYTHING],
    ["kv", "drop", EVERYTHING],
    ["forget", "--from", EVERYTHING, "--dry-run"],
    ["forget", EVERYTHING, "--yes"],
    ["forget", "--question", EVERYTHING, "--yes"],
    ["adapter", "list"],
    ["adapter", "add", EVERYTHING],
    ["adapter", "use", EVERYTHING],
    ["adapter", "rm", EVERYTHING],
    ["peer", "id"],
    ["peer", "list"],
    ["peer", "add", EVERYTHING, EVERYTHING],
    ["peer", "rm", EVERYTHING],
    ["serve", "--status"],
    ["serve", "--share", EVERYTHING],
    ["mcp", "--in", EVERYTHING],
    ["user", "add", EVERYTHING, "--in", EVERYTHING],
    ["user", "list"],
    ["user", "rm", EVERYTHING],
    ["chat", EVERYTHING],
    [EVERYTHING],
    ["ask", f"--{EVERYTHING}"],
    ["ask", ""],
]


def lines_forged(ran: Ran) -> list[str]:
    return [one for one in (ran.out + ran.err).splitlines() if one.startswith(("[9] forged", "pkb: forged", "forged"))]


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["text", "json"])
def test_no_command_writes_what_a_terminal_acts_on(pkb: Pkb, more: list[str]) -> None:
    ran = [(words, pkb(*words, *more)) for words in COMMANDS]
    wrong = [(words[:2], acted_on(one.out + one.err)) for words, one in ran if acted_on(one.out + one.err)]
    assert wrong == []
    assert [words[:2] for words, one in ran if lines_forged(one)] == []
    assert [words[:2] for words, one in ran if "bug in pkb" in one.err + one.out] == []
    if more:
        for words, one in ran:
            if "-" not in words:
                assert all(isinstance(json.loads(row), dict) for row in one.out.splitlines()), words


def test_every_command_is_tried() -> None:
    tried = {words[0] for words in COMMANDS}
    assert set(commands()) <= tried


def test_a_conversation_acts_on_nothing(pkb: Pkb) -> None:
    said = f"Where is the boat?\n{ASKED}\n/answer\n/1\n/history\n/from {EVERYTHING}\n/{EVERYTHING}\n/wrong\n/help\n"
    ran = pkb("chat", stdin=said.encode("utf-8", "surrogateescape"))
    assert (acted_on(ran.out + ran.err), lines_forged(ran)) == (set(), [])


def test_on_a_real_terminal_there_are_styles_alone(pkb: Pkb, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = on_terminal(monkeypatch)
    monkeypatch.delenv("NO_COLOR")
    for words in COMMANDS[:30]:
        pkb(*words)
    shown = re.sub(r"\r?\x1b\[2K|\x1b\[\?25[lh]|\x1b\[1A|\r", "", unstyled(screen.getvalue()))
    assert acted_on(shown) == set()


ANY = st.text(st.characters(), max_size=40) | st.lists(st.sampled_from([*PAYLOADS.values(), "a", " ", "\n"])).map(
    "".join
)


@given(st.binary(max_size=60).map(lambda raw: raw.decode("utf-8", "surrogateescape")) | ANY)
def test_no_text_reaches_a_terminal_as_control(text: str) -> None:
    for shown in (plain(text), line(text), one_line(text, 30)):
        assert acted_on(shown) == set()
        shown.encode()


@given(st.recursive(ANY | st.none() | st.integers(), lambda one: st.dictionaries(ANY, one, max_size=3) | st.lists(one)))
def test_json_escapes_by_itself_and_keeps_the_value(value: object) -> None:
    for ascii_alone in (True, False):
        shown = in_json(json.dumps(value, ensure_ascii=ascii_alone))
        assert acted_on(shown) == set()
        if ascii_alone:
            assert json.loads(shown) == value


# The page: files that come with pkb, and a policy that allows nothing else.

PAGE = Path(page_file).parent


class Tags(HTMLParser):
    """What a page would run or load."""

    def __init__(self) -> None:
        super().__init__()
        self.inline, self.places = list[str](), list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        self.inline += [f"{tag} {name}" for name in names if name.startswith("on") or name == "style"]
        self.inline += [tag] if tag == "style" or (tag == "script" and not names.get("src")) else []
        self.places += [names[name] or "" for name in ("src", "href", "action", "data") if name in names]


def test_the_page_has_no_inline_code_and_loads_its_own_files_alone() -> None:
    tags = Tags()
    tags.feed((PAGE / "index.html").read_text("utf-8"))
    assert tags.inline == []
    assert [place for place in tags.places if place.startswith(("//", "data:", "javascript:")) or ":" in place] == []
    for path in PAGE.glob("*.js"):
        code = path.read_text("utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|javascript:", code
        ), path
        assert not re.search(r"https?://(?!www\.w3\.org/)", code), path


def directives() -> Iterator[tuple[str, list[str]]]:
    for one in HEADERS["Content-Security-Policy"].split(";"):
        name, *values = one.split()
        yield name, values


def test_the_policy_allows_no_inline_code_no_data_and_no_other_place() -> None:
    found = dict(directives())
    assert found["default-src"] == ["'none'"]
    assert {value for values in found.values() for value in values} == {"'self'", "'none'"}
    assert found.keys() >= {"base-uri", "form-action", "frame-ancestors"}
    assert HEADERS["X-Content-Type-Options"] == "nosniff"
