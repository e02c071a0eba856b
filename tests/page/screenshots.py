"""`make screenshots-page`: pictures of the page for README and guide, from the bundled mail and meetings."""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.demo import DATA, pkb
from tests.page.browser import KNOWS, ask, launch, serve
from tests.screenshots import IMAGES, KEY

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CONCERT = "When is the summer concert?"
WIDE, PHONE = (1200, 760), (390, 760)  # CSS pixels
SCALE = 1.5  # pixels of a picture to one of those


def main() -> int:
    """Render the page in both schemes, and on a phone, into docs/images."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(prefix="pkb-page-") as folder, sync_playwright() as playwright:
        home, browser = Path(folder), launch(playwright)
        if browser is None:
            print("pkb: no Chromium on this machine; install it, or: playwright install chromium", file=sys.stderr)
            return 1
        shutil.copytree(DATA / "mail", home / "Mail")
        shutil.copytree(DATA / "transcripts", home / "Meetings")
        pkb(home, "ingest", str(home / "Mail"), str(home / "Meetings"))
        with serve(home) as address:
            for scheme in ("light", "dark"):
                _wide(_open(browser, address, scheme, WIDE), scheme)
            phone = _open(browser, address, "light", PHONE)
            ask(phone, CONCERT)
            _save(phone, "page-phone")
        browser.close()
    return 0


def _open(browser: "Browser", address: str, scheme: str, size: tuple[int, int]) -> "Page":
    viewport = {"width": size[0], "height": size[1]}
    page = browser.new_page(viewport=viewport, color_scheme=scheme, device_scale_factor=SCALE)
    page.goto(address)
    page.wait_for_selector(KNOWS)
    return page


def _wide(page: "Page", scheme: str) -> None:
    ask(page, CONCERT)
    ask(page, KEY)
    _save(page, f"page-ask-{scheme}")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("#viewer mark")
    _save(page, f"page-source-{scheme}")


def _save(page: "Page", name: str) -> None:
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path, animations="disabled")
    print(f"pkb: {path.name}, {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    sys.exit(main())
