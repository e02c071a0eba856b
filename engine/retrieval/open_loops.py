"""Open loops: tasks and questions in mail and meetings that no later message shows as done or answered.

Each sentence is judged by its words, by the phrases in `prompts/open_loops.txt`. Later messages close it, by their
sender and subject. No language model takes part.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache, cached_property, lru_cache
from itertools import chain, product
from typing import Literal

from engine.retrieval.evidence import cited, placed, timed
from engine.text.dates import spell_date
from engine.text.people import bare_title, folded_address, folded_name, name_and_address, name_forms
from engine.text.relative_dates import resolve
from engine.text.spans import find
from engine.text.terminal import count
from engine.text.time_sensitive import is_foreign, phrases, plain_words, word_lists
from engine.text.words import Span, content_words, sentences, spoken_sentences
from engine.types import Evidence, LoopKind, OpenLoop, Passage, Report
from prompts import word_patterns
from store.catalog import Catalog
from store.search import Reader
from store.types import Hit, Scope, names_person, replace

_LIST = "open_loops"
_OPENS = ("reply", "request", "must", "imperative", "promise", "wish", "offer", "need", "will")  # parts that make tasks
_FEWEST_WORDS, _MOST_WORDS = 3, 60  # words of a sentence
_SKIPPED = 3  # phrases of "between"
_OPENING = 4  # words in which a question begins to ask
_LONGEST = 300  # characters of a sentence in another language
_LONGEST_DUE = 10  # days of a time by which something is due, at most
_WORD = re.compile(r"[^\W_]+")
_QUOTED = re.compile(r"[\s(]*[\"“”«„`'?]")  # or of a line with letters that were lost
_BY = re.compile(r"\b(?:by|before|until|till|due|than|deadline|on)\s+(?:the\s+)?(?:end\s+of\s+|\w+\s+of\s+)?\Z", re.I)
_MARKER = re.compile(r"\W{0,6}(?P<marker>[A-Za-z][A-Za-z \-]{2,16}?)[ \t]*:[ \t]*(?=\S)")
_CALLED = re.compile(r"\s*[^\W\d_]+,")
_CHECKBOX = re.compile(r"\s*(?:[-*+]\s+)?\[ ?\]\s+\S")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The context of a sentence: speech, short mail or other mail; and names of people, as written."""

    spoken: bool = False
    short: bool = True
    names: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Commitment:
    """An open item of a sentence: for whom, by name if it has one; `replies` if any answer closes it."""

    kind: Literal["task", "question", "decision", "done", "mail", "date", "person"]
    doer: Literal["writer", "reader", "named", "unknown"]
    name: str | None = None
    replies: bool = False


def commitment(text: str, around: Surroundings) -> Commitment | None:
    """Return the task or question that a sentence leaves open; None if there is none, or in doubt."""
    tokens = plain_words(text)
    if _QUOTED.match(text):
        return None
    found = _in_english(text, tokens, around) if _FEWEST_WORDS <= len(tokens) <= _MOST_WORDS else None
    if found and not _has("cancel", tokens) and not (around.spoken and _has("once", tokens)):
        return found
    return _in_others(text, around)


def _in_others(text: str, around: Surroundings) -> Commitment | None:
    """Return what a sentence in another language than English leaves open."""
    asks = has_cue("asks", text)
    said = next((one for one in ("reply", "request", "promise", "person") if has_cue(one, text, unless="never")), None)
    found = _cue(said).search(text) if said and not (asks and around.spoken) else None
    if found is None or len(text) > _LONGEST or _cue("if").search(text[: found.start()]):
        return None
    if said == "person":
        return Commitment("question", "reader", replies=True) if asks else None
    if said == "promise":
        return None if asks or has_cue("denied", text) else Commitment("task", "writer")
    return None if said == "reply" and around.spoken else Commitment("task", "reader", replies=said == "reply")


def has_cue(kind: str, text: str, unless: str = "") -> bool:
    """Return whether a sentence in another language than English has a cue, and none of another kind."""
    found = _is_other(text) and _cue(kind).search(text)
    return bool(found) and not (unless and _cue(unless).search(text))


_HINTS = frozenset(word_patterns("cues")["hint"].split("|"))


@lru_cache(1 << 12)
def _is_other(text: str) -> bool:
    """Return whether a sentence may be in another language: most are not, and are told so at once."""
    has_hint = not _HINTS.isdisjoint(text.casefold().replace("'", " ").split())
    return has_hint or (not text.isascii() and is_foreign(text))


