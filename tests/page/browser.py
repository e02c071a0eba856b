"""A headless Chromium, and a server of the page to open in it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cli.http_endpoint import http_endpoint
from tests.demo import environment

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
KNOWS = "#ask-lead:has-text('documents in')"  # the page, once it knows what is indexed


@contextmanager
def serve(home: Path, **variables: str) -> Iterator[str]:
    """Serve the page of a home until the block ends; yields its address."""
    with http_endpoint({**environment(home), "PKB_DAEMON": "off", **variables}) as served:
        yield served.page


def launch(playwright: "Playwright") -> "Browser | None":
    """Start a Chromium without a window: the system's, or else Playwright's own; None without either."""
    own = Path(playwright.chromium.executable_path)
    found = next(filter(None, map(shutil.which, BROWSERS)), own if own.is_file() else None)
    flags = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return playwright.chromium.launch(executable_path=str(found), args=flags) if found else None


def ask(page: "Page", question: str) -> None:
    """Ask with keys alone, and wait for the answer."""
    page.keyboard.press("Escape")  # out of a field
    page.keyboard.press("/")
    page.keyboard.type(question)
    page.keyboard.press("Enter")
    page.locator(".turn", has=page.locator("h2", has_text=question)).first.wait_for()
    page.locator("[aria-busy]").wait_for(state="detached")
