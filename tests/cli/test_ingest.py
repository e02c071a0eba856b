"""`pkb ingest` repeated: new, changed and removed files, and removals that may be an unmounted disk."""

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Pkb
from tests.demo import DATA, environment
from tests.engine.ingest.archive_files import mbox, message, tarred, zipped


@pytest.fixture
def mail(fresh: Pkb, tmp_path: Path) -> Path:
    """Return a folder of 16 files and 15 messages that was read."""
    folder = Path(shutil.copytree(DATA / "mail" / "single", tmp_path / "mail"))
    ingest(fresh, str(folder))
    return folder


def ingest(pkb: Pkb, *words: str) -> dict[str, Any]:
    return pkb("ingest", "--vectors", "later", "--json", *words).rows[0]


def kept(pkb: Pkb) -> int:
    return int(pkb("stats", "--json").row["index"]["documents"])


def test_nothing_is_read_twice(fresh: Pkb, mail: Path) -> None:
    row = ingest(fresh, str(mail), f"{mail}/", f"{mail}/../mail")
    assert row["files"] == {"files": 16, "new": 0, "changed": 0, "gone": 0}
    assert row["documents"]["read"] == 0
    assert kept(fresh) == 15


def test_a_deleted_message_is_removed(fresh: Pkb, mail: Path) -> None:
    (mail / "programme.eml").unlink()
    row = ingest(fresh)
    assert (row["files"]["gone"], row["documents"]["removed"], kept(fresh)) == (1, 1, 14)
    assert fresh("show", str(mail / "programme.eml")).code == 2


def test_a_changed_file_replaces_its_former_text(fresh: Pkb, mail: Path) -> None:
    path = mail / "programme.eml"
    path.write_text("From: ida@example.org\nTo: mira@example.org\nSubject: New\n\nThe tandem is blue.\n")
    assert ingest(fresh)["files"]["changed"] == 1
    assert fresh("show", str(path), "--json").row["text"].strip() == "The tandem is blue."
    assert kept(fresh) == 15


def test_a_missing_folder_is_an_error_and_removes_nothing(fresh: Pkb, mail: Path) -> None:
    mail.rename(mail.parent / "unplugged")
    ran = fresh("ingest", "--json")
    summary, error = ran.rows
    assert (ran.code, error["error"]["code"], summary["documents"]["removed"], kept(fresh)) == (1, 1, 0, 15)
    said = f"pkb: {mail} is missing; its documents were kept: a disk may be missing; try: pkb ingest --prune\n"
    assert fresh("ingest").err == said
    (mail.parent / "unplugged").rename(mail)
    assert ingest(fresh)["documents"]["read"] == 0


def test_many_removals_at_once_need_prune(fresh: Pkb, mail: Path) -> None:
    fresh.experiment(gone_count=5)
    for path in sorted(mail.glob("*.eml"))[:8]:
        path.unlink()
    ran = fresh("ingest")
    assert (ran.code, kept(fresh)) == (1, 15)
    assert ran.err == (
        "pkb: 8 documents disappeared at once and were kept: a disk may be missing;"
        " try: pkb ingest --prune, to remove them\n"
    )
    assert ingest(fresh, "--prune")["documents"]["removed"] == 8
    assert kept(fresh) == 7
    assert fresh("doctor", "--data", "--read-data").code == 0


# A library that fails on one page, and quotes it in its message.
_FAILING_LIBRARY = """
from selectolax import lexbor

real = lexbor.LexborHTMLParser

def parse(source, *args, **options):
    if "tandem" in source:
        raise IndexError(source)
    return real(source, *args, **options)

lexbor.LexborHTMLParser = parse
"""