@cache
def _cue(kind: str) -> re.Pattern[str]:
    return re.compile(word_patterns("cues")[kind].replace(" ", r"\s+"), re.IGNORECASE)


def is_marked(text: str) -> bool:
    """Return whether a line begins as an item of a list of tasks: "Action: ...", "TODO: ...", "[ ] ..."."""
    return any(form.match(text) for form in (_CHECKBOX, _cue("marker"))) or is_headed(text, _LIST, "marker")


def is_headed(text: str, name: str, part: str) -> bool:
    """Return whether a line begins with a phrase of a part of a list, and a colon."""
    match = _MARKER.match(text)
    return match is not None and any(
        tuple(plain_words(match["marker"])) in lists[part] for lists in word_lists(name).values()
    )


def says_done(text: str) -> bool:
    """Return whether a sentence says that something is done."""
    tokens = plain_words(text)
    is_done = _has("done", tokens) and not _has("undone", tokens)
    return is_done or has_cue("done", text, unless="undone")


def is_mass_mail(sender: str, text: str) -> bool:
    """Return whether mail was written to nobody in particular, by its sender and its whole text."""
    local, tokens = plain_words(sender.rpartition("<")[2].partition("@")[0]), plain_words(text)
    return _has("sender", local) or _has("mass", tokens)


def due_day(text: str, written: datetime | None) -> date | None:
    """Return the due day that a sentence names; None if it names no coming one."""
    if written is None:
        return None
    found = list[tuple[bool, date]]()
    for span in find(text, "date"):
        days = resolve(" ".join(text[span.start : span.end].split()), written)
        if days and days.last >= written.date() and (days.last - days.first).days <= _LONGEST_DUE:
            found.append((_BY.search(text[: span.start]) is None, days.last))
    return min(found)[1] if found else None


def addressed(text: str, names: Collection[str]) -> str | None:
    """Return the one of these names that a sentence calls: at its beginning, or between a comma and its end."""
    words = list(_WORD.finditer(text))
    for number, word in enumerate(words):
        if word.group() not in names:
            continue
        before, after = text[: word.start()].rstrip(), text[word.end() :].lstrip()
        follows = plain_words(after)
        asks = any(start == 0 for start, _ in phrases(_LIST, "request").find(follows))
        first = number == 0 and (after[:1] in (",", "-", "–", "—", ":") or asks)
        if first or (before.endswith(",") and (not after or after[0] in ",.;!?")):
            return word.group()
    return None


def _in_english(text: str, tokens: Sequence[str], around: Surroundings) -> Commitment | None:
    asks = text.rstrip(" \t\n\"')”*_").endswith("?")
    if asks and around.spoken:  # whoever is asked answers at once
        return None
    if asks:
        return _request(tokens, around, asks=True) or _question(tokens, around)
    if not any(phrases(_LIST, part).may_find(tokens) for part in _OPENS):
        return None
    found = _request(tokens, around, asks=False)
    if found or says_done(text):  # "Here is what I promised to send"
        return found
    return _promise(text, tokens, around) or _named(text, tokens, around)


def _request(tokens: Sequence[str], around: Surroundings, *, asks: bool) -> Commitment | None:
    asked = phrases(_LIST, "reply").find(tokens)
    says_what = not around.spoken and len(tokens) > _FEWEST_WORDS  # "Let me know." alone has no task
    if says_what and not all(_has("unless", tokens[:first]) for first, _ in asked):
        return Commitment("task", "reader", replies=True)
    said = any(_is_said(part, tokens, around) for part in ["request"] + ["must"] * around.short)
    begins = around.short and not asks and _length_at("imperative", tokens, 0)
    return Commitment("task", "reader") if said or begins else None


def _promise(text: str, tokens: Sequence[str], around: Surroundings) -> Commitment | None:
    parts = ["promise"] + ["wish"] * (not around.spoken) + ["need"] * around.short
    says = (
        any(_is_said(part, tokens, around) for part in parts)
        or (_is_said("offer", tokens, around) and (around.spoken or find(text, "date")))
        or (around.short and _promises_without_subject(text, tokens))
    )
    return Commitment("task", "writer") if says else None


