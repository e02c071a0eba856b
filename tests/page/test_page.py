"""The page in a browser: what it shows, its keys, and that text of mail is only text."""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.page.browser import KNOWS, ask
from tests.page.conftest import HOSTILE, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow  # a minute of two cores
KEY, KEEPER = "Who has the spare key to the workshop?", "Gus Tindall"
CONCERT = "When is the summer concert?"
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True}
VIEWS = ("ask", "search", "stats")
COMPLETIONS = "**/v1/chat/completions"


def show(page: "Page", view: str) -> None:
    """Go to a view, and wait for what it shows."""
    page.keyboard.press("Escape")
    page.get_by_role("link", name=re.compile(view, re.IGNORECASE)).click()
    ready = {"ask": "#ask-input", "search": "#results .open", "stats": "figure svg"}
    page.locator(ready[view]).first.wait_for()


def focused(page: "Page") -> str:
    return str(page.evaluate("document.activeElement.id || document.activeElement.textContent"))


def test_the_token_is_taken_out_of_the_address(page: "Page", page_url: str) -> None:
    assert page.url == page_url.partition("#")[0]


def test_an_answer_comes_with_its_source_and_how_it_was_found(page: "Page") -> None:
    ask(page, KEY)
    assert KEEPER in page.locator(".answer").inner_text()
    assert page.locator(".answer mark").inner_text() == KEEPER
    source = page.locator(".source").first
    assert "workshop meeting" in source.inner_text()
    assert "Tue 27 Feb 2024" in source.inner_text()
    assert "lines 5–77" in source.inner_text()
    assert source.locator("mark").inner_text() == "From today I keep the spare key to the workshop."
    assert re.search(r"^(quoted in|from cache)", page.locator(".how").last.inner_text())


def test_a_question_that_is_asked_again_says_that_its_answer_is_cached(page: "Page") -> None:
    ask(page, KEY)
    ask(page, KEY)
    assert page.locator(".turn").last.locator(".how").last.inner_text().startswith("from cache, ")


def test_the_question_stands_in_the_address_and_survives_a_reload(page: "Page") -> None:
    ask(page, CONCERT)
    ask(page, "And where?")
    first, second = page.locator(".turn").first, page.url
    assert "q=" in second
    assert "And+where" not in second  # which alone means nothing
    page.go_back()
    assert page.locator(".turn").count() == 2  # it still stands there
    assert first.locator("h2").evaluate("(title) => title === document.activeElement")
    page.reload()
    page.locator(".turn").wait_for()
    page.locator("[aria-busy]").wait_for(state="detached")
    assert page.locator(".turn h2").all_inner_texts() == [CONCERT]
    page.go_forward()
    page.locator(".turn").nth(1).wait_for()
    page.locator("[aria-busy]").wait_for(state="detached")
    assert page.locator(".turn").count() == 2


def test_a_link_to_a_source_opens_it_in_another_tab_with_its_lines_marked(page: "Page", page_url: str) -> None:
    ask(page, KEY)
    page.locator(".source .open").first.click()
    page.locator("#viewer .cited").first.wait_for()
    path = page.locator("#viewer .path").inner_text()
    other = page.context.new_page()
    other.goto(f"{page_url.partition('#')[0]}?{urlencode({'path': path, 'lines': '5-77'})}")
    other.locator("#viewer .cited").first.wait_for()
    assert other.locator("#viewer-title").inner_text() == page.locator("#viewer-title").inner_text()
    assert other.locator("#viewer .cited").all_inner_texts() == page.locator("#viewer .cited").all_inner_texts()


def test_an_answer_is_copied_with_its_source(page: "Page") -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    ask(page, KEY)
    page.get_by_role("button", name="Copy").click()
    page.get_by_text("Copied").wait_for()
    copied = str(page.evaluate("navigator.clipboard.readText()"))
    assert KEEPER in copied
    assert "workshop meeting" in copied.splitlines()[-1]


def test_an_answer_marked_as_wrong_is_made_anew(page: "Page") -> None:
    ask(page, CONCERT)
    ask(page, KEY)
    page.locator(".turn").first.get_by_role("button", name="Wrong").click()  # not of the last one
    page.locator(".turn").first.get_by_text("Marked as wrong").wait_for()
    ask(page, CONCERT)
    assert page.locator(".turn").last.locator(".how").last.inner_text().startswith("quoted in")
    ask(page, KEY)
    assert page.locator(".turn").last.locator(".how").last.inner_text().startswith("from cache")


