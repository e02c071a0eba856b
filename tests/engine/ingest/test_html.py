"""HTML to the text that a reader sees."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.html import MOST_TAGS, html_text
from tests.effort import examples


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("<p>One\n two</p><p>three</p>", "One two\n\nthree"),
        ("a<br>b<br><br>c", "a\nb\n\nc"),
        ("<div>a</div><div>b</div>", "a\nb"),
        ("<b>bo</b>ld <i>words</i>", "bold words"),
        ("<ul><li>one<li>two<ol><li>first<li>second</ol></ul>", "- one\n- two\n  1. first\n  2. second"),
        ("<table><tr><td>10:00<td>Gym<tr><td>11:00<td>Hall</table>", "10:00 | Gym\n11:00 | Hall"),
        ("<table><tr><td><p>10:00</p></td><td><p>Gym</p></td></tr></table>", "10:00 | Gym"),
        ("<pre>a\n  b</pre>", "a\n  b"),
        ("see <a href='https://x.org/a'>the plan</a>.", "see the plan (https://x.org/a)."),
        ("<a href='https://x.org/'>https://x.org</a>", "https://x.org"),
        ("<p>yes</p><blockquote>will you<blockquote>come?</blockquote></blockquote>", "yes\n\n> will you\n\n> > come?"),
        ("a<blockquote>b<br>c</blockquote>d", "a\n\n> b\n> c\n\nd"),
        ("a<blockquote style='margin: 0 0 0 40px; border: none'>b</blockquote>c", "a\n\nb\n\nc"),
        ("a<blockquote style='margin-left:40px'>b<blockquote type=cite>c</blockquote></blockquote>", "a\n\nb\n\n> c"),
        ("a<blockquote style='margin:0 0 0 .8ex;border-left:1px solid'>b</blockquote>", "a\n\n> b"),
        ("a<blockquote class=quote style='margin:0 0 0 .8ex'>b</blockquote>", "a\n\n> b"),
        ("one&nbsp;&amp;&#27;&lt;two&gt;", "one &<two>"),
        ("<img alt='the poster' src=x>", "the poster"),
    ],
)
def test_structure_becomes_lines(source: str, text: str) -> None:
    assert html_text(source) == text


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>secret()</script>",
        "<style>.secret{}</style>",
        "<div style='display: none'>secret</div>",
        "<span hidden>secret</span>",
        "<p style='font-size:0'>secret</p>",
        "<!-- secret -->",
        "<head><title>secret</title></head>",
    ],
)
def test_what_no_reader_sees_is_left_out(hidden: str) -> None:
    assert html_text(f"{hidden}<p>seen</p>") == "seen"


def test_a_small_font_is_seen() -> None:
    assert html_text("<p style='font-size:0.8em'>seen</p>") == "seen"


def test_a_page_of_too_many_tags_keeps_its_text() -> None:
    source = "<style>no</style>" + "<div>" * (MOST_TAGS + 1) + "deep &amp; down<br>below"
    assert html_text(source).strip() == "deep & down\nbelow"


def test_an_image_inside_the_page_costs_no_text() -> None:
    assert html_text(f"before <img src='data:image/png;base64,{'A' * 50_000}'> after") == "before after"


@pytest.mark.parametrize(
    "piece", ["<div>", "<i></p>", "<a ", "<!--", "<script>", "<td>", "<ul><li>", "<blockquote>", "&#0;", "<"]
)
def test_hostile_pages_end(piece: str) -> None:
    assert "\x00" not in html_text(piece * 5000 + "end")


TAGS = ["<p>", "</p>", "<td>", "<tr>", "<table>", "<li>", "<ol>", "</ol>", "<pre>", "</pre>", "<a>", "<br>"]


@examples(200)
@given(st.lists(st.sampled_from([*TAGS, "<blockquote>", "</blockquote>", "x", "&lt;", "\n"])))
def test_any_tags_in_any_order_give_lines_without_their_markup(pieces: list[str]) -> None:
    text = html_text("".join(pieces))
    assert text.count("x") == pieces.count("x")
    assert not text.startswith("\n")


@given(st.text(max_size=200))
def test_any_text_is_a_page(source: str) -> None:
    assert html_text(source) == html_text(source)
