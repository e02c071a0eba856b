"""Mail accounts at a small server that can misbehave: what is asked of it, and that nothing it sends does harm."""

import shutil
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.app import Pkb
from engine.ingest.imap import Fetched, MailAccount, _folder, account_at, parse_account, shown_path
from store.errors import DiskFull, PkbError, UsageError
from tests.effort import slow_only
from tests.engine.ingest.mail_server import PASSWORD, SmallServer, message, use_keyring


class Post:
    """A home, a small server, and how to read the account there."""

    def __init__(self, folder: Path) -> None:
        (folder / "home").mkdir()
        (folder / "server").mkdir()
        self.server = SmallServer(folder / "server")
        (folder / "home" / "config.toml").write_text(f'[ingest]\nca = "{self.server.certificate}"\n')
        self.pkb = Pkb(folder / "home")
        self.address = f"imaps://ann@localhost:{self.server.port}"
        self.place = folder / "home" / "mail" / f"ann@localhost:{self.server.port}" / "INBOX"

    def read(self, password: str = PASSWORD, *, restore: bool = False) -> list[str]:
        """Read the account and index it; returns the titles of all that is indexed then."""
        self.fetch(password, restore=restore)
        self.pkb.index([self.address], restore=restore)
        return self.titles()

    def fetch(self, password: str | None = PASSWORD, *, restore: bool = False) -> Fetched:
        """Read the account."""
        done, failed = self.pkb.fetch([self.address], ask=lambda _: password, restore=restore)
        for error in failed:
            raise error
        return done[0]

    def titles(self) -> list[str]:
        return sorted(row["title"] for row in self.pkb.session.tables.select("documents", "true", ["title"]))

    def files(self) -> list[str]:
        return sorted(path.name for path in self.place.iterdir())


@pytest.fixture
def post(tmp_path: Path) -> Iterator[Post]:
    made = Post(tmp_path)
    yield made
    made.pkb.close()
    made.server.close()


def failure(post: Post, password: str = PASSWORD) -> PkbError:
    with pytest.raises(PkbError) as caught:
        post.read(password)
    return caught.value


# Addresses.


