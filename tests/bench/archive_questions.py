"""Exact questions about the archive: how many are answered, and whether rightly.

    python -m tests.bench.archive_questions ../shared/data [--unseen] [--show]

Questions are made of wordings and of what mailboxes and meetings hold; the right answers come from a scan of the parsed
files, by code that shares nothing with the product. Wordings of the second half were not read while the forms were
written: `--unseen` asks those alone. Those of `other` must not be taken for exact ones.
"""

import argparse
import email
import re
import resource
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from email.utils import getaddresses, parsedate_to_datetime
from pathlib import Path
from random import Random

from engine.app import Pkb
from engine.settings import save
from tests.bench.home import environment, ingest

NOW = "2002-02-10T09:00:00"
TODAY = date(2002, 2, 10)
USERS = {
    "kean-s": ("steven.kean@enron.com", "skean@enron.com", "j..kean@enron.com", "steven.j.kean@enron.com"),
    "crandell-s": ("sean.crandell@enron.com",),
    "slinger-r": ("ryan.slinger@enron.com",),
    "symes-k": ("kate.symes@enron.com",),
    "whalley-g": ("greg.whalley@enron.com",),
}
MEETINGS = ("ami-ES2002", "committee-covid", "icsi-Bmr")
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]

TIMES = [
    "",
    "",
    " in {m}",
    " in {m} {y}",
    " since {m} {y}",
    " this year",
    " last month",
    " between {m} {y} and {n} {z}",
    " before {m} {y}",
    " in {y}",
]
LISTED = Path(__file__).resolve().parents[1] / "data" / "archive_questions.txt"


def wordings() -> dict[str, list[str]]:
    """Return the wordings by what they ask for."""
    found = dict[str, list[str]]()
    for kind, _, text in (line.partition(": ") for line in LISTED.read_text("utf-8").splitlines() if line[:1] != "#"):
        found.setdefault(kind, []).append(text)
    return found


@dataclass(frozen=True)
class Mail:
    """A message as the scan reads it."""

    id: str
    sender: str
    name: str
    recipients: frozenset[str]
    day: date
    moment: float
    subject: str
    body: str


@dataclass
class Box:
    """A mailbox: who has which addresses, by the words of their names."""

    me: frozenset[str]
    mails: list[Mail]
    names: dict[str, set[frozenset[str]]] = field(default_factory=dict)

    def addresses(self, name: str) -> set[str]:
        """Return the addresses of a person with these words in a name or before the @."""
        wanted = {*re.findall("[a-z]+", name.lower())}
        return {address for address, names in self.names.items() if any(wanted <= one for one in names)}

    def person(self, address: str) -> str:
        """Return one address for all of a person with these words in the name."""
        named = {one for one in self.names[address] if sum(len(word) > 1 for word in one) > 1}
        same = [other for other, names in self.names.items() if named & names]
        return max([*same, address], key=lambda one: (sum(mail.sender == one for mail in self.mails), one))


def scan(folder: Path, me: Sequence[str]) -> Box:
    """Read the mails of a folder."""
    box, seen = Box(frozenset(me), []), set[str]()
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        raw = email.message_from_bytes(path.read_bytes())
        sent, named = getaddresses([str(raw["from"])]), str(raw.get("x-from", ""))
        body = str(raw.get_payload(decode=False)) if not raw.is_multipart() else ""
        shared = (sent, raw["date"], raw["to"], raw["cc"], raw["subject"], body.rstrip())  # copies are one message
        if (ident := str(shared)) in seen:
            continue
        seen.add(ident)
        to = set[str]()
        for field_, shown in (("to", "x-to"), ("cc", "x-cc"), ("bcc", "x-bcc")):
            listed = [one for _, one in getaddresses(raw.get_all(field_, [])) if "@" in one]
            to |= {one.lower() for one in listed}
            names = _split(str(raw.get(shown, "")))
            for one, name in zip(listed, names if len(names) == len(listed) else [""] * len(listed), strict=True):
                _name(box, one.lower(), name)
        name, address = (*sent, ("", ""))[0]
        _name(box, address.lower(), named or name)
        moment = parsedate_to_datetime(raw["date"])
        about = " ".join(str(raw.get("subject", "")).split())
        plain = re.sub(r"\s*<.*|\"", "", named or name).strip()
        box.mails.append(
            Mail(ident, address.lower(), plain, frozenset(to), moment.date(), moment.timestamp(), about, body)
        )
    return box


