"""`pkb bench`: what reading in blocks would save on this machine, and how far one's own answers would stay the same."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cli import out
from cli.plain import count, line, one_line
from cli.session import session

_SHOWN, _WIDTH = 3, 60  # answers that differ, and characters of each


def bench(
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="The language model to try, if not the one in use.")
    ] = None,
    questions: Annotated[int, typer.Option("--questions", metavar="N", min=1, help="The latest N questions.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Try reading in blocks: what it saves, and what it changes.

    Example: pkb bench --questions 10
    """
    import tempfile

    from cli.trials import gather

    # Made before the model is loaded, for that moves the place of temporary files into the cache and its budget.
    with session() as opened, tempfile.TemporaryDirectory(prefix="pkb-bench-") as folder:
        opened.override("kv.reuse", "blocks")
        if model is not None:
            opened.override("model.name", model)
            opened.override("model.revision", "")
        row = gather(opened, Path(folder), questions, quiet=as_json)
    if as_json:
        out.data(row)
    else:
        _show(row)


def _show(row: Mapping[str, Any]) -> None:
    """Print the figures on one screen."""
    asked = count(row["questions"], "question")
    whose = f"your latest {asked}" if row["own"] else f"{asked} of a small example: you have asked none yet"
    print(f"{line(row['model'])} on {whose}, read in blocks instead of one behind the other\n")
    if not row["questions"]:
        return
    ms, reused = row["first_token_ms"], row["reused"]
    words, letters = row["same_words"], row["equal_answers"]
    print(f"answers      {words} of {row['questions']} are in the same words, {letters} the same to the letter")
    print(f"tokens       {row['top_1']:.1%} of {row['tokens']:,} are the same, where those before them are")
    print(f"next token   {row['kl_first']:.4f} nats away in the mean, and {row['kl']:.4f} along the whole answer")
    print(f"reused       {reused['usual']:.0%} of all tokens as usual, {reused['blocks']:.0%} in blocks, were all kept")
    print(f"first token  {ms['usual_computed']:.0f} ms computed as usual, {ms['usual_loaded']:.0f} ms loaded")
    print(f"             {ms['blocks_computed']:.0f} ms computed in blocks, {ms['blocks_loaded']:.0f} ms loaded")
    for one in row["different"][:_SHOWN]:
        print(f"\n{one_line(one['question'], _WIDTH)}")
        for way in ("usual", "blocks"):
            print(f"{way:>12} {one_line(one[way], _WIDTH) or '(nothing)'}")
    print("\nTo read in blocks from now on: pkb config set kv.reuse blocks")
