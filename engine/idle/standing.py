"""Jobs that answer the questions in `predict.standing` for each new meeting before anybody asks: `standing`.

questions -> drop those nobody asks -> newest meetings -> drop what is cached. Each answer is the one that asking within
the meeting would give, so nothing is answered that pkb would decline.
"""

from collections.abc import Callable, Mapping, Sequence

from engine.ask.keys import normalise
from engine.idle.predict import WEEK_S, WEEKS, Strategy, hit_rate, is_paused
from engine.idle.refresh import Reasker
from engine.idle.types import Job, Kind, Outcome
from engine.text.question import synthesis
from engine.text.time_sensitive import WORDINGS, whole_document_question
from engine.types import AskOptions
from store.documents import TitledDocument
from store.history import last_asked
from store.jobs import PredictionLog, PredictorCounts
from store.types import Scope, replace

KIND: Kind = "standing"
MEETINGS = 30  # the newest ones


def standing_questions(listed: str) -> list[str]:
    """Split the setting into questions, each once and with its question mark."""
    found = (" ".join(part.split()) for part in listed.split("?"))
    first = dict[str, str]()
    for one in filter(normalise, found):
        first.setdefault(normalise(one), f"{one}?")
    return list(first.values())


def plan_standing(
    reasker: Reasker, strategy: Strategy, questions: Sequence[str], meetings: Sequence[TitledDocument], *, quotes: bool
) -> list[Job]:
    """Return a job for each question and meeting without a cached answer; `meetings` come newest first.

    With `quotes`, questions that only a language model answers are left out.
    """
    counts = {one.source: one for one in PredictionLog(reasker.ledger).all()}
    wanted = [one for one in questions if not (quotes and needs_model(one))]
    asked = [one for one in wanted if _is_asked(reasker, strategy, one, meetings, counts)]
    jobs = (_job(reasker, one, meeting, counts) for meeting in meetings for one in asked)
    return [job for job in jobs if not reasker.is_cached(*_parts(strategy, job))]


def needs_model(question: str) -> bool:
    """Return whether quotes decline a question."""
    found = whole_document_question(question)
    return synthesis(WORDINGS[found.aspect] if found else question) is not None


def _is_asked(
    reasker: Reasker,
    strategy: Strategy,
    question: str,
    meetings: Sequence[TitledDocument],
    counts: Mapping[str, PredictorCounts],
) -> bool:
    """Return whether a question is worth preparing: it is not paused, or was asked of a meeting in the last weeks."""
    now = reasker.now.timestamp()
    if not is_paused(counts.get(_source(question)), now, WEEKS):
        return True
    keys = [reasker.key_of(question, _within(strategy, meeting.id)).digest for meeting in meetings]
    last = last_asked(reasker.ledger, keys)
    return last is not None and now - last < WEEKS * WEEK_S


def _job(reasker: Reasker, question: str, meeting: TitledDocument, counts: Mapping[str, PredictorCounts]) -> Job:
    seconds, source = reasker.answer_s(), _source(question)
    return Job(
        kind=KIND,
        subject=f"{meeting.id} {question}",
        what=f"{question} ({' '.join(meeting.title.split())})",
        reason="asked of every meeting",
        expected=hit_rate(counts.get(source)),
        saves_s=seconds,
        cost_s=seconds,
        source=source,
    )


def prepare_standing(reasker: Reasker, strategy: Strategy, job: Job, is_used_up: Callable[[], bool]) -> Outcome:
    """Answer a standing question within its meeting, unless it is cached or the quota is used up."""
    if reasker.is_cached(*_parts(strategy, job)):
        return Outcome("cached")
    if is_used_up():
        return Outcome("limit")
    made = reasker.prepare(*_parts(strategy, job), job.source, decode=strategy.decode)
    PredictionLog(reasker.ledger).add({job.source: 1}, reasker.now.timestamp())
    return Outcome("done", (made.key,))


def _within(strategy: Strategy, document: str) -> AskOptions:
    return replace(strategy.options, scope=Scope(document=document))


def _parts(strategy: Strategy, job: Job) -> tuple[str, AskOptions]:
    """Return the question of a job, and how it is asked."""
    document, _, question = job.subject.partition(" ")
    return question, _within(strategy, document)


def _source(question: str) -> str:
    return f"standing/{normalise(question)}"