def _split(shown: str) -> list[str]:
    if "<" in shown:
        return [one.strip(' ,"') for one in re.findall(r"([^<>]*)<[^>]*>", shown)]
    return [one.strip() for one in shown.split(",") if one.strip()]


def _name(box: Box, address: str, name: str) -> None:
    known = box.names.setdefault(address, set())
    known.add(frozenset(re.findall("[a-z]+", address.partition("@")[0])))
    if "@" not in (name := re.sub("<.*", "", name)):
        known.add(frozenset(re.findall("[a-z]+", name.lower())))


def has(mail: Mail, word: str) -> bool:
    """Return whether a word, or a form of it, is in subject or body."""
    return re.search(rf"\b{word}(?:s|es|ed|ing)?\b", f"{mail.subject}\n{mail.body}", re.IGNORECASE) is not None


def is_plain(box: Box, word: str) -> bool:
    """Return whether a word counts the same with and without what mails quote, and longer words."""

    def own(mail: Mail) -> str:
        parts = re.split(r"-+ ?(?:Original Message|Forwarded by)|^(?:From|To):|^>", mail.body, flags=re.MULTILINE)
        return f"{mail.subject}\n{parts[0]}"

    texts = [(f"{one.subject}\n{one.body}".lower(), own(one).lower()) for one in box.mails]
    strict = [re.search(rf"\b{word}(?:s|es|ed|ing)?\b", text) is not None for text, _ in texts]
    return 3 <= sum(strict) <= 60 and all(
        (word in text) == is_in == (re.search(rf"\b{word}", mine) is not None)
        for (text, mine), is_in in zip(texts, strict, strict=True)
    )


@dataclass(frozen=True)
class Asked:
    """A question, its user, what it asks for, and a test of the text of an answer."""

    user: str
    kind: str
    text: str
    is_right: Callable[[str], bool]
    truth: str


def _first_number(text: str) -> int | None:
    found = re.match(r"[\d,]+", text)
    return int(found[0].replace(",", "")) if found else None


def _counts(total: int) -> Callable[[str], bool]:
    return lambda said: _first_number(said) == total


def _spelt(day: date) -> str:
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def _times(random: Random, box: Box, form: str) -> tuple[str, Callable[[date], bool]]:
    """Return a time in words, and whether a day is in it."""
    day = random.choice(box.mails).day
    other = random.choice(box.mails).day
    first, last = sorted((day.replace(day=1), other.replace(day=1)))
    words = {"m": MONTHS[first.month - 1], "y": first.year, "n": MONTHS[last.month - 1], "z": last.year}
    text = form.format(**words)

    def month_end(one: date) -> date:
        return (one + timedelta(31)).replace(day=1)

    if form == " in {m}":
        year = TODAY.year if (first.month, 1) <= (TODAY.month, TODAY.day) else TODAY.year - 1
        return text, lambda one: (one.year, one.month) == (year, first.month)
    rules: dict[str, Callable[[date], bool]] = {
        "": lambda one: True,
        " in {m} {y}": lambda one: (one.year, one.month) == (first.year, first.month),
        " since {m} {y}": lambda one: one >= first,
        " this year": lambda one: one.year == TODAY.year,
        " last month": lambda one: (one.year, one.month) == (2002, 1),
        " between {m} {y} and {n} {z}": lambda one: first <= one < month_end(last),
        " before {m} {y}": lambda one: one < first,
        " in {y}": lambda one: one.year == first.year,
    }
    return text, rules[form]