def _promises_without_subject(text: str, tokens: Sequence[str]) -> bool:
    """Return whether a sentence leaves out "I": "Will call you", "Jan, will call you", "We arrived and will call"."""
    lists = word_lists(_LIST)["en"]
    for at, token in enumerate(tokens):
        if (token,) not in lists["will"] or not _acts(tokens, at + 1, spoken=False):
            continue
        goes_on = (tokens[at - 1],) in lists["and"] and (tokens[0],) in lists["self"]
        return at == 0 or goes_on or (at == 1 and _CALLED.match(text) is not None)
    return False


def _named(text: str, tokens: Sequence[str], around: Surroundings) -> Commitment | None:
    written = _WORD.findall(text)
    if len(written) != len(tokens):
        return None
    for first, end in sorted(phrases(_LIST, "will").find(tokens)):
        near = ([*written[max(0, first - length) : first]] for length in (1, 2))  # "Reagan", or "Gus" of "Gus Tindall"
        called = (one for one in near if one and one[0] in around.names and all(word[:1].isupper() for word in one))
        name = next((" ".join(one) for one in called), None)
        anyone = first > 0 and (tokens[first - 1],) in word_lists(_LIST)["en"]["subject"]
        acts = (name or anyone) and _acts(tokens, end, spoken=around.spoken)
        if acts and not _has("unless", tokens[:first]):
            return Commitment("task", "named" if name else "unknown", name)
    return None


def _question(tokens: Sequence[str], around: Surroundings) -> Commitment | None:
    lists = word_lists(_LIST)["en"]
    ends = any(tuple(tokens[-len(phrase) :]) == phrase for phrase in lists["tag"])
    if ends or _has("chat", tokens):
        return None
    personal = _has("person", tokens)
    asking = any((token,) in lists["asking"] for token in tokens[:_OPENING])
    asks = personal or asking if around.short else asking and _has("reader", tokens)
    return Commitment("question", "reader", replies=True) if asks else None


def _is_said(part: str, tokens: Sequence[str], around: Surroundings) -> bool:
    """Return whether a phrase of a part is there, with a verb of action behind it and nothing that takes it back."""
    found = phrases(_LIST, part).find(tokens)
    return any(_acts(tokens, end, spoken=around.spoken) and not _has("unless", tokens[:first]) for first, end in found)


def _acts(tokens: Sequence[str], at: int, *, spoken: bool) -> bool:
    for _ in range(_SKIPPED + 1):
        if _length_at("spoken" if spoken else "verb", tokens, at):
            return True
        at += (skipped := _length_at("between", tokens, at))
        if not skipped:
            return False
    return False


def _length_at(part: str, tokens: Sequence[str], at: int) -> int:
    """Return the number of words of the longest phrase of a part at a place; 0 for none."""
    there = phrases(_LIST, part).find(tokens) if at < len(tokens) else ()
    return max((end - first for first, end in there if first == at), default=0)


def _has(part: str, tokens: Sequence[str]) -> bool:
    return any(phrases(_LIST, part).find(tokens))


READ = 2_000  # newest documents, and as many again that may close their open items
_SHORT = 250  # most own words of short mail: longer ones are articles, minutes, policies
_MASS = 20  # recipients; mail to more people asks nobody in particular
_OVERDUE = timedelta(days=30)  # after which what was due is no longer shown
_REPLIES = timedelta(days=14)  # within which a message of another subject may be a reply
_TOLD = 20  # items of an answer
_TERSE = 3  # content words of "Here it is" and "I have just sent it", which say of nothing else that it is done


@dataclass(frozen=True)
class WholeDocument:
    """A document with its chunks in order, and what is compared of it."""

    chunks: tuple[Hit, ...]

    @property
    def first(self) -> Hit:
        """Return its first chunk."""
        return self.chunks[0]

    @cached_property
    def own(self) -> tuple[Hit, ...]:
        """Return the chunks that its writer wrote, or that were said."""
        return tuple(hit for hit in self.chunks if hit.chunk.role == "body")

    @cached_property
    def sender(self) -> str:
        """Return the key of who sent it; empty for a meeting."""
        return "" if self.first.is_meeting else _key(self.first.sender)

    @cached_property
    def recipients(self) -> frozenset[str]:
        """Return the keys of its recipients."""
        return frozenset(map(_key, self.first.recipients)) - {""}

    @cached_property
    def thread(self) -> str:
        """Return its title without "Re:"; empty if it names no thread."""
        title = bare_title(self.first.title)
        return title if sum(map(str.isalpha, title)) >= 3 else ""

    @cached_property
    def words(self) -> frozenset[str]:
        """Return the words of its own chunks."""
        return frozenset(chain.from_iterable(hit.tokens.split(" ") for hit in self.own))

    @cached_property
    def is_mass_mail(self) -> bool:
        """Return whether it is mail to nobody in particular."""
        if self.first.is_meeting:
            return False
        text = "\n".join(hit.chunk.text for hit in self.chunks)
        return not 0 < len(self.recipients) <= _MASS or is_mass_mail(self.first.sender, text)

    @cached_property
    def done(self) -> tuple[frozenset[str], ...]:
        """Return the words of each sentence that says that something is done."""
        texts = (hit.chunk.text[span.start : span.end] for hit, span in own_sentences(self))
        return tuple(content_words(text) for text in texts if says_done(text))

    def follows(self, other: "WholeDocument") -> bool:
        """Return whether it may have been written after another one; where a date is missing, it may."""
        own, before = self.first.date, other.first.date
        return self is not other and (own is None or before is None or own > before)


