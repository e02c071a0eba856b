"""Near misses of the semantic tier, judged by a language model with a role adapter as an idle run does.

Run `python -m tests.bench.judging DATA [SET...] --model FOLDER [--count 60] [--vectors FOLDER]`. Questions of the pairs
that tests.bench.paraphrases makes are asked with the quote writer, all first ones, then all second ones. One is a near
miss if it is refused the answer of another question though the two are near: by their words, or since their evidence or
quotes differ. The model's check of each hit is left out. Of a set at most `count` near misses are drawn, always the
same; the model answers both questions of each and judges them, if it answers the other one at all.

An approval is right if the two questions share a gold answer. At a threshold above the product's own, 0.5, those count
as approved whose checks all had a yes of that probability.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from engine.ask.keys import by_model, by_roles
from engine.ask.paraphrase import why_different
from engine.ask.prepare import prepare
from engine.ask.semantic import entails
from engine.backends import drafts_of, quoted
from engine.idle.refresh import Reasker, judge, plan_judgements
from engine.llm.generate import GenerateOptions, generate
from engine.llm.prefill import PromptReader
from engine.llm.prompt import in_document_order
from engine.models.minilm import MiniLM
from engine.settings import Settings
from engine.text.question import Question
from engine.types import AskOptions, Evidence, GeneratedAnswer, OnText, Trace
from store.answers import Aliases, NearMiss
from store.database import Ledger, open_ledger
from store.hits import Vectors
from tests.bench.home import NOW
from tests.bench.indexed import IndexedUser, golds, load
from tests.bench.judged import wilson
from tests.bench.paraphrases import (
    BUDGET,
    RULES,
    SETS,
    Entry,
    K,
    OwnBank,
    Pair,
    entries,
    own_bank,
    paired,
    retrieved,
)
from tests.bench.reading import open_with_roles
from tests.engine.ask.backend import Unable

LEAST = (0.5, 0.7, 0.9)  # probabilities of a yes
_COLUMNS = ("approved", "approved and right", "approved and wrong", "refused of right")
_HEAD = f"{'':26}{'yes':>5}{'judged':>8}" + "".join(f"  {name:26}" for name in _COLUMNS)


@dataclass(frozen=True, slots=True)
class Miss:
    """A question that was refused the answer of another one, and the cosine of the two."""

    user: IndexedUser
    own: Entry
    other: Entry
    similarity: float

    @property
    def is_right(self) -> bool:
        """Return whether both questions have a gold answer in common."""
        return bool(golds(self.own.row) & golds(self.other.row))

    @property
    def refused(self) -> str:
        """Return what refused it: the words of the questions, or the evidence."""
        return "words" if why_different(self.own.context.question, self.other.context.question) else "evidence"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The model's verdict on a near miss: `yes` is the least probability of a yes of its checks."""

    refused: str
    is_right: bool
    same: bool
    yes: float

    def approved(self, least: float) -> bool:
        """Return whether the pair is an alias where each check takes a yes of this probability."""
        return self.same and self.yes >= least


class Judge(Unable):
    """Retrieves for one user, and answers and checks by a model with a role adapter, as the product does."""

    def __init__(self, user: IndexedUser, embedder: MiniLM, reader: PromptReader, name: str) -> None:
        settings = Settings()
        most, drafts = settings.model.max_tokens, settings.experiment.drafts
        self._user, self._embedder, self._reader = user, embedder, reader
        self._options = GenerateOptions(name, NOW, most, in_document_order, drafts, drafts_of, quoted)
        self.fingerprint = by_model(name, most, by_roles(""))
        self.yes = list[float]()  # of each check

    def embed(self, text: str, trace: Trace) -> Vectors | None:
        return self._embedder.embed_question(text)

    def retrieve(self, question: Question, vector: Vectors | None, options: AskOptions, trace: Trace) -> Evidence:
        return retrieved(self._user, question, vector)

    def generate(self, question: Question, evidence: Evidence, trace: Trace, on_text: OnText | None) -> GeneratedAnswer:
        return generate(lambda: self._reader, question, evidence, trace, self._options, on_text)

    def entails(self, question: Question, evidence: Evidence, answer: str, trace: Trace) -> bool | None:
        asked = (question, evidence, answer, trace, NOW, self._options.max_tokens)
        verdict = entails(lambda: self._reader, *asked)
        if verdict is not None:
            self.yes.append(float(trace.steps[-1].note.removeprefix("yes ").split(";")[0]))
        return verdict


