"""Search tables in an object store: what a home does there; a store that vanishes, stalls, refuses or is another's."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import lancedb
import pytest

from store.checksums import settle_place
from store.database import open_ledger
from tests import s3
from tests.cli.conftest import Pkb
from tests.s3 import KEY, SECRET, Server, Way
from tests.store.kit import Fuse, HashEmbedder, Killed, Opened, entry, home_in

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not s3.PROGRAM.exists(), reason="no S3 server: make test-bank creates one"),
]
SECRET_WORD = "quokkapower"
MAIL = {
    "roof.eml": (
        "Roof",
        "Gus Pell <gus@example.org>",
        "The roof of the barn was mended on Tuesday.\nIt cost 420 euro.",
    ),
    "keys.eml": ("Keys", "Ann Whitlock <ann@example.org>", "Dele Marsh has the spare key to the workshop."),
    "code.eml": ("Alarm", "Ann Whitlock <ann@example.org>", f"The alarm code of the workshop is {SECRET_WORD}."),
}
QUESTION = "Who has the spare key to the workshop?"
_numbers = count()
Open = Callable[..., Pkb]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with s3.serving(tmp_path_factory.mktemp("s3") / "log") as one:
        yield one


@pytest.fixture
def bucket(server: Server) -> str:
    """Return the name of a new bucket."""
    name = f"bucket-{next(_numbers)}"
    server.create(name)
    return name


@pytest.fixture
def mail(tmp_path: Path) -> Path:
    folder = tmp_path / "Mail"
    for name, (title, sender, text) in MAIL.items():
        write(folder / name, title, sender, text)
    return folder


@pytest.fixture
def open_home(
    server: Server, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Open:
    """Return what makes homes whose tables are in the bucket; the last one is the one that commands run in."""

    def open_one(name: str = "one", place: str = f"s3://{bucket}/pkb") -> Pkb:
        for variable, value in s3.environment(server.endpoint).items():
            monkeypatch.setenv(variable, value)
        monkeypatch.delenv("AWS_PROFILE", raising=False)
        home = Pkb(tmp_path / name, monkeypatch, capsys)
        assert home("config", "set", "home.tables", place).code == 0
        return home

    return open_one


@pytest.fixture
def pkb(open_home: Open) -> Pkb:
    return open_home()


@pytest.fixture
def filled(pkb: Pkb, mail: Path) -> Pkb:
    assert pkb("ingest", str(mail)).code == 0
    return pkb


def write(path: Path, title: str, sender: str, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    head = f"From: {sender}\nTo: all@example.org\nSubject: {title}\nMessage-ID: <{path.stem}@example.org>"
    path.write_text(f"{head}\nDate: Mon, 3 Jun 2024 09:00:00 +0000\n\n{text}\n", "utf-8")


def wrong(pkb: Pkb) -> list[str]:
    """Return what `pkb doctor --data` finds wrong."""
    done = pkb("doctor", "--data", "--read-data")
    return [line for line in (done.out + done.err).splitlines() if not line.startswith("ok")]


def files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def texts(endpoint: str, place: str) -> str:
    """Return all rows of every version of every table that can still be opened, as an attacker would read them."""
    options = {"aws_endpoint": endpoint, "allow_http": "true"}
    found = list[str]()
    connected = lancedb.connect(place, storage_options=options)
    for name in connected.list_tables().tables:
        for version in connected.open_table(name).list_versions():
            table = connected.open_table(name)
            table.checkout(version["version"])
            found.append(str(table.search().limit(None).to_arrow().to_pylist()))
    return "\n".join(found)


def test_answers_are_those_of_a_home_with_local_tables(
    filled: Pkb, mail: Path, server: Server, bucket: str, tmp_path: Path, open_home: Open
) -> None:
    def shown(pkb: Pkb) -> list[object]:
        row = pkb("ask", QUESTION, "--json").row
        sources = [(one["path"], one["lines"], one["quote"], one["score"]) for one in row["sources"]]
        found = pkb("search", "roof").out
        lines = pkb("show", str(mail / "roof.eml")).out.splitlines()
        document = [line for line in lines if not line.startswith("First seen")]
        return [row["answer"], sources, found, document, pkb("list").out]

    remote = shown(filled)
    assert any(key.startswith("pkb/chunks.lance/data/") for key in server.objects(bucket))
    assert list(files(tmp_path / "one/home/tables")) == []
    assert wrong(filled) == []
    assert f"ok    tables     s3://{bucket}/pkb, " in filled("doctor").out
    local = open_home("two", "")
    assert local("ingest", str(mail)).code == 0
    assert shown(local) == remote
    assert "Dele Marsh" in str(remote)


def test_a_folder_that_is_read_again_leaves_the_store_as_it_is_or_follows_a_change(
    filled: Pkb, mail: Path, server: Server, bucket: str
) -> None:
    before = server.objects(bucket).keys()
    assert filled("ingest").code == 0
    assert server.objects(bucket).keys() == before
    (mail / "roof.eml").unlink()
    write(
        mail / "keys.eml", "Keys", "Ann Whitlock <ann@example.org>", "Gus Pell has the spare key to the workshop now."
    )
    assert filled("ingest").code == 0
    assert filled("search", "roof", "mended").out == "No matches.\n"
    assert "Gus Pell" in filled("ask", QUESTION).out
    assert wrong(filled) == []


def test_embeddings_that_follow_later_are_in_the_store(pkb: Pkb, mail: Path, server: Server, bucket: str) -> None:
    assert pkb("ingest", str(mail), "--vectors", "later").code == 0
    assert not any("vectors" in key for key in server.objects(bucket))
    assert pkb("ingest", "--vectors", "now").code == 0
    assert any(key.startswith("pkb/vectors") for key in server.objects(bucket))
    assert pkb("stats", "--json").row["index"]["vectors"] == len(MAIL)
    assert wrong(pkb) == []


def test_a_forgotten_message_is_in_no_object_and_no_version(
    filled: Pkb, mail: Path, server: Server, bucket: str
) -> None:
    place, before = f"s3://{bucket}/pkb", server.objects(bucket)
    assert SECRET_WORD in texts(server.endpoint, place)
    assert filled("forget", str(mail / "code.eml"), "--yes").code == 0
    after = server.objects(bucket)
    assert {key for key in after if key in before and after[key]} == {"pkb/writer"}
    assert not any(SECRET_WORD.encode() in content for content in after.values())
    left = texts(server.endpoint, place)
    assert SECRET_WORD not in left
    assert "spare key" in left
    assert wrong(filled) == []
    assert filled("ingest").code == 0  # it stays out, and the others are still found
    assert filled("search", SECRET_WORD).out == "No matches.\n"
    assert "Dele Marsh" in filled("ask", QUESTION).out


def test_a_bucket_that_keeps_old_versions_is_refused(open_home: Open, mail: Path, server: Server) -> None:
    server.create("versioned", versioned=True)
    pkb = open_home("one", "s3://versioned/pkb")
    done = pkb("ingest", str(mail))
    assert (done.code, SECRET_WORD in str(server.objects("versioned"))) == (1, False)
    assert "keeps earlier versions" in done.err


def test_users_read_the_tables_of_the_store(
    filled: Pkb, mail: Path, tmp_path: Path, server: Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(mail.with_name("Choir") / "song.eml", "Song", "Tobias Renn <t@example.org>", "We sing a shanty in May.")
    assert filled("ingest", str(mail.with_name("Choir"))).code == 0
    assert filled("user", "add", "ann", "--in", "Choir").code == 0
    before = server.objects(bucket).keys()
    own = tmp_path / "one/home/users/ann"
    monkeypatch.setenv("PKB_CACHE", str(own / "cache"))
    monkeypatch.setenv("PKB_HOME", str(own))
    assert "shanty" in filled("search", "shanty").out
    assert "shanty" in filled("show", str(mail.with_name("Choir") / "song.eml")).out
    assert filled("search", "roof", "mended").out == "No matches.\n"
    assert filled("ingest", str(mail)).code == 2
    assert server.objects(bucket).keys() == before


def test_doctor_says_where_the_tables_are_if_the_setting_says_otherwise(filled: Pkb, bucket: str) -> None:
    config = next(filled.folder.glob("*.toml"))
    config.write_text(config.read_text("utf-8").replace(f"{bucket}/pkb", f"{bucket}/other"), "utf-8")
    said = f"BAD   tables     in s3://{bucket}/pkb, but home.tables is s3://{bucket}/other"
    assert said in filled("doctor", env={"COLUMNS": "300"}).out


def test_without_the_store_cached_and_indexed_answers_come_and_the_rest_names_it(
    filled: Pkb, mail: Path, bucket: str
) -> None:
    first = filled("ask", QUESTION)
    write(mail / "new.eml", "New", "Gus Pell <gus@example.org>", "A new message.")
    env = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    again = filled("ask", QUESTION, env=env)
    assert (again.code, again.out.splitlines()[:4]) == (0, first.out.splitlines()[:4])
    assert "420" in filled("ask", "What did the roof of the barn cost?").out
    assert f"BAD   tables     cannot reach s3://{bucket}/pkb: no answer" in filled("doctor").out
    for words in (["show", str(mail / "roof.eml")], ["ingest"], ["forget", str(mail / "roof.eml"), "--yes"]):
        done = filled(*words)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith(f"pkb: cannot reach s3://{bucket}/pkb: no answer; try: ")
        assert done.err.count("\n") == 1


@pytest.mark.parametrize("how", ["close", "stall"])
def test_an_ingest_that_loses_the_store_is_resumed(
    how: "s3.Break", pkb: Pkb, mail: Path, server: Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    way = Way(server, how)
    try:
        for writes in (1, 3, 6, 9) if how == "close" else (4,):
            way.break_after(writes)
            done = pkb("ingest", str(mail), env={"AWS_ENDPOINT_URL": way.endpoint})
            assert (done.code, done.err.splitlines()[-1].split(":")[1]) == (1, " cannot reach s3")
            assert "Traceback" not in done.err
            way.mend()
        assert pkb("ingest").code == 0
        assert pkb("stats", "--json").row["index"]["documents"] == len(MAIL)
        assert wrong(pkb) == []
        assert "Dele Marsh" in pkb("ask", QUESTION).out
    finally:
        way.close()


def test_a_store_that_stalls_fails_a_question_that_needs_it(filled: Pkb, mail: Path, server: Server) -> None:
    way = Way(server, "stall")
    way.break_after(0)
    done = filled("show", str(mail / "roof.eml"), env={"AWS_ENDPOINT_URL": way.endpoint})
    way.close()
    assert (done.code, "no answer" in done.err) == (1, True)


def test_refused_credentials_are_named_and_kept_nowhere(
    open_home: Open, mail: Path, tmp_path: Path, server: Server, bucket: str
) -> None:
    with s3.serving(tmp_path / "log", INITIAL_NO_AUTH_ACTION_COUNT="0") as strict:
        done = open_home()("ingest", str(mail), env={"AWS_ENDPOINT_URL": strict.endpoint})
    assert done.code == 1
    assert "the credentials are missing or refused" in done.err
    pkb = open_home()
    assert pkb("ingest", str(mail)).code == 0
    assert pkb("doctor").code in (0, 1)
    for path in files(tmp_path / "one"):
        held = path.read_bytes()
        assert (KEY.encode() in held, SECRET.encode() in held) == (False, False)
    assert pkb("config", "set", "home.tables", f"s3://{KEY}:{SECRET}@{bucket}/pkb").code == 2
    assert SECRET not in (tmp_path / "one/config.toml").read_text("utf-8")


def test_credentials_of_aws_files_are_used(
    pkb: Pkb, mail: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "credentials"
    kept.write_text(f"[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n", "utf-8")
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(variable)
    with s3.serving(tmp_path / "log") as other:
        other.create(pkb("config", "get", "home.tables").out.split("/")[2])
        env = {"AWS_ENDPOINT_URL": other.endpoint, "AWS_SHARED_CREDENTIALS_FILE": str(kept)}
        assert pkb("ingest", str(mail), env=env).code == 0


def test_a_copy_of_the_home_that_fell_behind_changes_nothing(
    filled: Pkb, open_home: Open, mail: Path, tmp_path: Path, server: Server, bucket: str
) -> None:
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    write(mail / "new.eml", "New", "Gus Pell <gus@example.org>", "A new message.")
    assert filled("ingest").code == 0
    before = server.objects(bucket)
    done = open_home("copy")("ingest")
    assert (done.code, "another home" in done.err) == (1, True)
    assert server.objects(bucket) == before


def test_a_missing_bucket_is_named(open_home: Open, mail: Path) -> None:
    done = open_home("one", "s3://nobody-made-it/pkb")("ingest", str(mail))
    assert (done.code, "cannot reach s3://nobody-made-it/pkb: no such bucket" in done.err) == (1, True)


@pytest.mark.parametrize("url", ["http://192.0.2.1:9000", "HTTP://192.0.2.1:9000", "192.0.2.1:9000", "https://"])
def test_mail_is_not_sent_unencrypted_to_another_machine(pkb: Pkb, mail: Path, url: str) -> None:
    done = pkb("ingest", str(mail), env={"AWS_ENDPOINT_URL": url})
    assert (done.code, "unencrypted" in done.err) == (2, True)


def test_an_empty_variable_is_none(pkb: Pkb, mail: Path) -> None:
    assert pkb("ingest", str(mail), env={"AWS_ENDPOINT_URL_S3": ""}).code == 0


def test_a_second_writer_is_refused_and_may_take_over(
    filled: Pkb, mail: Path, open_home: Open, server: Server, bucket: str
) -> None:
    before = server.objects(bucket)
    other = open_home("two")
    done = other("ingest", str(mail))
    assert (done.code, f"another home or program has written to s3://{bucket}/pkb" in done.err) == (1, True)
    assert server.objects(bucket) == before
    first = open_home("one")
    write(mail / "new.eml", "New", "Gus Pell <gus@example.org>", "A new message about a wombat.")
    assert first("ingest").code == 0
    other = open_home("two")
    assert other("doctor", "--data", "--repair").code == 0
    assert other("ingest", str(mail)).code == 0
    assert "wombat" in other("search", "wombat").out
    assert wrong(other) == []
    write(mail / "newer.eml", "Newer", "Gus Pell <gus@example.org>", "Another message.")
    done = open_home("one")("ingest")
    assert (done.code, "another home" in done.err) == (1, True)


def test_other_objects_are_neither_overwritten_nor_removed(
    open_home: Open, mail: Path, server: Server, bucket: str
) -> None:
    server.request(f"/{bucket}/pkb/photo.jpg", "PUT", b"a photo")
    done = open_home()("ingest", str(mail))
    assert (done.code, server.objects(bucket)) == (1, {"pkb/photo.jpg": b"a photo"})


def test_tables_stay_where_they_are(filled: Pkb, open_home: Open, mail: Path, tmp_path: Path) -> None:
    done = filled("config", "set", "home.tables", "")
    assert (done.code, "cannot be moved" in done.err) == (2, True)
    config = tmp_path / "one/config.toml"
    config.write_text("", "utf-8")
    assert filled("ingest").code == 2
    assert "Dele Marsh" in filled("ask", QUESTION).out


def test_a_kill_at_every_other_step_leaves_each_table_as_it_was(
    server: Server, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in s3.environment(server.endpoint).items():
        monkeypatch.setenv(variable, value)
    home = home_in(tmp_path)
    home.create()
    with closing(open_ledger(home.ledger, create=True)) as ledger:
        settle_place(ledger, f"s3://{bucket}/pkb")
    embedder = HashEmbedder()
    for steps in count(1, 2):
        opened = Opened(home, Fuse(steps))
        is_killed = False
        try:
            opened.keep(entry("a", "one text"), entry("b", "another text"))
            opened.keep(entry("a", "one text"), removes=["b"])
            opened.vectors.use(embedder.fingerprint)
            if opened.vectors.missing:
                opened.vectors.put(["a/0"], embedder.embed(["one text"]))
            opened.knowledge.compact()
        except Killed:
            is_killed = True
        opened.ledger.close()
        after = Opened(home)
        assert bool(after.tables.files.unlisted()) <= is_killed
        after.knowledge.recover()
        after.tables.files.settle()
        assert after.wrong() == []
        held = after.chunks()
        after.ledger.close()
        if not is_killed:
            break
    assert held == {"a/0": "one text"}
    assert steps > 10
