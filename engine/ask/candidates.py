"""What speaks for each sentence of the sources as an answer.

Compares words, speakers and kinds of spans: knows no model and no corpus beyond the sources it is given.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from itertools import pairwise
from math import log

from engine.ask.time_constraints import COMING, Occurrence, TimeConstraint, is_of_day
from engine.text.commitments import instruction_end
from engine.text.question import Question
from engine.text.relative_dates import resolve
from engine.text.sentences import Span
from engine.text.spans import EventSpan, Found, Kind, events, find, time_of
from engine.text.time_sensitive import word_lists
from engine.text.words import FUNCTION_WORDS, words
from engine.types import Passage

ME = frozenset(["i", "me", "my", "mine", "myself", "we", "us", "our", "ours"])
YOU = frozenset(["you", "your", "yours", "yourself"])


def about(text: str, said: frozenset[str], who: frozenset[str], names: frozenset[str]) -> bool | None:
    """Judge whether a sentence that `who` says, of these words, is about one of the names or about another person."""
    persons = frozenset(text.lower().replace("’", "'").replace("'", " ").split())
    me, you = bool(persons & ME), bool(persons & YOU)
    if said & names or (who & names and not you) or (you and not who & names and not me):
        return True
    return False if me or you else None


def named(question: Question) -> frozenset[str]:
    """Return the words of the names in a question."""
    prices = _price_words("price") if question.priced else frozenset[str]()  # nouns are capitalised in German
    return frozenset(word for name in question.names for word in words(name)) - prices


# What comes next is not part of what is told.
_EXCLUDED = re.compile(r"\b(?:exclud\w+|except(?: for)?|other than|not including|besides)(?: \w+)?\s+\Z", re.IGNORECASE)


def share(wanted: Sequence[str], held: frozenset[str]) -> float:
    """Return the share of the wanted words that are among those held."""
    return sum(word in held for word in wanted) / len(wanted) if wanted else 0.0


def idf_of(wanted: Sequence[str], said: Sequence[frozenset[str]]) -> dict[str, float]:
    """Return the inverse frequency of each wanted word over sentences."""
    counts = {word: sum(word in each for each in said) for word in wanted}
    return {word: log(1 + (len(said) - count + 0.5) / (count + 0.5)) for word, count in counts.items()}


def coverage(idf: Mapping[str, float], said: frozenset[str]) -> float:
    """Return the share of the wanted words, by idf, that were said."""
    total = sum(idf.values())
    return sum(value for word, value in idf.items() if word in said) / total if total > 0 else 0.0


_TASK = (
    "summarize summarise summary describe discuss discussing discussion explain mention say said tell talk think "
    "thought opinion attitude view conclude conclusion decide decision reason according regarding group team meeting "
    "email mail message subject sent wrote person people phone telephone number address want now currently moment"
)
_ASIDE = re.compile(
    r"\[|>|(?:re|aw|fwd?|from|to|cc|subject|date|sent):\s|on .{6,80}\bwrote:|.{2,60}\bwrites?:$", re.IGNORECASE
)
_SIGNED = 0.6  # of a title, that the line below a name must say
# A sentence that says as little as a question.
_ANNOUNCES = re.compile(
    r"\b(?:have|has|had) (?:an?|some|one|another|the following) (?:\w+ )?"
    r"(?:concern|question|problem|issue|worry|suggestion|idea|comment|request)s? (?:about|on|regarding|with|for)\b",
    re.IGNORECASE,
)
# A line between a message and one that it quotes.
_SEPARATOR = re.compile(r"[\W_]*(?:(?:original|forwarded) message|forwarded by\b.*)?[\W_]*", re.IGNORECASE | re.DOTALL)
_TITLE = re.compile(r"(?:#{1,6} )?[A-Z][^\s\d|]{0,40}(?:\s[^\s\d|]{1,40}){0,7}(?<![.,;:!?…])")
_REQUEST = re.compile(r"\bplease\b|\b(?:could|can|would|will) (?:you|someone|somebody|everyone)\b", re.IGNORECASE)
WISH = re.compile(r"\b(?:wants?|asks?|asked|needs?|expects?|tells?|told|like) (?:me|us) to\b", re.IGNORECASE)
# Signs in a question, and in sentences that answer it.
_SIGNS = tuple(
    (re.compile(asked, re.IGNORECASE), re.compile(said, re.IGNORECASE))
    for asked, said in (
        (
            r"\bwhy\b|\breasons?\b",
            r"\b(?:because|since|so that|reasons?|due to|otherwise|in order to|that['’]s why"
            r"|the (?:problem|point) is|based on|as a result of|in (?:light|view) of|owing to|which is why)\b",
        ),
        (
            r"\b(?:decide|settle|choose|chose|chosen|pick|opt)(?:e?d)?\b",
            r"\b(?:(?:go|going|went) with|decid\w+|settl\w+|choos\w+|chose|chosen|pick\w*|opt(?:ed)? for|let['’]s)\b",
        ),
        (
            r"\bwho(?:['’]ll| will| is (?:going|planning) to| can)\b",
            r"\bI(?:['’]ll| will| can|['’]m going to| am going to|['’]m gonna)\b|\blet me\b",
        ),
        (
            r"\b(?:worr(?:y|ies|ied)|concern\w*|problem|trouble|fear)",
            r"\b(?:my|our|his|her|their|the|biggest|main) (?:concern|worry|problem|trouble|fear) (?:is|was|with)\b",
        ),
        (r"n['’]t\b|\b(?:cannot|not|never)\b", r"n['’]t\b|\b(?:cannot|not|never|no|without)\b"),
    )
)
_WHO_DID = re.compile(r"\W*who\s+(?:(?:will|would|has|had)\s+)?(?:\w+ly\s+)?(?!is\b|was\b)(\w+)", re.IGNORECASE)
_I_DID = re.compile(r"\bI(?:['’](?:ve|ll|d))?(?:\s+(?:have|had|will|would|did|\w+ly))*\s+(\w+)")
_FAREWELL = re.compile(
    r"\b(?:(?:see|talk to|speak to|catch) (?:you|ya|everyone|everybody)|have a (?:great|good|nice|lovely)|(?:good)?bye"
    r"|until next time)\b",
    re.IGNORECASE,
)
_FIELDS = frozenset(["what", "event", "subject", "title", "invitation"])  # of an invitation: they name what follows
_PLACES = frozenset(["where", "location", "place", "venue", "ort", "lieu"])
_MEETING = frozenset(words("meeting"))
TASK_WORDS = frozenset(words(_TASK))  # say what to do with an answer, not what it is about


@dataclass(frozen=True, slots=True)
class CandidateWeights:
    """What each clue counts for in the choice of a sentence; fitted on public sets, see docs/log.md."""

    overlap: float = 2.0  # share, by idf, of the question's words in the sentence
    source: float = 2.0  # score of its source beside the best source's
    reply: float = 0.6  # share of the question's words in a question that it follows
    question: float = -1.0
    length: float = 0.5  # at 60 words and more
    kind: float = 2.0  # holds a span of the kind asked for
    capital: float = 0.7  # the same for places and persons, which are told by little but a capital
    request: float = 1.5  # asks for something, where the question is what somebody wants of whom it is put by
    day: float = 0.8  # its source is of a day that the question names
    aside: float = -2.0  # in brackets, not spoken; quoted from another mail; a line of its header
    near: float = 0.6  # share of the question's words in the sentence before
    price: float = 0.3  # says that it is a price, where one is asked for
    sign: float = 0.6  # has a sign of what is asked for: a reason, a choice, who undertakes it, that it is not so


@dataclass(frozen=True, slots=True)
class Candidate:
    """One sentence of the source at index `read`; `spans` are offsets in `text` of what the question may ask for."""

    read: int
    place: int  # its number among the sentences of the source
    span: Span
    text: str
    words: frozenset[str]
    speaker: str | None
    spans: tuple[Found, ...]
    day: bool | None = None  # of a day that the question names (True), of another (False), unknown (None)
    about: bool | None = None  # whom the question names (True), somebody else (False), unknown (None)
    fit: float = 3.0  # share, by idf, of the question's words in it, and half of those before it
    score: float = 0.0
    written: datetime | None = None  # with its source, or as the message that the source quotes there
    event: EventSpan | None = None  # of whose lines it is one
    begins: datetime | None = None  # the soonest of what is to come, where the next of something is asked for
    is_subject: bool = False  # the subject of a mail, which is no part of its text


def content(question: Question) -> tuple[str, ...]:
    """Return the words of the question that say what it is about."""
    parts = ("asks", "light", "price") if question.priced else ()
    empty = TASK_WORDS.union(*map(_price_words, parts))
    if question.asked in COMING:  # a meeting has a day and a place; what was said at one is another matter
        empty = empty - _MEETING
    return tuple(word for word in question.content if word not in empty) or question.content


def candidates(
    question: Question, reads: Sequence[Passage], kind: Kind | None, when: TimeConstraint, weights: CandidateWeights
) -> list[Candidate]:
    """Return every sentence of the sources, scored, in their order."""
    best = max((read.score for read in reads), default=0.0)
    of_kind = weights.capital if kind in ("place", "person") else weights.kind
    found = [_read(question, read, index, kind, when) for index, read in enumerate(reads)]
    names = named(question)
    persons = speaking(names, [one for each in found for one in each])
    found = [[_attributed(one, names, persons or names) for one in each] for each in found]
    if kind:
        found = [
            [replace(one, words=one.words | _title(question, each, i)) for i, one in enumerate(each)] for each in found
        ]
    if kind == "person":
        found = [_signed(question, each) for each in found]
    if kind == "money":
        things = frozenset(content(question)) - persons
        found = [_priced(things, read, each) for read, each in zip(reads, found, strict=True)]
    if kind in ("date", "time"):
        found = [_topical(question, read, each) for read, each in zip(reads, found, strict=True)]
    if things := frozenset(question.counted):
        found = [_counted(things, read, each) for read, each in zip(reads, found, strict=True)]
    idf = idf_of(content(question), [one.words for each in found for one in each])
    scored, wishes = list[Candidate](), WISH.search(question.text) is not None
    signs = _signs(question)
    for read, each in zip(reads, found, strict=True):
        start = weights.source * (read.score / best if best > 0 else 0.0)
        for place, one in enumerate(each):
            before = each[place - 1] if place and not one.is_subject else None
            fit = (coverage(idf, one.words) + coverage(idf, one.words | before.words if before else one.words)) / 2
            asks = weights.request * (wishes and _REQUEST.search(one.text) is not None and one.about is not False)
            day = weights.day * (is_of_day(question, one.written) or one.day is True)
            asks += weights.sign * sum(said.search(one.text) is not None for said in signs)
            asks += weights.price * (kind == "money" and not _price_words("price").isdisjoint(one.words))
            answers = bool(one.spans) or (kind == "person" and tells_own(question, one.text))
            score = start + day + asks + of_kind * answers + _clues(one, before, idf, weights)
            scored.append(replace(one, fit=fit, score=score))
    return _of_event(question, when, scored)


def _signs(question: Question) -> list[re.Pattern[str]]:
    return [said for asked, said in _SIGNS if asked.search(question.text)]


def has_sign(question: Question, text: str) -> bool:
    """Return whether a sentence gives a reason, a choice ... where the question asks for one."""
    return any(said.search(text) for said in _signs(question))


def _of_event(question: Question, when: TimeConstraint, found: Sequence[Candidate]) -> list[Candidate]:
    """Leave out the lines of events that are less what is asked about than another: none answers for another."""
    asked = tuple(word for word in content(question) if word not in when.words)
    fits = {one.event: event_fit(asked, one.event) for one in found if one.event}
    best = max(fits.values(), default=(0.0, 0.0))
    return [one for one in found if one.event is None or fits[one.event] == best]


def event_fit(asked: Sequence[str], event: EventSpan) -> tuple[float, float]:
    """Return the shares of these words in the title of an event, and in all of its lines."""
    return share(asked, frozenset(words(event.title))), share(asked, frozenset(words(event.text)))


def _priced(things: frozenset[str], read: Passage, found: Sequence[Candidate]) -> list[Candidate]:
    """Keep only the amounts in sentences about the things whose price is asked for."""
    kept, above = list[Candidate](), frozenset(words(read.header))
    for one in found:
        before = above | (kept[-1].words if kept else frozenset())
        is_meant = not things or one.words & things or (before & things and _goes_on(one))
        kept.append(one if is_meant else replace(one, spans=()))
    return kept


def _counted(things: frozenset[str], read: Passage, found: Sequence[Candidate]) -> list[Candidate]:
    """Keep only the numbers in sentences that name the things counted, or follow one that does."""
    above = frozenset(words(read.header))
    before = [above, *(one.words for one in found)]
    pairs = zip(found, before, strict=False)
    return [one if things & (one.words | near | above) else replace(one, spans=()) for one, near in pairs]


def _is_timestamp(one: Candidate) -> bool:
    """Return whether a line is no more than when its message was sent, which is no event that it tells of."""
    spans = [*find(one.text, "date"), *find(one.text, "time")]
    rest = "".join(one.text[i] for i in range(len(one.text)) if not any(s.start <= i < s.end for s in spans))
    days = [resolve(one.text[s.start : s.end], one.written) for s in spans[:1] if one.written]
    is_own = any(each is not None and one.written and each.first == one.written.date() for each in days)
    return is_own and all(word.lower() in ("sent", "on", "at") for word in re.findall(r"[^\W\d_]+", rest))


def tells_own(question: Question, text: str) -> bool:
    """Return whether somebody tells as their own what a question asks who did: "I sincerely apologize for ..."."""
    asked = _WHO_DID.match(question.text)
    return asked is not None and any(words(asked[1]) == words(done[1]) for done in _I_DID.finditer(text))


def _topical(question: Question, read: Passage, found: Sequence[Candidate]) -> list[Candidate]:
    """Keep no day or time of a farewell or of when a mail was sent; in a meeting none of another matter than before."""
    topic = frozenset(content(question))

    def is_other(place: int) -> bool:
        near = frozenset[str]().union(*(one.words for one in found[max(0, place - 2) : place + 1]))
        if _FAREWELL.search(found[place].text) or _is_timestamp(found[place]):
            return True
        return read.is_meeting and topic.isdisjoint(near)

    return [replace(one, spans=()) if one.spans and is_other(place) else one for place, one in enumerate(found)]


def _goes_on(one: Candidate) -> bool:
    """Return whether a sentence gives an amount and names no other thing: "It costs 12 euros", not "12 for lunch"."""
    if not one.spans:
        return False
    before, after = one.text[: one.spans[0].start], one.text[one.spans[0].end :]
    light = FUNCTION_WORDS | _price_words("light") | _price_words("price")
    return light.issuperset(words(before)) and _price_words("for").isdisjoint(words(after)[:1])


@cache
def _price_words(part: str) -> frozenset[str]:
    """Return the words of one part of the lists about prices, as stemmed by words(); with those common in questions."""
    listed = {word for parts in word_lists("prices").values() for phrase in parts.get(part, ()) for word in phrase}
    if part in ("asks", "light"):
        listed |= {w for p in word_lists("deictic").values() for (w,) in p.get("common", ())}
    return frozenset(words(" ".join(sorted(listed))))


def _read(question: Question, read: Passage, index: int, kind: Kind | None, when: TimeConstraint) -> list[Candidate]:
    found, whole, told_events = list[Candidate](), read.text, events(read.text)
    for place, span in enumerate(read.sentences()):
        span = replace(span, start=span.start + instruction_end(whole[span.start : span.end]))
        text, written = whole[span.start : span.end], read.written_at(span.start)
        if _SEPARATOR.fullmatch(text) or read.is_outranked(span.start):
            continue
        parts = [one for one in find(text, kind) if not _EXCLUDED.search(text[: one.start])] if kind else []
        if kind == "place" and (span.speaker or "").lower() in _PLACES:
            parts = [Found(0, len(text))]
        spans = tuple(
            one for one in parts if kind and _may_answer(text[one.start : one.end], question, written, kind, when)
        )
        speaker, label = _speaker(read, span)
        soonest = when.soonest(text, written)
        if soonest and kind in ("date", "time"):
            spans = _of_occurrence(text, soonest, kind)
        # All that was written on that day is of it.
        day = None if is_of_day(question, written) else when.spoken(text, written)
        begins = soonest.begins if soonest else None
        told = (when.told(text, day) | frozenset(words(label)), speaker, spans, day)
        event = next((one for one in told_events if one.start <= span.start < one.end), None)
        found.append(Candidate(index, place, span, text, *told, begins=begins, written=written, event=event))
    return found if told_events else [*found, *_subject(question, read, index, kind, when)]


_REPLIED = re.compile(r"\s*(?:re|aw|fwd?|wg|sv|antw|tr)\s*:\s*", re.IGNORECASE)


def _subject(
    question: Question, read: Passage, index: int, kind: Kind | None, when: TimeConstraint
) -> Iterator[Candidate]:
    """Yield the subject of a mail, where a day or time is asked for and it has one: "Rehearsal Friday, 7 pm".

    That of a reply was written on another day, so that it says nothing by "Friday".
    """
    text = read.hits[0].title.strip()
    if kind not in ("date", "time") or read.is_meeting or not text or read.hits[0].is_quoted or read.is_outranked(0):
        return
    written = None if _REPLIED.match(text) else read.date
    spans = tuple(
        one
        for one in find(text, kind)
        if (written or _DIGITS.search(text, one.start, one.end))
        and _may_answer(text[one.start : one.end], question, written, kind, when)
    )
    if spans:
        day = None if is_of_day(question, written) else when.spoken(text, written)
        told = (when.told(text, day), read.sender or None, spans, day)
        yield Candidate(index, -2, Span(0, 0), text, *told, written=written, is_subject=True)


_DIGITS = re.compile(r"\d")


def _of_occurrence(text: str, one: Occurrence, kind: Kind) -> tuple[Found, ...]:
    said = one.span if kind == "date" else time_of(text, one.span)
    return (said,) if said else ()


def _speaker(read: Passage, span: Span) -> tuple[str | None, str]:
    """Return who says a sentence; and the name in front of it, where that only says so.

    In a mail anybody can write "Ann:" in front of a line, and what it quotes or forwards is not its sender's.
    """
    if read.is_meeting:
        return span.speaker or (None if read.recipients else read.sender) or None, ""
    author, label = read.author_at(span.start), span.speaker or ""
    is_own = not label or set(words(label)) <= set(words(author))
    return (author or None, "") if is_own else (None, label)


def speaking(names: frozenset[str], found: Sequence[Candidate]) -> frozenset[str]:
    """Return the names in a question that also speak in the candidates, such as "Ann" in "What did Ann buy?"."""
    speakers = {one.speaker for one in found if one.speaker}
    return names & frozenset(word for speaker in speakers for word in words(speaker))


def _attributed(one: Candidate, names: frozenset[str], persons: frozenset[str]) -> Candidate:
    who = frozenset(words(one.speaker or ""))
    whom = about(one.text, one.words, who, persons) if persons and who else None
    return replace(one, words=one.words | (who & names), about=whom)


def _title(question: Question, each: Sequence[Candidate], place: int) -> frozenset[str]:
    """Return the words of a line that stands as a title above a sentence: "Dress rehearsal" over "Friday, 18:00"."""
    back = 2 if place > 1 and (each[place].span.speaker or "").lower() in _PLACES else 1
    above = each[place - back] if place else None
    if above is None or (above.span.speaker or "what").lower() not in _FIELDS:
        return frozenset()
    if not _TITLE.fullmatch(above.text) or _ASIDE.match(above.text):
        return frozenset()
    # "Dress rehearsal, summer concert" is neither the rehearsal nor the concert.
    return above.words if 2 * len(above.words & set(question.words)) > len(above.words) else frozenset()


def _signed(question: Question, each: Sequence[Candidate]) -> list[Candidate]:
    """Count a title in a signature for the name above it, if the question asks for that title."""
    signed = list(each)
    for place, (one, below) in enumerate(pairwise(each)):
        is_name = len(one.spans) == 1 and one.spans[0] == Found(0, len(one.text))
        if is_name and share(content(question), below.words) > _SIGNED:
            signed[place : place + 2] = replace(one, words=one.words | below.words), replace(below, spans=())
    return signed


def _may_answer(span: str, question: Question, written: datetime | None, kind: Kind, when: TimeConstraint) -> bool:
    """Leave out what only repeats the question, and "last week" or "in March" gone by where it asks how things are."""
    said = words(span)
    if not said or set(said) <= set(question.words) or (kind == "person" and not _may_be_whom(said, question)):
        return False
    if kind != "date" or written is None:
        return True
    if when.words and not is_of_day(question, written) and when.meets(span, written) is False:
        return False
    if not question.current or any(map(str.isdigit, span)):
        return True
    days = resolve(span, written)
    return days is None or days.last >= written.date()


def _may_be_whom(said: Sequence[str], question: Question) -> bool:
    """Return whether words may name a person: not the title asked for, nor "APX Agreement" after "APX"."""
    names = (words(name) for name in question.names)
    return own_words(question).isdisjoint(said) and not any(said[: len(name)] == name for name in names)


def own_words(question: Question) -> frozenset[str]:
    """Return the content words of a question outside its names, such as "project manager"."""
    return frozenset(question.content) - named(question)


def _clues(one: Candidate, before: Candidate | None, idf: Mapping[str, float], weights: CandidateWeights) -> float:
    clues = (
        (weights.overlap, coverage(idf, one.words)),
        (weights.reply, coverage(idf, before.words) if before and before.text.endswith("?") else 0.0),
        (weights.question, _asks(one.text) or _ANNOUNCES.search(one.text) is not None),
        (weights.length, min(len(one.text.split()), 60) / 60),
        (weights.aside, _ASIDE.match(one.text) is not None and not _quoted_whole(one, idf)),
        (weights.near, coverage(idf, before.words) if before and not before.text.endswith("?") else 0.0),
    )
    return sum(weight * clue for weight, clue in clues)


def _asks(text: str) -> bool:
    return text.rstrip("\"”')*] ").endswith("?") and not _REQUEST.search(text)


def _quoted_whole(one: Candidate, idf: Mapping[str, float]) -> bool:
    """Return whether a quoted line has a span of the kind asked for and all words of the question."""
    return one.text.startswith(">") and bool(one.spans) and set(idf) <= one.words


_WORDING: tuple[tuple[Kind, str], ...] = (
    ("email", r"e-?mail address(?:es)?|address\w* .*\be-?mail"),
    (
        "phone",
        r"(?:what(?:['’]s| is| are| was)?|which|find|give me)(?: [\w'’.]+){0,4}"
        r" (?:phone|telephone|fax|cell|mobile|pager|dial-?in) (?:numbers?|no)|numbers? to (?:call|join|dial)"
        r"|(?:his|her|their) (?:\w+ )?(?:phone|telephone|fax|cell|mobile)",
    ),
    ("duration", r"how long(?! ago)|how many (?:\w+ )?(?:minutes|hours|days|weeks|months|years)"),
    ("date", r"what(?:['’]s| is| was) (?:[\w'’.-]+ ){1,5}date(?= ?\?|$)"),
    (
        "link",
        r"url|hyperlink|(?:what(?:['’]s| is| was| are)?|which|where is|find|give me|send me)"
        r"(?: (?!(?:for|of|on|to|in|at)\b)[\w'’.]+){0,4} (?:links?|web ?sites?|web page|web address)",
    ),
)
_KINDS = tuple((kind, re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)) for kind, pattern in _WORDING)
_DEFINITION = re.compile(r"\s*[Ww]ho(?:['’]s| is| are| was| were)\s+[A-Z][\w.,'’ -]*\?*\s*$")


def wanted(question: Question) -> Kind | None:
    """Return which kind of span a question asks for, if any."""
    for kind, pattern in _KINDS:
        if pattern.search(question.text):
            return kind
    asked = question.asked
    if question.priced:
        return "money"
    if asked == "yes/no" or asked == "other" or (asked == "person" and _DEFINITION.match(question.text)):
        return None
    return asked
