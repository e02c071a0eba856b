"""The page in headless Chromium, served from a home with the bundled mail and with hostile mail."""

import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.demo import pkb
from tests.page.browser import KNOWS, launch, serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

HOSTILE = {  # by file: subject, type of the text, the text
    "1.eml": (
        "<img src=x onerror=window.hacked=1> quokka",
        "plain",
        "<script>window.hacked = 1</script>\nquokka & <b>",
    ),
    "2.eml": ("quokka in one line", "plain", "quokka " + "x" * 5_000 + "\n\n[quokka](javascript:window.hacked=1)"),
    "3.eml": (
        "quokka in HTML",
        "html",
        '<p onclick="window.hacked=1">quokka <img src="https://example.org/a.png"><a href="https://example.org">b</a></p>',
    ),
    "4.eml": ("quokka \u202egpj.exe", "plain", "quokka \u2066 \u202e turned round, \x1b[31m red"),
}


def _hostile(folder: Path) -> Path:
    """Write hostile mail into a folder."""
    folder.mkdir()
    for name, (subject, kind, text) in HOSTILE.items():
        head = f"From: <script> <eve@example.org>\nSubject: {subject}\nMessage-ID: <{name}@example.org>"
        more = f"Date: Mon, 3 Jun 2024 09:00:00 +0000\nContent-Type: text/{kind}; charset=utf-8"
        (folder / name).write_text(f"{head}\n{more}\n\n{text}\n", "utf-8")
    return folder


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """Return a headless Chromium, or skip where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: make test-page")
    with api.sync_playwright() as playwright:
        running = launch(playwright)
        if running is None:
            pytest.skip("no Chromium on this machine; install it, or: playwright install chromium")
        yield running
        running.close()


@pytest.fixture(scope="session")
def opened_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file in which the program that files are opened in writes their paths."""
    return tmp_path_factory.mktemp("opened") / "files"


@pytest.fixture(scope="session")
def page_url(
    browser: "Browser", made: Path, opened_files: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Return the address of the page, token included, of a home with the bundled and with hostile mail."""
    home = tmp_path_factory.mktemp("page") / "demo"
    shutil.copytree(made, home)
    ingested = pkb(home, "ingest", str(_hostile(home / "hostile")))
    assert ingested.returncode == 0, ingested.stderr
    opener = home / "opener"
    opener.write_text(f'#!/bin/sh\necho "$1" >> {shlex.quote(str(opened_files))}\n')
    opener.chmod(0o700)
    with serve(home, PKB_OPENER=str(opener)) as address:
        yield address


@pytest.fixture(scope="session")
def empty_url(browser: "Browser", tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of the page of a home into which nothing was ingested."""
    with serve(tmp_path_factory.mktemp("empty")) as address:
        yield address


@pytest.fixture
def faults() -> list[str]:
    """Return what the console said and what was asked of other hosts, so far."""
    return []


@contextmanager
def opened(browser: "Browser", url: str, faults: list[str], **options: object) -> "Iterator[Page]":
    """Open the page in a context of its own; afterwards nothing may have gone wrong in it."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    context.set_default_timeout(20_000)
    page, origin = context.new_page(), url.partition("#")[0]
    page.on("console", lambda message: None if _is_missing_list(message) else faults.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: faults.append(f"error: {error}"))
    page.on("dialog", lambda dialog: dialog.dismiss())
    page.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: None if request.url.startswith(origin) else faults.append(request.url))
    page.goto(url)
    yield page
    context.close()
    assert faults == []


def _is_missing_list(message: "ConsoleMessage") -> bool:
    """Return whether the browser reports that the server has no list of tasks, for which the page asks."""
    return "/v1/todo" in message.location["url"] and "404" in message.text


@pytest.fixture
def page(browser: "Browser", page_url: str, faults: list[str]) -> "Iterator[Page]":
    """Return the page, opened, when it knows what is indexed; it may not have complained when the test ends."""
    with opened(browser, page_url, faults) as page:
        page.wait_for_selector(KNOWS)
        yield page
