"""Where generated text is cut: before it repeats itself, or with a sentence at the limit of tokens."""

import re
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.llm.generate import parse, visible
from engine.llm.stopping import REPEATED, Output, complete
from engine.models.load import load
from engine.models.types import Drafter
from tests.demo import NANO
from tests.engine.models.shapes import TEXT

ENDLESS = 10_000  # tokens
LONG = "The key of the bicycle workshop is with Gus, as ever."
KEY, HAT = "The key is with Gus.", "The hat is with Ann."
PARTS = st.sampled_from(
    [
        "The",
        "key",
        "is",
        "with",
        "Gus",
        ".",
        "\n",
        "1.",
        "- ",
        "[2]",
        "]",
        " ",
        "\n" * 45,
        "no",
        ", ",
        "。",
        "钥匙",
        "</think>",
    ]
)
SPANS = st.lists(
    st.sampled_from(["the", "key", "hat", "is", "with", "Gus", "钥匙在", "?", ".", "\n", "|"]), min_size=1
).filter(lambda span: any(part.strip() for part in span))


def generated(pieces: list[str], most: int = ENDLESS) -> Output:
    """Generate in these pieces, and check that the text shown meanwhile is its beginning."""
    output, shown = Output(most), ""
    for piece in pieces:
        more = output.add(piece)
        assert output.settled.startswith(shown)
        shown = output.settled
        if not more:
            break
    assert output.close().startswith(shown)
    assert (parse(output.text).answer or "").startswith(visible(shown))
    return output


def cut(text: str, most: int = ENDLESS) -> tuple[str, str]:
    """Generate a text word by word."""
    output = generated(re.findall(r"\s*\S+|\s+\Z", text), most)
    return output.text.rstrip(), output.ended


