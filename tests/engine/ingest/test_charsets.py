"""Charset detection and decoding, whatever the declared charset."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.headers import decode_text, tidy, visible


@pytest.mark.parametrize(
    ("data", "declared", "text"),
    [
        (b"plain", "", "plain"),
        ("Grüße".encode(), "utf-8", "Grüße"),
        ("Grüße".encode("latin-1"), "iso-8859-1", "Grüße"),
        ("Grüße".encode(), "iso-8859-1", "Grüße"),
        ("Grüße".encode(), "us-ascii", "Grüße"),
        ("“quoted”".encode("cp1252"), "iso-8859-1", "“quoted”"),
        ("Привет, мир".encode("koi8-r"), "koi8-r", "Привет, мир"),
        ("日本語".encode("iso-2022-jp"), "iso-2022-jp", "日本語"),
        ("汉字".encode("gbk"), "gb2312", "汉字"),
        ("naïve".encode("utf-16"), "", "naïve"),
        (b"\xef\xbb\xbfmarked", "", "marked"),
        ("déjà vu".encode("latin-1"), "no-such-charset", "déjà vu"),
        (b"safe", "rot13", "safe"),
        ("שלום".encode("iso-8859-8"), "iso-8859-8-E", "שלום"),
        ("Привет".encode("mac-cyrillic"), "x-mac-cyrillic", "Привет"),
        ("สวัสดี".encode("cp874"), "windows-874", "สวัสดี"),
        ("안녕".encode("cp949"), "x-windows-949", "안녕"),
        ("naïve".encode("cp850"), "IBM850", "naïve"),
        (b"\x1b$B-j;3ED\x1b(B", "iso-2022-jp", "㈱山田"),
        (b"safe", "unicode_escape", "safe"),
        ("Привет".encode("utf-16-le"), "utf-16le", "Привет"),
        (b"safe", "utf-16", "safe"),
        ("Привет".encode("koi8-r"), "koi8", "Привет"),
        ("Привет".encode("mac-cyrillic"), "x-mac-ukrainian", "Привет"),
        ("שלום".encode("iso-8859-8"), "logical", "שלום"),
        ("船は赤い".encode("iso-2022-jp"), "_iso-2022-jp$sio", "船は赤い"),
        ("髙橋①".encode("cp932"), "windows-31j", "髙橋①"),
        ("船是紅色".encode("big5"), "x-x-big5", "船是紅色"),
    ],
)
def test_text_is_decoded_despite_a_wrong_or_missing_charset(data: bytes, declared: str, text: str) -> None:
    assert decode_text(data, declared) == text


def test_undeclared_cyrillic_is_guessed() -> None:
    text = "Собрание состоится в среду в большом зале, приходите вовремя и принесите ноты."
    assert decode_text(text.encode("cp1251")) == text


def test_line_ends_become_newlines_and_controls_are_removed() -> None:
    assert tidy("a\r\nb\rc\x1b[31m\x00d\te\u2028f\x0cg") == "a\nb\nc[31md\te\nf g"


def test_what_is_not_seen_cuts_no_word_and_joiners_stay() -> None:
    assert visible("Gar\xadten\u200bhaus \u202aAnn\u202c\ufeff می\u200cخواهم") == "Gartenhaus Ann می\u200cخواهم"


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_ascii_text_is_tidied_as_any_other(text: str) -> None:
    assert tidy(text + "é") == tidy(text) + "é"


@given(st.binary(max_size=300), st.sampled_from(["", "utf-7", "utf-16", "koi8-r", "hz", "idna", "x\0y", "cp037"]))
def test_any_bytes_decode_to_text_that_can_be_stored(data: bytes, declared: str) -> None:
    text = tidy(decode_text(data, declared))
    assert text.encode().decode() == text
    assert not any(ord(char) < 32 and char not in "\n\t" for char in text)
