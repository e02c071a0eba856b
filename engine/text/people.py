"""Names and addresses of people, folded so that look-alikes are equal; the header of a chunk, and its index words.

Knows no mail and no store: a person is a name, an address, or both, as in `Ann Whitlock <ann@choir.example>`.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime
from functools import cache, lru_cache
from itertools import chain, dropwhile, islice, pairwise, takewhile

from msgspec import Struct

from engine.text.dates import DAY_NAMES, MONTH_NAMES, spell_date
from engine.text.question import ASKING_WORDS
from engine.text.spans import find
from engine.text.terminal import shorten
from engine.text.time_sensitive import plain_words
from engine.text.words import FUNCTION_WORDS, stem, words
from prompts import word_groups, word_patterns
from store.types import Chunk, Document, DocumentPassage, Hit, fold

# Letters of other scripts, and digits in addresses, that look like Latin ones.
_ALIKE = (
    *("aаαɑᴀ", "bвьʙ", "cсϲᴄ", "dԁɗᴅ", "eеєεᴇ", "gɡɢց", "hһнʜ", "iіιıɪӏ", "jјϳᴊ", "kкκᴋ", "lʟ", "mмᴍ", "nпηɴո"),
    *("oоοօσᴏ", "pрρᴘ", "qԛգ", "rгʀᴦ", "sѕꜱ", "tтτᴛ", "uυսᴜ", "vνѵᴠ", "wԝωᴡ", "xхχ", "yуүγʏ", "zᴢ"),
)
_LOOK_ALIKES = {ord(other): group[0] for group in _ALIKE for other in group[1:]}
_ADDRESS_ALIKES = str.maketrans("01i", "oll")
_MARKS = re.compile(r"[^\w@\s-]|_")
_ADDRESS = re.compile(r"[^\s<>()\"',;:]+@[^\s<>()\"',;:]+")
# "Ann Whitlock via Lists", "Ann Whitlock (Choir)", "Ben on behalf of Ann Whitlock": whose name it is used as.
_BEHALF = re.compile(r".*\b(?:on behalf of|im auftrag von|de la part de)\s+", re.IGNORECASE)
_VIA = re.compile(r"\s+(?:via|über|durch|through|\()(?:\s.*|\S.*)?$", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]{2,}")
_TITLES = re.compile(rf"(?:(?:{word_patterns('english')['title']})\b\.?\s*)+(?=\w)", re.IGNORECASE)
# Alphabets with letters that look like Latin ones; others, such as Chinese, may stand in one word with Latin letters.
_SCRIPTS = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "GOTHIC", "DESERET", "CANADIAN", "GEORGIAN")
# What the rows of an address begin with, as no name does: the address itself; the servers that its mail came through;
# the fortnights in which it wrote; the addresses that wrote to it; and that mail was delivered to it.
LOOK_ALIKE, WAYS, FORTNIGHTS, READERS, DELIVERED = "@", "@ ", "@ sent ", "@ to ", "@ for "
ROUTES = ("sent by ", "replies go to ")  # begin warnings that are dropped if an address's mail always comes so
_LEAST_LABEL = 3  # letters: below a country's domain, a shorter label is a kind of company, as in co.uk


def person(name: str, address: str) -> str:
    """Return a name with its address; the name has no angle brackets, so that no name reads as an address."""
    name = name.replace("<", "(").replace(">", ")")
    if name and address and name.casefold() != address.casefold():
        return f"{name} <{address}>"
    return address or name


def name_and_address(shown: str) -> tuple[str, str]:
    """Return the two parts of a person as `person` writes it; either may be empty."""
    name, bracket, address = shown.rpartition(" <")
    if bracket and address.endswith(">"):
        return name, address[:-1]
    return ("", shown) if _ADDRESS.fullmatch(shown.strip()) else (shown, "")


def folded_name(name: str) -> str:
    """Return a name in the form in which names that look the same are equal; empty if it has no letter."""
    plain = _folded(_VIA.sub("", _BEHALF.sub("", _visible(name).strip())))
    last, comma, first = plain.partition(",")
    ordered = f"{first} {last}" if comma and "," not in first else plain
    return _TITLES.sub("", " ".join(_MARKS.sub(" ", ordered).split()), count=1)


def folded_address(address: str) -> str:
    """Return an address in the form in which addresses that look the same are equal."""
    local, at, domain = _visible(address).partition("@")
    if "xn--" in domain.lower():
        with suppress(UnicodeError):
            domain = domain.encode("ascii").decode("idna")
    return _folded(f"{local}{at}{domain}").translate(_ADDRESS_ALIKES).replace("rn", "m").replace("vv", "w")


def _visible(text: str) -> str:
    """Return a text in NFKC without what is not seen: zero-width characters and variation selectors."""
    seen = (c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) != "Cf")
    return "".join(c for c in seen if not "\ufe00" <= c <= "\ufe0f" and c not in "\u034f\u115f\u1160\u3164\uffa0")


def _folded(text: str) -> str:
    bare = (c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    return "".join(bare).translate(_LOOK_ALIKES)


def domain_of(address: str) -> str:
    """Return the domain of an address in lower case, without subdomains: choir.example, choir.co.uk."""
    labels = address.lower().rpartition("@")[2].split(".")
    is_kind = len(labels) > 2 and len(labels[-1]) == 2 and len(labels[-2]) <= _LEAST_LABEL
    return ".".join(labels[-3 if is_kind else -2 :])


def odd_name(name: str, address: str) -> str | None:
    """Return a warning about a display name by itself; None if nothing is odd."""
    if name.isascii() and "@" not in name:
        return None
    seen = _visible(name)
    others = [one for one in _ADDRESS.findall(seen) if folded_address(one) != folded_address(address)]
    if others:
        return f"the name reads {shorten(others[0], 60)}"
    latin = (word for word in _WORD.findall(seen) if any("a" <= c <= "z" for c in word.casefold()))
    foreign = (c for word in latin for c in word if not c.isascii())  # that look like some Latin ones
    if any(ord(c.casefold()[:1]) in _LOOK_ALIKES or unicodedata.name(c, "").startswith(_SCRIPTS) for c in foreign):
        return "the name mixes alphabets"
    hidden = sum(unicodedata.category(c) == "Cf" and c not in "\u200c\u200d\u00ad" for c in name)
    splits = re.search("[A-Za-z][\u200c\u200d\u00ad]|[\u200c\u200d\u00ad][A-Za-z]", name)  # joins, in some scripts
    return "the name has invisible characters" if hidden or splits else None


def header_warnings(senders: Sequence[tuple[str, str]], sent_by: Sequence[str], replies: Sequence[str]) -> list[str]:
    """Return warnings about the header of a message with these names and addresses in its From fields."""
    name, address = senders[0] if senders else ("", "")
    found = [odd_name(name, address)]
    found += [f"also from {shorten(other or shown, 60)}" for shown, other in senders[1:2]]
    found += [f"sent by {_ended(one)}" for one in sent_by if one.lower() != address.lower()][:1]
    found += [f"replies go to {_ended(one)}" for one in replies if domain_of(one) != domain_of(address)][:1]
    found += ["the address has several @"] * (address.count("@") > 1)
    found += ["the address has look-alike letters"] * (not address.isascii() and folded_address(address).isascii())
    return [one for one in found if one]


def _ended(address: str) -> str:
    """Return an address, of a long one only the domain: what is in front of it is often another for each mail."""
    return shorten(address if len(address) <= 60 else f"…{address[address.rfind('@') :]}", 60)


def ways_of(own: str, warnings: Sequence[str]) -> list[str]:
    """Return how a mail came, by its warnings: by other domains, or addresses of one's own; else by that domain."""
    others = [one.rpartition(" ")[2].lower() for one in warnings if one.startswith(ROUTES)]
    return [one if domain_of(one) == domain_of(own) else domain_of(one) for one in others] or [domain_of(own)]