def test_a_document_is_opened_in_its_program(page: "Page", opened_files: Path) -> None:
    ask(page, CONCERT)
    page.locator(".source .open").first.click()
    with page.expect_response("**/v1/open") as answer:
        page.locator("#viewer").get_by_role("button", name="Open").click()
    assert answer.value.ok
    assert opened_files.read_text("utf-8").splitlines()[-1] == page.locator("#viewer .path").inner_text()


def test_an_empty_start_suggests_questions_and_the_newest_turn_is_the_last(page: "Page") -> None:
    suggested = page.locator("#suggested").get_by_role("button")
    suggested.get_by_text("How many mails did Tobias Renn send?").click()
    page.locator("[aria-busy]").wait_for(state="detached")
    assert page.locator(".answer").inner_text().startswith("10 mails from Tobias Renn")
    assert not page.locator("#suggested").is_visible()
    ask(page, CONCERT)
    assert page.locator(".turn h2").last.inner_text() == CONCERT
    turn, field = page.locator(".turn").last.bounding_box(), page.locator("#ask-form").bounding_box()
    assert turn
    assert field
    assert turn["y"] < field["y"]
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    page.locator("#suggested").get_by_text("Recent questions").wait_for()
    assert page.locator("#suggested li").first.inner_text() == CONCERT


def test_a_wait_is_counted_in_words(page: "Page") -> None:
    page.route(COMPLETIONS, lambda route: None)
    page.keyboard.press("/")
    page.keyboard.type(KEY)
    page.keyboard.press("Enter")
    page.get_by_text("Searching your messages").wait_for()
    page.get_by_text(re.compile(r"^Reading what was found, \d s$")).wait_for()
    page.keyboard.press("Escape")
    page.locator(".turn").get_by_text("Stopped").wait_for()
    assert page.locator(".answer").inner_text() == ""


def test_asked_again_without_the_cache_the_question_stands_once(page: "Page") -> None:
    ask(page, KEY)
    ask(page, KEY)
    with page.expect_request(COMPLETIONS) as sent:
        page.get_by_role("button", name="Ask again without the cache").first.click()
    assert sent.value.post_data_json["pkb"]["cache"] == "refresh"
    page.locator("[aria-busy]").wait_for(state="detached")
    assert page.locator(".turn").count() == 2


def test_a_question_without_an_answer_says_so_and_shows_the_closest_passages(page: "Page") -> None:
    ask(page, "How many times did Gus speak?")
    assert page.locator(".answer").inner_text().startswith("This needs a count")
    assert page.get_by_text("Closest passages").is_visible()


def test_a_follow_up_is_sent_with_the_turns_before_it_until_a_new_conversation(page: "Page") -> None:
    ask(page, CONCERT)
    with page.expect_request(COMPLETIONS) as second:
        ask(page, "And where?")
    sent = second.value.post_data_json
    assert [one["role"] for one in sent["messages"]] == ["user", "assistant", "user"]
    assert sent["pkb"]["after"]["quote"]
    assert page.locator(".turn").count() == 2
    page.get_by_role("button", name="New conversation").click()
    assert page.locator(".turn").count() == 0
    with page.expect_request(COMPLETIONS) as third:
        ask(page, KEY)
    assert [one["content"] for one in third.value.post_data_json["messages"]] == [KEY]
    assert "after" not in third.value.post_data_json["pkb"]


def test_everything_can_be_done_with_keys(page: "Page") -> None:
    ask(page, KEY)
    page.keyboard.press("j")
    assert focused(page) == "workshop meeting"
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.locator("#viewer .line mark").wait_for()
    page.keyboard.press("Escape")
    assert not page.locator("#viewer").is_visible()
    assert focused(page) == "workshop meeting"
    page.keyboard.press("s")
    page.keyboard.type("gazebo")
    page.locator("#results .source", has_text="Things for the fair").wait_for()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.locator("#viewer .line", has_text="white gazebo").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.locator("figure svg").first.wait_for()
    if page.locator("#todo-link").is_visible():
        page.keyboard.press("t")
        page.locator("#view-todo").wait_for()
    page.keyboard.press("?")
    assert page.locator("#keys").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    assert focused(page) == "ask-input"
    page.keyboard.type("jks?")
    assert page.locator("#ask-input").input_value() == "jks?"


