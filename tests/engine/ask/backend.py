"""A backend that passes everything on to another one, for tests to override in part."""

from collections.abc import Sequence

from engine.text.question import Question
from engine.types import Answer, AskOptions, Backend, Evidence, OnText, Trace
from store.search import QuestionVectors
from store.types import Scope, Vectors


class Wrapped:
    """Another backend, call by call."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @property
    def fingerprint(self) -> str:
        return self.backend.fingerprint

    def embed(self, text: str, trace: Trace) -> Vectors | None:
        return self.backend.embed(text, trace)

    def count(self, question: Question, options: AskOptions, trace: Trace) -> Evidence | None:
        return self.backend.count(question, options, trace)

    def retrieve(self, question: Question, vector: Vectors | None, options: AskOptions, trace: Trace) -> Evidence:
        return self.backend.retrieve(question, vector, options, trace)

    def reread(self, read: Sequence[str], scores: Sequence[float]) -> Evidence:
        return self.backend.reread(read, scores)

    def generate(self, question: Question, evidence: Evidence, trace: Trace, on_text: OnText | None) -> Answer:
        return self.backend.generate(question, evidence, trace, on_text)

    def prefill(self, question: Question, evidence: Evidence, trace: Trace) -> None:
        self.backend.prefill(question, evidence, trace)

    def question_vectors(self) -> QuestionVectors | None:
        return self.backend.question_vectors()

    def within(self, scope: Scope) -> Backend:
        return self


class Unable:
    """A backend that can do nothing, and has no vectors."""

    fingerprint = "unable"

    def count(self, question: Question, options: AskOptions, trace: Trace) -> Evidence | None:
        return None

    def embed(self, text: str, trace: Trace) -> Vectors | None:
        return None

    def retrieve(self, question: Question, vector: Vectors | None, options: AskOptions, trace: Trace) -> Evidence:
        raise AssertionError("no question reaches this backend")

    def reread(self, read: Sequence[str], scores: Sequence[float]) -> Evidence:
        raise AssertionError("no question reaches this backend")

    def generate(self, question: Question, evidence: Evidence, trace: Trace, on_text: OnText | None) -> Answer:
        raise AssertionError("no question reaches this backend")

    def prefill(self, question: Question, evidence: Evidence, trace: Trace) -> None:
        raise AssertionError("no question reaches this backend")

    def question_vectors(self) -> QuestionVectors | None:
        return None

    def within(self, scope: Scope) -> Backend:
        return self
