"""Writers of mail stores: each puts messages into a folder as its program does, with what it keeps beside them.

The layouts follow the programs' sources (Thunderbird's X-Mozilla fields, readpst, isync, offlineimap, notmuch, Dovecot,
mutt), and samples of Takeout, Apple Mail and Proton's export.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Message:
    """A message as its writer sent it, and what its reader did with it: read, new, deleted, spam or draft."""

    number: int
    sender: str
    day: datetime
    text: str
    state: str = "read"

    @property
    def source(self) -> str:
        """Return the message as it was sent."""
        fields = {
            "Message-ID": f"<m{self.number}@example.org>",
            "Date": format_datetime(self.day),
            "From": self.sender,
            "To": "Bob Ray <bob@example.org>",
            "Subject": f"Shed {self.number}",
            "MIME-Version": "1.0",
            "Content-Type": "text/plain; charset=utf-8",
            "Content-Transfer-Encoding": "8bit",
        }
        return "".join(f"{name}: {value}\n" for name, value in fields.items()) + f"\n{self.text}\n"

    @property
    def clock(self) -> str:
        """Return the day as the line above a message in a mailbox tells it."""
        return f"{self.day:%a %b} {self.day.day:2} {self.day:%H:%M:%S %Y}"


Messages = Sequence[Message]
Store = Callable[[Path, Messages], None]


def put(path: Path, text: str, end: str = "\n") -> None:
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.replace("\n", end).encode())


def mailbox(messages: Messages, above: Callable[[Message], str], quotes: bool = True) -> str:
    """Return an mbox file: what a program writes above each message, and From lines in it quoted."""
    found = list[str]()
    for one in messages:
        body = "\n".join(
            f">{line}" if quotes and line.lstrip(">").startswith("From ") else line for line in one.source.split("\n")
        )
        found.append(f"{above(one)}{body}\n")
    return "".join(found)


def mozilla(messages: Messages, first: str, keys: bool = True) -> str:
    """Return a folder of Thunderbird, whose fields tell the state; the flags are 1 (read) and 8 (deleted)."""
    flags = {"read": 0x0001, "new": 0, "deleted": 0x0009, "spam": 0x0001, "draft": 0x0001}

    def above(one: Message) -> str:
        junk = "Junk" if one.state == "spam" else ""
        field = f"X-Mozilla-Keys: {junk:80}\n" if keys else ""
        line = first.format(clock=one.clock)
        return f"{line}\nX-Mozilla-Status: {flags[one.state]:04x}\nX-Mozilla-Status2: 00000000\n{field}"

    return mailbox(messages, above)


def thunderbird_old(folder: Path, messages: Messages) -> None:
    """Write a profile of an older Thunderbird."""
    put(folder / "Mail/Local Folders/Inbox", mozilla(messages, "From - {clock}"), "\r\n")
    put(folder / "Mail/Local Folders/Inbox.msf", '// <!-- <mdb:mork:z v="1.4"/> -->\n')
    put(folder / "Mail/Local Folders/msgFilterRules.dat", 'version="9"\nlogging="no"\n')


def thunderbird(folder: Path, messages: Messages) -> None:
    """Write a profile of Thunderbird, with a folder below the inbox."""
    half = len(messages) // 2
    put(folder / "ImapMail/mail.example.org/INBOX", mozilla(messages[:half], "From "))
    put(folder / "ImapMail/mail.example.org/INBOX.sbd/Shed", mozilla(messages[half:], "From ", keys=False))
    put(folder / "ImapMail/mail.example.org/INBOX.msf", '// <!-- <mdb:mork:z v="1.4"/> -->\n')


def apple(folder: Path, messages: Messages) -> None:
    """Write Apple Mail's store: a file a message, the number of its bytes first, a property list behind it."""
    for one in messages:
        flags = {"read": 1, "new": 0, "deleted": 1, "spam": 1 | 1 << 24, "draft": 1 | 1 << 6}[one.state]
        source = one.source.encode()
        plist = (
            '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" '
            '"http://www.apple.com/DTDs/PropertyList-1.0.dtd">\n<plist version="1.0">\n<dict>\n'
            f"\t<key>date-received</key>\n\t<integer>{int(one.day.timestamp())}</integer>\n"
            f"\t<key>flags</key>\n\t<integer>{flags}</integer>\n\t<key>subject</key>\n\t<string>Shed</string>\n"
            "</dict>\n</plist>\n"
        )
        box = folder / "V10/6A1F/INBOX.mbox/9C2E/Data/Messages"
        put(
            box / f"{one.number}{'.partial' if one.number % 3 == 0 else ''}.emlx",
            f"{len(source):<10}\n{one.source}{plist}",
        )
    put(folder / "V10/6A1F/INBOX.mbox/Info.plist", '<plist version="1.0"></plist>\n')
    put(folder / "V10/6A1F/INBOX.mbox/9C2E/Data/Attachments/1/2/photo.txt", "not a message\n")


