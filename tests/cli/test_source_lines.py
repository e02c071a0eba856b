"""The lines of a source contain its quote: in the file itself, or in the output of `pkb show`."""

import contextlib
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from cli.app import run
from tests.cli.conftest import Pkb
from tests.demo import DATA, environment

QUESTIONS = [json.loads(line)["question"] for line in (DATA / "questions.jsonl").read_text("utf-8").splitlines()]
Source = dict[str, Any]
Quoted = list[tuple[Source, Source]]
TEXT = (".vtt", ".srt", ".sbv", ".txt", ".md")


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def holds(lines: list[str], quote: str) -> bool:
    """Whether the words of a quote stand in show this help in their order, cues and times between them or not."""
    rest = iter(words("\n".join(lines)))
    return all(word in rest for word in words(quote))


def is_mail(document: Source) -> bool:
    return bool(document["kind"] == "mail")


def printed(*args: str) -> list[dict[str, Any]]:
    """Return the objects that a command prints."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(out):
        assert run([*args, "--json"]) in (0, 4)
        out.seek(0)
        return [json.loads(line) for line in out]


@pytest.fixture(scope="module")
def quoted(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Quoted:
    """Return the sources of many questions that quote something, each with the document that it is from."""
    own = Path(shutil.copytree(made, tmp_path_factory.mktemp("quoted") / "demo"))  # what is asked is remembered
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(own).items():
            patch.setenv(name, value)
        rows = [row for question in QUESTIONS[::2] for row in printed("ask", question, "--cache=off")]
        sources = [source for row in rows for source in row["sources"] if source["quote"]]
        shown = [document for path in {source["path"] for source in sources} for document in printed("show", path)]
    documents = {(document["path"], document["message_id"]): document for document in shown}
    assert len(sources) > len(QUESTIONS)
    return [(source, documents[source["path"], source["message_id"]]) for source in sources]


def test_pkb_show_prints_every_quote_of_a_mail_word_for_word(quoted: Quoted) -> None:
    mail = [(source["quote"].split(), document["text"].split()) for source, document in quoted if is_mail(document)]
    assert mail
    assert [quote for quote, text in mail if " ".join(quote) not in " ".join(text)] == []


def test_the_lines_of_a_source_hold_its_quote(quoted: Quoted) -> None:
    for source, document in quoted:
        first, last = (number - document["lines"][0] for number in source["lines"])
        lines = document["text"].split("\n")
        assert 0 <= first <= last < len(lines)
        assert holds(lines[first : last + 1], source["quote"])


def test_the_lines_of_transcripts_and_plain_mail_are_those_of_the_file(quoted: Quoted) -> None:
    direct = set()
    for source, document in quoted:
        path = Path(source["path"])
        if path.suffix not in TEXT and document["lines"][0] == 1:
            continue  # an archive, HTML, base64: lines of what is shown
        lines = path.read_bytes().decode("utf-8", "replace").split("\n")
        assert holds(lines[source["lines"][0] - 1 : source["lines"][1]], source["quote"])
        direct.add(path.suffix if path.suffix in TEXT else document["kind"])
    assert direct >= {"mail", ".vtt", ".md"}


def test_the_lines_of_a_message_in_an_archive_are_those_of_pkb_show(pkb: Pkb, quoted: Quoted) -> None:
    source = next(source for source, _ in quoted if source["path"].endswith("archive.mbox"))
    shown = pkb("show", source["path"], "--message-id", source["message_id"]).out.splitlines()
    numbered = {int(line[:5]): line[7:] for line in shown if line[:5].strip().isdigit()}
    first, last = source["lines"]
    assert min(numbered) == 1
    assert holds([numbered[number] for number in range(first, last + 1)], source["quote"])


def test_subtitles_are_printed_as_turns_with_the_lines_of_the_file(quoted: Quoted) -> None:
    read = [one for _, one in quoted if one["path"].endswith((".vtt", ".srt", ".sbv"))]
    assert read
    for document in read:
        lines = document["text"].split("\n")
        assert document["turns"]
        for turn in document["turns"]:
            first, last = turn["lines"]
            assert re.match(r"\d+:\d\d(?::\d\d)?  \S", turn["text"])
            assert holds(lines[first - 1 : last], turn["text"].split(":", 2)[-1])
    assert all(one["turns"] is None for _, one in quoted if one not in read)


def test_show_prints_when_and_who_and_marks_the_cited_turns(pkb: Pkb) -> None:
    source = pkb("ask", "who keeps the spare key?", "--json").row["sources"][0]
    assert source["path"].endswith(".vtt")
    shown = [line for line in pkb("show", "1").out.splitlines() if re.match(r" *\d+>? ", line)]
    assert re.fullmatch(r" +5>? +00:02  Dele Marsh: Right, shall we start\?.*", shown[0])
    assert any(re.match(r" +\d+>", line) for line in shown)
    assert not any("-->" in line or "<v" in line for line in shown)