@pytest.mark.parametrize(
    ("once", "more"),
    [
        (KEY, f" {KEY}"),
        (f"{KEY} [3]", f" {KEY} [3]"),
        (f"{KEY} [3]", f" {KEY} [2] {KEY} [1]"),  # whatever source it names
        (f"1. {KEY}", f"\n2. {KEY}\n3. {KEY}"),
        (f"- {KEY}", f"\n- {KEY}"),
        (f"{KEY}\n{HAT}", f"\n{KEY}\n{HAT}"),
        ("From a.b@c.org, May", "\n | From a.b@c.org, May\n"),
        ("Gus has it, as he says", ", as he says" * 9),  # as soon as it fills a line
        ("The date is 2024-05-17", " 2024-05-17" * 12),
        ("Yes", ", yes" * 20),
        ("It costs 1", "0" * 200),
        ("Mon", "\n - " * 40),
        ("Mon", " " * 200),
        ("Mon", "\n" * 200),
        ("钥匙在阿明那里。", "钥匙在阿明那里。"),
        ("我去年在学校的夏季音乐会上看到了钥匙", "在那里" * 40),
        ("Ключ у Гены в кармане.", " Ключ у Гены в кармане."),
        (f"<think>{KEY} I say so: {KEY} Say it again.</think>{KEY}", f" {KEY}"),
        (f"{LONG} Ann says so. {LONG} Ben knows more.", f" {LONG} And Cem"),  # the third time, not in a row
    ],
)
def test_a_text_is_cut_before_it_repeats_itself(once: str, more: str) -> None:
    text, ended = cut(f"{once}{more} Gus")
    assert ended == REPEATED
    assert once in (text, f"{text}。", text[: len(once)])
    assert len(text) < len(once) + max(32, len(more) // 8)


@pytest.mark.parametrize(
    "text",
    [
        "He came. He came. He left.",
        "No, no, no.",
        f"{KEY} Ann says so. {KEY} Ben knows more than that.",  # a refrain
        "Ann Lee: 020 7946 0000\nBob Lee: 020 7946 0000\nCem Lee: 020 7946 0000\nDan Lee: 020 7946 0001",
        "Rehearsal is on 6 June at 19:30.\nRehearsal is on 13 June at 19:30.\nRehearsal is on 20 June at 19:30.",
        "| day | at 9 | at 10 |\n| --- | --- | --- |\n| Mon | free | free |\n| Tue | free | free |",
        "| Mon | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 |\n" + "-" * 72,
        "The number is 0000 0000 0000 0000, or 1000000000000000000000000000000.",
        "for row in rows:\n    print(row)\nfor row in rows:\n    write(row)\nfor row in rows:\n    close(row)",
        "1. Call Ann.\n2. Call Bob.\n3. Call Cem.\n4. Call Dan.\n5. Call Eva.",
        "10:00 周一 有空\n11:00 周一 有空\n12:00 周一 有空",
        "Ann\nHours: 9 to 5 on weekdays\nBob\nHours: 9 to 5 on weekdays\nCem\nHours: 9 to 6 on weekdays",
        f"<think>{KEY} I should say: {KEY}</think>{KEY}",
        "2024\n2025\n2026\n\n[1] [2]\n",
        "Customer ref: TWS000379039\nRef: TWS000379039\nOrder: cash",
        "".join(f"Deal {n}\nMarketer: Ann Lee/Bob Motley\nPrice: ${n}.12\n" for n in range(30, 36)),
    ],
)
def test_lists_tables_numbers_and_refrains_are_left_alone(text: str) -> None:
    assert cut(text) == (text.rstrip(), "")


@given(SPANS, st.text("abc .", max_size=20))
def test_a_span_that_comes_again_and_again_is_shown_about_once(span: list[str], before: str) -> None:
    again = " ".join(span) + " "
    text = before + again * (3 + 400 // len(again))
    output = generated(list(text))
    assert output.ended == REPEATED
    assert len(output.text) <= len(before) + 2 * len(again) + 4


@given(st.lists(PARTS, max_size=80), st.lists(st.integers(1, 12), min_size=1))
def test_a_text_is_cut_alike_whatever_its_tokens(parts: list[str], sizes: list[int]) -> None:
    text = " ".join(parts)
    offsets = [0, *accumulate(sizes * len(text))]
    pieces = [text[start:end] for start, end in pairwise(offsets) if start < len(text)]
    found, letters = generated(pieces), generated(list(text))
    assert (found.text, found.ended) == (letters.text, letters.ended)


@pytest.mark.parametrize(
    ("text", "most", "kept", "ended"),
    [
        (
            "Ann comes at six. Bob comes at seven. Cem does",
            10,
            "Ann comes at six. Bob comes at seven.",
            ", after a sentence",
        ),
        ("Ann comes at six. Bob comes at seven.", 8, "Ann comes at six. Bob comes at seven.", ", after a sentence"),
        ("Ann: at six [2]\nBob: at seven [1]\nCem", 9, "Ann: at six [2]\nBob: at seven [1]", ", after a sentence"),
        (
            "Ann comes at six. Bob comes later than that, but",
            10,
            "Ann comes at six. Bob comes later than that, but",
            "",
        ),
        ("At six it is Dr. Who", 6, "At six it is Dr. Who", ""),
        ("1. Ann comes at six.\n2. Bob", 6, "1. Ann comes at six.", ", after a sentence"),
        ("17", 1, "17", ""),
        (f"{HAT} Or not. {HAT} Or", 13, f"{HAT} Or not.", ", after a sentence"),
    ],
)
def test_at_the_limit_a_sentence_that_began_late_is_left_out(text: str, most: int, kept: str, ended: str) -> None:
    text, why = cut(text, most)
    assert text == kept
    assert why == f"the answer was cut at {most} tokens{ended}"


@given(st.lists(PARTS, min_size=1, max_size=60), st.integers(1, 60))
def test_no_more_tokens_are_taken_than_allowed(pieces: list[str], most: int) -> None:
    output = generated(pieces, most)
    assert output.tokens == min(len(pieces), most) or output.ended == REPEATED
    assert "".join(pieces).startswith(output.text)
    assert complete(pieces, most).text == output.text


def test_blanks_that_are_shown_stay_shown() -> None:
    generated(["\n" * 45, "\n" * 45, " ", "\n" * 45], 4)


@pytest.mark.slow
@pytest.mark.parametrize("start", [28, 35])
def test_guesses_change_neither_a_text_nor_where_it_is_cut(start: int, tmp_path: Path) -> None:
    model = replace(load(NANO, name="nano", cache=tmp_path, memory_share=0.9), stops=frozenset())
    prompt = model.tokens(TEXT)[start : start + 40]

    def write(drafts: Drafter | None = None) -> tuple[str, str, int]:
        output = Output(ENDLESS)
        for piece in model.decode(model.begin(), prompt, 100, drafts):
            if drafts and not output.tokens:
                drafts.learn()
            if not output.add(piece):
                break
        return output.close(), output.ended, output.tokens

    text, ended, tokens = write()
    assert ended == REPEATED
    for texts in ([], [model.tokens(text * 20)], [prompt]):
        assert write(Drafter(partial(list, texts), 8)) == (text, ended, tokens)
