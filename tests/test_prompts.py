"""The word lists next to the prompts: groups of words, without comments, not read for an exact hit."""

import subprocess
import sys

import pytest

from prompts import word_groups


@pytest.mark.parametrize("name", ["synonyms", "inflections"])
def test_every_group_joins_words_of_lower_case(name: str) -> None:
    groups = word_groups(name)
    assert len(groups) > 40
    assert [group for group in groups if len(group) < 2 or any(word != word.lower() for word in group)] == []


def test_a_comment_is_no_group() -> None:
    assert not any("#" in word for group in word_groups("synonyms") for word in group)


def test_importing_what_an_exact_hit_needs_reads_no_list() -> None:
    code = "import engine.ask.pipeline, engine.ask.keys, prompts; print(prompts.prompt.cache_info().currsize)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "0\n"
