"""Reports in quotes: what a meeting decided, who does what, what was left open; and what some days brought.

What a sentence of a meeting is, follows from who speaks before and after it; the cues in `prompts/meetings.txt` choose
between readings. No language model takes part.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from itertools import chain, groupby, pairwise

from msgspec import Struct, convert

from engine.retrieval import open_loops
from engine.retrieval.evidence import cited, day_of, title_of
from engine.retrieval.open_loops import READ, Closing, Commitment, OpenSentence, Surroundings, WholeDocument
from engine.text.dates import find, spell_date, without_days
from engine.text.people import domain_of, name_and_address, name_words, roster
from engine.text.terminal import count, line, shorten
from engine.text.time_sensitive import WholeDocumentQuestion, phrases, plain_words, title_words, word_lists
from engine.text.words import FUNCTION_WORDS, content_words, words
from engine.types import Evidence, ItemKind, OpenLoop, Report, Source
from prompts import word_patterns
from store.answers import Notice
from store.catalog import Catalog
from store.errors import UsageError
from store.search import Reader
from store.types import Hit, Scope, fold, replace

_LIST = "meetings"
_MOST, _NEWS = 2_000, 10  # meetings that a name is looked for in, mails since one
_FEWEST, _LONGEST = 4, 60  # words of a sentence
_TERSE, _REPLY = 8, 20  # words of a sentence that agrees, and of a turn that knows no answer
_REPLIES = 3  # turns that may agree to a proposal
_INVITED, _OPEN = timedelta(days=60), timedelta(days=30)  # before a meeting; in which a task may be closed
_BULLET = re.compile(r"\s*(?:[-*•+]|\d{1,3}[.)])\s")
_ATTENDEES = re.compile(r"^Attendees: (.+)$", re.MULTILINE)


class Said(Struct, frozen=True):
    """A sentence of a meeting, with its plain words."""

    hit: Hit
    text: str
    speaker: str | None
    tokens: tuple[str, ...]

    def begins(self, part: str, within: int = 0) -> bool:
        """Return whether a cue stands in it, after at most so many words."""
        return any(first <= within for first, _ in phrases(_LIST, part).find(self.tokens))

    def has(self, part: str) -> bool:
        """Return whether a cue stands anywhere in it."""
        return self.begins(part, len(self.tokens))

    @property
    def asks(self) -> bool:
        """Return whether it is a question."""
        return self.text.rstrip().endswith("?")


Turns = list[list[Said]]  # a paragraph each where nobody knows who speaks


def turns_of(document: WholeDocument) -> Turns:
    """Return the sentences of a meeting, by turn."""
    said = open_loops.own_sentences(document)
    grouped = groupby(said, key=lambda one: one[1].speaker or (one[0].chunk.id, one[1].turn))
    texts = [[(hit, hit.chunk.text[at.start : at.end], at.speaker) for hit, at in said] for _, said in grouped]
    return [[Said(hit, text, who, tuple(plain_words(text))) for hit, text, who in said] for said in texts]


def found_in(document: WholeDocument) -> list[OpenSentence]:
    """Return what a meeting decided, who does what, and what was left open, in its order."""
    turns = turns_of(document)
    found = tasks(document, turns)
    for kind, said in (("decision", decisions(turns)), ("question", open_questions(turns))):
        about = Commitment("decision" if kind == "decision" else "question", "unknown")
        found += [OpenSentence(document, one.hit, one.text, about, None, one.speaker or "", None) for one in said]
    once = {(one.found.kind, *plain_words(one.text)): one for one in reversed(found)}.values()
    return sorted(once, key=lambda one: (one.hit.chunk.position, one.hit.chunk.text.find(one.text)))


def decisions(turns: Turns) -> list[Said]:
    """Return the sentences that decide something; none in doubt."""
    found = _listed(turns, "decisions")
    for at, said in enumerate(turns):
        able = [_FEWEST <= len(one.tokens) <= _LONGEST and not one.has("not") for one in said]
        found += [one for number, one in enumerate(said) if able[number] and _is_decided(turns, at, number)]
        told = (one for one in said if open_loops.has_cue("decided", one.text, unless="undecided"))
        found += [one for one in told if one not in found]
    return found


def _is_decided(turns: Turns, at: int, number: int) -> bool:
    said, one = turns[at], turns[at][number]
    last, after = said[number - 1 : number], said[number + 1 :]
    replies = turns[at - 1] if at and turns[at - 1][0].speaker != one.speaker else []
    if one.begins("proposal", 3) and len(content_words(one.text)) > 2:
        next_turns = turns[at + 1 : at + 1 + _REPLIES]  # somebody else may agree at once, if nobody objects
        terse = [first for first, *_ in next_turns if first.speaker != one.speaker and len(first.tokens) <= _TERSE]
        objects = any(other.begins("dissent", 1) for turn in next_turns for other in turn[:2])
        agrees = len(after) < 2 and not objects and any(first.begins("assent", 2) for first in terse)
        if agrees or any(other.has("vote") for other in after[:1]):
            return True
    if one.asks or one.has("final"):
        return not one.asks and bool(content_words(one.text))
    is_agreed = any(len(it.tokens) < _FEWEST and it.begins("agreed", 2) for it in last)
    if is_agreed or open_loops.is_headed(one.text, _LIST, "heading"):
        return True
    ends = (end for _, end in phrases(_LIST, "decided").find(one.tokens))
    if any(len(content_words(" ".join(one.tokens[end:]))) > 1 for end in ends):
        return one.tokens[-1] not in FUNCTION_WORDS  # else it was broken off
    concludes = one.begins("conclusion") and any(len(it.tokens) < 3 and it.begins("consent") for it in last)
    return concludes and any(reply.begins("consent") for reply in replies)


def _listed(turns: Turns, part: str) -> list[Said]:
    """Return the items of a list below a line that is nothing but a heading of a part."""
    found, inside = list[Said](), False
    for said in turns:
        for one in said:
            inside = inside and _BULLET.match(one.text) is not None
            found += [one] * (inside and len(one.tokens) >= _FEWEST)
            inside = inside or one.tokens in word_lists(_LIST)["en"][part]
    return found


def open_questions(turns: Turns) -> list[Said]:
    """Return the questions that nobody could answer, and the sentences that say that something is open."""
    found = [one for said in turns for one in said if one.has("open") and not one.has("settled") and not one.asks]
    found += [one for said in turns for one in said if open_loops.has_cue("open", one.text, unless="asks")]
    for (*_, one), reply in pairwise(turns):
        is_short = sum(len(other.tokens) for other in reply) <= _REPLY and len(one.tokens) > _FEWEST
        if one.asks and is_short and reply[0].speaker != one.speaker and reply[0].begins("unknown", 2):
            found.append(one)
    return [*_listed(turns, "questions"), *found]


def tasks(document: WholeDocument, turns: Turns) -> list[OpenSentence]:
    """Return who is to do what: promises, requests, items of lists, and requests to which somebody else says yes."""
    names, found = open_loops.single_names(document.first.recipients), list(open_loops.candidates(document, Scope()))
    spoken = Surroundings(spoken=True, names=names)
    others = [(one, open_loops.addressed(one.text, names)) for one in _listed(turns, "tasks")]
    for (*_, one), (reply, *_) in pairwise(turns):
        agrees = reply.speaker != one.speaker and reply.begins("consent") and not reply.has("dissent")
        asked = open_loops.commitment(one.text.rstrip(" ?"), spoken) if one.asks and agrees else None
        others += [(one, reply.speaker)] if asked and asked.doer == "reader" else []
    for one, who in others:
        about = (Commitment("task", "unknown"), who, one.speaker or "", open_loops.due_day(one.text, one.hit.written))
        found.append(OpenSentence(document, one.hit, one.text, *about))
    passing = phrases(_LIST, "passing")
    return [one for one in found if not any(passing.find(plain_words(one.text)))]


def report_digest(
    reader: Reader, catalogue: Catalog, scope: Scope, today: date, changed: Iterable[tuple[str, Notice]]
) -> Report:
    """Return what the days of a scope brought: dates to come, loops opened and closed, decisions, people, answers."""
    first = scope.since or today
    ids, total = reader.by_date(replace(scope, since=first - _OPEN), (), READ, oldest=False)
    documents, found = open_loops.read_documents(reader, ids), list[OpenSentence]()
    new = [one for one in documents if one.first.date and one.first.date.date() >= first]
    closing, senders = Closing(documents), dict.fromkeys(one.first.sender for one in documents)
    known = open_loops.single_names(tuple(senders))
    for one in open_loops.each_once([one for each in documents for one in open_loops.candidates(each, scope, known)]):
        if closer := closing.closes(one):
            found += [one.closed(closer)] * (closer in new)
        elif one.document in new:
            found.append(one)
    said = {one.text for one in found}
    for document in new:
        said_there = found_in(document) if document.first.is_meeting else []
        found += [one for one in said_there if one.found.kind == "decision"]
        found += [one for one in _dates(document, today) if one.text not in said][:1]
    found += _newcomers(reader, scope, first)
    kinds: tuple[ItemKind, ...] = ("date", "task", "question", "done", "decision", "person", "answer")
    items = [item for one in found if (item := open_loops.item_of(catalogue, one))]
    items.sort(key=lambda item: (kinds.index(item.kind), item.due or date.max))
    for question, notice in changed:
        after, before = (shorten(text or "no answer", 200) for text in (notice.after, notice.before))
        cause = convert(json.loads(notice.cause), Source)
        items.append(OpenLoop("answer", f"{question}: {after} (before: {before})", None, None, cause))
    title = f"Since {spell_date(first, weekday=True)}"
    return Report(len(items), tuple(items), len(ids), total, title, kinds=kinds)


def _dates(document: WholeDocument, today: date) -> Iterator[OpenSentence]:
    events = [(hit, hit.chunk.text) for hit in document.chunks if hit.chunk.role == "event"]
    said = [(hit, hit.chunk.text[at.start : at.end]) for hit, at in open_loops.own_sentences(document)]
    for hit, text in [] if document.is_mass_mail else [*events, *said]:
        if (day := open_loops.due_day(text, hit.written)) and day >= today:
            title = text.partition("\n")[0] if hit.chunk.role == "event" else ""
            yield OpenSentence(document, hit, text, Commitment("date", "unknown"), None, hit.sender, day, title)


def _newcomers(reader: Reader, scope: Scope, first: date) -> Iterator[OpenSentence]:
    before = reader.matching(replace(scope, since=None, until=first), "mail").senders()
    known = {key for one in before for key in _known_as(one)}
    for hit in reader.matching(replace(scope, since=first), "mail").by_date(_MOST, oldest=True):
        keys = _known_as(fold(hit.sender))
        if keys and known.isdisjoint(keys) and not open_loops.is_mass_mail(hit.sender, hit.chunk.text):
            known.update(keys)
            about = (Commitment("person", "unknown"), None, hit.sender, None, hit.sender)
            yield OpenSentence(WholeDocument((hit,)), hit, "", *about)


def _known_as(sender: str) -> list[object]:
    """Return an address, and the name with the organisation, at which it may have several; none without an address."""
    address, said = name_and_address(sender)[1], name_words(sender)
    return [address, *[(said, domain_of(address))] * (len(said) > 1)] if address else []


def named_meetings(reader: Reader, name: str, scope: Scope, today: date, *, whole: bool = False) -> list[Hit]:
    """Return the first chunks of the meetings that a name fits, newest first.

    Its words are of the title or of who spoke, but for its days and words such as "last" and, if need be, "call"; with
    `whole` they are the title. A name without others fits the only meeting, or all but chats if it asks for the last.
    """
    if scope.document:
        return sorted(reader.chunks_of([scope.document], scope), key=lambda hit: hit.chunk.position)[:1]
    days, lists = find(name, today), word_lists(_LIST)["en"]
    every = [one for one in without_days(plain_words(name), days) if (one,) not in lists["newest"]]
    said = [one for one in every if (one,) not in lists["any"]]
    there = reader.matching(scope, "transcript").by_date(_MOST)
    there = [one for one in there if not days or (one.date and any(each.holds(one.date.date()) for each in days))]
    for wanted in (every if every[1:] else said, said, title_words(" ".join(said))):
        sought = _subject(" ".join(wanted))
        said_of = ((one, _subject(one.title), words(" ".join((one.title, *one.recipients)))) for one in there)
        fit = [one for one, title, all_words in said_of if (title == sought if whole else {*sought} <= {*all_words})]
        if sought and fit:
            return fit
    is_any = days or len(there) == 1 > whole or any((one,) in lists["newest"] for one in plain_words(name))
    return [one for one in there if "chat" not in plain_words(one.title)] if is_any and not sought else []


def _subject(title: str) -> list[str]:
    return [word for word in words(title) if word not in FUNCTION_WORDS]


def present(reader: Reader, hit: Hit, collection: str | None) -> str:
    """Return who was at a meeting: listed or speaking, and who was invited, by the newest invitation to its day."""
    text = str(reader.documents([hit.chunk.document])[hit.chunk.document]["text"])
    found, named = roster(text, hit.recipients), _subject(" ".join(title_words(hit.title)))
    if hit.date is None or not named:
        return found
    day = hit.date.date()
    days = Scope(None, None, day - _INVITED, day + timedelta(1), collection)
    sent = reader.matching(days, "mail", named).by_date(_NEWS)
    own = sorted(reader.chunks_of([one.chunk.document for one in sent], Scope()), key=lambda one: str(one.date))
    told = [one.chunk.text for one in own if one.chunk.role == "event" and spell_date(day) in one.chunk.text]
    people = [match[1].split(", ") for text in told if (match := _ATTENDEES.search(text))][-1:]
    invited = [f"invited: {', '.join(name_and_address(one)[0] or one for one in some)}" for some in people]
    return "; ".join([*([found] if found else []), *invited])


def report_meeting(
    reader: Reader, catalogue: Catalog, name: str, scope: Scope, today: date, *, since: bool = False
) -> Report:
    """Return what the newest meeting of a name brought, or the scope's document; UsageError if there is none.

    With `since`: what is still open of it, what was done, and mail since then that has the words of the name.
    """
    hits = named_meetings(reader, name, scope, today)
    if not hits or not hits[0].is_meeting:
        raise UsageError(f"no meeting fits {line(name)}", "pkb list")
    hit, document = hits[0], open_loops.read_documents(reader, [hits[0].chunk.document])[0]
    kinds: tuple[ItemKind, ...] = ("task", "question", "done", "mail") if since else ("decision", "task", "question")
    named = _subject(" ".join(title_words(name)))
    found = _since(reader, document, named, scope) if since else found_in(document)
    items = [item for one in found if (item := open_loops.item_of(catalogue, one))]
    items.sort(key=lambda item: kinds.index(item.kind))
    day, people = hit.date.isoformat() if hit.date else None, present(reader, hit, scope.collection)
    return Report(len(items), tuple(items), 1, 1, " ".join(hit.title.split()), day, people, kinds)


def _since(reader: Reader, document: WholeDocument, named: Sequence[str], scope: Scope) -> Iterator[OpenSentence]:
    """Yield what is still open of a meeting, what was done since, and newer mail with the words of its name."""
    later = Scope(since=document.first.date.date() if document.first.date else None, collection=scope.collection)
    closing = Closing(open_loops.read_documents(reader, reader.by_date(later, (), READ, oldest=False)[0]))
    for one in found_in(document):
        closer = closing.closes(one) if one.found.kind == "task" else None
        if one.found.kind != "decision":
            yield one.closed(closer) if closer else one
    named = named or _subject(" ".join(title_words(document.first.title)))
    for hit in reader.matching(later, "mail", named).by_date(_NEWS) if named else ():
        if document.first.date and hit.date and hit.date > document.first.date:
            about = (Commitment("mail", "unknown"), None, hit.sender, None)
            yield OpenSentence(WholeDocument((hit,)), hit, "", *about, hit.title)


_ME, _MEETINGS = ("i", "me", "my"), 20  # meetings that are read for what somebody is to do
_PERSON = re.compile(
    r"(?:the |our )?(?P<who>\S+(?: \S+){0,2}?)(?: (?:from|at|in|of|on|during|after) (?P<rest>.+)| meeting)"
)


def _tasks_of(
    reader: Reader, catalog: Catalog, said: str, known: frozenset[str], hits: Sequence[Hit], scope: Scope
) -> Evidence | None:
    """Return what somebody is to do by a meeting, or by all, newest first, and was not done later; None if in none."""
    names = {name_words(one) or frozenset(words(one.partition("@")[0])) for one in known}
    sought = {" ".join(one) for one in names} if said.lower() in _ME else [said]
    named = chain.from_iterable(reader.matching(scope, "transcript", words(one)).by_date(_MOST) for one in sought)
    there = [*hits] or sorted(dict.fromkeys(named), key=lambda one: str(one.date), reverse=True)
    rows, cites = list[str](), list[Hit]()
    for hit in there[:_MEETINGS]:
        document = open_loops.read_documents(reader, [hit.chunk.document])[0]
        own = [one for one in tasks(document, turns_of(document)) if one.who and _is_of(one.who, names, hit.recipients)]
        if own and not hits:
            later = reader.matching(Scope(since=hit.date and hit.date.date()), None, _subject(hit.title)).by_date(_NEWS)
            closing = Closing(open_loops.read_documents(reader, [one.chunk.document for one in later]))
            own = [one for one in own if not closing.closes(one)]
        cites += dict.fromkeys(one.hit for one in own)
        rows += [f"{day_of(hit)}: {title_of(hit)}"] if own else []
        rows += [_row(catalog, cites, one) for one in own]
    if not there:
        return None
    number = sum(row.startswith("[") for row in rows)
    who = "you" if said.lower() in _ME else said
    head = f"{count(number, 'action item') if number else 'No action item'} for {who}"
    which = f"the newest {_MEETINGS} of " if len(there) > _MEETINGS else ""
    about = f"{' found by its words' * (not number)} in {which}{count(len(there), 'meeting')}"
    text = "\n".join([f"{head}{about}{', newest first' * (number > 1)}{':' * bool(rows)}", *rows])
    return cited(catalog, text, len(head), cites or there[:_NEWS])


def _row(catalog: Catalog, cites: Sequence[Hit], one: OpenSentence) -> str:
    """Return the number of its source, who said what, and when in a recording."""
    item = open_loops.item_of(catalog, one)
    return f"[{cites.index(one.hit) + 1}] {one.quoted}{f' at {item.source.at}' if item and item.source.at else ''}"


def _is_of(who: str, names: Iterable[frozenset[str]], present: Iterable[str]) -> bool:
    """Return whether somebody who is to do something has one of these names, and nobody else there may be meant."""
    said, there = name_words(fold(who)), (name_words(fold(one)) for one in present)
    meant = [said, *(other for other in there if said <= other)]
    return bool(said) and all(any(own <= name or name <= own for name in names) for own in meant)


_WANTED = {"decisions": ["decision"], "tasks": ["task"], "open": ["question"], "people": [], "date": []}
_NAMES = {"decision": "decision", "task": "action item", "question": "open question"}


def find_meeting(
    reader: Reader,
    catalog: Catalog,
    asked: WholeDocumentQuestion,
    scope: Scope,
    day: date,
    me: Sequence[str],
    *,
    quotes: bool,
) -> Evidence | None:
    """Return the answer to a question about the meeting that it names, or that is the scope's document, as evidence.

    None where the document's header answers, or, without `quotes`, a model. Somebody's action items are looked for in
    all meetings if it names none.
    """
    if asked.aspect == "tasks" and (person := _PERSON.fullmatch(asked.name)):
        said, rest = person["who"], person["rest"] or ""
        known = {*me} if said.lower() in _ME else reader.view.known(fold(said), Scope())
        if known:
            hits = named_meetings(reader, rest, scope, day)[:1] if rest or scope.document else []
            return _tasks_of(reader, catalog, said, frozenset(known), hits, scope) if hits or not rest else None
    kinds = _WANTED.get(asked.aspect, [*_NAMES])
    of_mail = rf"(?:\w+ ){{0,2}}(?:{word_patterns('archive')['mail']}|thread)(?: (?:from|to|by|of|on|about|with) .*)?"
    is_named = asked.name and not re.fullmatch(of_mail, asked.name.lower())
    is_told = asked.aspect in {*_WANTED, "minutes"} and (is_named or (scope.document and kinds))
    fits = is_told and (quotes or len(kinds) != 1) and not (asked.whole and scope.document)
    hits = named_meetings(reader, asked.name, scope, day, whole=asked.whole) if fits else []
    if not hits or not hits[0].is_meeting:
        return None
    head = present(reader, hits[0], scope.collection) if asked.aspect == "people" else day_of(hits[0])
    told, hits_of = [f"{head}: {title_of(hits[0])}{f' (the newest of {len(hits)})' * bool(hits[1:])}"], hits[:1]
    found = found_in(open_loops.read_documents(reader, [hits[0].chunk.document])[0]) if kinds else []
    for kind in kinds:
        own = [one for one in found if one.found.kind == kind]
        hits_of += [hit for hit in dict.fromkeys(one.hit for one in own) if hit not in hits_of]
        told += [_row(catalog, hits_of, one) for one in own] or [f"no {_NAMES[kind]} found by its words"]
    return cited(catalog, "\n".join(told), len(head), hits_of)
