"""What a night works on in an open session: the plan of each kind of work, in order. Prints nothing.

Nothing is opened before a plan needs it: where there is nothing to do, no model and no table is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, cast

from cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.idle.ahead import Ahead
    from engine.idle.asking import Asking
    from engine.idle.night import Plan
    from engine.idle.populate import Strategy
    from engine.idle.units import Kind, Unit
    from engine.idle.upkeep import Duty
    from engine.llm.prefill import Reading
    from engine.models.mlx import Mlx
    from engine.models.types import LanguageModel
    from store.answers import Kept
    from store.jobs import Spent
    from store.types import Chunk

_QUESTIONS = 2000  # of the latest, whose chunks are counted
_BACK = 1000  # of the newest documents, and of their chunks that no question retrieved: how far is looked back
_WANTED = 200  # entries of the bank, the most used, whose prompts are read again
_SLICE = 50  # kept tensors whose files are read through in a night
_UNTIDY = 100  # rows written since the tables were tidied, from which they are tidied again


@dataclass(slots=True)
class Nightly:
    """What the plans of one night share; `reading` is the model once it is loaded."""

    opened: Session
    force: bool  # not only after a quiet time
    predictions: int  # foreseen questions that are readied
    late: Callable[[], Callable[[], bool]]  # gives, as planning begins, what tells that it has taken long enough
    over: Callable[[], bool]  # the night is
    reading: "Reading | None" = field(default=None, init=False)

    def plans(self) -> "Mapping[Kind, Plan]":
        """Give the plan of each kind of work, in the order in which they are done."""
        from engine.idle.populate import quota

        reads = self.opened.writer.load is not None and self.opened.settings.kv.reuse != "off"
        ahead: dict[Kind, Plan] = {
            "blocks" if self.opened.settings.kv.reuse == "blocks" else "first": self._hottest,
            "refill": self._refill,
        }
        return {
            "refresh": partial(self._asks, _refresh),
            "owed": partial(self._asks, _owed),
            "abstract": self._abstract,
            "predict": self._predict,
            "populate": partial(self._asks, partial(_populate, taken=quota(self.predictions))),
            "convert": partial(self._asks, _convert),
            **(ahead if reads else {}),
            "upkeep": self._upkeep,
        }

    def measure(self) -> "Spent":
        """Return what the model did so far, and the bytes of tensors written."""
        from engine.models.types import flops
        from store.jobs import Spent
        from store.kv_index import KvCounts

        size = sum(KvCounts(self.opened.ledger).written_by_day().values())
        if self.reading is None:
            return Spent(bytes=size)
        model = cast("Mlx", self.reading.model)
        meter = model.meter
        return Spent(read=meter.read, written=meter.written, flops=flops(model.size, meter), bytes=size)

    def load(self) -> "Reading":
        """Load the model, unless it is there."""
        assert self.opened.writer.load, "a quote needs no model"
        self.reading = self.opened.writer.load()
        return self.reading

    def _asks(self, plan: "Callable[[Session, Asking], list[Unit]]") -> "list[Unit]":
        """Plan a kind that asks questions anew; where there is one to ask the model is loaded now, and counted here."""
        units = plan(self.opened, self._asking)
        if units and self.opened.writer.load:
            self.load()
        return units

    def _abstract(self) -> "list[Unit]":
        from cli.foresight import abstracts

        return abstracts(self.opened, self._model, self.over) if self._quiet() else []

    def _predict(self) -> "list[Unit]":
        from cli.foresight import views

        opened = self.opened
        if not self._quiet():
            return []
        from engine.idle.foresee import plan
        from engine.idle.populate import is_near

        near = partial(is_near, self._asking, _strategy(opened))
        return plan(self._asking, views(opened, self._model, self.over), opened.settings.experiment.stride, near)

    @property
    def _asking(self) -> "Asking":
        """Give what asks questions anew."""
        from engine.idle.asking import Asking

        return Asking(self.opened.ledger, self.opened.means, self.opened.room, self.opened.now)

    def _quiet(self) -> bool:
        from cli.foresight import quiet

        return self.force or quiet(self.opened)

    @property
    def _model(self) -> "Callable[[], LanguageModel] | None":
        """Give what loads the model, None where pkb quotes."""
        return (lambda: self.load().model) if self.opened.writer.load else None

    def _hottest(self) -> "list[Unit]":
        from cli.foresight import little_asked
        from store.history import Retrieved as Lists

        opened, lists = self.opened, Lists(self.opened.ledger).lists(_QUESTIONS)
        new = [hit.chunk for hit in little_asked(opened, _BACK, _BACK)]
        if not lists and not new:
            return []
        from engine.idle.first import Retrieved, plan

        def chunks(ids: "Sequence[str]") -> "dict[str, Chunk]":
            return {hit.chunk.id: hit.chunk for hit in opened.reader.chunks(ids)}

        found = Retrieved(lists, chunks, new)
        ahead = self._ahead()
        return plan(ahead, found) if ahead else []

    def _refill(self) -> "list[Unit]":
        from store.kv_index import KvCounts

        counts = KvCounts(self.opened.ledger)
        refused = bool(counts.of("refused"))
        if not counts.ghosts() and not refused:
            return []
        from engine.idle.ahead import gone

        ahead = self._ahead()
        return gone(ahead, self._wanted(), refused=refused) if ahead else []

    def _wanted(self) -> "Iterator[tuple[Kept, float]]":
        """Give the entries of the bank whose prompts may be wanted again, and how often they were."""
        from engine.idle.asking import worth
        from store.answers import Bank, wanted

        bank = Bank(self.opened.ledger)
        found = (bank.find(key) for key in wanted(self.opened.ledger, self._asking.mine, _WANTED))
        return ((kept, worth(kept)) for kept in found if kept)

    def _ahead(self) -> "Ahead | None":
        """Give what is read ahead with; None where what this model reads cannot be kept."""
        from engine.idle.ahead import Ahead

        opened, reading = self.opened, self.load()
        settings = opened.settings
        if reading.kept is None:
            return None
        parts = (opened.order, settings.model.max_tokens, settings.ask.k, settings.idle.ahead)
        return Ahead(reading, self._asking, *parts, opened.locks.reader, self.late())

    def _upkeep(self) -> "list[Unit]":
        from engine.idle.upkeep import plan

        return plan(self.opened.ledger, _duties(self.opened), self.opened.now.timestamp())


def _refresh(opened: Session, asking: "Asking") -> "list[Unit]":
    from engine.idle.refresh import plan

    return plan(asking)


def _owed(opened: Session, asking: "Asking") -> "list[Unit]":
    from engine.idle.owed import plan

    return plan(asking, opened.settings.bank.tau, opened.settings.experiment.max_error)


def _populate(opened: Session, asking: "Asking", taken: Callable[[], bool]) -> "list[Unit]":
    from engine.idle.populate import plan

    return plan(asking, _strategy(opened), taken)


def _convert(opened: Session, asking: "Asking") -> "list[Unit]":
    from engine.idle.convert import plan

    return plan(asking, decode=_strategy(opened).decode)


def _strategy(opened: Session) -> "Strategy":
    """Say how foreseen questions are readied: quotes always whole, for there is nothing to read ahead."""
    from engine.idle.populate import Strategy, decodes
    from engine.types import Manner

    settings = opened.settings
    decode = opened.writer.load is None or decodes(settings.bank.tau, settings.experiment.cutoff)
    return Strategy(Manner(k=settings.ask.k), decode, settings.bank.tau)


def _duties(opened: Session) -> "list[Duty]":
    """Give what is to be done now and then."""
    from engine.idle.upkeep import Duty

    ledger = opened.ledger

    def tidy() -> None:
        with opened.locks.writer():
            opened.knowledge.compact()

    def look() -> None:
        from store.integrity import check_slice

        check_slice(opened.home, ledger, _SLICE)

    def any_kept() -> bool:
        return ledger.rows.execute("SELECT 1 FROM kv_nodes LIMIT 1").fetchone() is not None

    return [
        Duty("tables", "compact search tables", tidy, lambda: opened.knowledge.untidy >= _UNTIDY),
        Duty("slice", "verify part of the ledger and KV cache", look, any_kept),
    ]