def test_single_letter_keys_can_be_turned_off(page: "Page") -> None:
    page.keyboard.press("?")
    page.get_by_label("Use single-letter keys").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    assert page.locator("#view-ask").is_visible()


def test_the_first_tab_stop_skips_to_the_content(page: "Page") -> None:
    page.keyboard.press("Tab")
    assert focused(page) == "skip"
    page.keyboard.press("Enter")
    assert focused(page) == "main"
    assert page.locator("#view-ask").is_visible()


def test_escape_stops_an_answer(page: "Page") -> None:
    page.route(COMPLETIONS, lambda route: None)  # an answer that never begins
    page.keyboard.press("/")
    page.keyboard.type(KEY)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Stop").wait_for()
    page.keyboard.press("Escape")
    page.locator(".turn").get_by_text("Stopped").wait_for()
    assert not page.get_by_role("button", name="Stop").is_visible()


def test_another_question_takes_the_place_of_one_that_runs(page: "Page") -> None:
    page.route(COMPLETIONS, lambda route: None if CONCERT in (route.request.post_data or "") else route.continue_())
    page.keyboard.press("/")
    page.keyboard.type(CONCERT)
    page.keyboard.press("Enter")
    page.keyboard.press("/")
    page.keyboard.type(KEY)
    page.keyboard.press("Enter")
    page.locator(".answer", has_text=KEEPER).wait_for()
    page.locator(".turn", has_text=CONCERT).get_by_text("Stopped").wait_for()
    page.get_by_role("button", name="Ask", exact=True).wait_for()


def test_an_answer_is_announced_once_and_whole(page: "Page") -> None:
    page.evaluate("""() => {
        window.said = [];
        new MutationObserver(() => said.push(document.getElementById("status").textContent))
            .observe(document.getElementById("status"), { childList: true });
    }""")
    ask(page, KEY)
    said = page.evaluate("said")
    assert said[0] == "Answering"
    assert len(said) == 2
    assert page.locator(".answer").inner_text() in said[1]


def test_the_viewer_marks_the_quote_and_the_cited_lines(page: "Page") -> None:
    ask(page, CONCERT)
    page.locator(".source .open").first.click()
    page.locator("#viewer mark").first.wait_for()
    assert page.locator("#viewer mark").all_text_contents() == ["Saturday 22 June at 19:00"]
    numbers = [page.locator(".cited").nth(at).get_attribute("data-number") for at in (0, -1)]
    assert numbers == ["13", "22"]


def test_the_cited_lines_of_a_long_text_are_scrolled_to(page: "Page") -> None:
    ask(page, KEY)
    page.locator(".source .open").first.click()
    page.locator("#viewer mark").wait_for()
    box = page.locator("#viewer mark").bounding_box()
    assert box
    assert 0 < box["y"] < 800


def test_messages_of_one_file_are_next_to_each_other(page: "Page") -> None:
    show(page, "search")
    page.locator("#search-input").fill("tunes the terrible upright, page turner")
    page.locator("#results .open", has_text="Page turner wanted").click()
    page.get_by_text("message 3 of this file").wait_for()
    page.keyboard.press("]")
    page.get_by_text(re.compile(r"^4 of \d+ in this file")).wait_for()
    page.get_by_role("button", name="Previous").click()
    assert page.locator("#viewer-title").inner_text() == "Page turner wanted"


def test_search_shows_what_was_typed_last_though_an_earlier_answer_comes_late(page: "Page") -> None:
    page.route(re.compile(r"/v1/search\?q=gaz&"), lambda route: None)
    show(page, "search")
    page.locator("#search-input").fill("gaz")
    page.wait_for_timeout(400)
    page.locator("#search-input").fill("gazebo")
    page.locator("#results .source", has_text="Things for the fair").wait_for()
    assert page.locator("#results mark").first.inner_text() == "gazebo"


def test_without_words_search_lists_the_newest_documents(page: "Page") -> None:
    show(page, "search")
    assert "newest" in page.locator("#search-count").inner_text()
    assert page.locator("#results .open").first.inner_text() == "Bar for the interval"


