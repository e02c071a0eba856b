"""People: addresses, phone numbers, title, organisation and postal address of somebody, by headers, contacts and texts.

Texts tell of a person below a line that is their name, as signatures do, and behind their name; all is read from the
index when it is asked for. The forms of questions, and the words that tell what a line is, are in `prompts/people.txt`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache, partial
from itertools import chain, combinations, permutations, product

from msgspec import Struct

from engine.ask.archive import Lookup, plainly
from engine.retrieval.evidence import introduces, placed
from engine.text.people import addresses_in, domain_of, name_and_address, name_words, names_in, same_people, shown_name
from engine.text.question import Question
from engine.text.spans import entry, find, line_at, line_named, line_of, names_at
from engine.text.terminal import count
from engine.text.words import words
from engine.types import Evidence, Passage, Person, PersonFact, Trace, Trust
from prompts import prompt, word_patterns
from store.mapped_index import IndexView, Matches
from store.types import Hit, Scope, fold, names_person, replace

_READ, _SENT = 500, 200  # newest chunks that have somebody's name, and of somebody's own mails
_DETAILED, _MOST = 5, 20  # people of a name whose facts are read; that are named
_BELOW, _WIDE, _TALK = 8, 72, 6  # lines below a name, their characters, and words that end as a sentence does
_NEAR, _LATIN = 4, "\u0250"  # words from a name to its number, and the first character of another script
_FIELDS = {"Email address": "email", "Phone number": "phone", "Job": "title", "Role": "title", "Birthday": "birthday"}
_FIELDS |= {"Organisation": "organisation", "Address": "address", "Website": "website"}  # of contacts
_KINDS = list(dict.fromkeys(_FIELDS.values()))
_GENERATIONS = frozenset(["jr", "sr", "ii", "iii", "iv"])
_MARKS = " \t\r>*_|~=•-–—\"'“”"
_SUFFIX = r"(?:,?\s+(?:[JS]r\b\.?|I{2,3}\b|IV\b|Ph\.?\s?D\b\.?|M\.?D\b\.?|Esq\b\.?))"
_MIDDLE = r"\s+(?:[^\W\d_]\.?\s+|[\"(“][\w. ]+[\")”]\s+){0,2}"
_END = rf"{_SUFFIX}?(?![\w@-])"
_Told = tuple[str, str, str, str]  # kind, value, label, and the line that tells it
_IsMeant = Callable[[Hit], bool]  # whether a text with the name of somebody, which others may have, is about them


@cache
def _pattern(kind: str) -> re.Pattern[str]:
    said = word_patterns("people")
    street = rf"\b\d{{1,6}}\w?\s.{{0,40}}?\b(?:{said['street']})\b|(?:{said['way']}).{{0,3}}\s\d{{1,4}}\b"
    title = rf"\b(?:{said['title']})\b(?=\s*(?:$|[,/(&–|-]|(?:of|for|and|at|in|to)\b))"
    forms = {"title": title, "place": rf"{street}|\b(?:{said['place']})\b"}
    return re.compile(forms.get(kind) or said.get(f"{kind} pattern") or rf"\b(?:{said[kind]})\b", re.IGNORECASE)


def _compiled(forms: Iterable[str], end: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.@-])(?:{'|'.join(forms) or '(?!)'}){end}", re.IGNORECASE)


def _is_title(line: str) -> bool:
    return line[:1].isupper() and len(line.split()) <= 10 and _pattern("title").search(line) is not None


def _numbers(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield where phone numbers are, and their lines; not those of a conference, an account or somebody else."""
    for one in find(text, "phone"):
        area = re.search(r"\(?\d{3}\) ?\Z", text[: one.start])
        start = area.start() if area else one.start
        value, before = text[start : one.end].strip(), text[max(0, start - 32) : start].rpartition("\n")[2]
        marked = re.search(r"[ ()./+x-]", value) or re.search(r"phone|tel|call|:", before, re.I) or line_of(text, one)
        if marked and not _pattern("no phone").match(value) and not _pattern("other").search(before):
            yield start, one.end, value, line_of(text, one)


def _card(hit: Hit) -> list[_Told]:
    """Return what a contact tells; nothing of any other text."""
    is_card = hit.chunk.text.startswith(f"Contact: {hit.title}\n") and not (hit.sender or hit.date)
    fields = [(*line.partition(": "), line) for line in hit.chunk.text.split("\n")[1:]] if is_card else []
    named = [(*label.rstrip(")").partition(" ("), value, line) for label, _, value, line in fields]
    return [(_FIELDS[name], value, line_named(of) or of, line) for name, _, of, value, line in named if name in _FIELDS]


