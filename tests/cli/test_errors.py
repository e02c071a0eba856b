"""Bad input: one line, the right exit code, what to type next, and nothing of anybody's mail."""

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Pkb, Ran
from tests.demo import DATA
from tests.demo import pkb as process


def fails(ran: Ran, code: int, message: str, step: str | None) -> None:
    assert (ran.code, ran.out) == (code, "")
    assert ran.err == f"pkb: {message}" + (f"; try: {step}\n" if step else "\n")


@pytest.mark.parametrize("words", ["ask x", "search x", "show x", "stats", "doctor --data", "doctor --repair"])
def test_what_needs_a_store_says_that_there_is_none_and_makes_none(fresh: Pkb, words: str) -> None:
    fails(fresh(*words.split()), 10, "nothing has been ingested yet", "pkb ingest FOLDER")
    assert not fresh.folder.exists()


@pytest.mark.parametrize("question", ["", "   ", "???", " . "])
def test_an_empty_question_is_a_mistake(pkb: Pkb, question: str) -> None:
    fails(pkb("ask", question), 2, "the question is empty", 'pkb ask "when is rehearsal?"')


def test_asking_nothing_is_a_mistake(fresh: Pkb) -> None:
    for nothing in (b"", b" \n\n"):
        fails(fresh("ask", stdin=nothing), 2, "no question", 'pkb ask "when is rehearsal?"')


def test_a_model_that_is_not_there_exits_12(pkb: Pkb) -> None:
    fails(pkb("ask", "x", "--model", "a/b"), 12, "model a/b is not installed", "pkb model pull a/b")
    fails(pkb("ask", "x", "--model", "llama"), 12, "model llama is not installed", "pkb model pull ORG/NAME")


def test_a_model_folder_that_is_gone_is_said_to_be(pkb: Pkb) -> None:
    fails(pkb("ask", "x", "--model", "/no/model"), 12, "the model folder /no/model does not exist", "pkb model list")


@pytest.mark.parametrize("verb", ["use", "rm"])
def test_no_name_is_not_the_current_folder(fresh: Pkb, verb: str) -> None:
    fails(fresh("model", verb, ""), 2, "no model name or folder given", "pkb model list")


def test_ingesting_nothing_is_a_mistake(fresh: Pkb) -> None:
    fails(fresh("ingest"), 2, "no folder given", "pkb ingest ~/Mail")


@pytest.mark.parametrize("name", ["nowhere", "~nobody.of.that.name/Mail", "caf\udce9"])
def test_a_folder_that_is_not_there_is_named(fresh: Pkb, tmp_path: Path, name: str) -> None:
    ran = fresh("ingest", str(tmp_path / name) if not name.startswith("~") else name)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "does not exist; nothing was changed; try: pkb ingest FOLDER" in ran.err
    assert not fresh.folder.exists()


def test_a_file_that_was_never_read_is_named(pkb: Pkb) -> None:
    fails(pkb("show", "/nowhere/x.eml"), 2, "/nowhere/x.eml is not indexed", "pkb ingest /nowhere/x.eml")


@pytest.mark.parametrize("now", ["soon", "2024-13-01T08:00", "8"])
def test_a_time_that_cannot_be_is_named(pkb: Pkb, now: str) -> None:
    fails(pkb("ask", "x", env={"PKB_NOW": now}), 2, "PKB_NOW must be like 2024-06-19T08:00", None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("= 5", "is not TOML: "),
        ("[ask\nk = 5", "is not TOML: "),
        ("[ask]\nk = 5\nk = 6", "is not TOML: "),
        ("[ask]\nk = 'many'", "ask.k must be an integer"),
        ("[ask]\nk = 1.5", "ask.k must be an integer"),
        ("[ask]\nk = -1", "ask.k must be an integer"),
        ("[ask]\nk = true", "ask.k must be an integer"),
        ("[embed]\nmodel = 5", "embed.model must be text"),
    ],
)
def test_a_config_file_that_cannot_be_is_named_with_its_fault(pkb: Pkb, text: str, message: str) -> None:
    config = pkb.folder / "config.toml"
    config.write_text(text)
    for words in (["ask", "x"], ["config", "show"]):
        ran = pkb(*words)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert ran.err.startswith(f"pkb: {config}")
        assert message in ran.err
        assert "; try: pkb config" in ran.err
    assert config.read_text() == text