@dataclass(frozen=True, slots=True)
class OpenSentence:
    """A sentence of a document that leaves something open."""

    document: WholeDocument
    hit: Hit
    text: str
    found: Commitment
    who: str | None
    by: str  # whose sentence it is: a speaker, or a sender with address
    due: date | None
    about: str = ""  # said instead of the text, which is quoted

    @property
    def is_of(self) -> frozenset[str]:
        """Return the people who may do or answer it."""
        if self.found.doer == "writer" and not self.document.first.is_meeting:
            return frozenset([self.document.sender])
        return self.document.recipients

    @property
    def quoted(self) -> str:
        """Return who said what, who is to do it, and by when."""
        told = [f"for {self.who}"] * (self.who not in (None, self.by)) + [f"due {self.due}"] * bool(self.due)
        about = f" ({', '.join(told)})" if told else ""
        return f"{f'{self.by}: ' if self.by else ''}“{' '.join(self.text.split())}”{about}"

    def closed(self, by: WholeDocument) -> "OpenSentence":
        """Return it as done, with the message that says so."""
        return OpenSentence(by, by.first, "", Commitment("done", "unknown"), self.who, self.by, None, self.text)

    def is_for(self, me: frozenset[str]) -> bool:
        """Return whether a person is to do or answer it, by the keys of their addresses and names."""
        first, doer = self.document.first, self.found.doer
        own = tuple(one for one in (first.sender, *first.recipients) if _keys(one) & me)
        able = (self.by,) if doer == "writer" else (self.who,) if self.who else first.recipients * (doer == "reader")
        return any(_keys(one) & me or one in single_names(own) for one in able)


def open_loops(
    reader: Reader,
    catalogue: Catalog,
    scope: Scope,
    kind: LoopKind | None,
    limit: int | None,
    now: datetime,
    me: Iterable[str],
) -> Report:
    """Return the open items of a scope, those of `me` first: upcoming ones by due date, then the rest, newest first."""
    ordered, mine, counts = _ordered(reader, scope, kind, now, me)
    catalogue = catalogue.within(scope)
    items = (item for one in ordered[:limit] if (item := item_of(catalogue, one, mine)))
    return Report(len(ordered), tuple(items), *counts)


def find_open(
    reader: Reader, catalog: Catalog, kind: str, scope: Scope, now: datetime, me: Iterable[str]
) -> Evidence | None:
    """Return what the user promised, has to do (mine) or waits for (theirs), as evidence; None if that is nothing."""
    limits = scope if scope.since else replace(scope, since=now.date() - _OVERDUE)
    ordered, mine, _ = _ordered(reader, limits, None, now, me)

    def is_wanted(one: OpenSentence) -> bool:
        first, writes = one.document.first, one.found.doer == "writer"
        if kind != "theirs":
            return one.is_for(mine) and (writes or kind == "mine")
        for_me = first.recipients if writes else (first.sender,)  # who was promised it, or asks for it
        return not one.is_for(mine) and any(_keys(person) & mine for person in for_me)

    found = [one for one in ordered if is_wanted(one)][:_TOLD]
    hits = list(dict.fromkeys(one.hit for one in found))
    head = f"{count(len(found), 'open item')} since {spell_date(limits.since or now.date())}:"
    rows = [f"[{hits.index(one.hit) + 1}] {one.quoted}" for one in found]
    return cited(catalog, "\n".join([head, *rows]), len(head) - 1, hits) if rows else None


