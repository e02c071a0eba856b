"""Exact questions about the archive: a question as one typed query, which is run over all documents.

The forms are in `prompts/archive.txt`; a question is understood only if all of its words are.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import cache, cached_property
from itertools import chain, product

from msgspec import Struct

from engine.retrieval.evidence import cited, day_of, title_of
from engine.text import dates
from engine.text.people import NO_TIES, Ties, identities, name_and_address, name_words, same_people
from engine.text.question import Question
from engine.text.terminal import count, shorten
from engine.text.words import FUNCTION_WORDS, words
from engine.types import Evidence, Trace
from prompts import prompt, word_patterns
from store.catalog import Catalog
from store.errors import UsageError
from store.mapped_index import IndexView, Matches
from store.search import Reader
from store.types import Hit, Kind, Scope, fold, names_person, replace

_SHOWN, _NAMED, _READ = 20, 3, 3000  # documents beside an answer, addresses of a person, documents read for a topic
_FILE = re.compile(r"^\[attachment: (.+)\]$", re.MULTILINE)
_IN_HEADERS = frozenset(words(" ".join((*dates.DAY_NAMES, *dates.MONTH_NAMES, "from to meeting attachment quoted"))))
_NOUNS: dict[Kind | None, str] = {"mail": "mail", "transcript": "meeting", None: "document"}
_KINDS: dict[str, Kind | None] = {"mail": "mail", "attachment": "mail", "transcript": "transcript", "document": None}
_ALONE = {"got": ("to", "i"), "wrote": ("by", "i"), "files": ("files", "yes"), "here": ("here", "yes")}


class Unclear(Exception):
    """A question that is not answered exactly, and what its asker can do, if anything."""


class Who(Struct, frozen=True):
    """A person as a scope wants them, and what they are called in the index, folded."""

    wanted: str
    people: tuple[str, ...]
    is_me: bool = False


class ArchiveQuery(Struct, frozen=True):
    """An exact question: what is asked of the documents of a kind, from and to whom, about what, with attachments."""

    operation: str  # count, list, first, last, both (of these), when first, when last, or top (sender)
    scope: Scope
    kind: Kind | None
    by: Who | None = None
    to: Who | None = None
    about: str = ""
    attachments: str = ""  # yes where documents must have some, all where these are asked for

    def told(self, total: int, hits: Sequence[Hit]) -> str:
        """Return the query in words, with how many documents there are."""
        people = {"from": (self.by, self.scope.sender), "to": (self.to, self.scope.recipient)}
        parts = [count(total, _NOUNS[self.kind]), *["with attachments"] * (self.attachments == "yes")]
        for word, (who, wanted) in people.items():
            name = _name(who, hits) if who else wanted
            parts += [f"{'with' if self.kind == 'transcript' else word} {name}"] if name else []
        parts += [f"with “{self.about}” in subject or text"] if self.about else []
        parts += [f"in the collection {self.scope.collection}"] if self.scope.collection else []
        first, last = self.scope.since, self.scope.until and self.scope.until - timedelta(1)
        days = {"on": first} if first == last else {"since": first, "until": last}
        return " ".join([*parts, *(f"{word} {dates.spell_date(day)}" for word, day in days.items() if day)])


def documents_about(reader: Reader, catalog: Catalog, scope: Scope, about: str) -> list[str]:
    """Return the documents within a scope with all these words in title or text; UsageError for too common ones."""
    query = ArchiveQuery("list", scope, None, about=about)
    try:
        found, _ = Archive(reader, catalog, tuple).matching(query)
    except Unclear as unclear:
        if unclear.args:
            raise UsageError(f"too many documents may be about {about}", "pkb list --about OTHER WORDS") from None
        return []
    return [hit.chunk.document for hit in found.by_date(len(found))]


@cache
def _intros() -> dict[str, str]:
    """Return what may begin what is said of documents, the longest first, each with its field."""
    said, names = word_patterns("archive"), ("by", "to", "topic", "with", *_ALONE)
    found = [(start, name) for name in names for start in said[name].split("|")]
    return dict(sorted(found, key=lambda pair: -len(pair[0])))


@cache
def _forms() -> list[tuple[str, str, str]]:
    """Return the forms, each with its operation and the words that it begins with."""
    parts, said = dict(re.findall(r"^([A-Z]+) = (.+)$", prompt("archive"), re.MULTILINE)), word_patterns("archive")
    parts |= {name: rf"(?P<{name.lower()}>\S+(?: \S+){{0,5}}?)" for name in ("BY", "TO", "TOPIC")}
    kinds = "|".join(said[kind] for kind in ("mail", "transcript", "document", "attachment"))
    parts |= {"DOCS": f"(?P<docs>{kinds})", "MEETINGS": f"(?P<docs>{said['transcript']})"}
    found, rest = list[tuple[str, str, str]](), rf"(?P<rest>(?: (?:{'|'.join(_intros())})(?: .+)?)?)"
    for operation, form in re.findall(r"^([a-z ]+): (.*) REST$", prompt("archive"), re.MULTILINE):
        begins = re.split(r"[^a-z ]| \S*$", form, maxsplit=1)[0]
        found.append((operation, begins, re.sub("[A-Z]{2,}", lambda match: parts[match[0]], form) + rest))
    return found


def _readings(text: str) -> Iterator[dict[str, str]]:
    """Yield what a question without times asks, by every form that it has as a whole, by field."""
    said = word_patterns("archive")
    text = " ".join(re.sub(rf"(?<!\S)(?:{said['filler']})(?!\S)", " ", text).split())
    for operation, begins, form in _forms():
        found = re.fullmatch(form, text) if text.startswith(begins) else None
        fields = {name: value for name, value in found.groupdict().items() if value} if found else {}
        if found and _adds_rest(fields) and {*fields.get("topic", "").split()}.isdisjoint(said["vague"].split("|")):
            yield {"operation": operation, "docs": "mails", "by": "", "to": "", "topic": "", "with": "", **fields}


def _adds_rest(fields: dict[str, str]) -> bool:
    """Add what is said behind a form to its fields; False where a word is left, or a field is said twice."""
    starts = _intros()
    _, *parts = re.split(rf"(?<!\S)({'|'.join(starts)})(?!\S)", fields.pop("rest", ""))
    for start, value in zip(parts[::2], map(str.strip, parts[1::2]), strict=True):
        name = starts[start]
        if (name in _ALONE) == bool(value):
            return False
        name, value = _ALONE.get(name, (name, value))
        if fields.setdefault(name, value) != value:
            return False
    return True


def plainly(text: str) -> str:
    """Return a question in lower case, without marks that mean nothing here."""
    text = text.lower().replace("’", "'").replace("e-mail", "email")
    text = re.sub(r"\b(what|who|when|where|which)'s\b", r"\1 is", text)
    return " ".join(re.sub(r"[?!:;\"“”„]|[.,](?=\s|\Z)", " ", text).split())


class Lookup(Struct, frozen=True, dict=True):
    """What is read to answer: the index, the places of documents, and who the user and the same people are."""

    reader: Reader
    catalog: Catalog
    me: Callable[[], tuple[str, ...]]  # returns the user's addresses
    own: Scope = Scope()  # of the people that there are
    ties: Ties = NO_TIES

    @cached_property
    def view(self) -> IndexView:
        """Return the index as it stood first: to ask whether it is the newest takes as long as to look a name up."""
        return self.reader.view

    @cached_property
    def documents(self) -> Callable[..., Matches]:
        """Return what returns the documents within a scope, of a kind, with some words, and looks for each once."""
        return cache(self.reader.matching)

    def named(self, *names: str) -> set[str]:
        """Return the people, folded, whom any of some names would fit."""
        return set[str]().union(*(self.view.known(one, self.own) for one in names))

    def joined(self, people: Iterable[str]) -> set[str]:
        """Return people, folded, with those whom the user has joined with them."""
        return {*(found := [*people]), *self.named(*self.ties.others(found))}


class Archive(Lookup, frozen=True):
    """Answers exact questions about the archive."""

    def find(self, question: Question, scope: Scope, trace: Trace) -> Evidence | None:
        """Return the answer to an exact question as evidence; None for any other."""
        with trace.step("count") as step:
            try:
                query, *others = self.queries(question, scope)
                found = self.choice([query, *others]) if others else self.answer(query)
            except Unclear as unclear:
                step.note = "no exact question about the archive"
                trace.notices.extend(map(str, unclear.args))
                return None
            step.note = found.fact.partition("\n")[0]
            return found

    def queries(self, question: Question, scope: Scope) -> list[ArchiveQuery]:
        """Return the query that a question is, one for each person that it may name; Unclear if it is none."""
        asked = plainly(question.text)
        times = dates.limits(asked, question.day)
        names = re.findall(rf"\bfrom ({dates.ENGLISH_MONTH})\b(?! \d)", asked)
        is_topic = re.search(rf" (?:{word_patterns('archive')['topic']}) .* on ", asked)
        if times is None or is_topic or self.named(*names):
            raise Unclear  # the day may be that of the topic, the month somebody's name
        rest, first, end = times
        since = max(filter(None, (first, scope.since)), default=None)
        until = min(filter(None, (end, scope.until)), default=None)
        found, why = list[list[ArchiveQuery]](), Unclear()
        for reading in _readings(rest):
            try:
                found.append(self._resolved(reading, replace(scope, since=since, until=until)))
            except Unclear as unclear:
                why = unclear if unclear.args else why
        if not found or any(queries != found[0] for queries in found):
            raise why
        return found[0]

    def _resolved(self, said: dict[str, str], scope: Scope) -> list[ArchiveQuery]:
        """Return a reading for each person that it may name; Unclear if it names none, or limits nothing."""
        lists, by, to, operation = word_patterns("archive"), said["by"], said["to"], said["operation"]
        docs = next(name for name in _KINDS if said["docs"] in lists[name].split("|"))
        kind, files = _KINDS[docs], "all" if docs == "attachment" else said.get("files", "")
        if said["with"] and (kind != "transcript" or to):  # of mail, nobody can tell what it means
            raise Unclear
        by, to = (by or said["with"], said["with"] if by and said["with"] else to)
        is_chat = said["docs"].startswith("message") and len(self.reader.matching(self.own, "transcript"))
        limited = operation == "count" or any((by, to, said["topic"], files, scope.since, scope.until))
        twice = (by and scope.sender) or (to and scope.recipient) or scope.document
        if is_chat or twice or not limited or (operation == "top" and kind != "mail"):
            raise Unclear
        roles = [(by, "sender"), (to, "recipient")]
        mine = lists["me"].split("|")  # whoever is not known is looked for first
        people = {role: self._people(one, role, kind) for one, role in sorted(roles, key=lambda pair: pair[0] in mine)}
        pairs = product(people["sender"], people["recipient"])
        found = ((_limited(_limited(scope, "sender", who), "recipient", whom), who, whom) for who, whom in pairs)
        return [ArchiveQuery(operation, own, kind, who, whom, said["topic"], files) for own, who, whom in found]

    def _people(self, typed: str, role: str, kind: Kind | None) -> Sequence[Who | None]:
        """Return the people whom words of a question may name; Unclear if they name nobody, or perhaps others."""
        if not typed:
            return [None]
        if typed in word_patterns("archive")["me"].split("|"):
            if not (mine := self.me()):
                raise Unclear("say who you are: pkb me YOU@EXAMPLE.ORG")
            if not self.named(*mine):
                raise Unclear  # in this collection
            return [Who("\n".join(mine), mine, is_me=True)]
        known = self.named(typed := re.sub(r"^(?:my|our) |'s?$", "", typed))
        if "@" in typed and known:
            return [Who(typed, tuple(sorted(known)))]
        # An organisation is more than the sender that has its name.
        if not known or "." in typed or any(self.view.is_in_names(f"{sign}{typed}.") for sign in "@."):
            raise Unclear
        found = [self._whole(group) for group in same_people(self.joined(known), self.ties.keys)]
        able = [who for who in found if kind != "mail" or "@" in who.wanted]  # a speaker has no address
        if len(able) > 1:
            able = [one for one in able if len(self.documents(_limited(self.own, role, one), kind, ()))] or able
        if not able or any("@" not in it.wanted and self.named(it.wanted) - {*it.people} for it in able):
            raise Unclear  # a name that is a part of another
        return able

    def _whole(self, group: tuple[str, ...]) -> Who:
        """Return a person with their addresses; Unclear if others write from one of these, as from a list's."""
        own, kept = name_words(*group), list[str]()
        for one in dict.fromkeys(name_and_address(person)[1] or person for person in group):
            at = (self.view.known(one, self.own, role) if "@" in one else () for role in ("sender", "recipients"))
            sent, received = ([name_words(other) - {one.partition("@")[0]} for other in several] for several in at)
            is_others = bool(own) and any(other and own.isdisjoint(other) for other in sent or received)
            if sent and is_others:
                raise Unclear
            kept += [] if is_others else [one]  # another's address may have been written beside this name
        return Who("\n".join(kept or group), group)

    def matching(self, query: ArchiveQuery) -> tuple[Matches, dict[str, list[str]]]:
        """Return the documents of a query, and their attachments if it asks for them; Unclear if not sure."""
        said = tuple(word for word in dict.fromkeys(words(query.about)) if word not in FUNCTION_WORDS)
        found, names = self.documents(query.scope, query.kind, said), dict[str, list[str]]()
        if any(not word.isalpha() or word in _IN_HEADERS or self.view.is_in_names(word) for word in said):
            held = dict[str, set[str]]()
            for hit in self._hits(found):
                if not {*said}.isdisjoint(hit.tokens.split()):
                    held.setdefault(hit.chunk.document, set()).update(words(f"{hit.title}\n{hit.chunk.text}"))
            found = found.among([document for document, own in held.items() if {*said} <= own])
        if query.about and not (said and len(found)):
            raise Unclear  # other words may say the same
        if query.attachments:
            hits = self._hits(self.reader.matching(query.scope, query.kind, (*said, *words("attachment"))))
            for hit in sorted(hits, key=lambda hit: bool(hit.chunk.place)):
                own, place = names.setdefault(hit.chunk.document, []), hit.chunk.place
                named = _FILE.findall(hit.chunk.text) if hit.chunk.role == "attachment" else []
                if place:  # what stands in a file names none, but for its own first line
                    ends = tuple(f"{other}{end}" for other in own for end in (", ", "/"))
                    own += [one for one in named[:1] if one == place and not f"{one}, ".startswith(ends)]
                else:
                    own += [one for one in named if not one.startswith(tuple(f"{other}/" for other in (*own, *named)))]
            found = found.among([document for document, own in names.items() if own])
            names = {hit.chunk.document: names[hit.chunk.document] for hit in found.by_date(_READ)}
        return found, names

    def _hits(self, found: Matches) -> list[Hit]:
        if len(found) > _READ:
            raise Unclear("too many documents to read; limit the question to a person or to some days")
        hits = self.reader.chunks_of([hit.chunk.document for hit in found.by_date(_READ)], Scope())
        return sorted(hits, key=lambda hit: hit.chunk.position)

    def _spare(self, query: ArchiveQuery) -> int:
        return 0 if query.about or query.attachments else len(self.reader.chunkless(query.scope, query.kind))

    def answer(self, query: ArchiveQuery) -> Evidence:
        """Return the answer to a query; Unclear if it cannot be told for certain."""
        (found, files), spare = self.matching(query), self._spare(query)
        total, hits = len(found) + spare, found.by_date(_SHOWN)
        if (query.kind == "transcript" and not total) or (spare and query.operation != "count"):
            raise Unclear
        told = query.told(total, hits)
        if query.operation == "count" or not total:
            many = sum(map(len, files.values())) if query.attachments == "all" else total
            text = f"{count(many, 'attachment')} in {told}." if many and query.attachments == "all" else f"{told}."
            return cited(self.catalog, text, len(f"{many:,}"), hits)
        if query.operation == "top":
            return self._top(query, found, hits)
        if query.operation == "list":
            which = f", the newest {len(hits)}" if len(hits) < total else ", newest first" if total > 1 else ""
            rows = (" · ".join([day_of(hit), title_of(hit), *files.get(hit.chunk.document, ())]) for hit in hits)
            return cited(self.catalog, "\n".join([f"{told}{which}:", *rows]), len(f"{total:,}"), hits)
        ends = [end for end in ("first", "last") if end in query.operation or query.operation == "both"]
        shown = [found.by_date(1, oldest=end == "first")[0] for end in ends]
        if any(hit.date is None for hit in shown):
            raise Unclear
        about = query.told(1, shown).removeprefix("1 ")
        rows = (f"{day_of(hit)}: the {end} {about}, “{title_of(hit)}”" for end, hit in zip(ends, shown, strict=True))
        return cited(self.catalog, "\n".join(rows), len(day_of(shown[0])), list(dict.fromkeys(shown)))

    def _top(self, query: ArchiveQuery, found: Matches, newest: Sequence[Hit]) -> Evidence:
        """Return who wrote most, without those whom the question names, and its asker."""
        named = [who for who in (query.by, query.to) if who]
        known = {one for who in named for one in (*who.people, *who.wanted.split("\n"))}
        counted = found.senders()
        often = (name_words(one) for one, _ in counted.most_common(_SHOWN))  # whom others call so is the same
        also = self.named(*(" ".join(said) for said in often if len(said) > 1))
        groups = [group for group in same_people({*counted} | also, self.ties.keys) if group != ("",)]
        sums = {group: sum(counted[one] for one in group) for group in groups}
        others = [group for group in sums if known.isdisjoint(chain(group, *map(identities, group)))]
        ranked = sorted(others, key=lambda group: (-sums[group], group))
        first = [group for group in ranked if sums[group] == sums[ranked[0]]]
        if not 0 < len(first) <= _SHOWN:
            raise Unclear
        best = list(map(self._whole, first))
        sent = ([one for one in newest if names_person(one.sender, who.wanted)][:1] for who in best)
        of = (replace(query, scope=_limited(query.scope, "sender", who)) for who in best)
        hits = [one for own, each in zip(sent, of, strict=True) for one in own or self.matching(each)[0].by_date(1)]
        names = [_name(who, hits) for who in best]
        head = f"{' and '.join(names)}: {sums[first[0]]:,}{' each' * bool(best[1:])} of {query.told(len(found), hits)}."
        return cited(self.catalog, head, len(names[0]), hits)

    def choice(self, queries: Sequence[ArchiveQuery]) -> Evidence:
        """Return how many documents there are of each person that a name fits."""
        found = sorted(((self.matching(one)[0], one) for one in queries), key=lambda pair: -len(pair[0]))[:_SHOWN]
        newest = [matches.by_date(1) for matches, _ in found]
        lines = (one.told(len(own) + self._spare(one), hits) for (own, one), hits in zip(found, newest, strict=True))
        head = f"The name fits {count(len(queries), 'person', 'people')}:"
        return cited(self.catalog, "\n".join([head, *lines]), 0, list(chain.from_iterable(newest)))


def _limited(scope: Scope, role: str, who: Who | None) -> Scope:
    return replace(scope, **{role: who.wanted}) if who else scope


def _name(who: Who, hits: Sequence[Hit]) -> str:
    """Return a person's name as one of the documents has it, and some of the addresses."""
    shown = {fold(one): name_and_address(one)[0] for hit in hits for one in (hit.sender, *hit.recipients)}
    parts = [name_and_address(one) for one in who.people]
    names = filter(None, [*(shown.get(one, "") for one in who.people), *(name.title() for name, _ in parts)])
    addresses = ", ".join([*dict.fromkeys(address for _, address in parts if address)][:_NAMED])
    name = "you" if who.is_me else shorten(next(names, ""), 60)
    return f"{name} <{addresses}>" if name and addresses else name or addresses
