"""What asking is made of: the manner of a question, the means of answering it, and what comes of it. Light to import.

The means are functions that open what they need when they are called: an exact hit calls none of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.ask.reply import Reply
from engine.ask.trace import Trace
from store.types import Scope

if TYPE_CHECKING:
    from engine.ask.evidence import Evidence
    from engine.ask.question import Question
    from store.hits import Vectors
    from store.question_index import QuestionVectors

Say = Callable[[str], None]  # is given more of an answer while it is written


@dataclass(frozen=True, slots=True)
class Manner:
    """How to ask: within what, from how many sources, and whether the bank may answer and may learn."""

    scope: Scope = field(default_factory=Scope)
    k: int = 5
    read_bank: bool = True
    write_bank: bool = True
    stale_ok: bool = False


def _nothing() -> None:
    """Keep nothing."""


@dataclass(frozen=True, slots=True)
class Written:
    """A reply as its writer gives it; `keep` does what the writer wants to do when nobody waits any more."""

    reply: Reply
    keep: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True)
class Answered:
    """A reply, how it came about, and the share of the knowledge bank that vectors cover (None where none was read).

    `keep` is to be called when the reply has been shown: it saves what was read, for the next question.
    """

    reply: Reply
    trace: Trace
    covered: float | None = None
    keep: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True)
class Means:
    """By what means questions are answered.

    `embed` gives a question's unit vector (None without an embedder), `gather` retrieves its evidence, `write` makes a
    reply of that, `read` only reads it ahead, and `bears` has a model, where one writes, say in a word whether the
    evidence bears an answer. `questions` are the vectors of the bank. `writer` names all that the
    words of an answer depend on beside the evidence.
    """

    embed: "Callable[[str, Trace], Vectors | None]"
    gather: "Callable[[Question, Vectors | None, Manner, Trace], Evidence]"
    write: "Callable[[Question, Evidence, Trace, Say | None], Written]"
    read: "Callable[[Question, Evidence, Trace], None]"
    bears: "Callable[[Question, Evidence, str, Trace], bool]"
    questions: "Callable[[], QuestionVectors | None]"
    writer: str