class _Who:
    """A person: whom the index names so, folded; addresses, spellings, and the forms in which texts name them."""

    def __init__(
        self, view: IndexView, people: Sequence[str], addresses: Sequence[str], said: Iterable[str], is_meant: _IsMeant
    ) -> None:
        self.people, self.addresses, self.spellings, self._view = people, tuple(addresses), tuple(said), view
        self._is_meant = is_meant
        parts = (re.sub(rf"{_SUFFIX}$", "", one, flags=re.IGNORECASE).split() for one in self.spellings)
        self.names = list(dict.fromkeys((each[0], each[-1]) for each in parts if len(each) > 1))
        self._given = [given for given, _ in self.names] or [*self.spellings]
        self._parts = [one.lower() for one in (*self._given, *(family for _, family in self.names))]
        pairs = [tuple(map(re.escape, (given, given[:3], family))) for given, family in self.names]
        whole = [rf"{given}{_MIDDLE}{family}|{family},\s?{given}(?:\s[A-Z]\b\.?)?" for given, _, family in pairs]
        signed = [rf"(?:{begins}[^\W\d_]*|{begins[0]}\.?){_MIDDLE}{family}" for _, begins, family in pairs]
        first, ends = [*map(re.escape, self._given)], (r"(?: [A-Z]\.?)?(?![\w@-])", _pattern("his").pattern)
        self._whole, self._signed = partial(_compiled, whole, _END), partial(_compiled, signed, _END)
        self._first, self._by_first = (partial(_compiled, first, end) for end in ends)  # once they are used

    def wrote(self, hit: Hit) -> bool:
        """Return whether they wrote the text of a chunk."""
        name, address = name_and_address(fold(hit.author))
        if address and self.addresses:
            return address in self.addresses
        names, own = [(fold(given), fold(family)) for given, family in self.names], name_words(name)
        return any({*pair} <= own or own == {pair[1]} for pair in names) and self._is_meant(hit)

    def _is_in(self, text: str) -> bool:
        return any(map(text.lower().__contains__, self._parts))

    def told(self, hit: Hit) -> Iterator[_Told]:
        """Yield what a chunk tells of them."""
        lines = (text := hit.chunk.text).split("\n")
        named = [at for at, line in enumerate(lines) if self._is_in(line)] if self._is_in(text) else []
        if not (named or re.search(r"\d", text)):  # as in most texts, which neither name them nor tell a number
            return
        own = self.wrote(hit)
        if not own and not (any(one.lower() in text.lower() for one in self._given) and self._is_meant(hit)):
            return
        if card := _card(hit):
            yield from card if self._whole().search(hit.title) else ()
            return
        listed = {at: one for at in named if (one := self._listed(hit, lines, at)) is not None}
        yield from chain(*listed.values())
        for at in (one for one in named if one not in listed):
            if (rest := self._heading(lines[at], own, ends=at >= len(lines) - _BELOW)) is not None:
                below = lines[at + 1 : at + 1 + _BELOW]
                yield from self._block([(rest, lines[at]), *((one.strip(_MARKS), one) for one in below)])
        yield from self._said(hit, own, "\n".join("" if at in listed else line for at, line in enumerate(lines)))

    def _listed(self, hit: Hit, lines: Sequence[str], at: int) -> Sequence[_Told] | None:
        """Return what a row of a table or a contact at a line tells; None if they are not named in it by themselves."""
        if not any(self._whole().fullmatch(one) for one in names_at(lines[at])):
            return None
        if not (found := entry(lines, at)).names and hit.chunk.position:  # of a table that began in an earlier chunk
            chunks = (one.chunk for one in self._view.chunks_of([hit.chunk.document], Scope()))
            there = sorted((one for one in chunks if one.place == hit.chunk.place), key=lambda one: one.position)
            whole = [line for one in there for line in one.text.split("\n")]
            found = entry(whole, whole.index(lines[at]))
        return found.values if found.names else None

    def _heading(self, line: str, own: bool, *, ends: bool) -> str | None:
        """Return what stands behind the name at the start of a line, if that is all; None for any other line."""
        bare = re.sub(r"^(?:[A-Z]|Dr|Prof|Mrs?|Ms)\.\s", "", line.strip(_MARKS))
        is_signed = own and any(one.startswith(bare[:1].lower()) for one in self._parts)
        if match := self._whole().match(bare) or (self._signed().match(bare) if is_signed else None):
            rest = bare[match.end() :].strip(_MARKS + ",(")
            is_told = not rest or _is_title(rest) or (rest[0].isupper() and self._is_organisation(rest))
            is_near = any(len(rest[:first].split()) < _NEAR for first, *_ in _numbers(rest))  # else it is a sentence
            return rest if is_told or is_near or find(rest, "email") else None
        return "" if own and ends and self._first().fullmatch(bare.rstrip(",.!")) else None

    def _block(self, lines: Sequence[tuple[str, str]]) -> Iterator[_Told]:
        """Yield what the lines below a name tell, each bare and whole; nothing if they have the address of another."""
        kept, numbered, place = list[tuple[str, str]](), False, list[str]()
        for bare, line in lines:
            numbers = [*_numbers(bare)]
            front = re.split(r"[:\t]", bare[: numbers[0][0]].strip(_MARKS + ":(") if numbers else bare)[-1].strip()
            is_said = bare[-1:] in ("?", "!", ".", ":") and len(bare.split()) > _TALK and not numbers
            numbered, titled = numbered or bool(numbers), any(_is_title(one) for one, _ in kept)
            is_another = self._is_name(front) and (numbered or (not titled and bool(self._view.known(front, Scope()))))
            if len(bare) > _WIDE or is_said or _pattern("header").match(line.strip()) or is_another:
                break
            kept += [(bare, line)] * bool(bare)
        emails = [bare[one.start : one.end] for bare, _ in kept for one in find(bare, "email")]
        tells = emails or any([*_numbers(bare)] for bare, _ in kept) or (kept and _is_title(kept[0][0]))
        local = {fold(one).partition("@")[0] for one in emails if fold(one) not in self.addresses}
        names = [fold(one) for pair in self.names for one in pair]
        if not tells or not all(any(name in one for name in names) for one in local):
            return
        for number, (bare, line) in enumerate(kept):
            found = [("phone", value, label, line) for *_, value, label in _numbers(bare)]
            found += [("email", bare[one.start : one.end], "", line) for one in find(bare, "email")]
            yield from found
            if found:
                continue
            if _pattern("postal").search(bare) or _pattern("place").search(bare):
                place += [bare.strip(" ,")]
            elif _is_title(bare):
                yield "title", bare, "", line
            elif number < _TALK and self._is_organisation(bare):
                yield "organisation", bare, "", line
        if len(place) > 1 or any(map(_pattern("postal").search, place)):
            yield "address", ", ".join(place), "", next(line for bare, line in kept if bare.strip(" ,") == place[-1])

    def _is_name(self, line: str) -> bool:
        if _is_title(line) or line_named(line) or self._is_organisation(line):
            return False
        words = line.replace(",", " ").split() if re.fullmatch(r"[^\W\d_][\w.'’, -]+", line) else []
        return sum(word[0].isupper() for word in words) in (2, 3)

    def _is_organisation(self, line: str) -> bool:
        """Return whether a line has a word of organisations, or the name of the domain of one of their addresses."""
        if not re.fullmatch(r"[^\W_][^\n!?:@/\\]*(?:/[^/]+)?", line):
            return False
        plain, names = re.sub(r"\W", "", line.lower()), (domain_of(one).partition(".")[0] for one in self.addresses)
        return bool(_pattern("organisation").search(line)) or any(len(one) > 2 and one in plain for one in names)

    def _said(self, hit: Hit, own: bool, text: str) -> Iterator[_Told]:
        """Yield what stands behind the name in a text, and what somebody says of themselves."""
        is_there, has_digits = self._is_in(text), re.search(r"\d", text) is not None
        by_first = [*self._by_first().finditer(text)] if is_there and has_digits and not own else []
        named = [one for one in (hit.sender, *hit.recipients) if by_first and self._first().search(shown_name(one))]
        is_only = named and all(fold(one) in self.people for one in named)  # who has the first name there
        for match in chain(self._whole().finditer(text) if is_there else (), by_first if is_only else ()):
            yield from self._behind(text, match.end(), match.end())
            if (title := _pattern("titled").match(text, match.end())) and _is_title(title[1].strip()):
                yield "title", title[1].strip(), "", line_at(text, match.start(), title.end())
        for match in _pattern("mine").finditer(text) if own and has_digits else ():
            if not _pattern("other").search(match[0]):  # "my wife's cell phone"
                for kind, value, label, line in self._behind(text, match.start(), match.end()):
                    yield kind, value, label or line_named(match[0]), line
        if not (has_digits and _pattern("lives").search(text)):
            return
        says = rf"(?:{self._whole().pattern}(?:['’]s?)?{'|my' * own}){_pattern('lives').pattern}"
        for match in re.finditer(says, text, re.IGNORECASE):
            of, value = match[match.re.groups - 1], match[match.re.groups]
            yield "address", re.split(r"\.(?:\s|$)", value)[0], (of or "").lower(), line_at(text, *match.span())

    def _behind(self, text: str, start: int, at: int) -> Iterator[_Told]:
        """Yield the numbers behind a name that ends at a place, up to the next name or sentence."""
        end, before = at - start, text[max(0, at - 40) : at].rpartition("\n")[2] if start == at else ""
        if re.match(r"[^\n]*\brespectively\b", text[at:]):  # of several people
            return
        for first, last, value, label in _numbers(text[start : at + 160]):
            between = text[start + end : start + first]
            names = (between[one.start : one.end] for one in find(between, "person"))
            is_other = _pattern("other").search(f"{before} {between}") or _pattern("stop").search(between)
            if first < end:
                continue
            if is_other or any(" " in name and not line_named(name) for name in names):
                break
            yield "phone", value, label, line_at(text, at, start + last)
            end = last


