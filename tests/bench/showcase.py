"""PerCache's showcase: predictions before the first and after every question, and the time of each question.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.showcase [--users NAME...] [--writers quote nano] [--questions N]`.
Before the first question 5 are predicted from abstracts (and 5 from history, once there is one), after each answer 5
more; all are readied at once, as `pkb idle` does it. Prints a line a question: its tier, milliseconds by stage, tokens,
and the idle work until then. A stage that a question did not come to is left empty.
"""

from argparse import ArgumentParser
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.types import Answer
from store.jobs import JobCost
from tests.bench.living import NANO, USERS, Life, added, prepared

QUESTIONS, FORESEEN = 10, 5
STAGES = ("embed", "match", "retrieve", "load", "prefill", "first_token", "decode", "total")
TOKENS = ("prompt", "reused", "generated")


def main() -> None:
    """Print a table for each user and writer."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--users", nargs="+", default=["locomo", "enron-annotated"], choices=USERS)
    parser.add_argument("--writers", nargs="+", default=["quote", "nano"], choices=("quote", "nano"))
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    options = parser.parse_args()
    for user in options.users:
        for writer in options.writers:
            with TemporaryDirectory() as folder:
                show(user, writer, Path(folder), options.questions)


def show(user: str, writer: str, home: Path, count: int) -> None:
    """Live through one user's first questions."""
    questions = list(prepared(user, home))[:count]
    name = str(NANO) if writer == "nano" else "quote"
    with Life(home, {"model.name": name}) as life:
        foresee(life, writer, 2 * FORESEEN)
        idle_runs = [life.runner()]
        print(f"\n{user}, {writer}: the first night\n  {worked(added(idle_runs), life)}")
        print(f"  {'':3}{'tier':9}" + "".join(f"{stage:>12}" for stage in STAGES), end="")
        print("".join(f"{name:>10}" for name in TOKENS) + "  idle work until then")
        for number, question in enumerate(questions, 1):
            reply = life.ask(question).reply
            print(f"  {number:2} {line(reply)}  {worked(added(idle_runs), life)}", flush=True)
            foresee(life, writer, FORESEEN)
            idle_runs.append(life.runner())
        print(f"  in the end: {worked(added(idle_runs), life)}")
        for runner, found in (("first", idle_runs[:1]), ("later", idle_runs[1:])):
            kinds = dict.fromkeys(kind for one in found for kind in one)
            sums = {kind: added([{kind: one[kind]} for one in found if kind in one]) for kind in kinds}
            done = (f"{kind} {one.units} in {one.seconds:.1f} s" for kind, one in sums.items() if one.seconds > 0.05)
            print(f"  {runner} nights: {', '.join(done)}", flush=True)


def foresee(life: Life, writer: str, most: int) -> None:
    """Lend the tiny model the quote writer's foresight: it writes hardly any questions itself."""
    if writer == "nano":
        life.foresee(most)


def line(reply: Answer) -> str:
    """Write one question down."""
    times = (f"{reply.ms[stage]:12.1f}" if stage in reply.ms else f"{'':12}" for stage in STAGES)
    tokens = (f"{reply.tokens[name]:10}" if reply.tokens else f"{'':10}" for name in TOKENS)
    return f"{reply.tier:9}{''.join(times)}{''.join(tokens)}"


def worked(spent: JobCost, life: Life) -> str:
    """Sum idle work up, and say what it foresaw."""
    predicted_counts = len(life.predicted_counts("answered")) + len(life.predicted_counts("prefilled"))
    more = f", {spent.read:,} tokens read, {spent.flops / 1e9:,.0f} GFLOP" if spent.read else ""
    return f"{spent.seconds:.1f} s, {predicted_counts} foreseen{more}"


if __name__ == "__main__":
    main()
