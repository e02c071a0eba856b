"""A headless Chromium, and a server of the page to open in it."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cli.conftest import commands
from tests.demo import environment

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/#token=\S+")
KNOWS = "#ask-lead:has-text('documents in')"  # the page, once it knows what is indexed
OWN = "PKB_PAGE_SERVER"  # names a command that takes the place of `pkb serve --http`


def is_served() -> bool:
    """Return whether there is a server of the page."""
    return OWN in os.environ or "--http" in [flag for one in commands()["serve"].params for flag in one.opts]


@contextmanager
def serve(home: Path) -> Iterator[str]:
    """Run the server on a home until the block ends; yields the address that it prints."""
    own = os.environ.get(OWN)
    command = shlex.split(own) if own else [sys.executable, "-m", "cli.app", "serve", "--http"]
    env = environment(home) | {"PYTHONUNBUFFERED": "1"}
    server = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert server.stdout
    try:
        yield _address(iter(server.stdout))
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def _address(lines: Iterator[str]) -> str:
    said = ""
    for line in lines:
        said += line
        if found := ADDRESS.search(line):
            return found[0]
    raise AssertionError(f"the server printed no address: {said}")


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
