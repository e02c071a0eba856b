"""docs/reference.md against what the commands print: the same keys, in the same order, of the described types."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.session import session
from store.database import open_ledger
from store.peers import PeerBook, key_line
from tests.cli.conftest import Pkb
from tests.cli.test_idle import mail
from tests.demo import DATA, NANO
from tests.engine.ingest.mail_server import SmallServer, message, use_keyring
from tests.reference import expanded, leaves, order, sections

TYPES: dict[type, str] = {
    bool: "boolean", int: "integer", float: "number", str: "string",
    type(None): "null", list: "list", dict: "object",
}  # fmt: skip
Keys = dict[str, set[str]]
LISTED = b'* LIST () "/" INBOX\r\n* LIST (\\Trash) "/" Trash\r\nTAG OK x\r\n'


def keys_of(value: Any, path: str, free: set[str]) -> Iterator[tuple[str, str]]:
    """Yield every key of a value, as it is described, with the type of its value."""
    yield path, TYPES[type(value)]
    if isinstance(value, dict):
        for key, inner in value.items():
            name = "*" if f"{path}.*" in free else key
            yield from keys_of(inner, f"{path}.{name}".lstrip("."), free)
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner, f"{path}[]", free)


def compare(section: str, rows: list[dict[str, Any]], *, every: bool = True) -> None:
    """Hold the described keys of an object against real ones; with `every`, each must occur in one of them."""
    expected = expanded(section)
    found: Keys = {}
    for row in rows:
        for key, kind in keys_of(row, "", set(expected)):
            found.setdefault(key, set()).add(kind)
    # An object all of whose keys are described needs no line of its own.
    seen = {key: kinds for key, kinds in found.items() if key in expected or kinds != {"object"}}
    assert set(seen) - set(expected) == set()
    rare = ("warnings[]", "span[]", "removed_ids[]")  # of odd mail, of an answer, of what was deleted first
    missing = {key for key in set(expected) - set(seen) if not key.endswith(rare)}
    assert not every or missing == set()
    assert {key: kinds for key, kinds in seen.items() if not kinds <= expected[key]} == {}
    top = list(dict.fromkeys(re.split(r"[.\[]", key)[0] for key in order(section)))
    assert [list(row) for row in rows] == [[key for key in top if key in row] for row in rows]


def test_errors_are_as_documented(fresh: Pkb) -> None:
    compare("error", [fresh("stats", "--json").row, fresh("ask", "x", "--json", env={"PKB_NOW": "soon"}).row])


def test_answers_are_as_documented(pkb: Pkb, tmp_path: Path) -> None:
    asked = ["Who has the spare key to the workshop?", "Which quorv blimmers the zant?"]
    rows = [pkb("ask", question, "--json").row for question in asked * 2]
    assert [row["answered"] for row in rows] == [True, False, True, False]
    rows.append(pkb("ask", asked[0], "--model", str(NANO), "--json").row)
    rows.append(pkb("ask", "Has Yvonne the spare key?", "-k", "9", "--model", str(NANO), "--json").row)  # not all fit
    for number, where in enumerate(("the old library", "the boat house"), 1):
        mail(tmp_path / "more", number, f"From now on the sewing circle meets in {where}.")
        pkb("ingest", str(tmp_path / "more"))
        rows.append(pkb("ask", "Where does the sewing circle meet?", "--json").row)
    compare("pkb ask", [*rows, pkb("ask", asked[0], "--json", "--explain").row])


def test_what_chat_prints_is_as_documented(pkb: Pkb) -> None:
    lines = ["Who has the spare key to the workshop?", "which one?"]
    rows = pkb("chat", "--json", "--explain", stdin="\n".join(lines).encode()).rows
    compare("pkb chat", rows, every=False)


def test_what_wrong_prints_is_as_documented(pkb: Pkb) -> None:
    pkb("ask", "When is the concert?")
    compare("pkb wrong", [pkb("wrong", "--json").row])


def test_what_search_and_show_print_is_as_documented(pkb: Pkb) -> None:
    compare("pkb search", [pkb("search", "workshop", "--json").row])
    shown = [row for name in ("mail/archive.mbox", "transcripts/2024-05-04 repair day.srt", "mail/mh/1")
             for row in pkb("show", str(DATA / name), "--json").rows]  # fmt: skip
    compare("pkb show", shown)


def test_what_open_prints_is_as_documented(pkb: Pkb) -> None:
    pkb("ask", "who has the spare key to the workshop?")
    compare("pkb show --open", [pkb("show", "1", "--open", "--json", env={"PKB_OPENER": "true"}).row])


def test_what_export_prints_is_as_documented(pkb: Pkb) -> None:
    pkb("ask", "who has the spare key to the workshop?")
    pkb("ask", "When was the concert?", "--from", "tobias", "--to", "singers", "--since", "2024", "--until", "2024",
        "--in", "mail")  # fmt: skip
    pkb("ask", "Who was there?", "--doc", "workshop meeting")
    pkb("ask", "What is on today?")
    pkb("idle", "--force", "--max", "1")
    header, *rows = pkb("export").rows
    with closing(open_ledger(pkb.folder / "home" / "ledger.db")) as ledger:
        ledger.rows.execute("UPDATE answers SET tau = 0.9")
    rows += pkb("export").rows[1:]
    compare("pkb export", [header])
    compare("pkb ask", [row["reply"] for row in rows], every=False)
    compare("pkb export answer", [row | {"reply": {}} for row in rows])


def test_what_list_prints_is_as_documented(pkb: Pkb) -> None:
    compare("pkb list", [pkb("list", "-n", "0", "--json").row])


def test_what_looks_misread_is_listed_as_documented(pkb: Pkb, tmp_path: Path) -> None:
    (tmp_path / "1.eml").write_text("Subject: Tonight\nMessage-ID: <1@x>\n\nCome.\n")
    ran = pkb("ingest", str(tmp_path), "--vectors", "later", "--json").row
    assert [(one["kind"], one["count"]) for one in ran["noted"]] == [("no-sender", 1), ("no-date", 1)]
    row = pkb("list", "--problems", "--json").row
    assert {"skipped", "no-sender", "no-date"} <= {one["kind"] for one in row["kinds"]}
    compare("pkb list --problems", [row])
    compare("pkb ingest", [ran], every=False)


def test_what_todo_prints_is_as_documented(pkb: Pkb) -> None:
    compare("pkb todo", [pkb("todo", "--since", "2024-03", "-n", "0", "--json").row])


def test_what_meeting_prints_is_as_documented(pkb: Pkb) -> None:
    compare("pkb meeting", [pkb("meeting", name, "--json").row for name in ("committee", "handover")])


def test_what_people_prints_is_as_documented(pkb: Pkb) -> None:
    compare("pkb people", [pkb("people", name, "--json").row for name in ("ann", "tobias", "")], every=False)


@pytest.mark.slow
def test_what_forget_prints_is_as_documented(pkb: Pkb) -> None:
    pkb("ask", "who has the spare key to the workshop?")
    rows = [pkb("forget", *flags, "--json").row for flags in (["1", "--dry-run"], ["1", "--yes"])]
    assert [row["erased"] and row["erased"]["documents"] for row in rows] == [None, 1]
    pkb("ask", "When was the concert?")
    rows.append(pkb("forget", "--question", "when was the concert", "--yes", "--json").row)
    rows.append(pkb("forget", "--from", "nobody@example.org", "--json").row)
    rows.append(pkb("forget", "20240515120002.4711@example.org", "--dry-run", "--json").row)  # which others quote
    compare("pkb forget", rows)


@pytest.mark.slow
def test_what_ingest_and_stats_print_is_as_documented(
    pkb: Pkb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = pkb("ingest", "--json").row
    (tmp_path / "server").mkdir()
    with closing(SmallServer(tmp_path / "server")) as server:
        use_keyring(monkeypatch)
        pkb("config", "set", "ingest.ca", str(server.certificate))
        server.messages = {1: (message(1), "")}
        server.reply = lambda command: LISTED if command.startswith(b"LIST") else None
        rows = [plain, pkb("ingest", f"imaps://ann@localhost:{server.port}", "--json").row]
        compare("pkb ingest", rows, every=False)
    (pkb.folder / "Maildir").mkdir()
    (pkb.folder / "Maildir" / "1.eml").touch()
    compare("pkb ingest --find", [pkb("ingest", "--find", "--json", env={"HOME": str(pkb.folder)}).row])
    pkb("ask", "when is rehearsal?")
    pkb("config", "set", "model.name", str(NANO))
    for key, value in (("kv.bits", "0"), ("kv.daily_bytes", "1"), ("kv.bytes", "1")):
        pkb("ask", "When is the concert?", "--cache=refresh")  # kept, reused, refused, removed
        pkb("config", "set", key, value)
    pkb("ask", "When is the concert?", "--cache=refresh")
    pkb("ask", "Who keeps the key?")
    pkb("idle", "--force", "--max", "1")
    row = pkb("stats", "--json").row
    assert row["idle"]["pending"]
    compare("pkb stats", [row])


def test_what_idle_prints_is_as_documented(pkb: Pkb) -> None:
    rows = [pkb("idle", "--json").row]
    pkb("ask", "When is the concert?")
    pkb("config", "set", "model.name", str(NANO))
    rows += [pkb("idle", "--force", "--json", *flags).row for flags in (["--dry-run"], ["--max", "1"])]
    compare("pkb idle", rows)


def test_what_check_finds_is_as_documented(pkb: Pkb) -> None:
    sound = pkb("doctor", "--data", "--json").row
    (pkb.folder / "home" / "ledger.db").chmod(0o644)
    (pkb.folder / "home" / "locks").chmod(0o755)
    compare("pkb doctor --data", [sound, pkb("doctor", "--data", "--json").row])


def test_what_doctor_finds_is_as_documented(pkb: Pkb, tmp_path: Path) -> None:
    compare(
        "pkb doctor", [pkb("doctor", "--json").row, pkb("doctor", "--json", env={"PKB_HOME": f"{tmp_path}/none"}).row]
    )


def test_what_serve_prints_is_as_documented(pkb: Pkb) -> None:
    rows = [pkb("serve", *flag, "--json").row for flag in ([], ["--status"], ["--stop"], ["--status"])]
    assert [row["running"] for row in rows] == [True, True, False, False]
    assert [row["stopped"] for row in rows] == [None, None, rows[0]["pid"], None]
    compare("pkb serve", rows)


@pytest.mark.parametrize("words", ["get ask.k", "set ask.k 3", "path", "show"])
def test_what_config_prints_is_as_documented(fresh: Pkb, words: str) -> None:
    rows = [fresh("config", *words.split(), "--json").row]
    if words.endswith("ask.k"):
        rows += [fresh("config", "get", key, "--json").row for key in ("embed.model", "ask.decline_below")]
    section = f"pkb config {words.split()[0]}"
    compare(section, rows)


def test_what_me_prints_is_as_documented(pkb: Pkb) -> None:
    compare("pkb me", [pkb("me", "--json").row])


def test_what_peer_prints_is_as_documented(pkb: Pkb, tmp_path: Path) -> None:
    compare("pkb peer id", [pkb("peer", "id", "--json").row])
    line = key_line(PeerBook(tmp_path / "other").own())
    compare("pkb peer add", [pkb("peer", "add", "desktop", line, "--json").row])
    compare("pkb peer list", [pkb("peer", "list", "--json").row])
    compare("pkb peer rm", [pkb("peer", "rm", "desktop", "--json").row])


def test_what_user_prints_is_as_documented(pkb: Pkb) -> None:
    with session() as opened:
        seen = next(iter(opened.catalogue.by_collection()))
    compare("pkb user add", [pkb("user", "add", "ann", "--in", seen, "--json").row])
    compare("pkb user list", [pkb("user", "list", "--json").row])
    compare("pkb user rm", [pkb("user", "rm", "ann", "--json").row])


def test_every_command_with_json_has_its_section() -> None:
    names = {path for path, command in leaves() if any("--json" in one.opts for one in command.params)}
    names.add("pkb export")  # which prints nothing else, unless it is told to
    assert names - set(sections()) == set()
    assert {
        name for name in sections() if name != "error" and not any(name.startswith(path) for path in names)
    } == set()