@pytest.mark.parametrize(
    ("text", "account"),
    [
        ("imaps://ann@mail.example.org", MailAccount("ann", "mail.example.org")),
        ("imaps:/ann@mail.example.org", MailAccount("ann", "mail.example.org")),  # as a path
        ("IMAPS://ann@x.org@IMAP.x.org:1993/", MailAccount("ann@x.org", "imap.x.org", 1993)),
        ("imaps://ann%40x.org@imap.x.org/inbox", MailAccount("ann@x.org", "imap.x.org", folder="INBOX")),
        ("imaps://a@b.org/[Gmail]/All Mail", MailAccount("a", "b.org", folder="[Gmail]/All Mail")),
        ("imaps://a@b.org/100%25", MailAccount("a", "b.org", folder="100%")),
        ("~/Mail", None),
        ("imaps", None),
    ],
)
def test_an_address_names_an_account(text: str, account: MailAccount | None) -> None:
    assert parse_account(text) == account


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("imap://ann@x.org", "TLS"),
        ("imaps://x.org", "an @ in front of the server"),
        ("imaps://ann:s3cret@x.org", "a password in it"),
        ("imaps://ann@x.org:70000", "server or port"),
        ("imaps://ann@", "server or port"),
    ],
)
def test_an_error_says_which_part_of_an_address_is_wrong(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_account(text)


@pytest.mark.parametrize(
    "text",
    [
        "imaps://ann:s3cret@x.org",
        "imaps://ann%3As3cret@x.org",
        "imap://s3cret@x.org",
        "imaps://s3cret",
        "imaps://s3cret@x.org:70000",
        "imaps://",
    ],
)
def test_another_address_is_an_error_that_repeats_no_password(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_account(text)
    assert "s3cret" not in f"{caught.value.message} {caught.value.next_step}"


NAMES = st.text(min_size=1, max_size=30).filter(lambda name: not any("\ud800" <= one <= "\udfff" for one in name))


@given(NAMES.filter(lambda name: ":" not in name), NAMES.filter(lambda name: name.strip("/") == name))
def test_an_account_is_found_again_by_its_place_and_by_its_address(user: str, folder: str) -> None:
    account = MailAccount(user, "x.org", 1993, "INBOX" if folder.upper() == "INBOX" else folder)
    place = account.place(Path("/home/mail"))
    assert len(place.parts) == 5
    assert account_at(Path("/home/mail"), str(place)) == account
    assert parse_account(str(account)) == account
    assert shown_path(Path("/home/mail"), str(place)) == str(account)
    assert account_at(Path("/home/mail"), str(place / "cur")) is None


# Reading.


def test_new_mail_is_read_once_and_what_is_gone_goes(post: Post) -> None:
    post.server.messages = {number: (message(number), "") for number in (3, 4, 9)}
    assert post.read() == ["note 3", "note 4", "note 9"]
    post.server.messages = {4: (message(4), "\\Seen"), 10: (message(10), "\\Flagged \\Answered")}
    asked = list[bytes]()
    post.server.reply = asked.append
    assert post.read() == ["note 10", "note 4"]
    assert [one for one in asked if b"BODY" in one] == [b"UID FETCH 10 (UID BODY.PEEK[])"]
    assert [one for one in asked if one.startswith((b"SELECT", b"STORE", b"UID STORE", b"EXPUNGE", b"CLOSE"))] == []
    assert post.files() == ["1.10.eml", "1.4.eml"]
    assert (post.place / "1.10.eml").read_bytes() == message(10).replace(b"\r\n", b"\n")


def test_deleted_and_junk_mail_is_not_kept(post: Post) -> None:
    post.server.messages = {1: (message(1), "\\Deleted"), 2: (message(2), "$Junk"), 3: (message(3), "")}
    assert post.read() == ["note 3"]
    post.server.messages = {1: (message(1), ""), 2: (message(2), "$NotJunk"), 3: (message(3), "\\Seen \\Deleted")}
    assert post.read() == ["note 1", "note 2"]
    assert post.files() == ["1.1.eml", "1.2.eml"]


def test_drafts_by_their_flag_are_left_at_the_server_and_all_that_is_left_there_is_counted(post: Post) -> None:
    flagged = {1: "\\Deleted", 2: "$Junk", 3: "\\Draft", 4: ""}
    post.server.messages = {number: (message(number), flag) for number, flag in flagged.items()}
    assert post.fetch().marked == 3
    assert post.files() == ["1.4.eml"]


def test_numbering_anew_doubles_nothing(post: Post) -> None:
    post.server.messages = {number: (message(number), "") for number in (1, 2, 3)}
    post.read()
    post.server.validity = 2
    post.server.messages = {1: (message(2), ""), 2: (message(3), ""), 3: (message(4), "")}
    assert post.read() == ["note 2", "note 3", "note 4"]
    assert post.files() == ["2.1.eml", "2.2.eml", "2.3.eml"]


def test_files_are_for_their_owner_alone(post: Post) -> None:
    post.server.messages = {1: (message(1), "")}
    post.read()
    every = list(post.place.parents[1].rglob("*"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in every if path.is_file()} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in every if path.is_dir()} == {0o700}


@pytest.mark.slow
def test_a_forgotten_message_does_not_come_back(post: Post) -> None:
    post.server.messages = {1: (message(1), ""), 2: (message(2, "The blue heron nests by the weir."), "")}
    post.read()
    post.pkb.forget(post.pkb.plan_forgetting(["2@x"], post.pkb.scope()))
    home = post.place.parents[2]
    assert [path for path in home.rglob("*") if path.is_file() and b"blue heron" in path.read_bytes()] == []
    for validity in (1, 2):
        post.server.validity = validity
        assert post.read() == ["note 1"]
        assert [path for path in home.rglob("*") if path.is_file() and b"blue heron" in path.read_bytes()] == []
    assert post.files() == ["2.1.eml", "2.2.noindex"]
    assert post.read(restore=True) == ["note 1", "note 2"]
    assert post.read() == ["note 1", "note 2"]


def test_a_forgotten_account_stays_empty_but_for_new_mail(post: Post) -> None:
    post.server.messages = {1: (message(1), ""), 2: (message(2), "")}
    post.read()
    post.pkb.forget(post.pkb.plan_forgetting([post.address], post.pkb.scope()))
    assert post.read() == []
    post.server.messages[3] = (message(3), "")
    assert post.read() == ["note 3"]


def test_what_is_left_out_of_the_index_is_forgotten_with_its_message_or_account(post: Post) -> None:
    spam = b"X-Spam-Flag: YES\r\nSubject"
    copy = message(1).replace(b"Subject", spam)
    other = message(4).replace(b"Subject", b"In-Reply-To: <1@x>\r\n" + spam)
    post.server.messages = {1: (message(1), ""), 2: (copy, ""), 3: (message(3), ""), 4: (other, "")}
    assert post.read() == ["note 1", "note 3"]
    post.pkb.forget(post.pkb.plan_forgetting(["<1@x>"], post.pkb.scope()))
    assert post.files() == ["1.1.noindex", "1.2.noindex", "1.3.eml", "1.4.eml"]
    post.pkb.forget(post.pkb.plan_forgetting([post.address], post.pkb.scope()))
    assert [name for name in post.files() if name.endswith(".eml")] == []
    assert post.read() == []


def spam(number: int) -> bytes:
    marked = message(number).replace(b"Subject", b"X-Spam-Flag: YES\r\nSubject")
    return marked.replace(b"From: Ann <ann", b"From: eve <eve")


def secrets(folder: Path) -> list[str]:
    """Return the files below a folder that hold the text of the third message."""
    return [str(path) for path in folder.rglob("*") if path.is_file() and b"key number 3 " in path.read_bytes()]


@pytest.mark.slow
@pytest.mark.parametrize("named", ["<3@x>", *slow_only("sender", "file", "address", "folder")])
def test_mail_that_was_never_indexed_is_forgotten_by_whatever_names_it(post: Post, named: str) -> None:
    post.server.messages = {1: (message(1), ""), 3: (spam(3), "")}
    assert post.read() == ["note 1"]
    folder = f"{post.address}/INBOX"
    targets = {"file": [f"{post.place}/1.3.eml"], "address": [f"{folder}/1.3.eml"], "folder": [folder], "sender": []}
    scope = post.pkb.scope(sender="eve" if named in ("sender", "folder") else None)
    planned = post.pkb.plan_forgetting(targets.get(named, [named]), scope)
    assert [row["title"] for _, row in planned.left_out] == ["note 3"]
    assert (planned.documents, planned.is_empty) == ((), False)
    post.pkb.forget(planned)
    assert secrets(post.place.parents[2]) == []
    assert post.read() == ["note 1"]
    post.server.validity = 2  # numbered anew, it is recognised by its content
    assert post.read() == ["note 1"]
    assert secrets(post.place.parents[2]) == []


def test_mail_that_was_never_indexed_stays_where_something_else_is_named(post: Post) -> None:
    post.server.messages = {1: (message(1), ""), 3: (spam(3), "")}
    post.read()
    for targets, scope in ((["<1@x>"], {}), ([], {"sender": "zoe"}), ([], {"until": "1999"}), ([], {"since": "2099"})):
        assert post.pkb.plan_forgetting(targets, post.pkb.scope(**scope)).left_out == ()
    with pytest.raises(UsageError, match="never indexed"):
        post.pkb.plan_forgetting(["<9@x>"], post.pkb.scope())


def test_without_an_account_nothing_waits_for_tls(tmp_path: Path) -> None:
    (tmp_path / "mail").mkdir()
    (tmp_path / "mail" / "1.eml").write_bytes(message(1))
    script = f"""
import sys
from engine.app import Pkb
with Pkb({str(tmp_path / "home")!r}) as pkb:
    pkb.ingest([{str(tmp_path / "mail")!r}])
    pkb.forget(pkb.plan_forgetting(["1@x"], pkb.scope()))
sys.exit("imaplib" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("is_copy", [*slow_only(True), False])
def test_a_home_that_was_moved_keeps_its_accounts_and_forgets_from_where_it_is_now(
    post: Post, tmp_path: Path, is_copy: bool
) -> None:
    post.server.messages = {number: (message(number), "") for number in (1, 2, 4)} | {3: (spam(3), "")}
    post.read()
    del post.server.messages[4]  # removed at the server: the index knows it by its former names
    assert post.read() == ["note 1", "note 2"]
    assert post.pkb.ask("Where is the key number 2?").sources
    post.pkb.close()
    home = tmp_path / "elsewhere" / "pkb"
    (shutil.copytree if is_copy else shutil.move)(tmp_path / "home", home)
    with Pkb(home) as pkb:
        place = home / post.place.relative_to(tmp_path / "home")
        assert list(map(str, pkb.accounts())) == [post.address]
        assert {source.path for source in pkb.last_answer().sources} <= {str(path) for path in place.iterdir()}
        assert (pkb.index()[0].new, pkb.index()[0].removed) == (0, 0)
        assert len(pkb.plan_forgetting([f"{post.address}/INBOX"], pkb.scope()).removed) == 1
        pkb.forget(pkb.plan_forgetting(["<2@x>", "<3@x>"], pkb.scope()))
        assert sorted(path.name for path in place.iterdir()) == ["1.1.eml", "1.2.noindex", "1.3.noindex"]
        assert secrets(home) == []


def test_another_folder_named_mail_is_not_taken_for_that_of_the_accounts(post: Post, tmp_path: Path) -> None:
    post.server.messages = {1: (message(1), "")}
    own = tmp_path / "backup" / "mail" / post.place.parent.name
    shutil.copytree(tmp_path / "server", own / "INBOX")
    (own / "INBOX" / "1.eml").write_bytes(message(2))
    post.pkb.index([own])
    assert post.read() == ["note 1", "note 2"]
    post.pkb.session.reopen()
    assert str(own) in {root.path for root in post.pkb.session.catalogue.roots()}


def test_a_source_is_named_as_it_is_printed(post: Post) -> None:
    post.server.messages = {1: (message(1), ""), 2: (message(2), "")}
    post.read()
    for name in (f"{post.address}/INBOX/1.2.eml", f"{post.place}/1.2.eml", f"{post.place}/1.2.eml:3-4"):
        assert [row["title"] for row in post.pkb.show(name)] == ["note 2"]
        assert post.pkb.scope(document=name).document == post.pkb.scope(document="note 2").document
        planned = post.pkb.plan_forgetting([name], post.pkb.scope())
        assert [row["title"] for row in planned.documents] == ["note 2"]


def test_a_misspelt_address_is_not_repeated(post: Post) -> None:
    for text in ("imaps:ann:hunter2@localhost", "imaps:/ann:hunter2@localhost", "imap:ann:hunter2@localhost"):
        with pytest.raises(UsageError) as error:
            parse_account(text)
        assert "hunter2" not in f"{error.value.message}{error.value.next_step}"


def test_an_account_is_known_by_its_address_afterwards(post: Post) -> None:
    post.server.messages = {1: (message(1), "")}
    post.read()
    assert [one["path"] for one in post.pkb.stats()["folders"]] == [post.address]
    assert list(map(str, post.pkb.accounts())) == [post.address]
    post.server.messages[2] = (message(2), "")
    post.pkb.fetch(ask=lambda _: PASSWORD)
    assert post.pkb.index()[0].new == 1


def test_an_account_whose_folder_was_deleted_is_not_read_again(post: Post) -> None:
    post.server.messages = {1: (message(1), "")}
    post.read()
    shutil.rmtree(post.place.parent)
    assert post.pkb.accounts() == []
    post.pkb.index(prune=True)
    assert (post.titles(), post.pkb.stats()["folders"]) == ([], [])


def test_a_server_that_is_away_keeps_nothing_else_from_being_read(
    post: Post, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_keyring(monkeypatch)
    post.server.messages = {1: (message(1), "")}
    post.read()
    (tmp_path / "more").mkdir()
    post.pkb.index([tmp_path / "more"])
    (tmp_path / "more" / "2.eml").write_bytes(message(2))
    post.server.close()
    with pytest.raises(PkbError, match="no connection"):
        post.pkb.ingest(embed=False)
    assert post.titles() == ["note 1", "note 2"]


def test_a_message_that_is_too_large_is_left_at_the_server(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    post.server.messages = {1: (message(1), ""), 2: (message(2), "")}

    def listed(command: bytes) -> bytes | None:
        text = b"* %d FETCH (UID %d RFC822.SIZE %d FLAGS ())\r\n"
        return text % (1, 1, 100) + text % (2, 2, 1 << 31) + b"TAG OK x\r\n" if command.startswith(b"FETCH") else None

    post.server.reply = listed
    found = post.fetch()
    assert (found.new, found.too_large) == (1, 1)


def test_a_full_disk_is_an_error_before_anything_is_written(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    post.server.messages = {1: (message(1), "")}
    monkeypatch.setattr("engine.ingest.imap._ROOM", 1 << 60)
    with pytest.raises(DiskFull):
        post.read()
    assert post.files() == []


# Servers that do harm.

BIG = b"9" * 5000
HOSTILE = {
    "greeting: nothing": (b"greeting", b""),
    "greeting: garbage": (b"greeting", b"\x00\xff\xfe" * 100 + b"\r\n"),
    "greeting: goodbye": (b"greeting", b"* BYE not today\r\n"),
    "greeting: a line without end": (b"greeting", b"* OK " + b"x" * 200_000),
    "capabilities: none": (b"CAPABILITY", b"TAG OK x\r\n"),
    "capabilities: a literal": (b"CAPABILITY", b"* CAPABILITY {3}\r\nabc\r\nTAG OK x\r\n"),
    "capabilities: another tag": (b"CAPABILITY", b"ZZZZ9 OK\r\n"),
    "list: nothing": (b"LIST", b"TAG OK x\r\n"),
    "list: names that break out": (b"LIST", b'* LIST () "/" {5}\r\na\r\nb \r\nTAG OK\r\n'),
    "list: no folder": (b"LIST", b"* LIST\r\n* LIST ((((\r\n* LIST NIL NIL NIL\r\nTAG OK x\r\n"),
    "examine: no": (b"EXAMINE", b"TAG NO not here\r\n"),
    "examine: no numbers": (b"EXAMINE", b"* x EXISTS\r\nTAG OK x\r\n"),
    "examine: too many": (b"EXAMINE", b"* 4294967295 EXISTS\r\n* OK [UIDVALIDITY 1] x\r\nTAG OK x\r\n"),
    "examine: numbers without end": (b"EXAMINE", b"* " + BIG + b" EXISTS\r\n* OK [UIDVALIDITY 1] x\r\nTAG OK x\r\n"),
    "listing: no": (b"FETCH", b"TAG NO x\r\n"),
    "listing: replies without end": (b"FETCH", b"* 1 EXISTS\r\n" * 500_000),
    "listing: a literal of exabytes": (b"FETCH", b"* 1 FETCH (UID 1 X {999999999999999999}\r\n"),
    "listing: a literal of 5,000 digits": (b"FETCH", b"* 1 FETCH (UID 1 X {" + BIG + b"}\r\n"),
    "messages: no": (b"UID FETCH", b"TAG NO x\r\n"),
    "messages: a literal of gigabytes": (b"UID FETCH", b"* 1 FETCH (UID 1 BODY[] {3000000000}\r\n" + b"x" * 9_000_000),
    "messages: garbage": (b"UID FETCH", bytes(range(256)) * 50 + b"\r\n"),
    "messages: cut off": (b"UID FETCH", b"* 1 FETCH (UID 1 BODY[] {300}\r\nSubject: cut"),
    "messages: another UID": (b"UID FETCH", b"* 1 FETCH (UID 7 BODY[] {3}\r\nabc)\r\nTAG OK x\r\n"),
    "messages: no UID": (b"UID FETCH", b"* 1 FETCH (BODY[] {3}\r\nabc)\r\nTAG OK x\r\n"),
    "messages: no body": (b"UID FETCH", b"* 1 FETCH (UID 1)\r\nTAG OK x\r\n"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_whatever_a_server_sends_is_an_error_or_nothing(name: str, post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.ingest.imap._SILENCE_S", 0.3)
    post.server.messages = {1: (message(1), "")}
    post.fetch()
    post.server.messages[2] = (message(2), "")
    at, sent = HOSTILE[name]
    post.server.reply = lambda command: sent if command.startswith(at) else None
    if "literal" in name:  # slow where there are many replies
        tracemalloc.start()
    try:
        found = post.fetch()
    except PkbError as error:
        said, new = error.message, 0
    else:
        said, new = post.address, found.new
    finally:
        peak = tracemalloc.get_traced_memory()[1]  # 0 if it was not started
        tracemalloc.stop()
    assert (said.startswith(post.address), PASSWORD in said, new) == (True, False, 0)
    assert peak < 64 << 20
    assert post.files() == ["1.1.eml"]  # nothing is lost by what the server does not say
    post.server.reply = lambda _: None
    assert post.fetch().new == 1


@given(st.binary(max_size=60) | st.text("&-,+ABCabc019/ ", max_size=30).map(str.encode))
def test_any_name_of_a_folder_is_read_and_can_be_sent_back(raw: bytes) -> None:
    folder = _folder(b'(\\Trash) "/" {9}', raw)
    printable = bool(raw) and all(32 <= one < 127 for one in raw)
    assert (folder is not None) == printable
    if folder:
        assert folder.raw.encode() == raw
        folder.name.encode()


@pytest.mark.parametrize(
    ("text", "literal", "name"),
    [
        (b'() "/" "Entw&APw-rfe"', None, "Entwürfe"),
        (b'() "/" "&ZeVnLIqe-/&U,BTFw-"', None, "日本語/台北"),
        (b"(\\Trash) NIL Trash", None, "Trash"),
        (b'() "\\\\" "a\\"b\\\\c"', None, 'a"b\\c'),
        (b'() "/" {3}', b"a b", "a b"),
        (b'() "/" "R&-D"', None, "R&D"),
        (b'() "/" "&====-"', None, "&====-"),
        (b'() "/" iNbOx', None, "INBOX"),
    ],
)
def test_names_of_folders_are_decoded(text: bytes, literal: bytes | None, name: str) -> None:
    folder = _folder(text, literal)
    assert folder is not None
    assert folder.name == name


def test_a_server_that_trickles_ends_at_the_limit_of_a_reply(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.ingest.imap._REPLY_S", 1e-9)
    assert "does not answer" in failure(post).message


def test_a_certificate_of_nobody_is_refused_before_the_password_is_sent(post: Post) -> None:
    config = post.place.parents[2] / "config.toml"
    config.write_text("")
    post.pkb.close()
    post.pkb = Pkb(config.parent)
    error = failure(post)
    assert "certificate is not valid (self" in error.message
    assert "ingest.ca" in str(error.next_step)
    assert post.server.logins == []


def test_a_certificate_of_another_host_is_refused(post: Post, tmp_path: Path) -> None:
    post.address = f"imaps://ann@127.0.0.1:{post.server.port}"
    assert "certificate is not valid" in failure(post).message
    assert post.server.logins == []


def test_a_missing_file_of_certificates_is_named(post: Post) -> None:
    config = post.place.parents[2] / "config.toml"
    config.write_text('[ingest]\nca = "/nowhere.pem"\n')
    post.pkb.close()
    post.pkb = Pkb(config.parent)
    assert failure(post).message == "no certificates can be read from /nowhere.pem"


def test_no_tls_is_an_error(post: Post, tmp_path: Path) -> None:
    import socket
    import threading

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            plain, _ = listener.accept()
            with plain:
                plain.sendall(b"* OK plain IMAP\r\n")
                plain.recv(1000)

        thread = threading.Thread(target=greet)
        thread.start()
        post.address = f"imaps://ann@localhost:{listener.getsockname()[1]}"
        assert "TLS failed" in failure(post).message
        thread.join()


# Passwords.


def test_the_password_of_the_keyring_is_used_and_a_wrong_one_is_asked_for(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = use_keyring(monkeypatch, password="old")
    asked = list[str]()
    post.pkb.fetch([post.address], ask=lambda _: PASSWORD, keep=lambda _, password: asked.append(password))
    assert (post.server.logins, asked) == (["old", PASSWORD], [PASSWORD])
    ring.password = PASSWORD
    post.pkb.fetch([post.address])
    assert post.server.logins[2:] == [PASSWORD]


def test_three_wrong_passwords_are_enough(post: Post) -> None:
    error = failure(post, "wr0ng")
    assert post.server.logins == ["wr0ng"] * 3
    assert error.message == f"{post.address}: the server refuses name or password"


def test_without_a_password_and_anybody_to_ask_nothing_is_sent(post: Post) -> None:
    with pytest.raises(PkbError, match="no password"):
        post.fetch(None)
    assert post.server.logins == []


def test_a_password_is_kept_where_the_user_agrees_and_the_keyring_is_the_systems(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.ingest.imap import keep_password, kept_password

    (account,) = post.pkb.accounts([post.address])
    use_keyring(monkeypatch, password=None)
    keep_password(account, PASSWORD, lambda: False)
    assert kept_password(account) is None
    keep_password(account, PASSWORD, lambda: True)
    assert kept_password(account) == PASSWORD
    ring = use_keyring(monkeypatch, "keyrings.alt.file", password=None)
    with pytest.raises(PkbError, match="not the system's"):
        keep_password(account, PASSWORD, lambda: True)
    assert ring.password is None


def test_no_password_stands_in_any_file(post: Post) -> None:
    post.server.messages = {1: (message(1), "")}
    post.read()
    failure(post, "wr0ng")
    home = post.place.parents[2]
    for path in (one for one in home.rglob("*") if one.is_file()):
        assert not any(word.encode() in path.read_bytes() for word in (PASSWORD, "wr0ng"))
