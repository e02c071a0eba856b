"""Whom a sentence is about, as far as names, "I" and "you" tell. Knows no scores."""

from engine.ask.question import Question
from engine.ask.words import words

_ME = frozenset(["i", "me", "my", "mine", "myself", "we", "us", "our", "ours"])
_YOU = frozenset(["you", "your", "yours", "yourself"])


def about(text: str, said: frozenset[str], who: frozenset[str], names: frozenset[str]) -> bool | None:
    """Judge whether a sentence that `who` says, of these words, is about one of the names or about another person."""
    persons = frozenset(text.lower().replace("’", "'").replace("'", " ").split())
    me, you = bool(persons & _ME), bool(persons & _YOU)
    if said & names or (who & names and not you) or (you and not who & names and not me):
        return True
    return False if me or you else None


def named(question: Question) -> frozenset[str]:
    """Give the words of the names in a question."""
    return frozenset(word for name in question.names for word in words(name))
