"""The features of a question that tell whether another one asks the same: its words, and what each is in it.

English, by small tables; what they do not know makes two questions differ. Knows neither corpus nor other questions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from engine.ask.normal_form import OWNER, is_determiner, is_past, literal_tokens, normal_question, tokens
from engine.text.question import Question
from engine.text.words import base


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _table(text: str) -> dict[str, str]:
    """Read "a b: c, d: e" as what each word stands for."""
    pairs = [group.split(":") for group in text.split(",")]
    return {word: meaning.strip() for members, meaning in pairs for word in members.split()}


_ASKING = _table("what which whatever: what, when: when, where: where, who whom: who, whose: whose, why: why, how: how")
_PERSONS = _table(
    "i me my mine myself: I, we us our ours: we, you your yours: you, he him his: he, she her hers: she,"
    "they them their theirs: they"
)
_TENSES = _table(
    "will shall: future, should must: duty, did was were had: past, is are am do does: present,"
    "would could can may might: modal"
)
_BE, _HAVE = _set("is are was were am be been being"), _set("has have had")
_DONE_TO = _BE | _set("get gets got getting")  # before a participle: it is done to somebody
_DO = _set("do does did")
_AUXILIARY = _BE | _HAVE | _DO | _set("will shall would can could may might should must")
_WAYS = _set(
    "to for with about against before after since until till during between above below over under into onto "
    "off out up down behind besides inside outside than versus vs without except excluding from"
)
PREPOSITIONS = _set(
    "to for with about against before after since until till between above below over under into onto from by of in on "
    "at near within per through toward towards than versus vs without during besides"
)
_NEGATIONS = _set("not no never none nobody nothing nowhere neither nor without except excluding unable")
# Which of several is meant: never left over, and no other word does for them.
_PLACES = _set(
    "first last next previous latest final only other else more less most least best worst better worse "
    "before after since until than all each every both same highest lowest biggest largest smallest longest shortest "
    "oldest youngest newest earliest original initial former latter 1st 2nd 3rd second third half twice once old new"
)
_ENGLISH = _set("what when where who whom whose which why how is are does did the of can could will would should to")
_FREE = _set(
    "a an the this that these those there here be been being and or of in on at as so then also too just do "
    "does did is was were are am has have had having can could would may might let if whether any some ever "
    "such it its please through toward towards via within per near 's"
)
# Say little by themselves: a question means the same without them.
_ADVERBS = _set(
    "exactly precisely actually really truly very indeed particularly specifically basically essentially ultimately "
    "eventually finally simply quite generally commonly typically usually normally often mainly mostly primarily "
    "approximately roughly about"
)
_LIGHT = _ADVERBS | _set(
    "exact precise actual real particular specific name names called named known kind kinds type types sort sorts form "
    "own whole entire entirely various several certain different total overall"
)
_EXACTLY = _set("exactly precisely actually really indeed currently again please just")
# The same of an event whose time or place is asked for.
_SCHEDULED = _set("scheduled planned held due located situated")
_GOING = _set("by 's going")
_UNITS = _set("month week weekend weekday season hour decade century")
# Of the free ones, those that tell things apart.
_TELLING = _set("near within per through via toward towards such let")
_EXTRA = 3  # words between a form of "be" and its participle
_SUBJECTS = frozenset(("i", "you", "he", "she", "we", "they", "it"))


@dataclass(frozen=True, slots=True)
class QuestionFeatures:
    """One question taken apart; each field is compared by itself."""

    literal: tuple[str, ...]  # the words as asked, sorted, before any phrase was replaced, without function words
    content: tuple[str, ...]  # base forms, in order
    written: tuple[str, ...]  # the same words as written
    heads: tuple[bool, ...]  # of each: whether it is a verb, or what somebody has
    roles: tuple[str, ...]  # of each: agent, object, owner, or the preposition that it belongs to; empty: none of these
    asked_for: str  # whether who or what is asked for does it (doer), has it done (done), or is it; empty: not known
    unit: str  # of time that is asked for, such as month; empty for a year or any
    asking: str
    subject: frozenset[str]  # who or what an auxiliary is about; empty: not known
    english: bool
    names: frozenset[str]
    numbers: tuple[str, ...]
    places: tuple[str, ...]  # which of several
    tenses: frozenset[str]
    passive: bool
    persons: frozenset[str]
    ways: frozenset[str]
    negations: int


@lru_cache(maxsize=1 << 12)
def question_features(question: Question) -> QuestionFeatures:
    """Take the normal form of a question apart."""
    literal = sorted(word for word in literal_tokens(question.text) if not _is_function(word.rpartition(" ")[2]))
    question = normal_question(question)
    found = tokens(question.text)
    plain = [_lowered(token, question.text) for token in found]
    named = {word.casefold() for name in question.names for word in tokens(name)} - {OWNER}
    words = _Words(
        plain, [low in named or (one.isupper() and one.isalpha()) for one, low in zip(found, plain, strict=True)]
    )
    light = _SCHEDULED if question.asked in ("date", "time", "place") else frozenset[str]()
    telling = [place for place, word in enumerate(plain) if words.tells(place) and word not in light]
    content = [base(found[place].casefold()) for place in telling]
    which = [(form, plain[place]) for form, place in zip(content, telling, strict=True)]
    asking = _among(plain, _ASKING)
    return QuestionFeatures(
        literal=tuple(literal),
        content=tuple(content),
        written=tuple(found[place] for place in telling),
        heads=tuple(words.is_head(place) for place in telling),
        roles=tuple(words.role(place) for place in telling),
        asked_for=words.asked_for(),
        unit=words.unit(),
        asking=asking[0] if asking else "",
        subject=words.subject(),
        english=not _ENGLISH.isdisjoint(plain),
        names=frozenset(form for form, place in zip(content, telling, strict=True) if words.is_name[place]),
        numbers=tuple(sorted(form for form in content if form[0].isdigit() and form not in _PLACES)),
        places=tuple(sorted(form for form, word in which if word in _PLACES or form in _PLACES)),
        tenses=words.tenses(),
        passive=words.passive,
        persons=frozenset(_among(plain, _PERSONS)),
        ways=_WAYS.intersection(plain),
        negations=sum(word in _NEGATIONS for word in plain),
    )


class _Words:
    """The words of a question in lower case, an acronym given as "", and which of them are of names."""

    def __init__(self, plain: Sequence[str], is_name: Sequence[bool]) -> None:
        self.plain, self.is_name = plain, is_name
        self.passive, self.progressive = self._is_passive(), self._is_progressive()

    def _at(self, place: int) -> str:
        return self.plain[place] if 0 <= place < len(self.plain) else ""

    def _is_passive(self) -> bool:
        """Return whether something is done to the subject: a form of "be" before a participle."""
        for place, word in enumerate(self.plain):
            for each in self.plain[place + 1 : place + 2 + _EXTRA] if word in _DONE_TO else ():
                if is_past(each):
                    return True
                if each.endswith("ing") and each != "being":
                    break  # somebody is keeping others informed
        return False

    def _gets_done(self) -> bool:
        """Return whether the subject gets something done to it: "did Ann get paid"."""
        return any(word == "get" and is_past(self._at(place + 1)) for place, word in enumerate(self.plain))

    def _is_progressive(self) -> bool:
        """Return whether something is being done: a form of "be" before a word in -ing that is no noun."""
        return any(
            word in _BE and self.plain[at].endswith("ing") and not self._is_noun(at)
            for place, word in enumerate(self.plain)
            for at in range(place + 1, min(len(self.plain), place + 2 + _EXTRA))
        )

    def _is_noun(self, place: int) -> bool:
        before = self._at(place - 1)
        return is_determiner(before) or before in PREPOSITIONS or before == OWNER

    def tells(self, place: int) -> bool:
        """Return whether a word is part of what is asked about; "name" is as a verb: "what did Ann name it"."""
        before = self._at(place - 1)
        is_verb = self.plain[place] == "name" and (before in _SUBJECTS or (place > 0 and self.is_name[place - 1]))
        return is_verb or _tells(self.plain[place])

    def tenses(self) -> frozenset[str]:
        """Return the tenses of a question; a verb's own form says it where no auxiliary does."""
        found = set(_among(self.plain, _TENSES))
        for place, word in enumerate(self.plain):
            behind = self.plain[place + 1 : place + 2 + _EXTRA]
            if word in _HAVE and any(is_past(each) or each == "been" for each in behind):
                found.add("perfect")
        if self.progressive:
            found.add("progressive")
        if not found and "be" in self.plain:
            found.add("any")
        return frozenset(found or {"past" if any(map(is_past, self.plain)) else "present"})

    def is_head(self, place: int) -> bool:
        """Return whether a word is a verb by its form or place, or a noun that somebody owns."""
        word, before = self.plain[place], self._at(place - 1)
        is_verb = word.endswith("ing") or is_past(word) or before == "to" or before in _AUXILIARY - _BE
        return is_verb or before == OWNER

    def role(self, place: int) -> str:
        """Return what a word is in its question, as far as the words around it tell."""
        is_name, behind = self.is_name[place], self._at(self._end_of_name(place))
        if behind == OWNER:
            return "owner"
        word = self._at(self._before(place))
        acts = is_name and (behind in _AUXILIARY or is_past(behind) or (behind.endswith("s") and _tells(behind)))
        if word in PREPOSITIONS:
            modifies = is_name and not acts and bool(behind) and _tells(behind) and not behind.endswith("ing")
            return "" if modifies else word
        if word in _DO and self._gets_done():
            return "object"
        if word in _DO:
            return "agent" if is_name or not is_past(self.plain[place]) else ""
        if not (acts or word in _AUXILIARY or word in _ASKING):
            return "object"
        beside = word in _BE or behind in _BE
        if self.passive and (word in _AUXILIARY or beside):
            return "object"
        return "agent" if is_name and (self.progressive or not beside) else ""  # else what somebody is

    def _end_of_name(self, place: int) -> int:
        """Return where the run of names ends that a word stands in; behind a word that is none."""
        end, plain, is_name = place + 1, self.plain, self.is_name
        while end < len(plain) and is_name[place]:
            joined = plain[end] == "and" and end + 1 < len(plain) and is_name[end + 1]
            if not (is_name[end] or joined):
                break
            end += 1
        return end

    def _before(self, place: int) -> int:
        """Return the place of the word in front of the noun that a word belongs to, -1 if there is none."""
        before, is_name = place - 1, self.is_name[place]
        while before >= 0:
            word = self.plain[before]
            joined = is_name and (self.is_name[before] or word == "and")
            if word == OWNER and not is_name:
                before = self._start_of_name(before - 1) - 1
                continue
            if not (joined or is_determiner(word)):
                break
            before -= 1
        return before

    def _start_of_name(self, place: int) -> int:
        while place > 0 and self.is_name[place] and self.is_name[place - 1]:
            place -= 1
        return place

    def inverted(self) -> int | None:
        """Return the place of the first auxiliary, no form of "be", that stands before its subject."""
        aux = next((place for place, word in enumerate(self.plain) if word in _AUXILIARY - _BE), None)
        return aux if aux is not None and self._begins_subject(aux + 1) else None

    def subject(self) -> frozenset[str]:
        """Return the persons, or the base forms of the noun, behind the first auxiliary that is no form of "be"."""
        aux = self.inverted()
        if aux is None:
            return frozenset()
        place = aux + 1
        while is_determiner(self._at(place)) and self._at(place) not in _PERSONS:
            place += 1
        end = self._end_of_name(place)
        if self._at(end) == OWNER:
            place, end = end + 1, end + 2
        if self._at(end) in ("and", "or", "of"):
            return frozenset()
        return frozenset(_PERSONS.get(word) or base(word) for word in self.plain[place:end] if word and word != "and")

    def asked_for(self) -> str:
        """Return what the question word is in the question: who does something, or whom it is done to."""
        plain = self.plain
        at = next((place for place, word in enumerate(plain) if word in ("who", "whom", "what")), None)
        if at is None or at + 1 == len(plain):
            return ""
        verb = plain[at + 1]
        if plain[at] == "what" and not (verb in _AUXILIARY or is_past(verb)):
            return ""
        if (verb in _BE or plain[-1] in _BE) and not self.passive and not self.progressive:
            return "is"
        has_subject = verb in _DO or self._begins_subject(at + 1 + (verb in _AUXILIARY))
        if has_subject and verb in _BE and any(map(is_past, plain[at + 2 : at + 2 + _EXTRA])):
            return "beside"  # what something is done for, or with
        return "done" if has_subject or self.passive else "doer"

    def _begins_subject(self, place: int) -> bool:
        word = self._at(place)
        return bool(word) and (
            is_determiner(word) or word in _SUBJECTS or self.is_name[place] or self._at(place + 1) == OWNER
        )

    def unit(self) -> str:
        """Return the unit of time behind "what" or "which"."""
        behind = (then for word, then in pairwise(self.plain) if word in ("what", "which") and then in _UNITS)
        return next(behind, "")


def _tells(word: str) -> bool:
    """Return whether a word is part of what is asked about; an acronym, given as "", is."""
    return (
        word not in _FREE
        and word not in _LIGHT
        and word not in _TENSES
        and not any(word in table for table in (_ASKING, _PERSONS, _NEGATIONS))
        and (word in _PLACES or word not in _WAYS | {"by"})
    )


def _is_function(word: str) -> bool:
    """Return whether a word, as written, tells nothing of what is asked about: without it the same is asked."""
    return word in (_FREE - _TELLING) | _WAYS | _EXACTLY | _GOING or any(
        word in table for table in (_ASKING, _PERSONS, _TENSES, _NEGATIONS)
    )


def _among(plain: Iterable[str], table: dict[str, str]) -> list[str]:
    return [table[word] for word in plain if word in table]


def _lowered(token: str, text: str) -> str:
    """Return a word in lower case; "" for an acronym, and the month of May as it is, for both are also other words."""
    return "" if _acronym(token, text) else token if token == "May" else token.casefold()


def _acronym(token: str, text: str) -> bool:
    """Tell US from us."""
    return len(token) > 1 and token.isupper() and token.isalpha() and not text.isupper()
