"""Follow-ups made stand-alone by rules: what a question leaves out is taken from the questions and answers before it.

English, by its wording alone; says so where nothing sensible can be made. Knows no model and no cache.
"""

import re
from collections.abc import Sequence
from datetime import date

from engine.ask.antecedents import BACK, Turn, person, place, plural, thing, time
from engine.ask.lacking import ABOUT, BEHIND, HANGING, LONG, WAYS, WORD, core, lacks, references, shown
from engine.ask.phrases import (
    DETERMINER,
    PREPOSITION,
    asks_for_subject,
    bare,
    dated,
    noun_of,
    phrases,
    take_apart,
    topic,
)

_MANY = 4  # pronouns of one question
_MOVING = re.compile(
    r"\b(?:get|gets|go|goes|come|comes|drive|travel|walk|fly|cycle|went|came|got|going|coming) $", re.IGNORECASE
)
_SAYING = re.compile(
    r"\b(?:say|says|said|think|thinks|thought|write|writes|wrote|tell|told|mean|claim|claimed) $", re.IGNORECASE
)
_AT = {"date": "on", "time": "at", "place": "at"}
_TOLD = ("date", "time", "place", "amount", "number")


def by_rules(text: str, turns: Sequence[Turn], today: date) -> str | None:
    """Give a follow-up as a question of its own, the last turn last; None where nothing sensible can be made."""
    lack, line = lacks(text), core(text)
    if lack is None:
        return text.strip() if line == bare(text) else _asked(line)
    if not turns or lack == "unclear" or any(len(turn.asked) > LONG for turn in turns[-BACK:]):
        return None
    made = {"question": _swapped, "subject": _substituted, "place": _placed, "reference": _resolved}[lack](
        line, turns, today
    )
    return _asked(made) if made else None


def _asked(line: str) -> str:
    return f"{line[:1].upper()}{line[1:]}{'' if line.startswith('tell me') else '?'}"


def _swapped(line: str, turns: Sequence[Turn], today: date) -> str | None:
    """Ask another question word of the last question."""
    last, asking, parts = turns[-1], _asking(line), take_apart(turns[-1].asked)
    if parts is None:
        about = topic(last.asked)
        return f"{asking} is {about}" if about else None
    if not parts.asking:
        return f"{asking} {parts.helper.lower()} {parts.rest}"
    if asking.endswith("else") and asking.split()[0].lower() == parts.asking.split()[0].lower():
        return " ".join(filter(None, (asking, noun_of(parts.asking), parts.helper, parts.rest)))
    if asks_for_subject(parts) and asking.lower() not in ("who", "what", "which"):
        acting = _acting(last, parts.asking)
        return f"{asking} {parts.helper or 'is it that'} {acting} {parts.rest}"
    said = (
        f"{_AT.get(last.kind, '')} {last.focus}"
        if asking.lower() == "why" and last.focus and last.kind in _TOLD
        else ""
    )
    return " ".join(f"{asking} {parts.helper} {parts.rest} {said}".split())


def _asking(line: str) -> str:
    """Give the question word of a question that is no more: "with whom" of "who with?"."""
    found = WORD.fullmatch(line)
    asking = found["asking"] if found else line
    asking = re.sub(r"^(wh\w+) (with|for|from|to)$", r"\2 \1", asking, flags=re.IGNORECASE)
    asking = re.sub(r"^how (?:come|so)$", "why", asking, flags=re.IGNORECASE)
    return asking[:1].lower() + asking[1:]


def _acting(last: Turn, asking: str) -> str:
    """Give who or what did what was asked about."""
    if last.named:
        return last.named
    if noun := noun_of(asking):
        return noun if noun.endswith("s") else f"the {noun}"
    return "something" if asking.lower().startswith("what") else "someone"


def _substituted(line: str, turns: Sequence[Turn], today: date) -> str | None:
    """Ask the last question of something else of the same kind: another day, person, place or thing."""
    about = ABOUT.fullmatch(line)
    what, asked = about["what"] if about else line, bare(turns[-1].asked)
    owner = re.match(r"(?:his|her|their|its) ", what, re.IGNORECASE)
    if owner:
        who = person(turns)
        if not who:
            return None
        what = f"{_owners(who)} {what[owner.end() :]}"
    way = re.match(rf"{PREPOSITION} ", what, re.IGNORECASE)
    if dated(what, today):
        return _replaced(asked, dated(asked, today), what, way=bool(way))
    names = [span for span in turns[-1].spans if span[1] <= len(asked)]
    if way:
        like = what[way.end() :][:1].isupper() or re.match(rf"{DETERMINER} ", what[way.end() :], re.IGNORECASE)
        return _replaced(
            asked, _behind(asked, way[0].lower(), [*names, *phrases(asked)] if like else []), what, way=True
        )
    if re.match(rf"{DETERMINER} ", what, re.IGNORECASE) or what.islower():
        return _replaced(asked, _alike(asked, what), what, way=False, otherwise="for")
    free = [span for span in names if not re.search(rf"\b{PREPOSITION} $", asked[: span[0]], re.IGNORECASE)]
    otherwise = "as for" if turns[-1].kind == "person" else "for"
    return _replaced(asked, next(iter(free or names), None), what, way=False, otherwise=otherwise)