class _Known(Struct, frozen=True):
    """A person, where each fact stands, and the newest document that is from or to them."""

    person: Person
    facts: Mapping[PersonFact, Hit]
    newest: Sequence[Hit]


class Directory(Lookup, frozen=True):
    """Tells of people, and answers questions about them."""

    def find(self, question: Question, trace: Trace, *, quotes: bool) -> Evidence | None:
        """Return the answer to a question about a person as evidence; None for any other, and where nothing is known.

        Without `quotes` a model reads what there is about somebody, where nothing certain is asked.
        """
        text = plainly(question.text)
        with trace.step("people") as step:
            asked = ((kind, found) for kind, form in _forms() if (found := form.fullmatch(text)))
            able = (("who" if kind == "about" else kind, found) for kind, found in asked if quotes or kind != "about")
            said = next(filter(None, (_answered(self, question, *one) for one in able)), None)
            step.note = said.fact.partition("\n")[0] if said else "no question about a person"
            return said

    def groups(self, typed: str) -> list[tuple[str, ...]]:
        """Return the people whom a name or an address may stand for, each with all that the index calls them."""
        known, wanted = self.joined(self.named(typed)), {*fold(typed).split()}
        if re.search(r"[^\s<]@[^\s>]", typed):  # an address as a whole
            return [tuple(sorted(known))] if known else []
        cards = (hit for hit in self.view.having(words(f"contact {typed}"), self.own, _READ) if _card(hit))
        known |= {fold(hit.title) for hit in cards if wanted <= name_words(fold(hit.title))}
        known |= self._listed(typed, wanted) if len(wanted) == 1 and not known else set()
        found = [one for one in self.apart(known) if any(names_person(each, typed) for each in one)]
        whole = [one for one in found if any(wanted == name_words(each) - _GENERATIONS for each in one)]
        # Behind several of one name, whoever of them a text means that has no address.
        return [*whole, *[()] * (len([one for one in whole if addresses_in(one)]) > 1)] or found

    def _listed(self, typed: str, wanted: Set[str]) -> set[str]:
        """Return the people, folded, whom rows of tables and attached contacts name with some words."""
        held = (hit.chunk.text.split("\n") for hit in self.view.having(words(typed), self.own, _READ))
        said = ((lines, at, {*re.findall(r"\w+", fold(one))}) for lines in held for at, one in enumerate(lines))
        rows = (entry(lines, at) for lines, at, own in said if wanted <= own)
        names = {fold(name) for row in rows if row.values for name in row.names if len(name_words(fold(name))) > 1}
        return {name for name in names if wanted <= name_words(name) and shown_name(name)}

    def _whole(self, known: Iterable[str]) -> set[str]:
        """Return people with whatever else their names and addresses are called, if they are few; lists as names."""
        known, names = self.joined(known), dict[tuple[str, bool], list[frozenset[str]]]()
        if len(same_people(known)) <= _MOST:
            also = {part for one in known for part in (name_and_address(one)[1], " ".join(sorted(name_words(one))))}
            known |= self.named(*(one for one in also if "@" in one or " " in one))
        for one in known:
            own_words = name_words(one)
            key = name_and_address(one)[1], max(map(max, own_words), default="") < _LATIN
            names.setdefault(key, []).append(own_words)
        # An address from which several people write, as a list's, is nobody's; one name may be in two scripts.
        shared = {it for (it, _), said in names.items() if any(a and b and a.isdisjoint(b) for a in said for b in said)}
        pairs = ((one, *name_and_address(one)) for one in known)
        return {name if address in shared else one for one, name, address in pairs} - {""}

    def apart(self, known: Iterable[str]) -> list[tuple[str, ...]]:
        """Group people who are the same one; those of one name only if their addresses are shown to be one person's.

        Those at one organisation are, but for numbered ones, and those who write to each other. A name alone is left
        out if several have it.
        """
        known, ties = self._whole(known), list[tuple[str, ...]]()
        writes = self._write_to_namesakes(known)

        def keys(one: str) -> Sequence[object]:
            _, address = name_and_address(one)
            is_own = address in writes or address in self.ties.apart or _pattern("provider").match(domain_of(address))
            is_own = is_own or re.search(r"[^\W\d]\d{1,2}@", address)
            name = *names_in([one]), address if is_own else domain_of(address)
            joined = *(tie for tie in ties if one in tie), *(tie for tie in self.ties.same if address in tie)
            return [*[address] * bool(address), *[name] * (len(name) > 1), *joined] or [one]

        by_name = dict[frozenset[str], list[tuple[str, ...]]]()
        for group in same_people(known, keys):
            for name in names_in(group) if addresses_in(group) else ():
                by_name.setdefault(name, []).append(group)
        few = (several for several in by_name.values() if len(several) <= _DETAILED)
        pairs = chain.from_iterable(combinations(several, 2) for several in few)
        ties += [(*one, *other) for one, other in pairs if self._is_tied(one, other)]
        found = same_people(known, keys)
        for group in [one for one in found if not addresses_in(one)]:
            if owners := [one for one in found if addresses_in(one) and names_in(one) & names_in(group)]:
                found.remove(group)
                found[found.index(owners[0])] += group if len(owners) == 1 else ()
        return found

    def _write_to_namesakes(self, known: Iterable[str]) -> frozenset[str]:
        """Return the addresses from or to which there is mail to or from another of the name, at one organisation."""
        by_name, found = dict[object, set[str]](), set[str]()
        for one in known:
            for name in names_in([one]) if (address := name_and_address(one)[1]) else ():
                by_name.setdefault((name, domain_of(address)), set()).add(address)
        for several in (each for each in by_name.values() if 1 < len(each) <= _DETAILED):
            for pair in permutations(several, 2):
                sent = replace(self.own, sender=pair[0], recipient=pair[1])
                found.update(pair if self.documents(sent, "mail") else ())
        return frozenset(found)

    def _is_tied(self, one: tuple[str, ...], other: tuple[str, ...]) -> bool:
        """Return whether two of a name are one person: both addresses yours, on one contact, or told by the older."""
        own, others, mine = addresses_in(one), addresses_in(other), {*self.me()}
        if (own | others) & self.ties.apart or (own & mine and others & mine):
            return not (own | others) & self.ties.apart
        said = words(" ".join(["contact", *next(iter(names_in(one)))]))
        cards = ({fold(told[1]) for told in _card(hit)} for hit in self.view.having(said, self.own, _READ))
        if any(own & card and others & card for card in cards):
            return True
        sent = [self.documents(replace(self.own, sender="\n".join(it))).by_date(1, oldest=True) for it in (own, others)]
        days = [_day(hits[0]) if hits else "" for hits in sent]
        ends, reads = ((own, others), (others, own)), (self.catalog, self.reader)
        tells = [any(introduces(*reads, *pair) for pair in product(*end)) for end in ends]
        # A newer one alone may be anybody who uses the name.
        return all(tells) or (tells[0] and days[0] < (days[1] or "~")) or (tells[1] and days[1] < (days[0] or "~"))

    def _meant(self, typed: str, group: Sequence[str]) -> _IsMeant:
        """Return which texts with the name of a person are about them, if others have it, too.

        Those whose header or text has their address alone of these, or whose writer writes to them alone, or they to
        the writer; of nobody's address, those about none of the others.
        """
        names, own = names_in(group) or {frozenset(fold(typed).split())}, addresses_in(group)
        there = self.named(*(" ".join(sorted(one)) for one in names))
        groups = self.apart(there) if addresses_in(there) - own else []
        every = [addresses_in(one) for one in groups if not names_in(one).isdisjoint(names)]
        rivals = [one for one in every if one and one.isdisjoint(own)]
        able = [own, *rivals] if own else rivals

        def between(writer: str, some: Iterable[str]) -> bool:
            ends = (("sender", "recipient"), ("recipient", "sender"))
            return any(len(self.documents(replace(self.own, **{a: writer, b: "\n".join(some)}))) for a, b in ends)

        def is_meant(hit: Hit) -> bool:
            text = fold("\n".join((hit.sender, *hit.recipients, hit.chunk.text)))
            shown = re.findall(r"[^\s<>()\"',;:]{1,64}@[\w.-]+\w", text)
            writer = name_and_address(fold(hit.author or hit.sender))[1]
            found = [one for one in able if writer in one] or [one for one in able if not one.isdisjoint(shown)]
            found = found or [one for one in able if writer and between(writer, one)]
            return found == [own] if own else len(found) != 1

        return is_meant if rivals else lambda _: True

    def known(self, typed: str, group: Sequence[str], *, detailed: bool = True) -> _Known:
        """Return a person with all that is known of them; without `detailed`, without facts and other spellings."""
        wanted = "\n".join(addresses_in(group) or group)
        scopes = [replace(self.own, **{role: wanted}) for role in ("sender", "recipient")] if wanted else []
        found = [self.documents(scope) for scope in scopes]
        dated = [matches.by_date(_DETAILED if detailed else 1) for matches in found]
        addresses, spellings = _called(typed, group, *((found, chain(*dated)) if detailed else ((), ())))
        newest = sorted((hit for hits in dated for hit in hits[:1]), key=_day, reverse=True)[:1]
        facts, similar = dict[PersonFact, Hit](), tuple[str, ...]()
        if detailed:
            who = _Who(self.view, group, addresses, spellings, self._meant(typed, group))
            facts, similar = self._facts(who), self._similar(who)
        name, (wrote, received) = next(iter(spellings), typed), map(len, found or ((), ()))
        last = next(filter(None, map(_day, newest)), None)
        person = Person(name, addresses, spellings[1:], wrote, received, last, tuple(facts), similar)
        return _Known(person, facts, newest)

    def _similar(self, who: _Who) -> tuple[str, ...]:
        """Return others who may be the same: a form of the given name, or an address made of initial and name."""
        found, apart = set[str](), self.ties.apart
        for given, family in ((fold(given), fold(family)) for given, family in who.names):
            also = {f"{given[0]}{family}", f"{family}{given[0]}"}
            for one in self.named(family, *also):
                name, local = [*name_words(one) - {family}], name_and_address(one)[1].partition("@")[0]
                alike = family in name_words(one) and len(name) == 1 and name[0].startswith(given[:3])
                is_told = name_and_address(one)[1] in apart or not apart.isdisjoint(who.addresses)
                found |= {one} if (alike or local in also) and not is_told else set()
        return tuple(sorted(found - {*who.people}))[:_DETAILED]

    def _facts(self, who: _Who) -> dict[PersonFact, Hit]:
        """Return what the index tells of a person, and where: by kind, their own words first, then the newest."""
        scope = replace(self.own, sender=self.own.sender or "\n".join(who.addresses or who.people))
        hits = {hit.chunk.id: hit for hit in (self.view.having((), scope, _SENT) if who.people else ())}
        for pair in who.names:
            hits |= {hit.chunk.id: hit for hit in self.view.having(words(" ".join(pair)), self.own, _READ)}
        told = [(one, hit, who.wrote(hit) or bool(_card(hit))) for hit in hits.values() for one in who.told(hit)]
        told.sort(key=lambda each: (each[2], _day(each[1])), reverse=True)
        first = dict[tuple[str, ...], tuple[_Told, Hit, bool]]()
        for one, hit, own in told:
            key = re.sub(r"\D", "", one[1])[-7:] if one[0] == "phone" else re.sub(r"\W", "", one[1].lower())
            first.setdefault((one[0], key), (one, hit, own))
        passages = placed(self.catalog, [Passage((hit,)) for _, hit, _ in first.values()])
        places = {one.hits[0].chunk.id: one for one in passages}
        kept = [(*each, places[each[1].chunk.id]) for each in first.values() if each[1].chunk.id in places]
        seen, facts = set[tuple[str, str]](), dict[PersonFact, Hit]()
        ranked = sorted(kept, key=lambda each: (_KINDS.index(each[0][0]), each[3].trust == Trust.WARNED))
        for (kind, value, label, line), hit, own, passage in ranked:
            by = "" if own else shown_name(hit.author) or hit.author
            source = replace(passage.quoting(passage.sources[0], line), score=0.0)
            facts[PersonFact(kind, value, label, by, (kind, label) in seen, source)] = hit
            seen.add((kind, label))
        return facts

    def all_known(self, typed: str, groups: Sequence[tuple[str, ...]]) -> list[_Known]:
        """Return the people whom a name may stand for, those of most documents first; the first few with facts."""
        few = len(groups) <= _DETAILED
        found = [(self.known(typed, group, detailed=few), group) for group in groups or [()]]
        found.sort(key=lambda pair: (-(pair[0].person.wrote + pair[0].person.received), pair[0].person.name))
        for at, (_, group) in enumerate(found[: 0 if few else _DETAILED]):
            found[at] = self.known(typed, group), group
        return [one for one, _ in found if one.newest or one.facts]

    def people(self, name: str, limit: int) -> list[Person]:
        """Return the people whom a name may stand for, those of most mails first; without a name, of all who wrote."""
        if name:
            return [one.person for one in self.all_known(name, self.groups(name))[:limit]]
        counted = self.documents(self.own, "mail").senders()
        every = same_people({*counted} - {""}, self.ties.keys)
        often = sorted(every, key=lambda group: -sum(counted[one] for one in group))[:limit]
        parts = [[own for own in self.apart(one) if addresses_in(own) & addresses_in(one)] or [one] for one in often]
        groups = sorted(chain(*parts), key=lambda group: -sum(counted[one] for one in group))
        return [self.known("", group, detailed=False).person for group in groups[:limit]]

    def cited(self, text: str, told: int, facts: Mapping[PersonFact, Hit], others: Iterable[Sequence[Hit]]) -> Evidence:
        """Return an answer with the lines of facts as its sources, then other documents: it goes with each of them."""
        pairs = [(hit, fact.source.quote) for fact, hit in facts.items()] + [(hit, "") for hit in chain(*others)]
        kept = [(one, quote) for hit, quote in pairs for one in placed(self.catalog, [Passage((hit.scored(1.0),))])]
        chunks, passages = tuple(it.id for one, _ in kept for it in one.chunks), tuple(one for one, _ in kept)
        return Evidence(passages, chunks, 1.0, fact=text, told=told, quotes=tuple(quote for _, quote in kept))


