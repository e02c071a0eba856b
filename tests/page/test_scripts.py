"""The scripts of the page in Node.js, without a browser: any quote is found in its document and marked."""

import json
import random
import shutil
import string
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.page.test_files import SCRIPTS

Run = Callable[[dict[str, Any]], dict[str, Any]]
BEFORE, AFTER = "Dear Ida, this is before.", "Best wishes, and this is after."
HARD = {
    "date": "We meet on 2024-06-22 at 19:00",
    "hyphen": "a follow-up to the well-known e-mail",
    "pattern": r"^(.*)[a-z]{2,}?\d+$|(?<!x)\u{1F600}\k<n>/",
    "replacement": "$& $1 $` $' $$ \\0",
    "markup": "<mark>&amp;</mark> <script>",
    "emoji": "see you 😀 👩‍👩‍👧‍👦 🇳🇱 there",
    "combining": "cafe\u0301 and Z\u0351\u036b\u0343\u036algo",
    "right to left": "הפגישה ביום שני, 12:30 — مفتاح الورشة",
    "Chinese": "饺子摊的摊位是几号？",
    "no-break and other spaces": "10\u00a0000\u2009km\u3000away\u2028now\u0085then\x1cnext",
    "zero width": "zero\u200bwidth\u2060joined\ufeffmark",
    "control": "bell\x07 and\x1b[31m red",
    "half a character": "half \ud83d of one",
    "arrows": "a -> b >> c >= d",
    "address": "from Ann <ann@example.org>",
    "arrow at the begin": ">= 3 > 2 >",
    "one letter": "§",
    "name of a property": "constructor __proto__ toString",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Return what runs one step of page.mjs, or skip without Node.js."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not installed")
    folder = tmp_path_factory.mktemp("scripts")
    for path in SCRIPTS:
        shutil.copy(path, folder)
    (folder / "package.json").write_text('{"type": "module"}', "utf-8")
    command = [node, str(Path(__file__).with_name("page.mjs")), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def step(given: dict[str, Any]) -> dict[str, Any]:
            assert process.stdin
            assert process.stdout
            process.stdin.write(json.dumps(given) + "\n")
            process.stdin.flush()
            return dict(json.loads(process.stdout.readline()))

        yield step
        assert process.stdin
        process.stdin.close()
        assert process.wait() == 0


def source(quote: str, lines: tuple[int, int] = (1, 1), span: tuple[int, int] | None = None) -> dict[str, Any]:
    """Return a source of a message."""
    about = {
        "path": "/mail/1.eml",
        "message_id": "<1@example.org>",
        "title": "Boat",
        "date": "2024-06-03T09:00:00+00:00",
    }
    who = {"sender": "Ann <ann@example.org>", "recipients": ["ben@example.org"], "role": "body", "warnings": []}
    said = {"quote": quote, "lines": lines, "own_lines": True, "span": span, "date_claimed": about["date"]}
    return {**about, **who, **said}


def opened(run: Run, text: str, cited: dict[str, Any], turns: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Return what the viewer shows of a source in a document."""
    document = {**cited, "item": 0, "kind": "mail", "text": text, "lines": [1, 1 + text.count("\n")], "turns": turns}
    return run({"source": cited, "documents": [document]})


def test_turns_are_shown_in_place_of_subtitles(run: Run) -> None:
    said = ["00:02  Ann: We start at nine.", "00:07  Ben: No, at ten.", "00:09  Ann: At ten."]
    turns = [{"lines": [4 * at + 3, 4 * at + 5], "text": one} for at, one in enumerate(said)]
    found = opened(run, "WEBVTT\n" * 14, source("Ben: No, at ten.", (7, 8)), turns)
    assert (found["lines"], found["marked"]) == (said, ["Ben: No, at ten."])


def plain(text: str) -> str:
    """Return a text as the page shows it, with one blank for each run of spaces."""
    return " ".join("\n".join(_shown(text)).split())


def assert_marked(run: Run, quote: str) -> None:
    text = f"{BEFORE}\n{quote}\n{AFTER}"
    found = opened(run, text, source(quote, (1, 1 + text.count("\n"))))
    assert plain(" ".join(found["marked"])) == plain(quote)
    assert "".join(found["lines"]) == "".join(map(str, _shown(text)))


def _shown(text: str) -> list[str]:
    controls = {one: "\ufffd" for one in range(0xA0) if chr(one) not in "\t\n" and not 32 <= one < 127}
    turning = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd")
    return text.translate(controls | turning).split("\n")


@pytest.mark.parametrize("quote", HARD.values(), ids=HARD)
def test_a_quote_of_any_characters_is_marked(run: Run, quote: str) -> None:
    assert_marked(run, quote)


def test_every_punctuation_mark_alone_between_letters_and_in_a_run_is_marked(run: Run) -> None:
    for one in string.punctuation:
        for quote in (one, f"a{one}b", f"{one} {one}{one}", f"x {one}"):
            assert_marked(run, quote)


def test_quotes_of_random_characters_are_marked(run: Run) -> None:
    drawn = random.Random(8)
    kinds = (
        string.printable,
        string.punctuation,
        "ab \n-",
        "".join(map(chr, range(0x20, 0x3000))),
        "😀é\u0301ש\u200d👩 ",
    )
    for _ in range(300):
        letters = drawn.choice(kinds)
        quote = "".join(drawn.choice(letters) for _ in range(drawn.randint(1, 60))).strip(string.whitespace + ">")
        if quote and not set(quote) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff\u180e\u1680"):
            assert_marked(run, f"“{quote}”")


def test_a_quote_is_marked_over_line_ends_and_quote_marks_that_it_does_not_have(run: Run) -> None:
    text = f"{BEFORE}\n> The key\n>> is at\n>\t the  follow-up\n{AFTER}"
    found = opened(run, text, source("The key is at the follow-up", (1, 5)))
    assert found["marked"] == ["The key", ">> is at", ">\t the  follow-up"]


def test_the_first_place_in_the_cited_lines_is_marked_and_no_other_part_of_a_word(run: Run) -> None:
    text = "now here\nnowhere at all\nnow here and now\nnow here"
    found = opened(run, text, source("now here", (2, 3)))
    assert (found["marked"], found["cited"]) == (["now here"], ["nowhere at all", "now here and now"])


def test_a_very_long_quote_is_marked(run: Run) -> None:
    quote = "\n".join(f"{n}. what-is (said) [here]: a+b=c?" for n in range(20_000))
    found = opened(run, f"{BEFORE}\n{quote}\n{AFTER}", source(" ".join(quote.split()), (1, 20_002)))
    assert found["marked"] == quote.split("\n")


def test_the_sentence_that_answers_is_marked_within_its_passage(run: Run) -> None:
    quote = "😀 Hello - all.\nWe meet on 2024-06-22 (19:00).\nBye."
    begin = quote.index("We")
    found = opened(run, f"{quote}\n", source(quote, (1, 3), (begin, begin + 30)))
    assert found["marked"] == ["We meet on 2024-06-22 (19:00)."]


@pytest.mark.parametrize("quote", ["gone-away from it", "", " ", ">", None], ids=repr)
def test_without_its_quote_the_cited_lines_are_shown(run: Run, quote: str) -> None:
    found = opened(run, f"{BEFORE}\n{AFTER}", source(quote, (2, 2)))
    assert (found["marked"], found["cited"]) == ([], [AFTER])


def test_words_of_a_search_are_marked_where_a_word_begins_with_one(run: Run) -> None:
    def marked(text: str, *words: str) -> list[str]:
        found = run({"source": source(text), "words": words})
        assert text in found["text"]
        return list(found["marked"])

    assert marked("Rehearsal-room, the REHEARSALS; unrehearsed", "rehearsal") == ["Rehearsal", "REHEARSAL"]
    assert marked("at 19:00 on 2024-06-22", "2024", "06") == ["2024", "06"]
    assert marked("चाबी कहाँ है?", "कहाँ") == ["कहाँ"]
    assert marked("İstanbul istanbul", "istan") == ["istan"]
    assert marked("a (b) [c] $& b", "b", "c") == ["b", "c", "b"]