def _ordered(
    reader: Reader, scope: Scope, kind: LoopKind | None, now: datetime, me: Iterable[str]
) -> tuple[list[OpenSentence], frozenset[str], tuple[int, int]]:
    """Return what is open in order, the keys of the user, and the numbers of documents that were read and are there."""
    ids, total = reader.by_date(scope, (), READ, oldest=False)
    documents = read_documents(reader, ids)
    closing = Closing(_later(reader, scope, documents, whole=len(ids) == total))
    personal = (document for document in documents if not (document.first.is_meeting or document.is_mass_mail))
    known = single_names(tuple(dict.fromkeys(document.first.sender for document in personal)))
    found = [one for document in documents for one in candidates(document, scope, known)]
    wanted = [one for one in each_once(found) if kind in (None, one.found.kind)]
    last = now.date() - _OVERDUE
    still = [one for one in wanted if not (one.due and one.due < last) and not closing.closes(one)]
    mine = frozenset(map(_key, me))
    people = {one for document in documents for one in (document.first.sender, *document.first.recipients)}
    mine = mine.union(*(_keys(one) for one in people if _key(one) in mine))  # and what else those are called

    def order(one: OpenSentence) -> tuple[bool, int, float, int]:
        coming = one.due.toordinal() if one.due and one.due >= now.date() else 0
        moment = one.document.first.date.timestamp() if one.document.first.date else float("-inf")
        return not one.is_for(mine), coming or date.max.toordinal(), -moment, one.hit.chunk.position

    return sorted(still, key=order), mine, (len(ids), total)


def candidates(document: WholeDocument, scope: Scope, known: Collection[str] = frozenset()) -> Iterator[OpenSentence]:
    """Yield the sentences of a document that leave something open, whether or not it has been closed since.

    `known` are names of people who write; in long mail only the names in its header count.
    """
    if not document.own or document.is_mass_mail:
        return
    names = single_names((document.first.sender, *document.first.recipients))
    short = not document.first.is_meeting and sum(len(hit.chunk.text.split()) for hit in document.own) <= _SHORT
    around = Surroundings(document.first.is_meeting, short, names.union(known) if short else names)
    for hit, span in own_sentences(document):
        if document.first.is_meeting and scope.sender and not names_person(span.speaker or "", scope.sender):
            continue
        text = hit.chunk.text[span.start : span.end]
        start = hit.chunk.text.rfind("\n", 0, span.start) + 1  # a mark may look like a speaker's name
        marked = is_marked(hit.chunk.text[start : span.end])
        found = Commitment("task", "unknown") if marked else commitment(text, around)
        if found is None:
            continue
        by = (span.speaker if document.first.is_meeting else document.first.sender) or ""
        who = _who(document, by, found, text, around.names)
        yield OpenSentence(document, hit, text, found, who, by, due_day(text, hit.written))


def own_sentences(document: WholeDocument) -> Iterator[tuple[Hit, Span]]:
    """Yield a document's own sentences, without quoted ones."""
    for hit in document.own:
        text, people = hit.chunk.text, frozenset(hit.recipients)
        yield from ((hit, one) for one in (spoken_sentences(text, people) if hit.is_meeting else sentences(text)))


def _who(document: WholeDocument, by: str, found: Commitment, text: str, names: Collection[str]) -> str | None:
    """Return the name of the person who is to do something, if known; the sender names others, and signs."""
    if found.doer == "named":
        return found.name
    if found.doer == "writer":
        return _shown(by)
    if found.doer == "reader" and (called := addressed(text, frozenset(names) - single_names((by,)))):
        return called
    alone = not document.first.is_meeting and len(document.first.recipients) == 1
    return _shown(document.first.recipients[0]) if found.doer == "reader" and alone else None


class Closing:
    """Later documents, by thread and by people, and the open sentences that they close."""

    def __init__(self, documents: Sequence[WholeDocument]) -> None:
        self._by_thread, self._by_pair = dict[str, list[WholeDocument]](), dict[tuple[str, str], list[WholeDocument]]()
        for document in documents:
            if document.thread:
                self._by_thread.setdefault(document.thread, []).append(document)
            for recipient in document.recipients if document.sender else ():
                self._by_pair.setdefault((document.sender, recipient), []).append(document)

    def closes(self, one: OpenSentence) -> WholeDocument | None:
        """Return a later message that says that it is done, or answers it; None without any."""
        thread = [other for other in self._by_thread.get(one.document.thread, ()) if other.follows(one.document)]
        if one.document.first.is_meeting:
            words = content_words(one.text)
            return next((other for other in thread if any(_shares(words, done) for done in other.done)), None)
        wanted, replies, own = content_words(one.text), one.found.replies, one.document
        readers = own.recipients if one.found.doer == "writer" else {own.sender}
        for pair in product(one.is_of, readers):  # written soon after, under any subject
            for other in self._by_pair.get(pair, ()):
                sent, written = other.first.date, own.first.date
                is_soon = sent and written and sent - written <= _REPLIES and other.follows(own)
                if is_soon and any(_shares(wanted, it) for it in ([other.words] if replies else other.done)):
                    return other
        return next((other for other in thread if _closes(other, one)), None)


