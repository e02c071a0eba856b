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
    from engine.models.protocols import LanguageModel
    from store.abstracts import Abstract, Abstracts
    from store.hits import Hit

_CHUNKS = 120  # of the newest that no question retrieved, that templates ask about
_DOCUMENTS = 200  # of the newest, at most, in which those are looked for
_ABSTRACT, _QUESTIONS = 120, 240  # tokens that a model may write
_SHOWN = 4  # one part in so many of a model's context shows it abstracts


def quiet(opened: Session) -> bool:
    """Tell whether nothing was asked for a while; what was asked in the future was before the clock was put back."""
    last = opened.ledger.rows.execute("SELECT max(at) FROM asked").fetchone()[0]
    return last is None or abs(opened.now.timestamp() - last) >= opened.settings.idle.quiet_s


def abstracts(opened: Session, model: "Callable[[], LanguageModel] | None", late: Callable[[], bool]) -> "list[Unit]":
    """Plan what sums new chunks up."""
    from store.abstracts import is_up_to_date

    if is_up_to_date(opened.ledger) or not opened.ledger.count("chunks"):
        return []
    from engine.idle.summing import MOST, plan

    with opened.locks.reader():
        wanted = _abstracts(opened).wanted(MOST)
    return plan(_bank(opened, model, late), wanted) if wanted else []


def views(opened: Session, model: "Callable[[], LanguageModel] | None", late: Callable[[], bool]) -> "list[View]":
    """Give the two ways to look ahead: from the questions so far, and from what there is to ask about."""
    from engine.idle.foresee import View
    from engine.idle.predict_quote import TEMPLATES

    newest = opened.ledger.rows.execute("SELECT max(id) FROM asked").fetchone()[0]
    mail = opened.ledger.generation if opened.ledger.count("chunks") else ""
    seen = {"history": str(newest or ""), "abstracts": str(mail)}
    why = {"history": "new questions", "abstracts": "new mail"}

    def sources(view: str) -> list[str]:
        templates = [one for one in TEMPLATES if one.startswith(f"{view}/")]
        return [f"{view}/model", *(templates if view == "history" else ())] if model else templates

    ways = _by_model(opened, model, late) if model else _by_templates(opened)
    return [View(view, f"{why[view]} since the last run", seen[view], sources(view), ways[view]) for view in why]


def _by_templates(opened: Session) -> "dict[str, Callable[[int], Sequence[Prediction]]]":
    from engine.idle.predict_quote import from_chunks, from_forms

    return {
        "history": lambda _: from_forms(little_asked(opened), asked_before(opened)),
        "abstracts": lambda _: from_chunks(little_asked(opened), asked_before(opened)),
    }


def _by_model(
    opened: Session, model: "Callable[[], LanguageModel]", late: Callable[[], bool]
) -> "dict[str, Callable[[int], Sequence[Prediction]]]":
    from engine.idle.predict import choose, from_abstracts, from_history
    from engine.idle.predict_quote import from_forms
    from engine.idle.writing import writer

    def write() -> "Write":
        return writer(model(), _QUESTIONS, late)

    def shown() -> "list[Abstract]":
        from store.retrieved import Retrieved

        known, found = _abstracts(opened), model()
        with opened.locks.writer():
            known.recount(Retrieved(opened.ledger).frequencies())
        with opened.locks.reader():
            chosen = choose(known.all(), found.context // _SHOWN, lambda text: len(found.tokens(text)))
        with opened.locks.writer():
            known.draw([one.id for one in chosen])
        return chosen

    return {
        "history": lambda count: [
            *from_history(asked_before(opened), _kind(opened), count, write()),
            *from_forms(little_asked(opened), asked_before(opened)),
        ],
        "abstracts": lambda count: from_abstracts(shown(), _kind(opened), count, write()),
    }


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
    from store.abstracts import Abstracts

    return Abstracts(opened.ledger, opened.tables)


def asked_before(opened: Session) -> list[str]:
    """Give the last questions, the oldest first."""
    from store.past import latest

    return latest(opened.ledger, opened.settings.idle.history)[::-1]


def little_asked(opened: Session, most: int = _CHUNKS, documents: int = _DOCUMENTS) -> "list[Hit]":
    """Give the newest chunks that no question has retrieved, newest first, out of so many documents."""
    from store.records import Scope
    from store.retrieved import Retrieved

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