def _mail_question(random: Random, user: str, box: Box, kind: str, wording: str, topics: Sequence[str]) -> Asked | None:
    """Return a question about a mailbox with its right answer; None where what was drawn has none."""
    wrote = Counter(one.name for one in box.mails if re.fullmatch(r"[A-Z][a-z]+ [A-Z][a-z]+", one.name))
    people = sorted(name for name, times in wrote.items() if times >= 2)
    if not people or ("{w}" in wording and not topics):
        return None
    name = random.choice(people)
    own = box.addresses(name)
    a = name.split()[1] if box.addresses(name.split()[1]) == own and random.random() < 0.4 else name
    mine = [one for one in box.mails if one.sender in own]
    to = Counter(one for mail in mine for one in mail.recipients if box.addresses(one.split("@")[0].replace(".", " ")))
    others = [one for one in to if re.fullmatch(r"[a-z]+\.[a-z]+@enron\.com", one)]
    if "{b}" in wording and not others:
        return None
    b = random.choice(sorted(others)).split("@")[0].replace(".", " ").title() if "{b}" in wording else ""
    word = random.choice(topics) if "{w}" in wording else ""
    time, holds = _times(random, box, random.choice(TIMES)) if "{t}" in wording else ("", lambda _: True)
    text = wording.format(a=a, b=b, w=word, t=time)
    found = [one for one in box.mails if holds(one.day) and (not word or has(one, word))]
    if kind not in ("top", "top about"):
        found = [one for one in found if one.sender in own]
    if re.search(r"\b(?:me|I)\b", text.replace("show me", "").replace("Show me", "")):
        found = [one for one in found if one.recipients & box.me]
    if b:
        found = [one for one in found if one.recipients & box.addresses(b)]
    return _judged(user, kind, text, found, box)


def _judged(user: str, kind: str, text: str, found: list[Mail], box: Box) -> Asked | None:
    found.sort(key=lambda one: one.moment)
    if kind in ("first", "last", "both", "top", "top about", "count about") and not found:
        return None
    if kind in ("first", "last", "both"):
        days = [_spelt(one.day) for one in {"first": found[:1], "last": found[-1:]}.get(kind, [found[0], found[-1]])]
        return Asked(user, kind, text, lambda said: [_day(line) for line in said.split("\n")] == days, str(days))
    if kind in ("top", "top about"):
        is_me = re.search(r"\bme\b|\bI\b", text) is not None
        counts = Counter(box.person(one.sender) for one in found if not (is_me and one.sender in box.me))
        if not counts or counts.most_common(2)[0][1] == ([*counts.most_common(2), ("", 0)][1][1]):
            return None
        best, times = counts.most_common(1)[0]
        return Asked(
            user,
            kind,
            text,
            lambda said: best in said.partition(":")[0].lower() and f": {times} of" in said,
            f"{best} {times}",
        )
    total = len(found)
    return Asked(user, kind, text, lambda said: _first_number(said) == total, str(total))


def _day(line: str) -> str:
    found = re.match(r"\w+day (\d+ \w+ \d{4})", line)
    return found[1] if found else ""


def _half(wordings: Sequence[str], *, unseen: bool) -> Sequence[str]:
    middle = (len(wordings) + 1) // 2
    return wordings[middle:] if unseen else wordings[:middle]


def questions(data: Path, boxes: dict[str, Box], number: int, *, unseen: bool) -> Iterator[Asked]:
    """Yield questions, of all kinds in turn."""
    random = Random(7 + unseen)
    topics = {user: [word for word in _candidates(box) if is_plain(box, word)][:20] for user, box in boxes.items()}
    spoke = {path: {*re.findall(r"^([^:\n]{2,60}):", path.read_text("utf-8"), re.MULTILINE)}
             for name in MEETINGS for path in sorted((data / "qmsum" / name / "docs").glob("*.txt"))}  # fmt: skip
    speakers = sorted({one for said in spoke.values() for one in said if re.fullmatch(r"[A-Z][\w ]+", one)})
    seen, said = set[str](), {kind: several for kind, several in wordings().items() if kind != "other"}
    kinds = list(said)
    while len(seen) < number:
        kind = kinds[random.randrange(len(kinds))]
        wording = random.choice(_half(said[kind], unseen=unseen))
        if kind == "meetings":
            who = random.choice(speakers)
            total = sum(any(who.lower() == one.lower() for one in said) for said in spoke.values())
            made: Asked | None = Asked("meetings", kind, wording.format(s=who), _counts(total), str(total))
        else:
            user = random.choice(list(boxes))
            made = _mail_question(random, user, boxes[user], kind, wording, topics[user])
        if made and made.text not in seen:
            seen.add(made.text)
            yield made


