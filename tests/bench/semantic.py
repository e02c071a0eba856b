"""What a semantic hit costs beside embedding its question and one retrieval, in one warm process, by turns.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.semantic USER [--hits N]`, where USER holds questions.jsonl, some of
them paraphrases, beside docs/. The first of each pair is asked, and of those whose second is then given its answer, N
are asked again and again: a question that was lent an answer is still owed its own.
"""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter

from cli.session import Session
from engine.ask.begin import begin, look
from engine.ask.means import Manner
from tests.bench.homes import environment, opened
from tests.bench.sessions import ingest

ROUNDS = 7
MANNER, ANEW = Manner(), Manner(read_bank=False, write_bank=False)


def main() -> None:
    """Print medians over questions, of medians over rounds, and what the steps of a hit take."""
    options = arguments()
    with TemporaryDirectory(prefix="pkb-semantic-") as name:
        writing = opened(Path(name))
        ingest(writing, options.user / "docs")
        writing.ledger.close()
        session = Session(environment(Path(name)))
        texts = hits(session, options.user, options.hits)
        steps: dict[str, list[float]] = {}
        times = {label: [list[float]() for _ in texts] for label in ("hit", "looked up", "answered anew")}
        for number in range(ROUNDS + 1):  # the first is not counted
            for place, text in enumerate(texts):
                for label, deed in (("hit", hit), ("looked up", looked_up), ("answered anew", anew)):
                    seconds, parts = timed(deed, session, text)
                    if number:
                        times[label][place].append(seconds)
                    if number and label == "hit":
                        for step, ms in parts.items():
                            steps.setdefault(step, []).append(ms)
        session.ledger.close()
    show({label: list(map(median, each)) for label, each in times.items()}, steps)


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("user", type=Path)
    parser.add_argument("--hits", type=int, default=40)
    return parser.parse_args()


def hits(session: Session, user: Path, most: int) -> list[str]:
    """Ask the first of each pair, then the second, until so many were given the first one's answer."""
    rows = [json.loads(line) for line in (user / "questions.jsonl").read_text("utf-8").split("\n") if line.strip()]
    known, found = {row["id"]: row["question"] for row in rows}, list[str]()
    for row in rows:
        if len(found) < most and (first := known.get(row.get("paraphrase_of"))):
            session.asker.ask(first, MANNER, session.now)
            if session.asker.ask(row["question"], MANNER, session.now).reply.tier == "semantic":
                found.append(row["question"])
    return found


def hit(session: Session, text: str) -> dict[str, float]:
    """Ask a question that is given another one's answer; gives the milliseconds of its steps."""
    answered = session.asker.ask(text, MANNER, session.now)
    assert answered.reply.tier == "semantic", answered.reply.tier
    return answered.trace.ms()


def looked_up(session: Session, text: str) -> dict[str, float]:
    """Embed a question and retrieve for it."""
    ask = begin(session.means, session.ledger, text, MANNER, session.now)
    look(session.means, ask)
    return ask.trace.ms()


def anew(session: Session, text: str) -> dict[str, float]:
    """Answer a question without the bank."""
    return session.asker.ask(text, ANEW, session.now).trace.ms()


def timed(
    deed: Callable[[Session, str], dict[str, float]], session: Session, text: str
) -> tuple[float, dict[str, float]]:
    """Give the seconds of one deed, and the milliseconds of its steps."""
    began = perf_counter()
    parts = deed(session, text)
    return perf_counter() - began, parts


def show(times: dict[str, list[float]], steps: dict[str, list[float]]) -> None:
    """Print a line for each, and its ratio to looking up, question by question."""
    for label, each in times.items():
        ratios = [one / other for one, other in zip(each, times["looked up"], strict=True)]
        low, *_, high = quantiles(ratios, n=10)
        print(f"{label:16}{1000 * median(each):8.2f} ms   x {median(ratios):.2f} ({low:.2f} to {high:.2f})")
    parts = sorted(((median(each), step) for step, each in steps.items()), reverse=True)
    print(f"steps of a hit: {', '.join(f'{step} {ms:.2f}' for ms, step in parts)}")


if __name__ == "__main__":
    main()
