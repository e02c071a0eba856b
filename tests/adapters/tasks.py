"""What an adapter is asked to do: a context as the base model reads it, and requests behind it, each with its reply.

Requests are the last segment of a prompt, in the wording of pkb's own prompts: on them alone the adapter acts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from engine.llm.prompt import question_segment
from prompts import prompt

# The adapter that comes with pkb was trained on these, too; pkb makes no abstracts, and has no answer checked so.
ABSTRACT = "Summarize the messages above in one or two sentences, at most fifty words:"
CHECK = (
    "Question: {question}\nAnswer given: {answer}\n"
    "Do the messages above support this answer to the question? Reply yes or no:"
)
Role = Literal["answer", "check", "condense", "predict", "abstract"]
NOT_FOUND = "not found"


@dataclass(frozen=True, slots=True)
class Task:
    """A request and its reply."""

    role: Role
    request: str
    reply: str


@dataclass(frozen=True, slots=True)
class Example:
    """A context, the segments of its chunks, and tasks that each see the context and themselves alone."""

    chunks: tuple[str, ...]
    tasks: tuple[Task, ...]

    @property
    def system(self) -> str:
        """Return the first segment, which all roles share but the one that reads no messages."""
        name = "roles" if self.chunks else "condense"
        return prompt(name).split("\n")[0] + "\n"


def answer(question: str, today: datetime, said: str, numbers: Sequence[int]) -> Task:
    """Ask a question; `numbers` are those of the chunks that hold the answer, none where it is not there."""
    reply = " ".join((said, *(f"[{number}]" for number in numbers))) if numbers else NOT_FOUND
    return Task("answer", question_segment(question, today), reply)


def check(question: str, said: str, *, holds: bool) -> Task:
    """Ask whether the context bears an answer."""
    return Task("check", CHECK.format(question=question, answer=said), "yes" if holds else "no")


def predict(questions: Sequence[str]) -> Task:
    """Ask for questions that the context answers."""
    return Task("predict", prompt("predict_chunks").format(count=len(questions)), "\n".join(questions))


def abstract(summary: str) -> Task:
    """Ask for a summary."""
    return Task("abstract", ABSTRACT, summary)


def condense(turns: Sequence[tuple[str, str]], question: str, full: str) -> Task:
    """Ask for a follow-up made whole; `turns` are the questions before it with their answers."""
    told = "\n".join(f"Question: {asked}\nAnswer: {said}" for asked, said in turns)
    request = prompt("condense").partition("\n")[2].format(turns=told, question=question.rstrip("?"))
    return Task("condense", request, full)