def _candidates(box: Box) -> list[str]:
    found = Counter(word for one in box.mails for word in {*re.findall(r"\b[a-z]{5,9}\b", one.subject.lower())})
    return sorted(word for word, times in found.items() if times >= 2 and not word.endswith(("s", "ed", "ing")))


def main() -> None:
    """Ingest, ask, and print what was answered and what of that is right."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--homes", type=Path, help="keep the homes in this folder for other runs")
    parser.add_argument("--unseen", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("-n", type=int, default=200)
    given = parser.parse_args()
    homes = given.homes or Path(tempfile.mkdtemp())
    boxes = {user: scan(given.data / "enron" / user / "mail", me) for user, me in USERS.items()}
    opened = {user: _opened(homes / user, [given.data / "enron" / user / "mail"], me) for user, me in USERS.items()}
    opened["meetings"] = _opened(homes / "qmsum", [given.data / "qmsum" / name / "docs" for name in MEETINGS], ())
    back, answered, right, total, cost = 0, Counter[str](), Counter[str](), Counter[str](), list[float]()
    for asked in questions(given.data, boxes, given.n, unseen=given.unseen):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        said = exact(opened[asked.user], asked.text)
        cost.append(resource.getrusage(resource.RUSAGE_SELF).ru_utime - before)
        total[asked.kind] += 1
        if said and said.startswith("The name fits"):
            back += 1
            continue
        answered[asked.kind] += said is not None
        right[asked.kind] += said is not None and asked.is_right(said)
        if given.show and (said is None or not asked.is_right(said)):
            print(f"{asked.user}: {asked.text} -> {said!r}, not {asked.truth}")
    for kind in total:
        print(f"{kind:<14} {total[kind]:>4} asked {answered[kind]:>4} answered {right[kind]:>4} right")
    sums = [sum(one.values()) for one in (total, answered, right)]
    print("all {} asked, {} answered, {} right".format(*sums), f"{back} asked back for one of several people", sep="; ")
    print(
        f"processor time in the median {sorted(cost)[len(cost) // 2] * 1000:.0f} ms, at most {max(cost) * 1000:.0f} ms"
    )
    box = boxes["kean-s"]
    names = sorted({one.name for one in box.mails if re.fullmatch(r"[A-Z][a-z]+ [A-Z][a-z]+", one.name)})
    texts = [
        one.format(a=names[n % len(names)], b=names[(n + 7) % len(names)], w="electricity")
        for n, one in enumerate(wordings()["other"])
    ]
    taken = [one for one in texts if exact(opened["kean-s"], one) is not None]
    print(f"others: {len(texts) - len(taken)} of {len(texts)} fall through", *taken, sep="\n")


def exact(pkb: Pkb, text: str) -> str | None:
    """Return the exact answer to a question; None where it falls through."""
    options = pkb.options(pkb.scope(), cache="off")
    from engine.ask.keys import understood
    from engine.types import Trace

    session = pkb.session
    found = session.backend.count(understood(session.ledger, text, session.now), options, Trace())
    return found.fact if found else None


def _opened(folder: Path, documents: Sequence[Path], me: Sequence[str]) -> Pkb:
    if not folder.exists():
        ingest(folder, documents)
    if me:
        save(folder / "config.toml", "me.addresses", "; ".join(me))
    return Pkb(environ={**environment(folder), "PKB_NOW": NOW})


if __name__ == "__main__":
    main()