def traces(people: Sequence[str], warnings: Sequence[str], sent: date | None) -> Iterator[tuple[str, str]]:
    """Yield facts of a mail about its sender, the first of its people: ways, fortnight and readers."""
    names = ((address.lower() or folded_name(name), address) for name, address in map(name_and_address, people))
    (sender, address), *readers = names
    yield from ((f"{WAYS}{sender}", way) for way in ways_of(sender, warnings) if address)
    if sender and sent:
        yield f"{FORTNIGHTS}{sender}", str(sent.toordinal() // 14)
    if sender and not warnings:
        yield from ((f"{READERS}{one}", sender) for one, _ in readers if one not in ("", sender))


_PEOPLE = 200  # recipients indexed per message; longer lists say nothing about any one of them
_ROLES = {"quote": "quoted", "forward": "forwarded", "attachment": "attachment", "event": "event"}


def index_words(chunk: Chunk, sender: str, recipients: Sequence[str], date: datetime | None) -> list[str]:
    """Return the words that a chunk is indexed under, only the first one of a document under its addresses."""
    people = [sender, *recipients[:_PEOPLE]] if chunk.position == 0 else []
    month = [MONTH_NAMES[date.month - 1]] if date else []
    return words("\n".join([chunk.header, chunk.text, *people, *month]))


def chunk_header(document: Document, part: DocumentPassage) -> str:
    """Return the header of a chunk: who, when and what. Speakers are left out: the turns name them.

    A quoted or forwarded text is marked with the day on which it was written, or as undated, and with its author: its
    "tomorrow" is not that of the document, and its "I" is not the sender.
    """
    return _header(document, part, shorten(document.title, 160))


def origin_line(document: Document, part: DocumentPassage) -> str:
    """Return the header that a model is shown: with the addresses behind it, and why they or the date may be false."""
    header = _header(document, part, shorten(document.title, 160).replace("<", "(").replace(">", ")"))
    senders, recipients = _addresses([document.sender]), _addresses(document.recipients[:2])
    parts = [f"{senders} to {recipients}" if senders and recipients else senders or recipients]
    parts += [f"quoting {author}"] if part.role != "attachment" and (author := _addresses([part.author])) else []
    parts += [f"says it is of {_date(document.claimed)}"] if document.claimed else []
    about = "; ".join([*filter(None, parts), *document.warnings])
    return f"{header} <{about}>" if about else header


def _addresses(people: Sequence[str]) -> str:
    return ", ".join(shorten(address, 80) for _, address in map(name_and_address, people) if address)


def _header(document: Document, part: DocumentPassage, title: str) -> str:
    date = [_date(document.date)] if document.date else []
    if document.kind == "mail":
        who = [f"From: {_name(document.sender)}"] if document.sender else []
        to, more = ", ".join(map(_name, document.recipients[:2])), len(document.recipients) - 2
        who += [f"To: {to}" + (f" (+{more})" if more > 0 else "")] if to else []
        parts = [*who, *date, *([title] if title else [])]
    else:
        parts = [f"{'File' if document.kind == 'file' else 'Meeting'}: {title}", *date]
    mark = _ROLES.get(part.role, "")
    if part.role in ("quote", "forward"):
        mark += f" from {_name(part.author)}" if part.author else ""
        mark += f", written {_date(part.written)}" if part.written else ", undated"
    return ", ".join(parts) + (f" [{mark}]" if mark else "")


def _date(date: datetime) -> str:
    """Spell the date out as questions do, so that words match it and no model needs to compute the weekday."""
    clock = f" {date:%H:%M}" if (date.hour, date.minute) != (0, 0) else ""  # midnight: only the day is known
    return spell_date(date, weekday=True) + clock


def _name(person: str) -> str:
    name, _, address = person.partition("<")
    return shorten(name.strip(' "') or address.rstrip("> "), 60)


_NAME_WORD = re.compile(r"[^\W_]+")
_WORDS = word_patterns("mail_programs")
_MAILBOXES = frozenset(_WORDS["mailbox"].split("|"))


def name_forms(people: Iterable[str]) -> dict[str, str]:
    """Return the names of people ("Ann Vey <ann@example.org>") as questions may write them, each with its own form.

    Keys are single names and pairs of neighbours, folded. A name that is an everyday word ("Bill") stands as written,
    for only its capital tells it from the word.
    """
    found: dict[str, str] = {}
    for person in islice(dict.fromkeys(people), _PEOPLE):
        # Given names first; of one who is only an address, the parts before the @.
        shown, _, address = (one.strip(" \"'") for one in person.partition("<"))
        last, _, first = shown.partition(",")
        names = _WORD.findall(f"{first} {last}")
        if not shown or "@" in shown:
            names = _WORD.findall((shown or address).partition("@")[0].lower())
            names = names if _MAILBOXES.isdisjoint(names) else []
        names = [name.capitalize() if name.isupper() or name.islower() else name for name in names]
        folded = ["".join(plain_words(name)) for name in names]
        common = [is_everyday_word(word) for word in folded]
        found |= {name if usual else word: name for name, word, usual in zip(names, folded, common, strict=True)}
        for (one, two), usual, pair in zip(pairwise(names), pairwise(common), pairwise(folded), strict=True):
            if not all(usual):
                found[" ".join(pair)] = f"{one} {two}"
    return found


@cache
def _common_words() -> frozenset[str]:
    listed = chain.from_iterable((*word_groups("synonyms"), *word_groups("inflections")))
    names = map(str.lower, (*DAY_NAMES, *MONTH_NAMES))
    return frozenset(chain(map(stem, chain(listed, names)), FUNCTION_WORDS, ASKING_WORDS))


def is_everyday_word(word: str) -> bool:
    """Return whether a folded word is an everyday word, as some names are, too."""
    return stem(word) in _common_words() or word in _common_words()


LIST_TAG = re.compile(r"\s*\[[^\[\]]{1,40}\]")  # in front of a subject
REPLIED = re.compile(
    rf"(?:{LIST_TAG.pattern})*+\s*(?:{_WORDS['reply']}|{_WORDS['forward']})"
    r"\s{0,3}(?:[\[(]\d{1,3}[\])]|\^\d{1,3})?\s{0,3}[:：]",
    re.IGNORECASE,
)


@lru_cache(maxsize=1 << 14)
def bare_title(title: str) -> str:
    """Return a subject without marks of replies and forwards and tags of lists, as all of a conversation have it."""
    while mark := REPLIED.match(title) or LIST_TAG.match(title):
        title = title[mark.end() :]
    return " ".join(title.casefold().split())


# The line that begins a list of attendees.
PRESENT = re.compile(rf"[\s*_#]*(?:{word_patterns('english')['present']})[\s*_]*(?::[\s*_]*(.*)|)$", re.IGNORECASE)


def listed_attendees(lines: Sequence[str]) -> tuple[str, ...]:
    """Return whom a transcript lists as present near its beginning, as they are written there; none without a list."""
    lines = lines[:50]
    for number, line in enumerate(lines, 1):
        if match := PRESENT.match(line):  # the list is behind it, or on the lines below up to an empty one
            below = takewhile(str.strip, dropwhile(lambda one: not one.strip(), lines[number:]))
            found = re.split(r"[,;•]", match[1]) if match[1] else chain(*(re.split(r"[,;•]", one) for one in below))
            return tuple(name for one in found if (name := " ".join(one.strip(" \t-*_–.").split())))
    return ()


SPOKE = " (who spoke)"  # others may have been there and said nothing


def roster(text: str, speakers: Sequence[str]) -> str:
    """Return the listed attendees of a meeting and anyone else who speaks; without a list, the speakers."""
    listed = listed_attendees(text.splitlines())
    known = set(plain_words(" ".join(listed)))
    others = [one for one in speakers if not known.issuperset(plain_words(one))]
    return listing([*listed, *others]) if listed else f"{listing(speakers)}{SPOKE}" if speakers else ""


def listing(people: Sequence[str]) -> str:
    """Return people in a row."""
    sign = "; " if any("," in person for person in people) else ", "
    return sign.join(" ".join(person.split()) for person in people)


_LONGEST_NAME = 40  # characters of a name
_NAMED = re.compile(r"[^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*){0,3}")
_INVERTED = re.compile(r"([^,]+), ?([^,]+)")


@lru_cache(1 << 14)
def shown_name(person: str) -> str:
    """Return a name in plain form: "Ann Lee" of "Lee, Ann <ann@example.org>"; empty if there is only an address."""
    name = " ".join(re.sub(r"<[^>]*>?|\([^)]*\)|\[[^\]]*\]|[\"*]", " ", person).split()).strip("'‘’ ")
    if not name or "@" in name or "/" in name:
        return ""
    inverted = _INVERTED.fullmatch(name)
    name = f"{inverted[2].strip()} {inverted[1].strip()}" if inverted else name
    return name if len(name) <= _LONGEST_NAME and _NAMED.fullmatch(name) else ""


def correspondents(hit: Hit) -> list[str]:
    """Return the names of the senders or speakers of a chunk, then of its recipients."""
    people = [*hit.sender.split("\n"), *hit.recipients[:5]]
    return list(dict.fromkeys(name for name in map(shown_name, people) if name))


def named(hit: Hit) -> list[str]:
    """Return the people (or things with such names) that a chunk names in full, without its correspondents."""
    text = hit.chunk.text
    found = [" ".join(text[one.start : one.end].split()) for one in find(text, "person")]
    # "Thanks Ann" is not another person.
    known, places = tuple(correspondents(hit)), {text[one.start : one.end] for one in find(text, "place")}
    full = [name for name in found if " " in name and len(name) <= _LONGEST_NAME and not name.isupper() and words(name)]
    return [name for name in dict.fromkeys(full) if not name.endswith(known) and name not in places]


def name_words(*people: str) -> frozenset[str]:
    """Return the words of people's names, without middle initials; none of one who is only an address."""
    found = set[str]()
    for name, _ in map(name_and_address, people):
        last, _, first = name.partition(",")
        said = [] if "@" in name else _NAME_WORD.findall(f"{first} {last}")
        found.update(said[:1], said[-1:], [word for word in said if len(word) > 1])
    return frozenset(found)


@lru_cache(1 << 16)  # as many as write in an archive of 400,000 messages
def identities(person: str) -> tuple[str | frozenset[str], ...]:
    """Return an address, and the words of a name, or of an address before the @, where these are several."""
    address, said = name_and_address(person)[1], name_words(person)
    local = [] if said else _NAME_WORD.findall(address.partition("@")[0])
    said = said or frozenset(local if all(len(word) > 1 for word in local) else ())
    return (*filter(None, [address]), *([said] if len(said) > 1 else [])) or (person,)


class Ties(Struct, frozen=True):
    """Whom the user has joined, and which addresses are nobody else's, folded; the settings `people.same`, `.apart`."""

    same: tuple[tuple[str, ...], ...] = ()
    apart: frozenset[str] = frozenset()

    @classmethod
    def of(cls, same: str, apart: str) -> "Ties":
        """Return the ties that two settings tell."""
        groups = (tuple(filter(None, map(str.strip, fold(one).split(",")))) for one in same.split(";"))
        return cls(tuple(one for one in groups if one), frozenset(filter(None, map(str.strip, fold(apart).split(",")))))

    def changed(self, joined: Iterable[str], apart: Iterable[str]) -> "Ties":
        """Return the ties with addresses joined, with whoever any of them was joined with, and others set apart."""
        groups = [tuple(each for each in one if each not in {*apart}) for one in self.same]
        touched = [one for one in groups if not {*joined}.isdisjoint(one)]
        group = tuple(dict.fromkeys(chain(*touched, joined)))
        kept = [*(one for one in groups if one not in touched), group]
        return Ties(tuple(one for one in kept if len(one) > 1), (self.apart - {*joined}) | {*apart})

    def keys(self, person: str) -> tuple[object, ...]:
        """Return what a person, folded, is the same by: see `identities`; a group of addresses is a tuple."""
        address = name_and_address(person)[1] if self.same or self.apart else ""
        own = (address,) if address in self.apart else identities(person)
        return *own, *(one for one in self.same if address in one)

    def others(self, people: Iterable[str]) -> set[str]:
        """Return the addresses that are joined with those of some people."""
        held = {name_and_address(one)[1] for one in people} if self.same else set()
        return {each for one in self.same if not held.isdisjoint(one) for each in one}


NO_TIES = Ties()


def addresses_in(people: Iterable[str]) -> frozenset[str]:
    """Return the addresses of people."""
    return frozenset({name_and_address(one)[1] for one in people} - {""})


def names_in(people: Iterable[str]) -> frozenset[frozenset[str]]:
    """Return the words of the names of people that have several words."""
    return frozenset(said for one in people for said in identities(one) if isinstance(said, frozenset))


def same_people(people: Iterable[str], keys: Callable[[str], Sequence[object]] = identities) -> list[tuple[str, ...]]:
    """Group people, folded, who are the same one: by an address, or by a name of at least two words; or other keys."""
    above, groups, firsts = dict[object, object](), dict[object, list[str]](), dict[str, object]()

    def top(key: object) -> object:
        while (up := above.setdefault(key, key)) is not key:
            above[key] = key = above[up]  # halves the way, which grows with each address of a name
        return key

    for one in sorted(people):
        firsts[one], *others = keys(one)
        for other in others:
            above[top(other)] = top(firsts[one])
    for one, first in firsts.items():
        groups.setdefault(top(first), []).append(one)
    return [tuple(group) for group in groups.values()]