@pytest.mark.parametrize("text", ["= 5", "[ask\nk = 5", "ask = 5", "[[ask]]\nk = 5"])
def test_a_config_file_that_no_setting_could_mend_is_not_written_over(fresh: Pkb, text: str) -> None:
    config = fresh.folder / "config.toml"
    config.parent.mkdir()
    config.write_text(text)
    ran = fresh("config", "set", "ask.k", "3")
    assert (ran.code, ran.out, ran.err.count("\n"), config.read_text()) == (2, "", 1, text)
    assert ran.err.endswith("; try: pkb config path\n")


def test_what_an_error_of_the_config_file_says_to_type_mends_it(fresh: Pkb) -> None:
    config = fresh.folder / "config.toml"
    config.parent.mkdir()
    config.write_text("[ask]\nk = 99 # too many\n[embed]\nmodel = 5\n[kv]\nbits = 3\n")
    for setting in ("ask.k 5", "embed.model minilm", "kv.bits 0"):
        assert fresh("config", "show").err.endswith(f"; try: pkb config set {setting}\n")
        fresh("config", "set", *setting.split())
    assert config.read_text() == '[ask]\nk = 5 # too many\n[embed]\nmodel = "minilm"\n[kv]\nbits = 0\n'


def test_setting_one_key_says_which_other_one_cannot_be(fresh: Pkb) -> None:
    config = fresh.folder / "config.toml"
    config.parent.mkdir()
    config.write_text("[model]\nname = 5\n")
    ran = fresh("config", "set", "ask.k", "3")
    assert (ran.code, ran.out) == (2, "ask.k = 3\n")
    assert ran.err == f"pkb: {config}: model.name must be text; try: pkb config set model.name ''\n"


def test_a_config_file_that_is_no_text_is_named(pkb: Pkb) -> None:
    config = pkb.folder / "config.toml"
    config.write_bytes(b"\xff\xfe\x00")
    fails(pkb("config", "show"), 1, f"cannot read {config}", "pkb config path")


def test_setting_an_unknown_key_changes_nothing(fresh: Pkb) -> None:
    fails(fresh("config", "set", "ask.speed", "5"), 2, "config: no such key: ask.speed", "pkb config show")
    assert not (fresh.folder / "config.toml").exists()


def test_an_unknown_setting_is_named_once_and_pkb_goes_on(pkb: Pkb) -> None:
    config = pkb.folder / "config.toml"
    config.write_text('[kv]\norder = "reuse"\n[ask]\nk = 3\n[aks]\nk = 5\n')
    ran = pkb("config", "show")
    assert (ran.code, ran.err) == (0, f"pkb: {config}: ignored unknown settings: aks.k, kv.order\n")
    assert "ask.k = 3\n" in ran.out
    assert "kv.order" not in ran.out
    fails(pkb("config", "set", "kv.order", "document"), 2, "config: no such key: kv.order", "pkb config show")


def test_a_setting_is_kept_beside_the_comments(fresh: Pkb) -> None:
    config = fresh.folder / "config.toml"
    config.parent.mkdir()
    config.write_text("# mine\n[ask]\nk = 3 # three\n")
    assert fresh("config", "set", "bank.bytes", "5000").out == "bank.bytes = 5000\n"
    assert fresh("config", "get", "ask.k").out == "3\n"
    assert fresh("config", "get", "me.addresses").out == "\n"  # a line for each setting, also for scripts
    assert config.read_text().startswith("# mine\n[ask]\nk = 3 # three\n")