def apple_export(folder: Path, messages: Messages) -> None:
    """Write a mailbox that Apple Mail exports: a folder with an mbox file."""
    put(folder / "Shed.mbox/mbox", mailbox(messages, lambda one: f"From ann@example.org {one.clock}\n"))
    put(folder / "Shed.mbox/table_of_contents", "\0\0\1")


def maildir(name: str, beside: dict[str, str]) -> Store:
    """Return a writer of a Maildir, whose files have names of this form, with the flags of its standard."""
    flags = {"read": "S", "new": "", "deleted": "ST", "spam": "S", "draft": "DS"}

    def write(folder: Path, messages: Messages) -> None:
        for one in messages:
            size = len(one.source.encode())
            base = name.format(at=int(one.day.timestamp()), number=one.number, size=size, lines=size + 9)
            new = one.state == "new"
            put(folder / ("new" if new else "cur") / (base if new else f"{base}:2,{flags[one.state]}"), one.source)
        (folder / "tmp").mkdir(exist_ok=True)
        for path, text in beside.items():
            put(folder / path, text)

    return write


DOVECOT = {"dovecot-uidlist": "3 V1 N7 Gabc\n1 :1.host\n", "dovecot.index.log": "\1\2", "subscriptions": "Shed\n"}
NOTMUCH = {
    ".notmuch/xapian/docdata.glass": "\0",
    ".uidvalidity": "1\n7\n",
    ".mbsyncstate": "FarUidValidity 1\n\n1 1 S\n",
}


def takeout(folder: Path, messages: Messages, names: dict[str, str], fold: bool = False) -> None:
    """Write a Takeout of Gmail, whose labels have `names`; long ones are folded."""
    read = "Opened" if names["read"].isascii() else "Ge=C3=B6ffnet"

    def above(one: Message) -> str:
        labels = f"{names[one.state]},{read}"
        labels = f"=?UTF-8?Q?Kategorie:_=22Neuigkeiten=22,Wichtig,?=\n =?UTF-8?Q?{labels}?=" if fold else labels
        return (
            f"From 18{one.number:017}@xxx {one.day:%a %b %d %H:%M:%S} +0000 {one.day:%Y}\n"
            f"X-GM-THRID: 18{one.number:017}\nX-Gmail-Labels: {labels}\nDelivered-To: bob@example.org\n"
        )

    put(folder / "Takeout/Mail/All mail Including Spam and Trash.mbox", mailbox(messages, above), "\r\n")


LABELS = {"read": "Inbox", "new": "Inbox,Unread", "deleted": "Trash", "spam": "Spam", "draft": "Drafts"}
GERMAN = {
    "read": "Posteingang",
    "new": "Posteingang,Ungelesen",
    "deleted": "Trash",
    "spam": "Spam",
    "draft": "Entw=C3=BCrfe",
}


def readpst(folder: Path, messages: Messages) -> None:
    """Write what readpst makes of an archive of Outlook: an mbox file a folder, and files beside it."""
    line = 'From "{}" {}\nStatus: RO\n'
    put(
        folder / "archive/Inbox/mbox",
        mailbox(messages, lambda one: line.format(one.sender.split("<")[0].strip(), one.clock)),
    )


def readpst_files(folder: Path, messages: Messages) -> None:
    """Write what readpst makes of it with `-S`: a file a message by number, and attachments."""
    for one in messages:
        put(folder / f"archive/Inbox/{one.number}", one.source)
    put(folder / "archive/Inbox/1-plan.png", "\0PNG\0")