def test_filters_limit_search_and_questions(page: "Page") -> None:
    show(page, "search")
    page.keyboard.press("f")
    page.get_by_label("From").fill("Ann Pereira")
    page.get_by_label("Collection").select_option("mail")
    page.locator("#search-count", has_text="fit the filters").wait_for()
    assert {name.split(" <")[0] for name in page.locator("#results bdi").all_text_contents()} == {"Ann Pereira"}
    with page.expect_request(COMPLETIONS) as sent:
        ask(page, "What should I bring to the fair?")
    options = sent.value.post_data_json["pkb"]
    assert (options["sender"], options["collection"]) == ("Ann Pereira", "mail")


def test_a_filter_that_is_no_day_is_explained(page: "Page", faults: list[str]) -> None:
    show(page, "search")
    page.keyboard.press("f")
    page.locator("#filter-since").fill("someday")
    page.locator("#search-count", has_text="someday").wait_for()
    assert all("400" in fault for fault in faults)  # the browser reports the status itself
    faults.clear()


def test_stats_have_a_table_for_every_plot(page: "Page") -> None:
    ask(page, KEY)
    show(page, "stats")
    figures = page.locator("figure")
    assert figures.count() >= 3
    for at in range(figures.count()):
        assert figures.nth(at).locator("svg[role=img]").get_attribute("aria-label")
        figures.nth(at).locator("summary").click()
        assert figures.nth(at).locator("tbody tr").count() >= 1


def test_text_of_mail_is_shown_as_text(page: "Page") -> None:
    show(page, "search")
    page.locator("#search-input").fill("quokka")
    page.locator("#results .open", has_text=HOSTILE["1.eml"][0]).wait_for()
    page.locator("#results .open", has_text="quokka in HTML").wait_for()
    for subject in ("<img src=x", "one line", "in HTML"):
        page.locator("#results .open", has_text=subject).click()
        page.locator("#viewer .line").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0
        page.keyboard.press("Escape")
    page.locator("#results .open", has_text="<img src=x").click()
    page.locator("#viewer .line", has_text="<script>window.hacked = 1</script>").wait_for()
    assert page.locator("img, iframe, #results a, #viewer a, body script").count() == 0
    assert page.evaluate("window.hacked") is None