@pytest.mark.parametrize("name", ["PKB_HOME", "PKB_CACHE"])
def test_a_home_below_a_file_is_an_error(fresh: Pkb, tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    ran = fresh("ingest", str(DATA / "mail" / "mh"), env={name: str(tmp_path / "file" / "home")})
    fails(ran, 1, f"cannot write to {tmp_path}/file/home: Not a directory", "pkb doctor")


def test_a_ledger_that_is_none_is_an_error(pkb: Pkb) -> None:
    for path in (pkb.folder / "home").glob("ledger.db*"):
        path.unlink()
    (pkb.folder / "home" / "ledger.db").write_text("not a ledger at all, only a file of that name\n" * 200)
    for words in (["ask", "x"], ["stats"], ["doctor", "--data"]):
        ran = pkb(*words)
        assert (ran.code, ran.out.count("\n"), ran.err.count("\n")) == (1, 0, 1)
        assert ran.err.startswith("pkb: ")
        assert "bug" not in ran.err


@pytest.mark.parametrize("name", ["saved_ms", "is_current", "message_id", "intact_answers"])
def test_a_damaged_name_in_the_schema_is_said_and_mended(pkb: Pkb, name: str) -> None:
    with closing(sqlite3.connect(path := pkb.folder / "home" / "ledger.db")) as rows, rows:
        rows.execute("PRAGMA writable_schema = ON")
        rows.execute("UPDATE sqlite_schema SET sql = replace(sql, ?, ?)", (name, f"{name[:-1]}Z"))
    ran = pkb("ask", "Who has the spare key to the workshop?", "--cache=off")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert re.search(r"ledger\.db\)? is damaged; try: .*pkb doctor --data --repair$", ran.err)
    assert pkb("doctor", "--data", "--repair").err.startswith(f"pkb: rebuilt {path}: all documents must be read again")
    assert pkb("stats").code == 0


def test_damaged_tables_are_named_without_a_traceback_or_mail(pkb: Pkb) -> None:
    for path in (pkb.folder / "home" / "tables").rglob("*.manifest"):
        path.write_bytes(b"From: Mira Okafor, a secret\n")
    for words in ("ask who", "search key", "list"):
        ran = pkb(*words.split())
        assert (ran.code, ran.out) == (1, "")
        said = "pkb: the search index is damaged (chunks); try: pkb doctor --data --repair"
        assert ran.err.splitlines()[-1] == said
        assert "Mira" not in ran.err
    ran = pkb("doctor", "--data")
    assert (ran.code, ran.err) == (1, "pkb: problems found; try: pkb doctor --data --repair\n")
    assert re.search("^BAD   index +damaged: chunks .*documents .*vectors", ran.out, re.MULTILINE)


@pytest.mark.slow
def test_a_lost_file_of_the_embeddings_is_said_and_search_goes_on(pkb: Pkb) -> None:
    before = pkb("ask", "Who has the spare key to the workshop?", "--cache=off")
    (table,) = (pkb.folder / "home" / "tables").glob("vectors*.lance")
    next((table / "data").iterdir()).unlink()
    ran = pkb("ask", "Who has the spare key to the workshop?", "--cache=off")
    said = "pkb: the embeddings are damaged, so search uses keywords alone; try: pkb doctor --data --repair\n"
    assert (ran.code, ran.out.splitlines()[0], said in ran.err) == (0, before.out.splitlines()[0], True)
    assert "must be embedded again; try: pkb ingest" in pkb("doctor", "--data", "--repair").err
    assert pkb("ingest").code in (0, 3)
    assert (
        pkb("ask", "Who has the spare key to the workshop?", "--cache=off").out.splitlines()[:3]
        == (before.out.splitlines()[:3])
    )


def test_damage_to_the_documents_names_the_files_to_read_again_and_those_that_are_gone(
    fresh: Pkb, tmp_path: Path
) -> None:
    mail = Path(shutil.copytree(DATA / "mail" / "single", tmp_path / "mail"))
    fresh("ingest", str(mail), "--vectors", "later")
    (mail / "programme.eml").unlink()
    next((fresh.folder / "home" / "tables" / "chunks.lance" / "data").iterdir()).write_bytes(b"")
    said = fresh("doctor", "--data", "--repair")
    gone = f"pkb: to be read again: {mail}/programme.eml; it is missing: restore it, or its documents are lost\n"
    assert gone in said.err
    assert f"pkb: to be read again: {mail}/dentist-reminder.eml\n" in said.err
    assert said.err.endswith("documents must be read again; try: pkb ingest\n")


@pytest.mark.slow
def test_a_lost_ledger_is_rebuilt_and_everything_is_read_again(pkb: Pkb) -> None:
    before = pkb("ask", "Who has the spare key to the workshop?", "--cache=off").out
    (pkb.folder / "home" / "ledger.db").unlink()
    ran = pkb("ask", "Who has the spare key to the workshop?")
    assert (ran.code, "ledger.db is missing; try: restore it from a backup, or rebuild it" in ran.err) == (1, True)
    ran = pkb("doctor", "--data", "--repair")
    assert ran.err.endswith("all documents must be read again; try: pkb ingest FOLDER\n")
    pkb("ingest", str(DATA / "mail"), str(DATA / "transcripts"))
    after = pkb("ask", "Who has the spare key to the workshop?", "--cache=off").out
    assert after.splitlines()[:3] == before.splitlines()[:3]


def test_lost_tables_are_found_by_check_and_read_again_after_repair(pkb: Pkb) -> None:
    shutil.rmtree(pkb.folder / "home" / "tables" / "chunks.lance")
    assert "try: pkb doctor --data --repair" in pkb("doctor", "--data").err
    assert "try: pkb ingest" in pkb("doctor", "--data", "--repair").err
    pkb("ingest", "--vectors", "later")
    assert pkb("doctor", "--data", "--read-data").code == 0
    assert pkb("ask", "Who has the spare key to the workshop?").code == 0


def test_what_is_said_of_unreadable_files_holds_nothing_of_them(fresh: Pkb, tmp_path: Path) -> None:
    folder, secret = tmp_path / "mail", "xylophagous"
    folder.mkdir()
    head = f"From: {secret} <a@example.org>\nSubject: {secret}\nMIME-Version: 1.0\n"
    nested = "".join(f"Content-Type: multipart/mixed; boundary={secret}{n}\n\n--{secret}{n}\n" for n in range(300))
    (folder / "nested.eml").write_text(head + nested)
    (folder / "charset.eml").write_text(f"{head}Content-Type: text/plain; charset={secret}\n\n{secret}\n")
    (folder / "base64.eml").write_text(f"{head}Content-Transfer-Encoding: base64\n\n{secret}===\n")
    (folder / "whisper.json").write_text(f'{{"segments": [{{"text": "{secret}", "start": "{secret}"')
    (folder / "times.vtt").write_text(f"WEBVTT\n\n{secret} --> {secret}\n{secret}\n")
    (folder / "none.mbox").write_text(secret * 100)
    (folder / "date.eml").write_text(f"{head}Date: {secret}\nTo: {secret}@\n\n")
    ran = fresh("ingest", str(folder), "--vectors", "later")
    assert ran.code == 3
    assert secret not in ran.out + ran.err
    assert secret not in fresh("ingest", "--json").out + fresh("doctor", "--data").out + fresh("stats").out


def test_a_bug_is_one_line_without_its_message(pkb: Pkb, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text(
        "import store.home\n"
        "def locate(environ): raise KeyError('Dear Mira, the spare key is under the mat')\n"
        "store.home.locate = locate\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{broken}:{Path.cwd()}")
        patch.delenv("PKB_DEBUG", raising=False)
        quiet = process(pkb.folder, "stats")
        patch.setenv("PKB_DEBUG", "1")
        loud = process(pkb.folder, "stats", "--json")
    assert (quiet.returncode, quiet.stdout, quiet.stderr.count("\n")) == (1, "", 1)
    assert quiet.stderr.startswith("pkb: this is a bug in pkb: KeyError at ")
    assert quiet.stderr.endswith("; try: pkb doctor\n")
    assert "mat" not in quiet.stderr
    assert "Traceback" in loud.stderr
    assert '"code": 1' in loud.stdout
