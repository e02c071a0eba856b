"""Where a generated text begins to repeat itself, so that it can be ended there.

Small models fall into loops, and greedy decoding never leaves one. Works on text alone: knows no model and no tokens.
"""

import re

_CLOSING = r"[\"'”’)\]]*"
_SENTENCE = re.compile(rf"(?:[^.!?\n]|[.!?](?!{_CLOSING}(?:\s|\Z)))*(?:[.!?]{_CLOSING}|\n|\Z)")
_NUMBERS = r"\[[\d\s,;&–-]*\]"  # of sources, which belong to the sentence before them
_BEFORE = re.compile(rf"\s*(?:{_NUMBERS}\s*)*")
_WORD = re.compile(rf"{_NUMBERS}|(\w+)")
_WINDOW = 4000  # characters at the end of a text that are compared
_LEAST = 4  # words of a sentence or line that no answer says twice
_TIMES = 3  # of the same words in a row
_ALIKE = 4  # sentences in a row that begin with the same words
_LONGEST = 40  # words of a loop without an end of a sentence
_SHORT = 6  # words that a loop must come to in all: "no, no, no" is none
_ENDED = re.compile(r"[.!?][\"'”’)\]]*\s*\Z")


def repeats_from(text: str) -> int | None:
    """Return the offset from which a text says again what it has said; None while it does not."""
    begin = max(0, len(text) - _WINDOW)
    found = (find(text[begin:]) for find in (_second_sentence, _third_span, _fourth_alike))
    return min((begin + start for start in found if start is not None), default=None)


def settled(text: str) -> str:
    """Return what may be shown of an unfinished text: without a last sentence that so far repeats an earlier one."""
    begin = max(0, len(text) - _WINDOW)
    found = [(begin + start, said) for start, said in _sentences(text[begin:])]
    if not found:
        return text
    start, last = found[-1]
    return text[:start] if any(said.startswith(last) for _, said in found[:-1]) else text


def _sentences(text: str) -> list[tuple[int, str]]:
    """Return the sentences and lines of a text that have words: where these begin, and they in lower case."""
    found = ((_start(text, match.start()), _plain(match.group())) for match in _SENTENCE.finditer(text))
    return [(start, said) for start, said in found if said]


def ends_sentence(text: str) -> bool:
    """Return whether a text ends with a whole sentence."""
    return _ENDED.search(text) is not None


def _plain(sentence: str) -> str:
    return " ".join(filter(None, _WORD.findall(sentence.casefold())))


def _start(text: str, at: int) -> int:
    """Return where the words of a sentence begin, behind the numbers of sources of the one before."""
    match = _BEFORE.match(text, at)
    return match.end() if match else at


def _second_sentence(text: str) -> int | None:
    """Return where the first sentence or line begins that stands in the text before, as a whole."""
    said = set[str]()
    for match in _SENTENCE.finditer(text):
        is_whole = match.end() < len(text) or text.endswith("\n") or ends_sentence(text)
        if (plain := _plain(match.group())) in said and is_whole:
            return _start(text, match.start())
        if plain.count(" ") >= _LEAST - 1:
            said.add(plain)
    return None


def _fourth_alike(text: str) -> int | None:
    """Return where the fourth sentence in a row begins with the same words: "The concert is on 1 May" and so forth."""
    found = _sentences(text)[-_ALIKE:]
    openings = [said.split()[:_LEAST] for _, said in found]
    alike = len(found) == _ALIKE and len(openings[0]) == _LEAST and all(one == openings[0] for one in openings)
    return found[-1][0] if alike else None


def _third_span(text: str) -> int | None:
    """Return where the same words come for the third time in a row, at the end of a text."""
    found = [match for match in _WORD.finditer(text) if match[1]]
    said = [match[1].casefold() for match in found]
    for length in range(1, min(_LONGEST, len(said) // _TIMES) + 1):
        times = max(_TIMES, -(-_SHORT // length))
        tail = said[-length * times :]
        if len(tail) == length * times and tail == tail[:length] * times:
            return found[-length].start()
    return None
