"""Text becomes ids of text alone, and ids become text of whole characters."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from engine.models.types import TORN, Tokens, open_tokenizer, spelled
from tests.engine.models.shapes import CONTROLS, TEXT, WORDS, bpe

BPE = bpe()
HELD = Tokens(BPE)
FAMILY = "naïve 👩‍👩‍👧 今日 🎉"
REAL = ("tokenizer-smollm2", "stories260K", "nano-prototype")

hostile = st.lists(st.sampled_from((*CONTROLS, *WORDS, "<|im_", "start|>", "<", ">", " ", "\n", "é", "ok"))).map(
    "".join
)


def added(tokenizer: Tokenizer) -> set[int]:
    return set(tokenizer.get_added_tokens_decoder())


def unigram() -> Tokenizer:
    """Make a tokenizer that has "<s>" among its pieces and knows nothing of added tokens, as SentencePiece ones may."""
    letters = [(letter, -5.0) for letter in "\u2581</>abcdefghijklmnopqrstuvwxyz"]
    tokenizer = Tokenizer(models.Unigram([("<unk>", -9.0), ("<s>", 0.0), ("</s>", 0.0), *letters], unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="never")
    return tokenizer


@pytest.mark.parametrize("name", [*CONTROLS, *WORDS])
def test_an_added_token_in_a_text_is_text(name: str) -> None:
    ids = HELD.text(f"they wrote {name} and left")
    assert added(BPE).isdisjoint(ids)
    assert HELD.decode(ids) == f"they wrote {name} and left"


@pytest.mark.parametrize("name", [*CONTROLS, *WORDS])
def test_the_same_token_in_a_template_is_itself(name: str) -> None:
    assert HELD.control(name) == (BPE.token_to_id(name),)


@given(hostile)
def test_no_text_makes_an_added_token_and_none_of_it_is_lost(text: str) -> None:
    ids = HELD.text(text)
    assert added(BPE).isdisjoint(ids)
    assert HELD.decode(ids) == text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_comes_back_from_its_ids(text: str) -> None:
    assert HELD.decode(HELD.text(text)) == text


@pytest.mark.parametrize("name", REAL)
def test_no_real_tokenizer_makes_a_control_token_of_a_text(shared: Path, name: str) -> None:
    tokenizer = open_tokenizer(shared / "models" / name / "tokenizer.json")
    names = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    tokens = Tokens(tokenizer)
    for text in (*names, "".join(names), " ".join(f"x{name}y" for name in names)):
        ids = tokens.text(text)
        assert added(tokenizer).isdisjoint(ids)
        assert tokens.decode(ids) == text


def test_a_control_token_that_is_a_piece_of_the_vocabulary_is_spelled_out() -> None:
    tokenizer = unigram()
    assert 1 in tokenizer.encode("a<s>b", add_special_tokens=False).ids
    tokens = Tokens(tokenizer, {1, 2})
    ids = tokens.text("a<s>b</s></s>")
    assert {1, 2}.isdisjoint(ids)
    assert tokens.decode(ids) == "a<s>b</s></s>"


def test_a_character_that_could_only_be_a_control_token_is_left_out() -> None:
    assert Tokens(unigram(), {0}).text("aéé\u4eca\u65e5b") == Tokens(unigram(), {0}).text("ab")


def test_a_long_text_of_unknown_characters_is_no_trouble() -> None:
    assert Tokens(unigram(), {0}).text("今日は" * 3000) == []


@pytest.mark.parametrize("normalized", [True, False])
def test_a_control_token_in_other_forms_of_its_letters_is_text(normalized: bool) -> None:
    tokenizer = bpe()
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.add_tokens([AddedToken("<tool>", normalized=normalized)])
    tokenizer.add_special_tokens([AddedToken("<end>", normalized=normalized)])
    tokens = Tokens(tokenizer)
    ids = tokens.text("a ＜ｔｏｏｌ＞ b <tool> ＜end＞ c <end>")
    assert added(tokenizer).isdisjoint(ids)
    assert tokens.decode(ids) == "a <tool> b <tool> <end> c <end>"


def test_runs_of_blanks_stay_the_tokens_they_are() -> None:
    tokenizer = bpe()
    tokenizer.add_tokens([AddedToken("    ", normalized=False)])
    assert tokenizer.token_to_id("    ") in Tokens(tokenizer).text("if x:\n    y")


def test_segments_that_end_in_one_newline_have_the_ids_of_the_text_they_make_up() -> None:
    segments = [f"[{n}]\n{part.strip()}\n" for n, part in enumerate(TEXT.split(". "), 1)]
    assert [id for segment in segments for id in HELD.text(segment)] == HELD.text("".join(segments))


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=2, max_size=4))
def test_so_do_segments_of_any_text(texts: list[str]) -> None:
    segments = [f"[{n}]\n{text.strip()}.\n" for n, text in enumerate(texts, 1)]
    assert [id for segment in segments for id in HELD.text(segment)] == HELD.text("".join(segments))


def test_and_with_a_real_tokenizer(shared: Path) -> None:
    tokens = Tokens(open_tokenizer(shared / "models" / "tokenizer-smollm2" / "tokenizer.json"))
    segments = [f"[{n}]\n{part.strip()}\n" for n, part in enumerate(TEXT.split(". "), 1)]
    assert [id for segment in segments for id in tokens.text(segment)] == tokens.text("".join(segments))


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters=TORN)))
def test_what_is_spelled_piece_by_piece_is_the_text_of_all_ids(text: str) -> None:
    assert "".join(spelled(HELD, HELD.text(text))) == text


@pytest.mark.parametrize("name", REAL)
def test_real_tokenizers_spell_piece_by_piece_what_they_decode_at_once(shared: Path, name: str) -> None:
    tokens = Tokens(open_tokenizer(shared / "models" / name / "tokenizer.json"))
    for text in (FAMILY, TEXT, "two  blanks\n\nand lines"):
        ids = tokens.text(text)
        assert "".join(spelled(tokens, ids)) == tokens.decode(ids)


def test_an_emoji_of_several_tokens_is_shown_whole() -> None:
    pieces = list(spelled(HELD, HELD.text("𓀀🦉")))
    assert len(pieces) > 2
    assert [piece for piece in pieces if piece] == ["𓀀", "🦉"]


def test_a_control_token_between_words_takes_no_blank_with_it(shared: Path) -> None:
    tokens = Tokens(open_tokenizer(shared / "models" / "stories260K" / "tokenizer.json"))
    ids = [*tokens.text("one"), 2, 2, *tokens.text("two")]
    assert "".join(spelled(tokens, ids)) == tokens.decode(ids) == "one two"


def test_half_a_character_at_the_end_is_not_shown() -> None:
    ids = HELD.text("so 🦉")
    assert "".join(spelled(HELD, ids[:-1])).rstrip() == "so"


def test_bytes_that_are_no_characters_do_not_hold_up_what_follows() -> None:
    torn = HELD.text("🦉")[1:2] * 50
    assert "".join(spelled(HELD, [*torn, *HELD.text("hello")])).endswith("hello")


@given(st.lists(st.integers(0, BPE.get_vocab_size() - 1), max_size=40))
def test_any_ids_can_be_spelled_a_piece_for_each(ids: list[int]) -> None:
    assert len(list(spelled(HELD, ids))) == len(ids)


def test_control_tokens_are_not_spelled() -> None:
    assert list(spelled(HELD, HELD.control("a<|im_end|>b"))) == ["a", "", "b"]