def _day(hit: Hit) -> str:
    return hit.written.isoformat() if hit.written else ""


def _called(typed: str, group: Sequence[str], found: Sequence[Matches], hits: Iterable[Hit]) -> list[tuple[str, ...]]:
    """Return a person's addresses, and the names that mails have; of nobody in a header, the one that was typed."""
    shown = Counter(one for hit in hits for one in (hit.sender, *hit.recipients) if fold(one) in group)
    often = [one for one, _ in shown.most_common()]
    addresses = [*filter(None, dict.fromkeys(name_and_address(one)[1] for one in (*map(fold, often), *group)))]
    sent = found[0].senders() if found and len(addresses) > 1 else Counter[str]()
    addresses.sort(key=lambda one: -sum(sent[it] for it in group if one in it))  # a few new mails by another come last
    spellings = [*filter(None, map(shown_name, often))]
    spellings = spellings or [name.title() for name in map(shown_name, group) if name]
    if not any(" " in one for one in spellings):
        local = (re.sub(r"[._]+", " ", one.partition("@")[0]).strip().title() for one in addresses)
        spellings += local if group else [typed.title()]
    return [tuple(addresses), tuple(dict.fromkeys(spellings))]


_INITIAL = re.compile(r"[^\W\d_\u3040-\u9fff\uac00-\ud7af]?\.*")  # a sign of an unspaced script is a name


