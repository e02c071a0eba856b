"""What the ways in for programs cost: the start of `pkb mcp`, and HTTP over the background server's own socket.

Run it with `python -m tests.bench.clients [--rounds N] [--questions N]`. The bundled mail; answers by quotes, asked
past the cache, so that each way does the same work. All ways by turns in one run. Where Playwright and Chromium are
installed (`make test-page`), also the first paint of the page.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path
from statistics import median, quantiles

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from engine.app import Pkb
from engine.types import AskOptions
from tests.bench.home import ingest
from tests.cli.http_endpoint import Served as Endpoint
from tests.cli.http_endpoint import http_endpoint
from tests.cli.serving import Served, served
from tests.demo import DATA, QUESTIONS, environment
from tests.page.browser import launch

PAGE = Path(__file__).resolve().parents[2] / "engine" / "page"
_CLIENTS = 8


def main() -> None:
    """Measure and print two tables; the load of the machine goes with them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10, help="starts of `pkb mcp`")
    parser.add_argument("--questions", type=int, default=200, help="asked by each way")
    asked = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} at the start", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        ingest(Path(folder), [DATA / "mail", DATA / "transcripts"])
        with served(Path(folder), environment(Path(folder))) as home:
            _starts(home, asked.rounds)
            _questions(home, list(islice(cycle(QUESTIONS), asked.questions)))
            _paints(home, asked.rounds)
    print(f"load {os.getloadavg()[0]:.1f} at the end")


def _starts(home: Served, rounds: int) -> None:
    """Print how long `pkb mcp` takes until it has answered `initialize`, and then its first calls."""
    print(
        f"\n`pkb mcp`, median (slowest) of {rounds}, in seconds\n\n| | background server cold | warm |\n|---|---:|---:|"
    )
    cold, warm = list[tuple[float, ...]](), list[tuple[float, ...]]()
    for _ in range(rounds):
        home.end()
        cold.append(asyncio.run(_start(home)))
        warm.append(asyncio.run(_start(home)))
    for row, name in enumerate(("until `initialize` is answered", "first `ask`, not cached", "first `search`")):
        cells = ([one[row] for one in found] for found in (cold, warm))
        print(f"| {name} | " + " | ".join(f"{median(cell):.3f} ({max(cell):.3f})" for cell in cells) + " |", flush=True)


async def _start(home: Served) -> tuple[float, float, float]:
    command = StdioServerParameters(command=sys.executable, args=["-m", "cli.app", "mcp"], env=home.environ)
    begun = time.perf_counter()
    async with Client(stdio_client(command)) as client:
        started = time.perf_counter()
        await client.call_tool("ask", {"question": f"How much does the piano tuner charge on day {begun}?"})
        answered = time.perf_counter()
        await client.call_tool("search", {"query": "rehearsal"})
        return started - begun, answered - started, time.perf_counter() - answered


def _questions(home: Served, questions: Sequence[str]) -> None:
    """Print what a question takes over the socket, by the Python API and over HTTP, one client and several."""
    head = f"a question past the cache, of {len(questions)}, in milliseconds"
    print(f"\n{head}\n\n| | p50 | p95 |\n|---|---:|---:|")
    with http_endpoint(home.environ) as http:
        alone = {"socket": _over_socket(home), "Python API": _over_api(home), "HTTP": _over_http(http)}
        times: dict[str, list[float]] = {name: [] for name in alone}
        for question in (*questions[:3], *questions):  # the first three warm it up
            for name, ask in alone.items():
                times[name].append(_timed(ask, question))
        for name in alone:
            _print(name, times[name][3:])
        for name, ask in (("Python API", alone["Python API"]), ("HTTP", alone["HTTP"])):
            with ThreadPoolExecutor(_CLIENTS) as pool:
                _print(
                    f"{name}, {_CLIENTS} clients at once", [*pool.map(lambda one, ask=ask: _timed(ask, one), questions)]
                )


def _paints(home: Served, rounds: int) -> None:
    """Print the weight of the page, and when a browser with an empty cache paints it."""
    files = [one for one in PAGE.iterdir() if one.suffix != ".py" and one.is_file()]
    print(f"\nthe page: {sum(one.stat().st_size for one in files):,} bytes in {len(files)} files", flush=True)
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        return
    times = list[float]()
    with http_endpoint(home.environ) as http, sync_playwright() as playwright:
        if (browser := launch(playwright)) is None:
            return
        for _ in range(rounds):
            context = browser.new_context()
            page = context.new_page()
            page.goto(http.page, wait_until="networkidle")
            times.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
            context.close()
        browser.close()
    print(
        f"first contentful paint, median (slowest) of {rounds}: {median(times):.0f} ({max(times):.0f}) ms", flush=True
    )


def _timed(ask: Callable[[str], None], question: str) -> float:
    begun = time.perf_counter()
    ask(question)
    return (time.perf_counter() - begun) * 1000


def _print(name: str, times: Sequence[float]) -> None:
    print(f"| {name} | {median(times):.1f} | {quantiles(times, n=20)[-1]:.1f} |", flush=True)


def _over_socket(home: Served) -> Callable[[str], None]:
    options = AskOptions(read_bank=False, write_bank=False)

    def ask(question: str) -> None:
        with closing(home.link()) as link:
            home.ask(link, question, options)
            next(link.answers())

    return ask


def _over_api(home: Served) -> Callable[[str], None]:
    def ask(question: str) -> None:
        with Pkb(server=True, environ=home.environ) as pkb:
            pkb.ask(question, cache="off")

    return ask


def _over_http(http: Endpoint) -> Callable[[str], None]:
    def ask(question: str) -> None:
        body = {"messages": [{"role": "user", "content": question}], "pkb": {"cache": "off"}}
        assert http.get("/v1/chat/completions", body).status == 200

    return ask


if __name__ == "__main__":
    main()
