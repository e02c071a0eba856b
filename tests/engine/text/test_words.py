"""Tokenization and stemming, in any script."""

import re
from collections import defaultdict
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.words import FUNCTION_WORDS, RunIndex, stem, word_runs, words

Form = Callable[[str], str]


@given(st.text())
def test_words_joined_and_split_again_are_the_same_set(text: str) -> None:
    found = words(text)
    assert set(words(" ".join(found))) == set(found)


@given(st.text())
def test_no_word_is_empty_or_holds_a_blank(text: str) -> None:
    assert all(word and not any(letter.isspace() for letter in word) for word in words(text))


@given(st.text(alphabet=st.characters(codec="ascii")))
def test_capitals_make_no_difference_in_ascii(text: str) -> None:
    assert words(text.upper()) == words(text.lower())


@given(st.text(alphabet="abcdefgilnsuy", max_size=20))
def test_a_stem_is_its_own_stem(word: str) -> None:
    assert stem(stem(word)) == stem(word)


@pytest.mark.parametrize(
    "forms",
    [
        "painting paint painted paints",
        "hobby hobbies",
        "stop stopped stopping stops",
        "propose proposed proposes proposing",
        "box boxes",
        "hike hiking hiked",
        "class classes",
        "recent recently",
    ],
)
def test_the_forms_of_a_word_share_a_stem(forms: str) -> None:
    assert len(set(words(forms))) == 1


@pytest.mark.parametrize("word", ["bus", "this", "process", "red", "sing", "bed", "fly", "Москва", "東京"])
def test_what_only_looks_like_an_ending_stays(word: str) -> None:
    assert words(word) == [word.casefold()]


@pytest.mark.parametrize("name", [("James", "jame"), ("Caroline's", "caroline"), ("O’Neill", "O'Neill")])
def test_a_name_matches_in_all_its_spellings(name: tuple[str, str]) -> None:
    assert words(name[0]) == words(name[1])


def test_an_address_is_found_whole_and_by_part() -> None:
    assert words("Ann.Lee@choir.org") == ["ann.lee@choir.org", "ann", "lee", "choir", "org"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3.5", ["3.5", "3", "5"]),
        ("10:30", ["10:30", "10", "30"]),
        ("2024-05-03", ["2024-05-03", "2024", "5", "3"]),
        ("1,250,000", ["1250000"]),
        ("3rd", ["3"]),
        ("5pm", ["5pm", "5", "pm"]),
        ("007", ["7"]),
    ],
)
def test_a_number_is_kept_whole_and_in_parts(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_a_compound_of_two_is_found_by_its_parts_and_as_one() -> None:
    assert words("kick-off") == ["kick", "off", "kickoff"]


def test_chinese_becomes_overlapping_pairs() -> None:
    assert words("会议改期") == ["会议", "议改", "改期"]


def test_a_lone_character_is_kept() -> None:
    assert words("茶") == ["茶"]


def test_numbers_between_chinese_characters_stand_alone() -> None:
    assert words("5月3日") == ["5", "月", "3", "日"]


def test_indic_vowel_signs_stay_in_their_word() -> None:
    assert words("हिन्दी में") == ["हिन्दी", "में"]


def test_accents_of_latin_letters_do_not_matter() -> None:
    assert words("José Müller") == words("Jose Muller")


def test_full_width_letters_and_digits_are_plain_ones() -> None:
    assert words("ＩＤ４２") == words("ID42")


def test_it_the_abbreviation_is_not_dropped() -> None:
    assert words("IT to be or not") == ["it", "to", "be", "or", "not"]


def test_function_words_are_stemmed_as_by_words() -> None:
    assert {"wher", "the", "who", "have", "hav"} & FUNCTION_WORDS == {"wher", "the", "who", "have", "hav"}


@pytest.mark.parametrize("piece", ["a.", "a_", "_", "...", "-", "a@", "a@a.", "+a-", "1.", "a'"])
def test_long_runs_take_time_in_proportion(piece: str) -> None:
    assert words(piece * 200_000 + " end")[-1] == "end"  # hours, if each start were tried to the end


@pytest.mark.parametrize("address", ["ann@example.org", "-ann@example.org", "x+y@a-b.example.org"])
def test_an_address_is_one_word_beside_punctuation(address: str) -> None:
    assert [
        address in words(f"{before}{address}{after}") for before, after in (("<", ">"), ("to:", ","), ("", "."))
    ] == [True] * 3


SAID = "Amber brook cedar dune ember fjord grove kite haven lotus iris amber jade."
FORMS = (str, str.upper, lambda word: f"{word[:2]}-\n{word[2:]}", lambda word: word.replace("e", "\uff45"))
GAPS = (" ", "\n> ", "\nAnn: ", "_", "... ", " \n> 12 ")


@pytest.mark.parametrize("form", FORMS)
@given(st.integers(0, 4), st.lists(st.sampled_from(GAPS), min_size=8, max_size=12))
def test_the_pattern_of_runs_is_in_every_text_that_holds_one(form: Form, start: int, gaps: list[str]) -> None:
    bits = defaultdict(lambda: 5.0, haven=9.0)
    index = RunIndex(run for one in (SAID, SAID[:33], SAID[18:]) for run, _ in word_runs(one, bits))
    text = "".join(form(word) + gap for word, gap in zip(SAID[:-1].split()[start:], gaps, strict=False))
    assert index.found(text)
    assert re.search(f"(?i){index.pattern}", text)


def test_a_run_is_found_in_a_word_that_other_lines_interrupt() -> None:
    """Sorted by what stands in front of the lines, the last one comes first, and its word goes on in the other."""
    bits = defaultdict(lambda: 5.0, amber=9.0)
    index = RunIndex(run for run, _ in word_runs("Amber brook cedar dune entertainment fjord.", bits))
    assert index.found("> tainment fjord\namber brook cedar dune enter-")