@cache
def _forms() -> list[tuple[str, re.Pattern[str]]]:
    parts = {"NAME'S?": r"(?P<name>\S+?(?: \S+?){0,4}?)(?:'s?)?", "NAME": r"(?P<name>\S+?(?: \S+?){0,4}?)"}
    parts["LINE"] = word_patterns("people")["line"]
    found = re.findall(r"^([a-z]+) = (.+)$", prompt("people"), re.MULTILINE)
    return [(kind, re.compile(re.sub(r"NAME'S\?|NAME|LINE", lambda it: parts[it[0]], form))) for kind, form in found]


def _answered(directory: Directory, question: Question, kind: str, asked: re.Match[str]) -> Evidence | None:
    """Return the answer to a question that fits a form; None if it names nobody, or nothing is known."""
    typed, parts = re.sub(r"^(?:my|our) ", "", asked["name"]), asked.groupdict()
    is_firm = kind == "email" and typed.startswith("the ")  # "the council's email": a name that has no capital here
    typed = " ".join(word for word in typed.split()[is_firm:] if not _INITIAL.fullmatch(word))
    named = {word for name in question.names for word in words(name)}
    own = {word for word in words(typed) if not word.isdigit()}  # a number is no name by itself: Agent 7
    if not typed or not (is_firm or "@" in typed or (own and own <= named)):
        return None
    line = line_named(parts.get("line") or "") or ("home" if parts.get("place") in ("home", "live") else "")
    told = [(one, *_said(one.person, kind, line)) for one in directory.all_known(typed, directory.groups(typed))]
    if not told or (len(told) == 1 and not told[0][1]):
        return None
    facts = {fact: one.facts[fact] for one, _, own in told for fact in own}
    others = [one.newest for one, _, own in told if not own]
    names = [one.person.name if kind == "email" else _shown(one) for one, *_ in told]
    values = [value if kind == "who" else f": {value}" for _, value, _ in told]
    rows = [f"{name}{said}" for name, said, (_, value, _) in zip(names, values, told, strict=True) if value]
    if len(told) == 1:
        (one, value, _), is_who = told[0], kind == "who"
        text, marked = (rows[0], len(one.person.name)) if is_who else (f"{value}: {names[0]}", len(value))
        return directory.cited(text, marked, facts, others)
    rest = list(dict.fromkeys(_shown(one) for one, value, _ in told if not value and one.newest))[:_MOST]
    which = "not found for" if len(told) <= _DETAILED else "also of the name:"  # of whom only the mails were counted
    rows += [f"{which} {', '.join(rest)}"] if rest else []
    several = sum(bool(one.person.addresses) for one, *_ in told) or len(told)
    head = f"The name fits {count(several, 'person', 'people')}:"
    return directory.cited("\n".join([head, *rows]), 0, facts, others)