def main() -> None:
    """Print the verdicts by set, and by what refused a question."""
    asked = _arguments()
    embedder, reader = MiniLM(workers=1), open_with_roles(asked.model)
    print(_HEAD)
    for name in asked.sets or SETS:
        found = [miss for user in load(asked.data, name, embedder, asked.vectors) for miss in misses(user, embedder)]
        drawn = Random(name).sample(found, len(found))[: asked.count]
        verdicts = [verdict(miss, Judge(miss.user, embedder, reader, asked.model.name)) for miss in drawn]
        judged = [one for one in verdicts if one]
        print(f"{name}: {len(found)} near misses, {len(drawn)} drawn, {len(judged)} judged")
        show(name, judged)


def misses(user: IndexedUser, embedder: MiniLM) -> list[Miss]:
    """Return the near misses of one user's questions, asked with an empty cache."""
    with TemporaryDirectory(prefix="pkb-judging-") as folder:
        bank = own_bank(Path(folder), RULES["pkb"], embedder)
        found = list(missed(user, paired(entries(user, embedder)), bank))
        bank.ledger.close()
    return found


def missed(user: IndexedUser, pairs: Sequence[Pair], bank: OwnBank) -> Iterator[Miss]:
    """Ask the first question of each pair, then the second ones, and yield those that are near misses."""
    by_text = {one.pending.text: one for place in (0, 1) for one in (pair[place] for pair in pairs)}
    for one in by_text.values():
        lookup = bank.lookup()
        if bank.find(lookup, one) is None:
            bank.put(one)
            if near := lookup.missed:
                yield Miss(user, one, by_text[near.answer.question], near.similarity)


def verdict(miss: Miss, backend: Judge) -> Judgement | None:
    """Have the model answer both questions and judge them; None where it declines the other one or cannot say."""
    with TemporaryDirectory(prefix="pkb-judging-") as folder:
        ledger = open_ledger(Path(folder) / "ledger.db", create=True)
        is_judged, is_same = judged_in(ledger, miss, backend)
        ledger.close()
    return Judgement(miss.refused, miss.is_right, is_same, min(backend.yes)) if is_judged else None


def judged_in(ledger: Ledger, miss: Miss, backend: Judge) -> tuple[bool, bool]:
    """Return whether a near miss was judged, and whether both questions were found to ask the same."""
    other, own = (
        prepare(ledger, backend, BUDGET, one.pending.text, AskOptions(k=K), NOW, decode=True, origin="user")
        for one in (miss.other, miss.own)
    )
    if other.reply is None or not other.reply.answered:
        return False, False  # without an answer there is nothing to refuse
    Aliases(ledger).add(NearMiss(own.key, other.key, miss.similarity, NOW.timestamp()))
    reasker = Reasker(ledger, backend, BUDGET, NOW)
    for job in plan_judgements(reasker):
        judge(reasker, job)
    judged, same = Aliases(ledger).counts()
    return bool(judged), bool(same)


def show(name: str, judged: Sequence[Judgement]) -> None:
    """Print a line for each threshold, of all that were judged, then by what refused them."""
    groups = {name: judged} | {f"  {by}": [one for one in judged if one.refused == by] for by in ("words", "evidence")}
    for label, group in groups.items():
        for least in LEAST if group else ():
            print(f"{label:26}{least:5.1f}{len(group):8}" + "".join(f"  {one:26}" for one in figures(group, least)))


def figures(judged: Sequence[Judgement], least: float) -> Iterator[str]:
    """Yield the figures of a line: approved, right and wrong ones among them, and refused ones of those right."""
    approved = [one for one in judged if one.approved(least)]
    right = sum(one.is_right for one in approved)
    deserved = sum(one.is_right for one in judged)
    yield share(len(approved), len(judged))
    yield share(right, len(approved))
    yield share(len(approved) - right, len(approved))
    yield share(deserved - right, deserved)


def share(count: int, of: int) -> str:
    """Return a count with its share and the 95 % Wilson interval of that; of none there is no share."""
    low, high = wilson(count, of)
    return f"{count} of {of}" + (f", {count / of:.2f} [{low:.2f}, {high:.2f}]" if of else "")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.judging", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--model", type=Path, required=True, metavar="FOLDER", help="a model with a role adapter")
    parser.add_argument("--count", type=int, default=60, help="near misses of each set that are judged")
    parser.add_argument("--vectors", type=Path, metavar="FOLDER", help="keeps chunk vectors between runs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
