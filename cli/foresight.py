"""What the plans of abstracts and predictions look at in an open session. Prints nothing."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from cli.session import Session

if TYPE_CHECKING:
    from engine.idle.abstracts import Write
    from engine.idle.foresee import View
    from engine.idle.predict import Prediction
    from engine.idle.summing import Bank
    from engine.idle.units import Unit
    from engine.models.types import LanguageModel
    from store.hits import Hit
    from store.summaries import Abstract, Abstracts

_CHUNKS = 120  # of the newest that no question retrieved, that forms of questions are filled from
_DOCUMENTS = 200  # of the newest, at most, in which those are looked for
_ABSTRACT, _QUESTIONS = 120, 240  # tokens that a model may write
_SHOWN = 4  # one part in so many of a model's context shows it abstracts


def quiet(opened: Session) -> bool:
    """Tell whether nothing was asked for a while; what was asked in the future was before the clock was put back."""
    last = opened.ledger.rows.execute("SELECT max(at) FROM asked").fetchone()[0]
    return last is None or abs(opened.now.timestamp() - last) >= opened.settings.experiment.quiet_s


def abstracts(opened: Session, model: "Callable[[], LanguageModel] | None", late: Callable[[], bool]) -> "list[Unit]":
    """Plan what sums new chunks up."""
    from store.summaries import is_up_to_date

    if is_up_to_date(opened.ledger) or not opened.ledger.count("chunks"):
        return []
    from engine.idle.summing import MOST, plan

    with opened.locks.reader():
        wanted = _abstracts(opened).wanted(MOST)
    return plan(_bank(opened, model, late), wanted) if wanted else []


def views(opened: Session, model: "Callable[[], LanguageModel] | None", late: Callable[[], bool]) -> "list[View]":
    """Return what predicts questions: from those asked so far, and, where a model writes, from abstracts too."""
    from engine.idle.foresee import View
    from engine.idle.predict_quote import SOURCES, from_forms

    newest = opened.ledger.rows.execute("SELECT max(id) FROM asked").fetchone()[0]
    asked, why = str(newest or ""), "new questions since the last run"
    if model is None:
        return [View("history", why, asked, SOURCES, lambda _: from_forms(little_asked(opened), asked_before(opened)))]
    from engine.idle.predict import from_abstracts, from_history
    from engine.idle.writing import writer

    def write() -> "Write":
        return writer(model(), _QUESTIONS, late)

    def of_history(count: int) -> "Sequence[Prediction]":
        past = asked_before(opened)
        by_model = from_history(past, _kind(opened), count, write())
        return [*by_model, *from_forms(little_asked(opened), past)]

    def of_abstracts(count: int) -> "Sequence[Prediction]":
        return from_abstracts(_shown(opened, model()), _kind(opened), count, write())

    mail = str(opened.ledger.generation) if opened.ledger.count("chunks") else ""
    return [
        View("history", why, asked, ("history/model", *SOURCES), of_history),
        View("abstracts", "mail came since the last time", mail, ("abstracts/model",), of_abstracts),
    ]


def _shown(opened: Session, model: "LanguageModel") -> "list[Abstract]":
    """Return the abstracts that a model is shown, and count them as drawn."""
    from engine.idle.predict import choose
    from store.history import Retrieved

    known = _abstracts(opened)
    with opened.locks.writer():
        known.recount(Retrieved(opened.ledger).frequencies())
    with opened.locks.reader():
        chosen = choose(known.all(), model.context // _SHOWN, lambda text: len(model.tokens(text)))
    with opened.locks.writer():
        known.draw([one.id for one in chosen])
    return chosen


def _bank(opened: Session, model: "Callable[[], LanguageModel] | None", late: Callable[[], bool]) -> "Bank":
    from engine.idle.abstracts import by_model, by_quotes
    from engine.idle.summing import Bank
    from engine.idle.writing import writer

    def by_a_model(batch: "Sequence[Hit]") -> str:
        assert model
        return by_model(batch, _kind(opened), writer(model(), _ABSTRACT, late))

    def keep(made: "Sequence[Abstract]") -> int:
        with opened.locks.writer():
            return _abstracts(opened).put(made)

    parts = (by_a_model if model else by_quotes, keep, opened.writer.fingerprint, opened.now.timestamp())
    return Bank(partial(embedded, opened), *parts)


def embedded(opened: Session, ids: Sequence[str]) -> "list[Hit]":
    """Give chunks with their vectors, as far as there are any."""
    with opened.locks.reader():
        hits = opened.reader.chunks(ids)
        vectors = opened.tables.vectors(opened.ledger.get("vectors") or "vectors", [hit.chunk.id for hit in hits])
    return [replace(hit, vector=vectors.get(hit.chunk.id)) for hit in hits]


def _abstracts(opened: Session) -> "Abstracts":
    from store.summaries import Abstracts

    return Abstracts(opened.ledger, opened.tables)


def asked_before(opened: Session) -> list[str]:
    """Give the last questions, the oldest first."""
    from store.history import latest

    return latest(opened.ledger, opened.settings.experiment.history)[::-1]


def little_asked(opened: Session, most: int = _CHUNKS, documents: int = _DOCUMENTS) -> "list[Hit]":
    """Give the newest chunks that no question has retrieved, newest first, out of so many documents."""
    from store.history import Retrieved
    from store.types import Scope

    sql = "SELECT id FROM documents ORDER BY date DESC, id LIMIT ?"
    newest = [name for (name,) in opened.ledger.rows.execute(sql, (documents,))]
    places, retrieved = {name: at for at, name in enumerate(newest)}, Retrieved(opened.ledger).frequencies()
    with opened.locks.reader():
        hits = opened.reader.chunks_of(newest, Scope()) if newest else []
    new = [hit for hit in hits if hit.chunk.id not in retrieved]
    return sorted(new, key=lambda hit: (places[hit.chunk.document], hit.chunk.position))[:most]


def _kind(opened: Session) -> str:
    """Name what the home holds, for a prompt."""
    from engine.idle.abstracts import kind_of

    sql = "SELECT count(DISTINCT document) FROM places WHERE message_id IS {} NULL"
    mails, others = (opened.ledger.rows.execute(sql.format(word)).fetchone()[0] for word in ("NOT", ""))
    return kind_of(mails, others)
