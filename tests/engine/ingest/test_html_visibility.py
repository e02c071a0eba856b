"""HTML that a mail reader does not show is not read, and HTML that it shows is."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.html import MOST_CSS, html_text
from tests.effort import examples
from tests.engine.models.hubserver import serve


def page(body: str, sheet: str = "") -> str:
    style = f"<style>{sheet}</style>" if sheet else ""
    return f"<!doctype html><html><head>{style}</head><body>{body}<p>shown</p></body></html>"


# Declarations that hide the text of the element that they apply to.
HIDING = {
    "display": "display:none",
    "display in capitals": "DISPLAY : NONE",
    "display, important": "display:none!important;display:block",
    "display, the later one": "display:block;display:none",
    "display beside an invalid value": "display:none;display:nonsense",
    "comment after the property": "display/**/:none",
    "comment before the value": "display:/* block */none",
    "escaped letter": r"\64isplay:none",
    "escaped value": r"display:n\6f ne",
    "semicolon in a string": "font-family:'a;b';display:none",
    "visibility": "visibility:hidden",
    "visibility, collapsed": "visibility:collapse",
    "content visibility": "content-visibility:hidden",
    "Outlook alone hides it": "mso-hide:all",
    "opacity": "opacity:0",
    "opacity, nearly none": "opacity:.01",
    "opacity in percent": "opacity:0%",
    "opacity filter": "filter:opacity(0)",
    "opacity filter of old": "filter:alpha(opacity=0)",
    "font of no size": "font-size:0",
    "font of no size in points": "font-size:0.0pt",
    "font of one pixel": "font-size:1px",
    "font of a hundredth": "font-size:1%",
    "font shorthand": "font:0/0 Arial",
    "no height": "height:0;overflow:hidden",
    "one pixel": "width:1px;height:1px;overflow:hidden",
    "no width": "width:0px;overflow-x:hidden",
    "no greatest height": "max-height:0px;overflow:hidden",
    "no height, then a size of fonts": "height:0;overflow:hidden;height:medium",
    "an indent, then a size of fonts": "text-indent:-9999px;text-indent:medium",
    "no greatest width": "max-width:0;overflow:hidden",
    "preheader": "display:none;max-height:0;font-size:1px;line-height:1px;color:#fff;opacity:0;overflow:hidden",
    "white on white": "color:#fff",
    "white on white by name": "color:White",
    "white on white in rgb": "color:rgb(255, 255, 255)",
    "white on white in percent": "color:rgb(100% 100% 100%)",
    "white on white in hsl": "color:hsl(0, 0%, 100%)",
    "nearly white on white": "color:#fefdfc",
    "black on black": "background:#000 none;color:#000",
    "grey on grey": "background-color:#f6f6f6;color:#f5f5f5",
    "blue on blue": "background-color:navy;color:#000080",
    "transparent": "color:transparent",
    "transparent in hex": "color:#00000000",
    "transparent in rgb": "color:rgba(0,0,0,0)",
    "nearly transparent": "color:rgb(0 0 0 / 3%)",
    "transparent fill": "-webkit-text-fill-color:transparent",
    "left of the page": "position:absolute;left:-9999px",
    "above the page": "position:absolute;top:-1000em",
    "right of the page": "position:fixed;right:-5000px",
    "inset": "position:absolute;inset:0 0 0 -9999px",
    "margin left of the page": "margin-left:-9999px",
    "margin shorthand": "margin:0 0 0 -9999px",
    "indented out of the page": "text-indent:-9999px",
    "scaled to nothing": "transform:scale(0)",
    "scaled to no width": "transform:rotate(0deg) scaleX(0)",
    "scaled by its property": "scale:0",
    "moved away": "transform:translateX(-9999px)",
    "clipped": "position:absolute;clip:rect(0,0,0,0)",
    "clipped, without commas": "position:absolute;clip:rect(1px 1px 1px 1px)",
    "clipped by a path": "clip-path:inset(50%)",
    "clipped by a circle": "clip-path:circle(0)",
    "clipped by a polygon": "clip-path:polygon(0 0, 0 0, 0 0)",
}
# Sheets that hide <div class=c id=i><b>secret</b></div>.
SHEETS = {
    "class": ".c{display:none}",
    "id": "#i{visibility:hidden}",
    "element": "div{font-size:0}",
    "attribute": "[class~='c']{opacity:0}",
    "descendant": "body .c b{display:none}",
    "child": "div>b{color:white}",
    "list": "h1, .c, h2{display:none}",
    "not": "div:not(.d){display:none}",
    "after a selector that is not understood": "x::y(z){a:b}.c{display:none}",
    "after a rule of a letter's case": ".C{display:block}.c{display:none}",
    "specificity": "#i{display:none}div{display:block}.c{display:block}",
    "important": ".c{display:none!important}#i{display:block}",
    "screen": "@media screen{.c{display:none}}",
    "all": "@media only all and (min-width:0){.c{display:none}}",
    "wide screen": "@media screen and (min-width:601px){.c{display:none}}",
    "range": "@media (width >= 600px){.c{display:none}}",
    "not in print": "@media not print{.c{display:none}}",
    "one of two media": "@media print, screen{.c{display:none}}",
    "light": "@media (prefers-color-scheme:light){.c{display:none}}",
    "media in media": "@media screen{@media (min-width:1px){.c{display:none}}}",
    "supports": "@supports (display:grid){.c{display:none}}",
    "layer": "@layer a{.c{display:none}}",
    "nested rule": "body{color:black;.c{display:none}}",
    "nested rule with its parent": "div{&.c{display:none}}",
    "comment in the selector": "./**/c{/*}*/display:none}",
    "brace in a string": ".x{content:'}'}.c{display:none}",
    "HTML comment": "<!-- .c{display:none} -->",
    "unclosed": ".c{display:none",
    "after brackets that none could close": f"a{'(' * 2_000}{')' * 2_000}{{}}.c{{display:none}}",
    "after a long number": f"a{{width:{'1' * 5_000}}}.c{{display:none}}",
    "variable": ":root{--d:none}.c{display:var(--d)}",
    "variable that is missing": ".c{display:var(--d, none)}",
    "colours of two rules": "body{background:#123456}.c{color:#133557}",
    "inherited colour": "body{color:#fff;background:#fff}p{color:#000}",
}
# Whole pieces of a page.
PIECES = {
    "hidden": "<p hidden>secret</p>",
    "hidden with a value": "<p hidden='hidden'>secret</p>",
    "aria-hidden": "<p aria-hidden='true'>secret</p>",
    "in a hidden parent": "<div style='display:none'><p style='display:block'>secret</p></div>",
    "in a small parent": "<div style='font-size:0'><p style='font-size:2em'>secret</p></div>",
    "in opaque parents": "<div style='opacity:.2'><p style='opacity:.2'>secret</p></div>",
    "in a parent of its colour": "<div style='background:black'><p><b style='color:#000'>secret</b></p></div>",
    "font": "<font color=white>secret</font>",
    "font without a hash": "<font color=FFFFFF>secret</font>",
    "cell of its colour": "<table><tr><td bgcolor='#336699'><font color='#336699'>secret</font></td></tr></table>",
    "row of its colour": "<table><tr bgcolor=black><td style='color:black'>secret</td></tr></table>",
    "table of its colour": "<table bgcolor=navy><tr><td style='color:navy'>secret</td></tr></table>",
    "link of no colour": "<a href='https://x.org/secret' style='color:white'>secret</a>",
    "item of no size": "<ul style='font-size:0'><li>secret</li></ul>",
    "tracking pixel": "<img src=x width=1 height=1 alt=secret>",
    "tracking pixel by style": "<img src=x style='width:1px;height:1px' alt=secret>",
    "hidden image": "<img src=x style='display:none' alt=secret>",
    "comment": "<!-- secret -->",
    "conditional comment": "<!--[if mso]><p>secret</p><![endif]-->",
    "template": "<template><p>secret</p></template>",
    "closed dialog": "<dialog>secret</dialog>",
    "options": "<datalist><option>secret</datalist>",
    "title of a drawing": "<svg><text>secret</text></svg>",
    "for a film that does not play": "<video>secret</video>",
    "for frames that do not show": "<noframes>secret</noframes>",
}


@pytest.mark.parametrize("declarations", HIDING.values(), ids=HIDING)
def test_an_inline_style_hides(declarations: str) -> None:
    assert html_text(page(f'<div style="{declarations}">secret</div>')) == "shown"


@pytest.mark.parametrize("declarations", HIDING.values(), ids=HIDING)
def test_a_sheet_hides_as_an_inline_style_does(declarations: str) -> None:
    assert html_text(page("<div class=c>secret</div>", f".c{{{declarations}}}")) == "shown"


@pytest.mark.parametrize("sheet", SHEETS.values(), ids=SHEETS)
def test_a_sheet_hides(sheet: str) -> None:
    assert html_text(page("<div class=c id=i><b>secret</b></div>", sheet)) == "shown"


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
def test_a_piece_that_no_reader_sees_is_left_out(piece: str) -> None:
    assert html_text(page(piece)) == "shown"


# Declarations of text that is read.
SHOWING = {
    "small print": "font-size:8px;color:#999",
    "small font": "font-size:.8em",
    "invalid value after a valid one": "display:block;display:nonsense",
    "later value": "display:none;display:block",
    "important value": "display:block!important;display:none",
    "not a property": "x-display:none",
    "in a string": "font-family:'display:none'",
    "in a comment": "/* display:none */color:#222",
    "comment in the property": "dis/**/play:none",
    "in an open bracket": "background:url(x;display:none",
    "white on dark": "background:#123;color:white",
    "white on a picture": "background:url(x.png);color:#fff",
    "white on a gradient": "background-image:linear-gradient(black,navy);color:white",
    "light grey": "color:#ccc",
    "half transparent": "color:rgba(0,0,0,.5);opacity:.6",
    "no height without overflow": "height:0",
    "overflow without a height": "overflow:hidden;height:20px",
    "padded height": "height:0;padding-bottom:56%;overflow:hidden",
    "least height": "height:0;min-height:20px;overflow:hidden",
    "overlap": "margin-left:-20px;margin-top:-8px",
    "hanging indent": "text-indent:-18pt;padding-left:18pt",
    "moved a little": "position:relative;left:-2px;top:-1em",
    "offset without a position": "left:-9999px",
    "bleeding out of the page": "margin:0 -9999px;padding:0 9999px",
    "clipped to a corner": "position:absolute;clip:rect(auto,auto,auto,auto)",
    "clipped a little": "clip-path:inset(5px)",
    "scaled": "transform:scale(.5)",
    "zero in another property": "margin:0;padding:0;border:0;letter-spacing:0",
    "line height": "line-height:0",
}
# Sheets under which <div class=c id=i>read me</div> is read.
SHOWING_SHEETS = {
    "specificity": "div{display:none}.c{display:block}",
    "order": ".c{display:none}.c{display:block}",
    "important": ".c{display:block!important}#i{display:none}",
    "print": "@media print{.c{display:none}}",
    "narrow screen": "@media only screen and (max-width:480px){.c{display:none!important}}",
    "narrow range": "@media (400px <= width <= 600px){.c{display:none}}",
    "portrait": "@media (orientation:portrait){.c{display:none}}",
    "dark": "@media (prefers-color-scheme:dark){.c{color:#fff}body{background:#000}}",
    "unknown medium": "@media yahoo{.c{display:none}}",
    "not on screens": "@media not screen{.c{display:none}}",
    "animation": "@keyframes c{from{opacity:0}.c{display:none}}",
    "another class": ".d{display:none}",
    "another element": "span.c{display:none}",
    "while pointed at": ".c:hover{display:none}",
    "what stands before": ".c::before{display:none}",
    "another client": "u + .body .c{display:none}",
    "dark page": "body{background:#000;color:#fff}p{color:white}",
    "condition that fails": "@supports not (display:grid){.c{display:none}}",
}
SHOWING_PIECES = {
    "visible preheader": "<div style='font-size:13px;color:#555'>read me</div>",
    "desktop twin": "<style>.m{display:none}@media (max-width:600px){.d{display:none}.m{display:block}}</style>"
    "<p class=d>read me</p><p class=m>read me</p>",
    "mobile twin": "<p style='display:none'>read me</p><p>read me</p>",
    "font in a cell of no size": "<table><tr><td style='font-size:0'><b style='font-size:14px'>read me</b></table>",
    "visible in an invisible one": "<div style='visibility:hidden'><p style='visibility:visible'>read me</p></div>",
    "hidden, shown by a style": "<p hidden style='display:block'>read me</p>",
    "aria-hidden is false": "<p aria-hidden=false>read me</p>",
    "white in a dark cell": "<table><tr><td bgcolor='#000000'><font color=white>read me</font></table>",
    "white in a dark table": "<table bgcolor=navy><tr><td style='color:#fff'>read me</table>",
    "white on a dark page": "<div style='background-color:rgb(0,0,40)'><p style='color:white'>read me</p></div>",
    "white on a picture": "<table background='a.png'><tr><td style='color:white'>read me</table>",
    "dark on light on dark": "<div style='background:#000'><p style='background:#fff;color:#000'>read me</p></div>",
    "button": "<a href='mailto:read me' style='background:#07c;color:#fff'>read me</a>",
    "link in white text": "<p style='color:white;background:white'><a href='mailto:read me'>read me</a></p>",
    "no size in a table": "<table style='height:0;width:1px;overflow:hidden'><tr><td>read me</table>",
    "cell that is cut": "<table><tr><td style='max-width:0;overflow:hidden;text-overflow:ellipsis'>read me</table>",
    "image in a cell of no size": "<table><tr><td style='font-size:0;line-height:0'><img alt='read me'></table>",
    "details": "<details><summary>read me</summary></details>",
    "open dialog": "<dialog open>read me</dialog>",
    "not for Outlook": "<!--[if !mso]><!--><p>read me</p><!--<![endif]-->",
    "not for Outlook, in one": "<![if !mso]><p>read me</p><![endif]>",
    "a sheet for print": "<style media=print>p{display:none}</style><p>read me</p>",
    "a sheet in a comment": "<!--<style>p{display:none}</style>--><p>read me</p>",
}


@pytest.mark.parametrize("declarations", SHOWING.values(), ids=SHOWING)
def test_an_inline_style_shows(declarations: str) -> None:
    assert html_text(page(f'<div style="{declarations}">read me</div>')) == "read me\n\nshown"


@pytest.mark.parametrize("sheet", SHOWING_SHEETS.values(), ids=SHOWING_SHEETS)
def test_a_sheet_shows(sheet: str) -> None:
    assert html_text(page("<div class=c id=i>read me</div>", sheet)) == "read me\n\nshown"


@pytest.mark.parametrize("piece", SHOWING_PIECES.values(), ids=SHOWING_PIECES)
def test_a_piece_that_a_reader_sees_is_read(piece: str) -> None:
    assert html_text(page(piece)) == "read me\n\nshown"


SELECTORS = {
    "*": (0, 0, 0),
    "div": (0, 0, 1),
    ".c": (0, 1, 0),
    "body div": (0, 0, 2),
    "div.c": (0, 1, 1),
    "#i": (1, 0, 0),
}
RULES = st.lists(st.tuples(st.sampled_from(sorted(SELECTORS)), st.booleans(), st.booleans()), max_size=8)


@examples(200)
@given(RULES)
def test_the_strongest_rule_wins_and_of_equals_the_last(rules: list[tuple[str, bool, bool]]) -> None:
    ranked = [(important, SELECTORS[one], at, shows) for at, (one, important, shows) in enumerate(rules)]
    wins = max(ranked, default=(False, (0, 0, 0), 0, True))[-1]
    text = {True: "visible", False: "hidden"}
    sheet = "".join(f"{one}{{visibility:{text[shows]}{'!important' * strong}}}" for one, strong, shows in rules)
    body = html_text(f"<style>{sheet}p{{visibility:visible!important}}</style><div class=c id=i>read me</div><p>shown")
    assert body == ("read me\n\nshown" if wins else "shown")


CSS = [
    "{",
    "}",
    ";",
    ":",
    ",",
    "(",
    ")",
    "[",
    "]",
    "'",
    '"',
    "\\",
    "/*",
    "*/",
    "@media ",
    "@supports ",
    "!important",
    "&",
]
CSS += [
    ".c",
    "#i",
    "p",
    ":not(",
    ":is(",
    "display",
    "none",
    "color",
    "#fff",
    "rgb(",
    "var(--a",
    "--a",
    "1e9",
    "-1px",
    " ",
]
CSS += ["transform", "scale(", "clip", "rect(", "font", "margin", "background", "hsl(", "calc(", "%", "\x00", "é", "\n"]


@examples(300)
@given(st.lists(st.sampled_from(CSS), max_size=40).map("".join))
def test_any_style_shows_a_text_or_hides_it(css: str) -> None:
    quoted = css.replace("&", "&amp;").replace('"', "&quot;")
    assert html_text(f"<style>{css}</style><p class=c id=i>shown</p>") in ("", "shown")
    assert html_text(f'<p style="{quoted}">shown</p>') in ("", "shown")


HOSTILE = [
    "a{",
    "}",
    "(",
    "'",
    "/*",
    "[",
    ",",
    "@media{",
    "a,",
    "&",
    "{&&&&",
    "--a:var(--a)var(--a);",
    "1",
    "f(",
    "a:b{",
]


@pytest.mark.parametrize("piece", [*HOSTILE, "a{--a:var(--a);"])
def test_hostile_sheets_end(piece: str) -> None:
    assert html_text(f"<style>{piece * 20_000}</style><p>shown</p>") == "shown"


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_styles_end(piece: str) -> None:
    assert html_text(f'<p style="{piece * 20_000}">shown</p>') == "shown"


def test_of_endless_styles_the_first_count() -> None:
    filler = f"/*{'x' * MOST_CSS}*/"
    assert html_text(page("<p class=c>secret</p>", f".c{{display:none}}{filler}.d{{display:none}}")) == "shown"
    assert html_text(page("<p class=c>read me</p>", f"{filler}.c{{display:none}}")) == "read me\n\nshown"
    assert html_text(page("<p style='display:none'>read me</p>", filler)) == "read me\n\nshown"


def test_a_sheet_that_stands_elsewhere_is_neither_fetched_nor_opened(tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.css"
    sheet.write_text("p{display:none}")
    with serve() as hub:
        for place in (f"{hub.endpoint}/sheet.css", sheet.as_uri(), str(sheet)):
            imported = f"@import url({place});@import '{place}';p{{background:url({place})}}"
            text = html_text(
                page(f"<link rel=stylesheet href='{place}'><p style='clip-path:url({place})'>read me</p>", imported)
            )
            assert text == "read me\n\nshown"
        assert hub.seen == []


def test_what_variables_stand_for_stays_small() -> None:
    doubled = "".join(f"--v{n}:var(--v{n - 1})var(--v{n - 1});" for n in range(1, 60))
    assert html_text(page(f"<div style='--v0:x;{doubled};display:var(--v59)'>read me</div>")) == "read me\n\nshown"


def test_a_tag_that_is_too_long_keeps_its_style() -> None:
    source = f"<div data-x='{'A' * 50_000}' style='display:none'>secret</div>"
    assert html_text(page(source)) == "shown"