def test_a_bug_is_named_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_FAILING_LIBRARY)
    (tmp_path / "mail").mkdir()
    for name, text in {"a": "the tandem is red", "b": "the lamp is blue"}.items():
        page = f"From: {name}@x.org\nContent-Type: text/html\n\n<p>{text}</p>\n"
        (tmp_path / "mail" / f"{name}.eml").write_text(page)
    env = {**environment(tmp_path), "PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}
    words = [sys.executable, "-m", "cli.app", "ingest", "--json", "--vectors", "later", str(tmp_path / "mail")]
    ran = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    row = json.loads(ran.stdout)
    (skipped,) = row["skipped"]
    assert (ran.returncode, row["documents"]["kept"], skipped["path"]) == (3, 1, str(tmp_path / "mail" / "a.eml"))
    assert skipped["reason"].startswith("bug in pkb: IndexError at engine.ingest.html:")
    assert "tandem" not in ran.stdout
    assert "Traceback" not in ran.stderr


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home folder with mail of Thunderbird and a Maildir."""
    for number, name in enumerate(("user/.thunderbird/a.default/Mail/Local Folders/Inbox", "user/Maildir/new/1.a.b")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(message(number))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    return tmp_path / "user"


def test_mail_of_other_programs_is_found_and_indexed(fresh: Pkb, user: Path) -> None:
    found = fresh("ingest", "--find", "--yes", "--vectors", "later")
    assert found.out.splitlines()[:3] == [
        f"Thunderbird: {user}/.thunderbird/a.default/Mail: 1 file, 89 B",
        f"Maildir: {user}/Maildir: 1 file, 89 B",
        "2 files: 2 new",
    ]
    assert kept(fresh) == 2


def test_without_a_terminal_what_is_found_is_listed_and_nothing_is_indexed(fresh: Pkb, user: Path) -> None:
    ran = fresh("ingest", "--find")
    assert (ran.code, ran.out.count(str(user))) == (2, 2)
    assert "pkb ingest --find --yes" in ran.err
    assert [one["files"] for one in fresh("ingest", "--find", "--json").row["found"]] == [1, 1]
    assert fresh("stats").code == 10
    assert fresh("ingest", "--find", "--json", "--watch").code == 2
    assert fresh("ingest", "--find", "--yes", "--json", "--vectors", "later").row["documents"]["kept"] == 2


def test_where_no_mail_is_found_a_folder_is_to_be_named(fresh: Pkb, tmp_path: Path) -> None:
    assert "pkb ingest FOLDER" in fresh("ingest", "--find", env={"HOME": str(tmp_path / "nobody")}).err
    assert fresh("ingest", "--find", str(tmp_path)).code == 2


def test_a_message_in_an_archive_is_shown_opened_and_forgotten_by_the_archive(fresh: Pkb, tmp_path: Path) -> None:
    path = tmp_path / "mail" / "a.zip"
    path.parent.mkdir()
    path.write_bytes(zipped({"a.mbox": mbox(1, 2), "b.eml": message(3)}))
    ingest(fresh, str(path.parent))
    assert [row["text"] for row in fresh("show", str(path), "--json").rows] == ["word1", "word2", "word3"]
    source = fresh("ask", "word2", "--json").row["sources"][0]
    assert (source["path"], source["message_id"]) == (str(path), "2@x.org")
    assert fresh("show", "1", "--open", env={"PKB_OPENER": "true"}).code == 0
    assert fresh("forget", str(path), "--yes", "--json").row["erased"]["documents"] == 3
    assert ingest(fresh, str(path.parent))["documents"]["kept"] == 0
    path.unlink()
    ingest(fresh, str(path.parent))
    assert kept(fresh) == 0


def test_what_was_in_a_deleted_archive_is_forgotten_as_deleted(fresh: Pkb, tmp_path: Path) -> None:
    path = tmp_path / "mail" / "a.tgz"
    path.parent.mkdir()
    path.write_bytes(tarred({"a.mbox": mbox(1, 2)}))
    ingest(fresh, str(path.parent))
    path.unlink()
    ingest(fresh, str(path.parent))
    assert fresh("forget", "--deleted", str(path), "--yes", "--json").code == 0


def test_what_was_named_inside_the_home_is_read_with_the_folder_around_it(fresh: Pkb) -> None:
    """As the mail of an account is, which lies in the home."""
    home = Path(environment(fresh.folder)["PKB_HOME"])
    inner = home / "inbox" / "ann"
    inner.mkdir(parents=True)
    home.chmod(0o700)
    for number in range(1, 4):
        (inner / f"{number}.eml").write_bytes(message(number))
        assert ingest(fresh, *[[str(inner)], [str(home.parent)], []][number - 1])["documents"]["read"] == 1
    (home / "other.eml").write_bytes(message(4))
    assert (ingest(fresh)["documents"]["read"], kept(fresh)) == (0, 3)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--engine", "spark"],
            "pkb: --engine takes ray or ray://HOST:PORT, not spark; try: pkb ingest --engine ray\n",
        ),
        (
            ["--engine", "ray://a"],
            "pkb: --engine takes ray or ray://HOST:PORT, not ray://a; try: pkb ingest --engine ray\n",
        ),
        (
            ["--engine", "ray", "--watch"],
            "pkb: --engine=ray cannot be combined with --watch; "
            "try: pkb ingest --engine=ray, then: pkb ingest --watch\n",
        ),
    ],
)
def test_an_engine_that_is_none_is_refused(fresh: Pkb, words: list[str], said: str) -> None:
    ran = fresh("ingest", str(DATA), *words)
    assert (ran.code, ran.out, ran.err) == (2, "", said)


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_its_engine_names_the_command_that_installs_it(fresh: Pkb) -> None:
    ran = fresh("ingest", str(DATA), "--engine", "ray")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert ran.err.startswith("pkb: --engine needs Ray, which is not installed; try: ")
    assert "ray]" in ran.err