def proton(folder: Path, messages: Messages) -> None:
    """Write Proton's export: a message and what is known of it, by an id."""
    labels = {"read": "0", "new": "0", "deleted": "3", "spam": "4", "draft": "1"}
    for one in messages:
        about = {
            "ID": f"id{one.number}==",
            "Subject": "Shed",
            "Sender": {"Name": "Ann", "Address": "ann@example.org"},
            "LabelIDs": [labels[one.state], "5"],
            "Time": int(one.day.timestamp()),
            "Unread": int(one.state == "new"),
        }
        put(folder / f"mail_20260304_092905/id{one.number}==.eml", one.source, "\r\n")
        put(
            folder / f"mail_20260304_092905/id{one.number}==.metadata.json",
            json.dumps({"Version": 1, "Payload": about}),
        )
    put(
        folder / "mail_20260304_092905/labels.json",
        json.dumps({"Version": 1, "Payload": [{"ID": "0", "Name": "Inbox"}]}),
    )


def server(folder: Path, messages: Messages) -> None:
    """Write a mailbox of an IMAP server or mutt: a message of its own first, flags in fields."""
    flags = {
        "read": "RO",
        "new": "",
        "deleted": "RO\nX-Status: D",
        "spam": "RO\nX-Keywords: $Junk",
        "draft": "RO\nX-Status: T",
    }
    own = (
        "From MAILER-DAEMON Wed Mar  4 09:29:05 2026\nDate: 04 Mar 2026 09:29:05 +0000\n"
        "From: Mail System Internal Data <MAILER-DAEMON@host>\n"
        "Subject: DON'T DELETE THIS MESSAGE -- FOLDER INTERNAL DATA\nX-IMAP: 1772616545 0000000007\n"
        "Status: RO\n\nThis text is part of the internal format of your mail folder, and is not\na real message.\n\n"
    )

    def above(one: Message) -> str:
        size = f"Content-Length: {len(one.text.encode()) + 1}\nLines: {one.text.count(chr(10)) + 1}\n"
        return f"From ann@example.org {one.clock}\nStatus: {flags[one.state]}\nX-UID: {one.number}\n{size}"

    put(folder / "mbox", own + mailbox(messages, above))


def claws(folder: Path, messages: Messages) -> None:
    """Write folders in MH form, as Claws Mail and Sylpheed keep them: a file a message, by number."""
    for one in messages:
        put(folder / f"Mail/inbox/{one.number}", one.source)
    put(folder / "Mail/inbox/.mh_sequences", "cur: 2\nunseen: 3\n")
    put(folder / "Mail/inbox/.claws_cache", "\0\1")


DELETED, GONE, NONE = frozenset({"deleted"}), frozenset({"deleted", "spam"}), frozenset[str]()
UNSENT, ALL = frozenset({"deleted", "draft"}), frozenset({"deleted", "spam", "draft"})
STORES: dict[str, tuple[Store, frozenset[str]]] = {  # with the states that are left out
    "Thunderbird, older": (thunderbird_old, DELETED),
    "Thunderbird": (thunderbird, DELETED),
    "Apple Mail": (apple, NONE),
    "Apple Mail, export": (apple_export, NONE),
    "Maildir of Dovecot": (maildir("{at}.M{number}P9.host,S={size},W={lines}", DOVECOT), UNSENT),
    "Maildir of isync": (maildir("{at}.R{number}.host,U={number}", NOTMUCH), UNSENT),
    "Maildir of offlineimap": (maildir("{at}_{number}.77.host,U={number},FMD5=7e33429f656f", {}), UNSENT),
    "Maildir of mutt": (maildir("{at}.5_{number}.host", {}), UNSENT),
    "Takeout": (lambda folder, found: takeout(folder, found, LABELS), ALL),
    "Takeout, folded labels": (lambda folder, found: takeout(folder, found, GERMAN, fold=True), GONE),
    "readpst": (readpst, NONE),
    "readpst, files": (readpst_files, NONE),
    "Proton": (proton, NONE),
    "mutt and servers": (server, UNSENT),
    "MH": (claws, NONE),
}
