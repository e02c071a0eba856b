"""Questions about people: how many are answered, and whether rightly.

    python -m tests.bench.people_questions ../shared/data/enron [--unseen] [--show]

Senders are split in two by a digest of their address; nothing was fitted to the second half, which `--unseen` asks for.
What is right is read from the raw files, by code that shares nothing with the product: the lines of a mail's end, below
a line with its sender's name. An answer with another number or address than these is counted as strange, to be read.
"""

import argparse
import email
import re
import resource
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from email.utils import getaddresses
from hashlib import sha256
from pathlib import Path
from random import Random

from engine.app import Pkb
from tests.bench.home import environment, pkb

NUMBER = re.compile(r"\(?\b\d{3}\)?[ ./-]{1,3}\d{3}[ .-]\d{4}\b")
TITLE = re.compile(
    r"\b(manager|director|president|vp|counsel|analyst|assistant|attorney|coordinator|engineer|trader|specialist)\b",
    re.I,
)
CUT = re.compile(r"^\s*(-{3,} ?(Original|Forwarded)|>|From:|_{20,}\s*$)|.*\bwrote:$", re.I | re.M)
FORMS = {
    "phone": ["what is {}'s phone number?", "do you have {}'s number?", "phone number of {}"],
    "mobile": ["what is {}'s cell number?", "{}'s mobile"],
    "title": ["what is {}'s title?", "what does {} do?", "what is {}'s job?"],
    "who": ["who is {}?", "tell me about {}"],
    "email": ["what is {}'s email?", "{}'s email address", "email address of {}"],
}
SHARES = {"phone": 20, "mobile": 6, "title": 12, "who": 12, "email": 10}


@dataclass
class Someone:
    """A sender as the files show them."""

    name: str
    address: str
    numbers: Counter[str] = field(default_factory=Counter)
    mobiles: set[str] = field(default_factory=set)
    titles: list[str] = field(default_factory=list)


def scan(folder: Path) -> list[Someone]:
    """Read who wrote, and what their signatures say."""
    found = dict[str, Someone]()
    for path in sorted(one for one in folder.rglob("*") if one.is_file() and "mail" in one.parts):
        raw = email.message_from_bytes(path.read_bytes())
        shown, address = (*getaddresses([str(raw["from"])]), ("", ""))[0]
        name = re.sub(r"\s*<.*|\"|\(.*?\)", "", str(raw.get("x-from", "")) or shown).strip()
        last, comma, first = name.partition(",")
        name = " ".join((f"{first} {last}" if comma else name).split())
        if raw.is_multipart() or not re.fullmatch(r"[A-Z][a-z]+ (?:[A-Z]\.? )?[A-Z][A-Za-z']+", name):
            continue
        one = found.setdefault(address.lower(), Someone(name, address.lower()))
        body = CUT.split(str(raw.get_payload()))[0].rstrip().split("\n")[-12:]
        for at, line in enumerate(body):
            if one.name.split()[0] in line and one.name.split()[-1] in line and len(line.strip()) < 40:
                _read(one, body[at + 1 : at + 8])
    return [found[address] for address in sorted(found)]


def _read(one: Someone, lines: list[str]) -> None:
    for line in lines:
        for number in NUMBER.findall(line):
            digits = re.sub(r"\D", "", number)[-7:]
            one.numbers[digits] += not re.search(r"fax|pager", line, re.I)
            if re.search(r"cell|mobile", line, re.I):
                one.mobiles.add(digits)
    one.titles += [" ".join(line.split()) for line in lines[:1] if TITLE.search(line)]


def questions(people: list[Someone], seed: int, *, unseen: bool) -> list[tuple[str, str, Someone]]:
    """Return questions with what they ask for and about whom."""
    random, asked = Random(seed), list[tuple[str, str, Someone]]()
    names = Counter(one.name for one in people)
    half = [one for one in people if sha256(one.address.encode()).digest()[0] % 2 == unseen and names[one.name] == 1]
    able = {
        "phone": [one for one in half if +one.numbers],
        "mobile": [one for one in half if one.mobiles],
        "title": [one for one in half if one.titles],
        "who": half,
        "email": half,
    }
    for kind, several in able.items():
        for one in random.sample(several, min(SHARES[kind], len(several))):
            asked.append((kind, random.choice(FORMS[kind]).format(one.name), one))
    return asked


def judged(kind: str, said: str | None, one: Someone) -> str:
    """Return right, none, or strange: which may be right by a line that the scan did not read."""
    if not said:
        return "none"
    first, *others = said.split("\n")
    first = next((row for row in others if one.address in row.casefold()), first)  # of several of the name
    if kind in ("phone", "mobile"):
        wanted = one.mobiles if kind == "mobile" else set(+one.numbers)
        told = {re.sub(r"\D", "", number)[-7:] for number in NUMBER.findall(first)}
        return "right" if told and told <= set(+one.numbers) and told & wanted else "strange"
    if kind == "title":
        value = first.partition(": ")[0].casefold()
        return (
            "right"
            if any(value in title.casefold() or title.casefold() in value for title in one.titles)
            else "strange"
        )
    return "right" if one.address in first.casefold() else "strange"


def main() -> None:
    """Ingest, ask, and print what was answered and what of that is right."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--home", type=Path, help="keep the home in this folder for other runs")
    parser.add_argument("--unseen", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--seed", type=int, default=47)
    given = parser.parse_args()
    home = given.home or Path(tempfile.mkdtemp())
    if not (home / "home").exists():
        done = pkb(home, "ingest", str(given.data), "--vectors", "later")  # people are found by words
        assert done.returncode in (0, 3), done.stderr
    totals, cost = Counter[tuple[str, str]](), list[float]()
    with Pkb(environ=environment(home)) as opened:
        for kind, text, one in questions(scan(given.data), given.seed, unseen=given.unseen):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
            reply = opened.answer(text, opened.options(opened.scope(), cache="off")).reply
            cost.append(resource.getrusage(resource.RUSAGE_SELF).ru_utime - before)
            result = judged(kind, reply.text, one)
            totals[kind, result] += 1
            if given.show:
                quotes = " / ".join(source.quote.replace("\n", " ")[:160] for source in reply.sources[:2])
                print(f"{result:<8} {kind}: {text} -> {reply.text!r} [{quotes}] {dict(one.numbers)} {one.titles[:2]}")
    for kind in SHARES:
        print(f"{kind:<8}", *(f"{totals[kind, result]:>3} {result}" for result in ("right", "strange", "none")))
    print(
        f"processor time in the median {sorted(cost)[len(cost) // 2] * 1000:.0f} ms, at most {max(cost) * 1000:.0f} ms"
    )


if __name__ == "__main__":
    main()