def _closes(document: WholeDocument, one: OpenSentence) -> bool:
    other = one.document
    direct = other.sender in document.recipients or document.sender in other.recipients
    same = direct or not document.recipients or not document.recipients.isdisjoint(other.recipients)
    replied = document.sender != other.sender and same
    if one.found.replies:
        return replied
    doer = document.sender in one.is_of or (one.found.doer in ("named", "unknown") and replied)
    wanted = content_words(one.text)
    done = any(len(said) <= _TERSE or not said.isdisjoint(wanted) for said in document.done)
    return done and (doer or document.sender == other.sender)


def _shares(wanted: frozenset[str], said: frozenset[str]) -> bool:
    return len(wanted & said) >= max(2, 0.5 * len(wanted))  # of a sentence's content words


def read_documents(reader: Reader, ids: Sequence[str]) -> list[WholeDocument]:
    """Read documents, in the order of their ids."""
    held: dict[str, list[Hit]] = {}
    for hit in reader.chunks_of(ids, Scope()) if ids else ():
        held.setdefault(hit.chunk.document, []).append(hit)
    parts = (sorted(held[id], key=lambda hit: hit.chunk.position) for id in ids if id in held)
    return [WholeDocument(tuple(chunks)) for chunks in parts]


def _later(reader: Reader, scope: Scope, documents: Sequence[WholeDocument], *, whole: bool) -> Sequence[WholeDocument]:
    """Return all of its collection that may have been written since the first of these, from and to anybody."""
    if whole and scope == Scope(since=scope.since, collection=scope.collection):
        return documents
    days = [document.first.date.date() for document in documents if document.first.date]
    since = Scope(since=min(days, default=None), collection=scope.collection)
    ids, _ = reader.by_date(since, (), READ, oldest=False)
    known = {document.first.chunk.document for document in documents}
    return [*documents, *read_documents(reader, [id for id in ids if id not in known])]


def each_once(found: Iterable[OpenSentence]) -> list[OpenSentence]:
    """Return the newest of those in which one person says the same to another; documents come newest first."""
    newest: dict[tuple[str, ...], OpenSentence] = {}
    for one in found:
        newest.setdefault((one.document.sender, one.who or "", *plain_words(one.text)), one)
    return list(newest.values())


def item_of(catalogue: Catalog, one: OpenSentence, me: frozenset[str] = frozenset()) -> OpenLoop | None:
    """Return an open loop with its source; None if its document is in no file any more."""
    passage = next(iter(placed(catalogue, [Passage((one.hit,))])), None)
    if passage is None:
        return None
    source = passage.quoting(passage.sources[0], one.text)
    source = timed(source) if one.document.first.is_meeting and one.text else source
    asked_by = _shown(one.by) if one.found.doer == "reader" else None
    said, source = " ".join((one.about or one.text).split()), replace(source, score=0.0)
    found = OpenLoop(one.found.kind, said, one.who, one.due, source, asked_by)
    return replace(found, whose="mine" if one.is_for(me) else "theirs") if me else found


@lru_cache(1 << 12)
def _key(person: str) -> str:
    name, address = name_and_address(person)
    return folded_address(address) if address else folded_name(name)


@lru_cache(1 << 12)
def _keys(person: str) -> frozenset[str]:
    return frozenset({_key(person), folded_name(name_and_address(person)[0])} - {""})


def _shown(person: str) -> str | None:
    name, address = name_and_address(person)
    return name or address or None


@lru_cache(1 << 10)
def single_names(people: tuple[str, ...]) -> frozenset[str]:
    """Return the single names of people as they may be written; not those of companies, which a domain is named by."""
    domains = {part for person in people for part in person.lower().rpartition("@")[2].rstrip(">").split(".")}
    forms = chain.from_iterable(name_forms([person]).values() for person in people)
    return frozenset(form for form in forms if " " not in form and not form.isupper() and form.lower() not in domains)
