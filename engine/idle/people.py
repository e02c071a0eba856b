"""The people of a chunk: who wrote it, to whom, who speaks in it, whom it names, as a question would name them.

Knows shapes of names; nobody's address book.
"""

import re

from engine.text.sentences import sentences
from engine.text.spans import find
from engine.text.words import words
from store.hits import Hit

LONGEST = 40  # characters of a name
_MOST = 5  # of those to whom one message went
_NAMED = re.compile(r"[^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*){0,3}")
_TURNED = re.compile(r"([^,]+), ?([^,]+)")


def shown_name(person: str) -> str:
    """Give a name as it is said: of "Lee, Ann <ann@example.org>", Ann Lee; empty where there is only an address."""
    name = " ".join(re.sub(r"<[^>]*>?|\([^)]*\)|\[[^\]]*\]|[\"*]", " ", person).split()).strip("'‘’ ")
    if not name or "@" in name or "/" in name:
        return ""
    turned = _TURNED.fullmatch(name)
    name = f"{turned[2].strip()} {turned[1].strip()}" if turned else name
    return name if len(name) <= LONGEST and _NAMED.fullmatch(name) else ""


def correspondents(hit: Hit) -> list[str]:
    """Give who wrote or speaks in a chunk, and then to whom it went."""
    people = [*hit.sender.split("\n"), *hit.recipients[:_MOST]]
    return list(dict.fromkeys(name for name in map(shown_name, people) if name))


def said(hit: Hit) -> list[tuple[str, str]]:
    """Give the sentences of a chunk, each with the name of who says it, as far as it is known."""
    text, sender = hit.chunk.text, "" if "\n" in hit.sender else shown_name(hit.sender)
    people = frozenset(word for one in (hit.sender, *hit.recipients) for word in words(one))
    found = list[tuple[str, str]]()
    for span in sentences(text):
        speaks = span.speaker and people.issuperset(words(span.speaker))
        found.append((shown_name(span.speaker or "") if speaks else sender, text[span.start : span.end]))
    return found


def named(hit: Hit) -> list[str]:
    """Give the people, or what has a name like one, that a chunk names in full, beside its correspondents."""
    text = hit.chunk.text
    found = [" ".join(text[one.start : one.end].split()) for one in find(text, "person")]
    # "Thanks Ann" is nobody else.
    known, places = tuple(correspondents(hit)), {text[one.start : one.end] for one in find(text, "place")}
    full = [name for name in found if " " in name and len(name) <= LONGEST and not name.isupper() and words(name)]
    return [name for name in dict.fromkeys(full) if not name.endswith(known) and name not in places]