def test_characters_that_turn_text_round_are_replaced(page: "Page") -> None:
    show(page, "search")
    page.locator("#search-input").fill("quokka turned round")
    page.locator("#results .open", has_text="gpj.exe").click()
    page.locator("#viewer .line", has_text="turned round").wait_for()
    shown = page.locator("body").inner_text()
    assert re.findall(r"[\u202a-\u202e\u2066-\u2069\x1b]", shown) == []


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def violations(page: "Page") -> list[str]:
    """Return what axe finds, with the elements."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    found = axe.Axe().run(page).response["violations"]
    return [f"{one['id']}: {node['html']}" for one in found for node in one["nodes"]]


def test_axe_finds_nothing(browser: "Browser", page_url: str, faults: list[str], scheme: str) -> None:
    with opened(browser, page_url, faults, color_scheme=scheme) as page:
        page.wait_for_selector(KNOWS)
        assert violations(page) == []
        ask(page, KEY)
        assert violations(page) == []
        page.locator(".source .open").first.click()
        page.locator("#viewer .line").first.wait_for()
        assert violations(page) == []
        page.keyboard.press("Escape")
        for view in ("search", "stats"):
            show(page, view)
            assert violations(page) == []
        page.locator("figure summary").first.click()
        page.keyboard.press("?")
        assert violations(page) == []
        page.keyboard.press("Escape")
        if page.locator("#todo-link").is_visible():
            page.keyboard.press("t")
            page.locator("#todo-list > *").first.wait_for()
            assert violations(page) == []


def test_light_and_dark_follow_the_system(browser: "Browser", page_url: str, faults: list[str], scheme: str) -> None:
    with opened(browser, page_url, faults, color_scheme=scheme) as page:
        paper = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        level = sum(map(int, re.findall(r"\d+", paper)[:3]))
        assert (level > 600) == (scheme == "light")


def test_nothing_is_wider_than_a_phone(browser: "Browser", page_url: str, faults: list[str]) -> None:
    with opened(browser, page_url, faults, **PHONE) as page:
        page.wait_for_selector(KNOWS)
        ask(page, CONCERT)
        for view in VIEWS:
            show(page, view)
            if view == "search":
                page.locator("#search-input").fill("quokka")
                page.locator("#results .open", has_text="one line").wait_for()
            for summary in page.locator(f"#view-{view} summary").all():
                summary.click()
            assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_a_wrong_token_is_explained(browser: "Browser", page_url: str, faults: list[str]) -> None:
    with opened(browser, page_url.partition("#")[0] + "#token=wrong", faults) as page:
        page.get_by_role("alert").get_by_text("with the address that pkb serve --http printed").wait_for()
        assert all("401" in fault for fault in faults)
        faults.clear()


def test_an_empty_home_says_what_to_type(browser: "Browser", empty_url: str, faults: list[str]) -> None:
    with opened(browser, empty_url, faults) as page:
        page.get_by_role("alert").get_by_text("pkb ingest FOLDER").wait_for()
        assert all("status of" in fault for fault in faults)
        faults.clear()


def test_a_server_that_has_gone_is_explained(page: "Page", faults: list[str]) -> None:
    page.route(COMPLETIONS, lambda route: route.abort())
    ask(page, KEY)
    assert "The server does not answer" in page.locator(".turn .warning").inner_text()
    faults.clear()


@pytest.fixture(scope="module")
def bare(browser: "Browser", page_url: str) -> "Iterator[Page]":
    """Return the page for calls of its functions."""
    with opened(browser, page_url, []) as page:
        yield page


EVENTS = """async ([parts]) => {
    const { events } = await import("/api.js");
    const stream = new ReadableStream({ start(to) {
        for (const part of parts) to.enqueue(new Uint8Array(part));
        to.close();
    } });
    const found = [];
    for await (const data of events(stream)) found.push(data);
    return found;
}"""
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"))


@given(st.lists(TEXT), st.lists(st.integers(0, 400)), st.sampled_from(["\n", "\r\n"]), st.sampled_from([" ", ""]))
def test_events_are_the_same_however_the_stream_is_cut(
    bare: "Page", texts: list[str], cuts: list[int], end: str, space: str
) -> None:
    values = [json.dumps(text, ensure_ascii=False) for text in texts]
    sent = "".join(f": comment{end}data:{space}{value}{end}{end}" for value in values).encode()
    places = [0, *sorted(cut for cut in cuts if cut < len(sent)), len(sent)]
    parts = [list(sent[start:stop]) for start, stop in pairwise(places)]
    assert bare.evaluate(EVENTS, [parts]) == values


WORDS = """async (answer) => (await import("/ask.js")).words(answer)"""
QUOTED = {"tier": "full", "writer": "quote", "answered": True, "ms": {"total": 41.2}, "tokens": None, "age_s": None}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({}, "quoted in 41 ms"),
        ({"answered": False}, "searched in 41 ms"),
        ({"tier": "exact", "age_s": 3 * 86_400.0}, "from cache, 3 days old"),
        ({"tier": "exact", "age_s": 0.2}, "from cache, just made"),
        (
            {"tier": "semantic", "matched_question": "When is it?", "similarity": 0.934, "age_s": 3_600.0},
            "same answer as: “When is it?”, 93 % alike, 1 hour old",
        ),
        (
            {"tier": "prefix", "writer": "model", "ms": {"total": 2_140.0}, "tokens": {"prompt": 655, "reused": 602}},
            "generated in 2.1 s, 602 of 655 tokens reused",
        ),
    ],
)
def test_the_tier_is_said_in_words(bare: "Page", answer: dict[str, Any], words: str) -> None:
    assert bare.evaluate(WORDS, QUOTED | answer) == words


MARKED = """async ([text, span]) => {
    const { h, marked } = await import("/dom.js");
    const made = h("p", {}, marked(text, span));
    return [made.textContent, made.querySelector("mark").textContent];
}"""


@given(st.data())
def test_a_span_counts_characters_beyond_the_basic_plane_as_one(bare: "Page", data: Any) -> None:
    text = data.draw(st.text(st.characters(categories=["L", "So", "Zs"], include_characters="𝔸😀饺")))
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, len(text)))
    assert bare.evaluate(MARKED, [text, [start, stop]]) == [text, text[start:stop]]