def _said(person: Person, kind: str, line: str) -> tuple[str, list[PersonFact]]:
    """Return what answers a question about a person, and by which facts; empty where that is not known."""
    if kind == "who":
        own = [*_fullest(person, "title"), *_fullest(person, "organisation")]
        last = f", last on {person.last[:10]}" if person.last else ""
        counted = f"wrote {count(person.wrote, 'document')} and received {person.received:,}{last}"
        return "".join(f", {one}" for one in (*(fact.value for fact in own), *[counted] * bool(person.addresses))), own
    if kind == "email" and person.addresses and not line:
        return ", ".join(person.addresses[:3]), []
    facts = [one for one in person.facts if one.kind == kind and not one.older]
    if kind == "phone":
        able = {"": ("", "office", "mobile", "home"), "office": ("", "office")}.get(line, (line,))
        facts = [one for one in facts if one.label in able][: 3 if not line else 1]
    elif kind in ("address", "email"):
        facts = [one for one in facts if not line or one.label == line][:1]
    else:
        facts = _fullest(person, kind)
    return ", ".join(f"{one.value} ({one.label})" if one.label else one.value for one in facts), facts


def _fullest(person: Person, kind: str) -> list[PersonFact]:
    """Return the newest fact of a kind, as fully as it is told anywhere."""
    facts = [one for one in person.facts if one.kind == kind]
    return [one for one in facts if one.value.startswith(f"{facts[0].value},")][:1] or facts[:1]


def _shown(one: _Known) -> str:
    return f"{one.person.name} <{one.person.addresses[0]}>" if one.person.addresses else one.person.name
