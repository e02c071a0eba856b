"""What looser rules of the semantic tier would serve: hits and wrong hits over rewordings, traps, pairs and near twins.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.places DATA [--sets NAME...] [--every N] [--vectors FOLDER]`; with
--every, each N-th question counts. Each later question meets the nearest earlier ones with an answer; a rule serves the
first that it lets through. Nothing served is added.
"""

from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.ask.candidates import wanted
from engine.ask.extract import QuoteSettings, quote
from engine.ask.keys import normalise, same_answer
from engine.ask.semantic import _entailed, asks_in_same_words, judge_of, why_different
from engine.llm.generate import ParsedAnswer
from engine.models.minilm import MiniLM
from store.answers import upper
from tests.bench.indexed import IndexedUser, golds, load
from tests.bench.paraphrases import LEAST, READER, SETS, TAU, Entry, entries, paired
from tests.bench.rewordings import _entries
from tests.bench.rewordings import rows as reworded

_NEAR = 8  # earlier questions that are looked at


@dataclass(frozen=True, slots=True)
class Near:
    """An earlier question with an answer, as rules see it, and whether that answer is the later one's, too."""

    cosine: float
    why: str | None  # the guard's reason
    alike: bool  # in the same words
    quoted: bool  # what is quoted afresh is its answer
    supported: bool  # the source of that has the words that one of the two questions lacks
    likely: bool  # the reader takes its answer for likely
    same: bool
    right: bool  # by gold answers
    is_itself: bool


def strict(near: Near) -> bool:
    """Return what pkb serves."""
    return near.why is None and (near.alike or (near.quoted and near.supported))


RULES: dict[str, tuple[float, Callable[[Near], bool]]] = {
    "strict": (TAU, strict),
    "without the evidence's words": (TAU, lambda one: one.why is None and (one.alike or one.quoted)),
    "the reader's yes for a quote": (TAU, lambda one: one.why is None and (one.alike or one.likely)),
    "guard alone": (TAU, lambda one: one.why is None),
    "guard without its words": (TAU, lambda one: strict(one) or (one.why in (None, "other words") and one.quoted)),
    "fresh quote alone": (TAU, lambda one: one.quoted),
    "cosine .95": (0.95, lambda one: True),
    "cosine .90": (0.90, lambda one: True),
    **{f"strict, tau {tau}": (tau, strict) for tau in (0.7, 0.88, 0.9, 0.95)},
}


def main() -> None:
    """Print a line for each rule."""
    options, counts = arguments(), {label: Counter[str]() for label in RULES}
    for kind, later in measured(options):
        for label, (tau, rule) in RULES.items():
            hit = next((near for near in later if near.cosine >= tau and rule(near)), None)
            counts[label].update([kind] if hit is None or not hit.is_itself else [])
            if hit and not hit.is_itself:
                counts[label].update([f"{kind} served", f"{kind} {'same' if hit.same else 'unlike'}"])
                counts[label][f"{kind} right"] += hit.right
    for label, found in counts.items():
        print(f"{label:30}", *(said(found, kind) for kind in ("rewording", "trap", "paraphrase", "twin")), sep="; ")


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=(*SETS, "enron-annotated"))
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--vectors", type=Path)
    return parser.parse_args()


def said(found: Counter[str], kind: str) -> str:
    """Return the figures of one kind of later questions, with exact 95 % intervals."""
    count, served, unlike = found[kind], found[f"{kind} served"], found[f"{kind} unlike"]
    low, high = 1 - upper(count - served, count, 0.975), upper(served, count, 0.975)
    most = f"at most {upper(served, count):.3f}, unlike {upper(unlike, count):.3f}"
    return (
        f"{kind}: {served} of {count} [{low:.2f}, {high:.2f}] ({most}), {unlike} unlike, {found[f'{kind} right']} right"
    )


def measured(options: Namespace) -> Iterator[tuple[str, list[Near]]]:
    """Yield each later question as the nearest earlier ones, and its kind."""
    embedder = MiniLM(workers=1)
    for name in options.sets:
        for user in load(options.data, name, embedder, options.vectors):
            firsts, asked = _written(user, embedder, options.every)
            for kind, one in asked:
                yield kind, looked_up(one, firsts)
            pairs = paired(entries(user, embedder))[:: options.every]
            kind = "paraphrase" if name == "paraphrase" else "twin"
            for _, later in pairs:
                yield kind, looked_up(later, [first for first, _ in pairs])


def _written(user: IndexedUser, embedder: MiniLM, every: int) -> tuple[list[Entry], list[tuple[str, Entry]]]:
    """Return the questions of a user that have rewordings and traps, and those whose question has an answer."""
    by_id = {row["id"]: row for row in user.rows}
    ids = list(dict.fromkeys(row["of"] for row in reworded() if row["of"] in by_id))[::every]
    firsts = _entries(user, [by_id[id] for id in ids], embedder) if ids else {}
    own = [row for row in reworded() if row["of"] in firsts and firsts[row["of"]].reply.text is not None]
    about = [by_id[row["of"]] | {"id": number, "question": row["text"]} for number, row in enumerate(own)]
    asked = _entries(user, about, embedder) if about else {}
    return [*firsts.values()], [("rewording" if own[at]["same"] else "trap", one) for at, one in asked.items()]


def looked_up(one: Entry, firsts: Sequence[Entry]) -> list[Near]:
    """Return the nearest earlier questions with an answer."""
    vector, known = one.context.vector, [first for first in firsts if first.reply.text is not None]
    cosines = np.array([first.context.vector for first in known]) @ vector if known else np.zeros(0)
    places = [int(at) for at in np.argsort(-cosines, kind="stable")[:_NEAR]]
    return [near_of(one, known[at], float(cosines[at])) for at in places]


def near_of(one: Entry, first: Entry, cosine: float) -> Near:
    """Compare a later question with an earlier one."""
    new, cached, evidence = one.context.question, first.context.question, one.context.evidence
    quoted = quote(new, evidence.passages, QuoteSettings(least=LEAST, reader=READER))
    source = None if quoted.source is None else evidence.passages[quoted.source]
    judge, answer = judge_of(new, evidence, LEAST, READER), first.reply.text or ""
    return Near(
        cosine=cosine,
        why=why_different(new, cached),
        alike=asks_in_same_words(new, cached) and wanted(new) == wanted(cached),
        quoted=source is not None and quoted.answer == answer,
        supported=source is not None and _entailed(new, cached, source),
        likely=judge is not None and judge(ParsedAnswer(answer, ())).writer == "model",
        same=same_answer(one.reply.text, answer, one.reply.span, first.reply.span),
        right=bool(golds(one.row) & golds(first.row)),
        is_itself=normalise(one.pending.text) == normalise(first.pending.text),
    )


if __name__ == "__main__":
    main()
