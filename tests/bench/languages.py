"""Questions in six languages about a small archive: how many are answered, rightly, and found, by words and by meaning.

    python -m tests.bench.languages [--half dev|held] [--home FOLDER] [--model NAME] [--show]

`--show` prints the answers of the half that rules may be fitted to; of the other half only counts are printed.
"""

import argparse
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path

from engine.app import Pkb
from engine.settings import save
from engine.text.dates import spell_date
from tests.bench.home import environment, ingest
from tests.bench.judged import wilson

DATA = Path(__file__).resolve().parents[1] / "data" / "languages"
NOW = "2026-04-20T12:00"
FIRST = 5  # documents among which that of the answer is looked for


@dataclass(frozen=True, slots=True)
class Asked:
    """A question; `values` are what its answer may hold, none if the archive holds no answer."""

    language: str
    half: str
    wording: str  # words, meaning or none
    documents: frozenset[str]
    text: str
    values: tuple[str, ...]

    def judged(self, said: str | None) -> str:
        """Return right, wrong or declined."""
        if not said:
            return "right" if self.wording == "none" else "declined"
        return "right" if any(value in folded(said) for value in self.values) else "wrong"


def folded(text: str) -> str:
    """Return a text as values are looked for in it: one case, one kind of digit, one space."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def questions() -> Iterator[Asked]:
    """Return all questions, by language."""
    for path in sorted(DATA.glob("*.txt")):
        for line in path.read_text("utf-8").splitlines():
            if line.startswith("? "):
                head, text, values = (part.strip() for part in line[2:].split("|"))
                half, wording, *documents = head.split()
                named = tuple(_value(value) for value in values.split(";") if value)
                yield Asked(path.stem, half, wording, frozenset(documents), text, named)


def _value(text: str) -> str:
    try:
        return folded(spell_date(date.fromisoformat(text)))
    except ValueError:
        return folded(text)


def write(folder: Path) -> None:
    """Write the documents of all languages as mails and transcripts, each named by its key."""
    for path in sorted(DATA.glob("*.txt")):
        (folder / path.stem).mkdir(parents=True)
        for line in path.read_text("utf-8").splitlines():
            kind, _, rest = line.partition(" ")
            if kind not in ("M", "T"):
                continue
            head, *parts, text = (part.strip() for part in rest.split(" | "))
            key, when = head.split()
            body = "\n".join(text.split(" / ")) + "\n"
            if kind == "T":
                (folder / path.stem / f"{key}.txt").write_text(f"{parts[0]}\nDate: {when}\n\n{body}", "utf-8")
                continue
            message = EmailMessage()
            message["From"], message["To"], message["Subject"] = parts
            message["Date"] = format_datetime(datetime.fromisoformat(f"{when}:00+02:00"))
            message["Message-ID"] = f"<{key}@{path.stem}.example>"
            message.set_content(body)
            (folder / path.stem / f"{key}.eml").write_bytes(message.as_bytes())


@dataclass(frozen=True, slots=True)
class Result:
    """How one question was answered, and whether its document was among the first found."""

    asked: Asked
    verdict: str
    found: bool
    said: str | None


def measure(folder: Path, asked: Sequence[Asked], model: str = "") -> list[Result]:
    """Ingest the archive below a folder, if it is not yet there, and ask."""
    if model:
        save(folder / "config.toml", "embed.model", model)
    if not (folder / "documents").exists():
        write(folder / "documents")
        ingest(folder, [folder / "documents"])
    with Pkb(environ={**environment(folder), "PKB_NOW": NOW}) as pkb:
        return [_result(pkb, one) for one in asked]


def _result(pkb: Pkb, asked: Asked) -> Result:
    said = pkb.answer(asked.text, pkb.options(pkb.scope(), cache="off")).reply.text
    paths = list(dict.fromkeys(Path(source.path) for source in pkb.search(asked.text, k=20)))[:FIRST]
    found = any(path.stem in asked.documents and path.parent.name == asked.language for path in paths)
    return Result(asked, asked.judged(said), found, said)


def table(results: Sequence[Result]) -> Iterator[str]:
    """Return a line a language and wording: right, wrong and declined, and the document among the first."""
    groups = [(language, "") for language in sorted({one.asked.language for one in results})]
    for language, wording in [*groups, *(("all", one) for one in ("words", "meaning", "none", ""))]:
        own = [one for one in results if language in ("all", one.asked.language)]
        own = [one for one in own if wording in ("", one.asked.wording)]
        counts = Counter(one.verdict for one in own)
        known = [one.found for one in own if one.asked.documents]
        low, high = wilson(counts["right"], len(own))
        found = f"{sum(known)} of {len(known)} found in the first {FIRST}" if known else "no answer in the archive"
        yield (
            f"{language:<4} {wording:<8} {len(own):>3}: {counts['right']:>3} right ({low:.2f} to {high:.2f}),"
            f" {counts['wrong']:>2} wrong, {counts['declined']:>2} declined; {found}"
        )


def main() -> None:
    """Ingest, ask, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--half", choices=("dev", "held"))
    parser.add_argument("--home", type=Path, help="keep the home in this folder for other runs")
    parser.add_argument("--model", default="", help="embedding model")
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    asked = [one for one in questions() if given.half in (None, one.half)]
    results = measure(given.home or Path(tempfile.mkdtemp()), asked, given.model)
    for one in results:
        if given.show and one.asked.half == "dev":
            print(f"{one.verdict:<8} {'found' if one.found else '-':<5} {one.asked.wording:<7} {one.asked.text}")
            print(f"         {one.said!r}")
    for half in ("dev", "held"):
        if own := [one for one in results if one.asked.half == half]:
            print(half, *table(own), sep="\n")


if __name__ == "__main__":
    main()