def _replaced(asked: str, span: tuple[int, int] | None, what: str, *, way: bool, otherwise: str = "") -> str:
    """Put something in the place of a stretch of a question, or at its end where there is none to go."""
    if span is None:
        return " ".join(f"{asked} {otherwise} {what}".split())
    old = asked[span[0] : span[1]]
    lead = re.match(rf"{PREPOSITION} ", old, re.IGNORECASE)
    owner = "'s" if re.search(r"['’]s$", old) and not re.search(r"['’]s$", what) else ""
    return f"{asked[: span[0]]}{lead[0] if lead and not way else ''}{what}{owner}{asked[span[1] :]}"


def _behind(asked: str, way: str, spans: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Find what stands behind a preposition."""
    return next(((start - len(way), end) for start, end in spans if asked[:start].lower().endswith(f" {way}")), None)


def _alike(asked: str, what: str) -> tuple[int, int] | None:
    """Find the phrase that a like one may stand for: the one with the same noun, else article, else the last."""
    found = phrases(asked)
    same = [span for span in found if asked[span[0] : span[1]].split()[-1].lower() == what.split()[-1].lower()]
    article = [span for span in found if asked[span[0] : span[1]].split()[0].lower() == what.split()[0].lower()]
    for choice in (same, article, found):
        if choice:
            return choice[-1]
    about = topic(asked)
    return (asked.index(about), asked.index(about) + len(about)) if about and about in asked else None


def _placed(line: str, turns: Sequence[Turn], today: date) -> str | None:
    """Say of what a lone verb is meant: come to the concert."""
    hanging, about = HANGING.fullmatch(line), thing(turns)
    if not about:
        return None
    if not hanging:
        return f"tell me more about {about}"
    return " ".join(f"{hanging['all']} {WAYS[hanging['verb'].lower()]} {about}{hanging['rest']}".split())


def _resolved(line: str, turns: Sequence[Turn], today: date) -> str | None:
    """Put what is meant in the place of each pronoun; None where it is not known of one."""
    if pointing := shown(line):
        things = (one for turn in reversed(turns) for one in turn.things)
        meant = next((one for one in things if _names(one, pointing["noun"])), "")
        if not meant:
            return None
        line = re.sub(
            rf"\b(?:that|this|these|those) {pointing['noun']}\b", lambda _: meant, line, count=1, flags=re.IGNORECASE
        )
    for _ in range(_MANY):
        if not (found := references(line)):
            return line
        meant = _meant(line, found[-1], turns, today)
        if not meant:
            return None
        line = f"{line[: found[-1].start('it')]}{meant}{line[found[-1].end('it') :]}"
    return None


def _names(thing: str, noun: str) -> bool:
    """Tell whether a phrase is of a noun: the fair on Friday, of fair."""
    head = re.split(rf" {PREPOSITION}\b", thing, maxsplit=1, flags=re.IGNORECASE)[0]
    return head.lower().split()[-1] == noun.lower()


def _meant(line: str, found: re.Match[str], turns: Sequence[Turn], today: date) -> str:
    pronoun, behind = found["it"].lower(), line[found.end("it") :]
    owns = pronoun in ("his", "their", "its") or (pronoun == "her" and not re.match(BEHIND, behind))
    if pronoun == "there":
        there = place(turns[-1])
        return re.sub(r"^(?:at|in) ", "to ", there) if _MOVING.search(line[: found.start("it")]) else there
    if pronoun == "then":
        return time(turns[-1], today)
    if pronoun in ("he", "she", "him", "her", "his"):
        who = person(turns)
    elif pronoun in ("they", "them", "their", "these", "those"):
        who = plural(turns)
    else:
        who = thing(turns)
    if who and pronoun in ("it", "that", "this") and _SAYING.search(line[: found.start("it")]):
        return f"something about {who}"
    return _owners(who) if owns and who else who


def _owners(name: str) -> str:
    return f"{name}'" if name.endswith("s") and " " in name and name.islower() else f"{name}'s"
