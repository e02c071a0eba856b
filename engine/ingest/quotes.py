"""Splits a mail's text into passages and labels each as body, quote, forward or signature, in linear time.

A quoted or forwarded passage has the date in its own header lines; where that cannot be read it has none, since that of
the mail around it would be wrong.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from itertools import takewhile

from msgspec import Struct

from engine.ingest.headers import CLOCK, SKEW, WIDEST, date_in_header, parse_addresses
from engine.ingest.types import named_zone
from prompts import word_patterns
from store.types import Document, DocumentPassage, Role, replace

# Marks: lines at which a quote, a forwarded message or a signature starts.

_WORDS = word_patterns("mail_programs")
_RULE = r"[\s=*]*+[-_]{2,}+[-_=*\s]*+"
_ONE_LINE = r"[^-_=:<>]{3,60}?-{3,} ?[^\d:：<>@-]{1,24}[:：] ?(?P<who>[^<>@:：]{1,80}<[^\s<>@]+@[^\s<>@]+>)"
ORIGINAL = re.compile(rf"{_RULE}(?:(?:{_WORDS['original']})\b.{{0,60}}$|{_ONE_LINE})", re.IGNORECASE)
FORWARDED = re.compile(rf"{_RULE}(?:{_WORDS['forwarded']})\b|(?:{_WORDS['announced']})\b.{{0,20}}$", re.IGNORECASE)
_NAMES = "|".join(f"({_WORDS[kind]})" for kind in ("from", "to", "cc", "date", "subject"))
FIELD = re.compile(rf"[*\s]{{0,12}}(?:{_NAMES})[*\s]{{0,4}}[:：]", re.IGNORECASE)
WROTE_END = re.compile(rf"(?:{_WORDS['wrote']})(?:\s.{{0,80}})?\s{{0,5}}[:：]$", re.IGNORECASE)
# In any language, a header is lines of a label and a value, and an attribution has an address and a time.
_LABELLED = re.compile(r"[*\s]{0,12}[^\W\d_][^\d:：<>@|,;!?]{0,24}[*\s]{0,4}[:：][*\s|]*(.*)")
_PERSON = re.compile(
    r"(?:[^<>@]{1,80}[<\[(]\s?(?:mailto:)?)?[^\s<>@\[\]()]{1,80}@[^\s<>@]{1,120}[>\])]*(?:\s*[,;].*)?$"
)
_IN_BRACKETS = re.compile(r"(?:[<\[(]|&lt;)\s?(?:mailto:)?([^\s<>@]{1,80}@[^\s<>@]{1,120}?)\s?(?:[>\])]|&gt;)")
_BARE_ADDRESS = re.compile(r"[^\s<>@,:]{1,80}@[^\s<>@,:]{1,120}")
# Older forms of Gmail end in a name, without a colon: a day and an address, or a day, a time and a zone.
_DAY_AND_NAME = re.compile(
    r"(?:19|20)\d\d[/-]\d\d?[/-]\d\d?\s(?:[^<>.?!]{2,80}<\s?[^\s<>@]{1,80}@[^\s<>@]{1,120}>"
    r"|\d\d?:\d\d GMT[+-]\d\d:\d\d [^<>.?!:\d]{2,60})$"
)
_TITLED_RULE = re.compile(r"[-_=*\s]{3,}[^\W\d_][^-_=]{2,60}?[-_=*\s]{3,}$")
_DATED = re.compile(r"(?<!\d)(?:(?:19|20)\d\d|\d\d?([./-])\d\d?\1\d\d)(?!\d)")
_WHEN = r"\d{1,2}/\d{1,2}/(?:19|20)?\d\d\s{1,3}\d{1,2}:\d\d(?::\d\d)?\s?(?:[AP]M)?"
NOTES_DATE = re.compile(rf"(?:{_WHEN}|\d{{1,2}}:\d\d(?::\d\d)? [AP]M)$", re.IGNORECASE)
NOTES_ON = re.compile(rf".{{2,120}} on (?:{_WHEN}|\d{{1,2}}/\d{{1,2}}/(?:19|20)?\d\d)$", re.IGNORECASE)
SENT_FROM = re.compile(rf"(?:{_WORDS['signed']})(?:\b|(?<=的))[^.?!]{{1,60}}\.?$", re.IGNORECASE)
SIGNED_STARTS = {words[:4].lower() for words in _WORDS["signed"].split("|")}
_LINKED = re.compile(r"\s?[(<\[]\s?https?://[^\s()<>]+\s?[)>\]]")
MOBILE = re.compile(r"desk|office|home|car\b|bed\b|account", re.IGNORECASE)
LIST_FOOTER = re.compile(_WORDS["footer"], re.IGNORECASE)
LEGAL, BANNER = re.compile(_WORDS["legal"]), re.compile(_WORDS["banner"])
LEGAL_HINTS = ("onfiden", "ntended", "ertraulich", "isclaim", "ONFIDENTIAL", "estinataire", "rivileged")
PHONE = re.compile(r"(?:\+|\(|\b)\d[\d ()./-]{6,20}\d\b")
CONTACT = re.compile(r"(?:https?://|www\.)\S{3}|\S@\S{3}")
_ARMOUR = re.compile(r"-----(?:BEGIN|END) PGP SIGN[A-Z ]{4,16}-----|Hash: [A-Z][A-Z\d, -]{2,40}$")
_COLONS, _ENDS, _RULES = frozenset(":："), frozenset(":：>"), frozenset("-_=*—")
_BLOCK, _EARLY = 24, 40  # lines of a header; characters of an attribution that begin with its day


def may_mark(line: str) -> bool:
    """Return whether a stripped line can be a mark at all; most lines cannot, and skip the patterns."""
    if line[0] in _RULES or line[-1] in _ENDS or ":" in (start := line[:26]) or "：" in start:
        return True
    return len(line) <= 90 and line[:4].lower() in SIGNED_STARTS


def starts_header_block(lines: Sequence[str], at: int, title: str = "") -> bool:
    """Return whether a quoted header starts here: From or To, and at least two more of five fields close by.

    Fields of languages that are not known have the shape of one, and the subject of the mail, if its `title` is known.
    """
    first = FIELD.match(lines[at][:WIDEST])
    if first is None or first.lastindex in (3, 5):
        return _has_shape_of_header(lines, at, title)
    seen, misses = {first.lastindex}, 0
    for line in lines[at + 1 : at + _BLOCK]:
        found = FIELD.match(line[:WIDEST])
        seen |= {found.lastindex} if found else set()
        misses = 0 if found else misses + bool(line.strip())
        if misses > (6 if not found and line[:1].isspace() else 3) or len(seen) >= 4:
            break
    return (len(seen) >= 3 and bool(seen & {1, 2}) and bool(seen & {4, 5})) or _has_shape_of_header(lines, at, title)


def _has_shape_of_header(lines: Sequence[str], at: int, title: str) -> bool:
    """Return whether three labelled lines or more start here: a time, and a named sender, two people, or the title."""
    values, others = list[str](), 0
    for line in lines[at : at + _BLOCK]:
        found = _LABELLED.match(line[:WIDEST])
        others += found is None
        if not line.strip() or not (found or values) or others > 2:
            break
        values += [found[1].strip()] if found else []
    if len(values) < 3 or not any(_DATED.search(value) and CLOCK.search(value) for value in values):
        return False
    people = [_PERSON.match(value) is not None for value in values]
    titled = title and any(value.casefold().endswith(title) for value in values)
    named = people[0] and not _BARE_ADDRESS.match(values[0])
    return bool((titled if title else named) or (len(values) > 3 and (titled or sum(people) > 1)))


def lines_above_header(lines: Sequence[str], at: int) -> int:
    """Return the number of lines above a header block that belong to it: a rule, or Notes' writer and date."""
    above = next((one for one in range(at - 1, max(at - 4, -1), -1) if lines[one].strip()), -1)
    text = lines[above].strip()[:WIDEST] if above >= 0 else ""
    if NOTES_ON.match(text) or (len(text) >= 5 and not text.strip("-_=*")) or _TITLED_RULE.match(text):
        return at - above
    if not NOTES_DATE.match(text):
        return 0
    names = (one for one in range(above - 1, max(above - 4, -1), -1) if 0 < len(lines[one].strip()) <= 120)
    return at - next((one for one in names if not lines[one].lstrip().startswith("Sent by:")), above)


def attribution_lines(lines: Sequence[str], at: int) -> int:
    """Return the number of lines of an attribution ("On Monday Ann wrote:") that ends here, 0 if none does."""
    tail, text = lines[at][-200:].strip(), ""
    if not (colon := tail[-1:] in _COLONS) and tail[-1:] not in ("-", ">") and tail[:2] not in ("19", "20"):
        return 0
    quoted = next_is_quoted(lines, at + 1)
    verb, ends = colon and WROTE_END.search(tail) is not None, not "".join(lines[at + 1 : at + 2]).strip()
    for begin in range(at, max(at - 5, -1), -1) if quoted or verb or ends else ():
        line = lines[begin].strip()
        if not line and text[:1] == "<":  # a link that a page has around an address, as text
            continue
        if not line or (line[0] == ">" and (text or not closes_address(lines, at))) or len(text) > WIDEST:
            break
        if text and text[0] != ">" and line[-1] != "<" and _LABELLED.match(line[:WIDEST]):
            break
        text = f"{line} {text}".strip()
        ruled = text[:2] == text[-2:] == "--"
        address = _IN_BRACKETS.search(text) or (ruled and _BARE_ADDRESS.search(text))
        if not colon and not ruled:
            found = ends and _DAY_AND_NAME.match(text) is not None
        elif _DATED.search(text):
            found = quoted or verb or bool(ends and address and CLOCK.search(text))
        else:
            found = bool(verb and ends and address and text[0] != "<")
        above = lines[begin - 1].strip() if begin else ""
        if found and (not above.strip(" >") or _DATED.search(line[:_EARLY])):
            named = above and not address and _IN_BRACKETS.search(above)  # "Ann <ann@x.org> wrote on 3", "June 2025:"
            return at - begin + 1 + bool(named and (begin == 1 or not lines[begin - 2].strip(" >")))
    return int(colon and quoted and bool(verb or _BARE_ADDRESS.search(tail) or CLOCK.search(tail)))


def closes_address(lines: Sequence[str], at: int) -> bool:
    """Return whether the `>` that begins a line ends an address that begins above: "Ann <ann@x.org", ">:"."""
    above = "".join(lines[max(at - 3, 0) : at]) if lines[at].rstrip()[-1:] in _COLONS else ""
    return above.count("<") > above.count(">")


def starts_list_footer(lines: Sequence[str], at: int) -> bool:
    """Return whether a mailing list's footer starts here: a rule, then the list's name or how to unsubscribe."""
    rules, below = 3 <= len(rule := lines[at].strip()) <= 120 and not rule.strip("_-=*"), lines[at + 1 : at + 4]
    listed = rules and any(LIST_FOOTER.search(line[:WIDEST]) for line in below)
    return listed and (len(rule) >= 20 or any(CONTACT.search(line[:WIDEST]) for line in below))


def next_is_quoted(lines: Sequence[str], at: int) -> bool:
    """Return whether the first non-blank line of the next three starts with `>`."""
    return next((line.lstrip() for line in lines[at : at + 3] if line.strip()), "")[:1] == ">"


class QuoteRoles(Struct, frozen=True):
    """The role of a message quoted below the mail's own text or with an attribution, and of one without either."""

    below: Role = "quote"
    alone: Role = "quote"
    title: str = ""  # without marks of replies, folded: a header in another language has it, too


IN_REPLY = QuoteRoles()
IN_NEW_MAIL = QuoteRoles(alone="forward")  # a subject without a reply mark: what it quotes is forwarded
IN_FORWARD = QuoteRoles("forward", "forward")


def passages_of(
    text: str, quotes: QuoteRoles = IN_REPLY, first_line: int = 1, sent: datetime | None = None
) -> tuple[DocumentPassage, ...]:
    """Return the paragraphs of a mail's text with their roles; lines count from `first_line`.

    Every non-blank line is in exactly one passage. `sent` is the date of the mail.
    """
    lines = text.split("\n")
    return _label_signatures(text, paragraphs(lines, line_roles(lines, quotes, sent), first_line, sent))


def line_roles(lines: Sequence[str], quotes: QuoteRoles = IN_REPLY, sent: datetime | None = None) -> list[Role]:
    """Return the role of each line; blank lines take that of the line above."""
    roles: list[Role] = []
    state: Role = "body"
    attributed = False
    for at, line in enumerate(lines):
        text = line.strip()
        if not text or state == "forward":
            roles.append(state)
        elif text[0] == ">" and (line[0] == ">" or not text[1:2].isdigit()) and not closes_address(lines, at):
            roles.append(quotes.below if attributed else quotes.alone)
            state = "body" if state == "signature" else state
        elif not may_mark(text):
            roles.append(state)
        elif FORWARDED.match(text[:WIDEST]):
            state = "forward"
            roles.append(state)
        elif state == "quote":
            roles.append(state)
        else:
            state = _mark_line(lines, at, state, quotes, roles, sent)
            attributed = attributed or roles[-1] == quotes.below
    return roles


def _mark_line(
    lines: Sequence[str], at: int, state: Role, quotes: QuoteRoles, roles: list[Role], sent: datetime | None
) -> Role:
    """Set the role of a line outside quotes that may be a mark, and of lines above it; return the next state."""
    text, header = lines[at].strip(), starts_header_block(lines, at, quotes.title)
    original, count = ORIGINAL.match(text[:WIDEST]), 0 if header else attribution_lines(lines, at)
    above = lines_above_header(lines, at) if header and not original else 0
    # A new mail, or what tells times to come, as those of a meeting, has forms of its own, shaped as headers are.
    if (reply := bool(header or count) and quotes is not IN_NEW_MAIL) and sent:
        times = (date_in_header(line, None, sent.tzinfo) for line in takewhile(str.strip, lines[at : at + 6]))
        reply = min(filter(None, times), default=sent) <= sent + SKEW
    if original or (header and (reply or FIELD.match(text) or above)):
        quoted = quotes.below if any(map(str.strip, lines[: at - above])) else quotes.alone
        roles[at - above :] = [quoted] * (above + 1)
        return quoted
    if count and (reply or next_is_quoted(lines, at + 1) or WROTE_END.search(text)):
        roles[at - count + 1 :] = [quotes.below] * count
        return state if next_is_quoted(lines, at + 1) else quotes.below
    separates = lines[at].rstrip() in ("--", "—") and (
        lines[at] == "-- " or sum(line.lstrip()[:1] not in ("", ">") for line in lines[at + 1 : at + 40]) <= 12
    )
    if separates or lines[at].startswith("-----BEGIN PGP SIGNATURE") or starts_list_footer(lines, at):
        state = "signature"
    bare = _LINKED.sub("", text)  # of a phone or mail program
    sent_from = len(bare) <= 90 and SENT_FROM.match(bare) and not MOBILE.search(bare)
    roles.append("signature" if sent_from or _ARMOUR.match(text) else state)
    return state


_QUOTE_MARKS = re.compile(r"\s{0,3}(?:>\s?)+")
_ABOVE, _DEEPEST = 10, 64  # lines above the first field of a header; quotations in quotations that are told apart


Origin = tuple[datetime | None, str]  # the date and author of a quoted message, as its header says
_UNKNOWN: Origin = (None, "")


def origins(lines: Sequence[str], roles: Sequence[Role], sent: datetime | None) -> list[Origin]:
    """Return the origin of the quoted or forwarded message of each line, an unknown one for other lines."""
    found, known = [_UNKNOWN] * len(lines), dict[int, Origin]()  # known by depth of quotation
    for at, line in enumerate(lines) if {"quote", "forward"} & set(roles) else ():
        quoted = roles[at] in ("quote", "forward")
        if quoted and line.strip():
            marks = None if closes_address(lines, at) else _QUOTE_MARKS.match(line)
            depth = min(marks[0].count(">"), _DEEPEST) if marks else 0
            for begin, level, origin in _headers(lines, at, depth, sent):
                known = {one: value for one, value in known.items() if one < level} | {level: origin}
                ends = (one for one in range(at, min(at + _BLOCK, len(lines))) if not level and not lines[one].strip())
                if (blank := next(ends, at)) > at and next_is_quoted(lines, blank):  # it has no marks, its message has
                    known[1] = origin
                found[begin:at] = [origin] * (at - begin)
                depth = level
            found[at] = known.get(depth, _UNKNOWN)
        elif quoted and at:
            found[at] = found[at - 1]
    return found


def _headers(lines: Sequence[str], at: int, depth: int, sent: datetime | None) -> Iterator[tuple[int, int, Origin]]:
    """Yield the first line, the depth of the message and its origin, where a header starts or an attribution ends."""
    bare = (_without_marks(lines[at], depth) if depth else lines[at]).strip()
    if not bare or not may_mark(bare):
        return
    block, here = lines[max(0, at - _ABOVE) : at + _BLOCK], min(at, _ABOVE)
    window = [_without_marks(line, depth) for line in block] if depth else list(block)
    if (rule := ORIGINAL.match(bare)) and rule["who"]:  # Yahoo's fields stand behind the rule, in one line
        yield at, depth, (date_in_header(bare[rule.end() :], sent), _person(rule["who"]))
    elif _is_mark(bare):
        yield at, depth, _header_origin(window, here + 1, sent)
    elif starts_header_block(window, here) and not (
        (field := _LABELLED.match(window[here - 1][:WIDEST]) if here else None)
        and (FIELD.match(field[0]) or _PERSON.match(field[1].strip()))
    ):
        above = lines_above_header(window, here)
        origin = _header_origin(window, here - above, sent)
        if origin[0] or not any(_is_mark(line.strip()) for line in window[:here]):  # else the mark's date holds
            yield at - above, depth, origin
    elif count := attribution_lines(window, here):
        text = " ".join(window[here - count + 1 : here + 1])
        origin = date_in_header(text, sent), _attributed_to(text)
        yield at - count + 1, depth + next_is_quoted(window, here + 1), origin


def _is_mark(line: str) -> bool:
    return (FORWARDED.match(line[:WIDEST]) or ORIGINAL.match(line[:WIDEST])) is not None


def _header_origin(window: Sequence[str], at: int, sent: datetime | None) -> Origin:
    """Return the date and author in the header below: in fields of these names, as Notes writes them, or the first."""
    dates, noted, authors, people = list[str](), list[str](), list[str](), list[str]()
    fields, ended = 0, False
    for place, line in enumerate(window[at : at + _BLOCK], at):
        text, field, below = line.strip()[:WIDEST], FIELD.match(line[:WIDEST]), "".join(window[place + 1 :][:1])
        labelled, kind = _LABELLED.match(text), field.lastindex if field else 0
        value = labelled[1].strip() if labelled else line[field.end() :].strip() if field else ""
        fields += bool(field or labelled)
        ended = ended or (not text and fields > 1)
        if not (ended or dates):
            if kind == 4 or (_DATED.search(value) and CLOCK.search(value)):
                dates.append(value or below)
            elif kind == 1 or NOTES_DATE.match(text) or NOTES_ON.match(text):
                noted.append(text)
        if field and kind == 1:
            authors.append(line[field.end() :].strip(" *|") or below)
        elif NOTES_ON.match(text):
            authors.append(text.rpartition(" on ")[0])
        elif NOTES_DATE.match(text):
            above = (one.strip() for one in reversed(window[max(0, place - 3) : place]))
            authors.append(next(filter(None, above), ""))
        elif not kind and _PERSON.match(value) and all(map(str.strip, window[at:place])):
            people.append(value)
    found = (date_in_header(one, sent) for one in (*dates, *noted))
    return next(filter(None, found), None), _person(next(iter((*authors, *people)), ""))


_OTHER = re.compile(r"[^\w'’.-]|[\d_]")  # is in no name
_AROUND = " ,;:-([])\t\n，、。«»„“”‹›"  # a name
_WHEN_SAID = re.compile(  # up to the last time, with the ending of a numeral and a zone, or the last year or weekday
    r".*(?:\d\d?(?:[:.h]\d\d)+(?:\s?[AaPp]\.?[Mm]\.?)?(?:-?[^\W\d_A-Z]{1,4}(?=[\s,]))?(?:\s?\(?(?:GMT|UTC)?[+-]\d[\d:]*\)?)?"
    r"(?:\s\(?[^\W\d_a-z]{3,5}\)?(?=,|\s[^\W\d_A-Z]))?|\b\d{4}\b[\d./-]*|\b(?:Quoting|Uhr|\w{3,6}day)\b)",
    re.DOTALL,
)


def _attributed_to(text: str) -> str:
    """Return whom an attribution names ("On Friday at 10:00 Ann Whitlock <ann@example.org> wrote:")."""
    if address := _IN_BRACKETS.search(text):
        before = text[: address.start()].partition("<")[0].partition("&lt;")[0]
        name = _name(_WHEN_SAID.sub("", before))
        name = f'"{name}"' if re.fullmatch(r"[^\d\",@]+,[^\d\",@]+", name) else name  # "Whitlock, Ann (Parks)"
        return _person(f"{name} <{address[1]}>")
    if bare := _BARE_ADDRESS.search(text):
        before = text[: bare.start()].rstrip()
        return _person(f"{_run(_WHEN_SAID.sub('', before))} <{bare[0]}>") if before[-1:].isalpha() else bare[0]
    verb = WROTE_END.search(text.rstrip())
    before = text[: verb.start()] if verb else text
    behind = text[verb.start() :].partition(" ")[2] if verb else ""
    last = _WHEN_SAID.sub("", before)
    found = [_name(last) if verb else _run(last), _run(behind), _run(before)]
    return _person(next((one for one in found if any(c.isalpha() for c in one)), ""))


def _name(text: str) -> str:
    """Return a text from its first word on that may begin a name, behind longer words in lower case; or all of it."""
    words = text.strip(_AROUND).split()
    said = max((at for at, word in enumerate(words[:-1], 1) if len(word) > 3 and _is_lower(word)), default=0)
    words = words[said:] if said and not _is_lower(words[said]) else words
    words = words[1:] if len(words) > 1 and named_zone(words[0]) else words
    names = (at for at, word in enumerate(words) if not _is_lower(word) and _script(word) == _script(words[-1]))
    found = " ".join(words[next(names, 0) :]).strip(_AROUND)
    return f"{found})" if found.count("(") > found.count(")") else found


def _run(text: str) -> str:
    """Return the first words of a text with capitals, up to one without, of another script, or with digits."""
    words = text.strip(_AROUND).split()
    first = next((at for at, word in enumerate(words) if word[0].isupper()), 0 if len(words) < 3 else len(words))
    found = list[str]()
    for word in words[first:]:
        kept = "".join(takewhile(lambda c: not c.isalpha() or _script(c) == _script(words[first]), word))
        kept = _OTHER.split(kept.strip(_AROUND))[0].strip(_AROUND)  # without endings of other languages
        if _is_lower(word) or not kept:
            break
        found.append(kept)
        if kept != word:
            break
    return "" if _WHEN_SAID.match(" ".join(found)) else " ".join(found)


def _script(word: str) -> str:
    return next((unicodedata.name(c, "").split(" ")[0] for c in word if c.isalpha()), "")


def _is_lower(word: str) -> bool:
    return word.lstrip("\"'(«„“")[:1].islower()


# A name and an address, without what stands behind them, unless that is another name with an address.
_NAMED = re.compile(r"[^<>]{1,100}<[^<>]{3,200}>(?!.*\s[^\W\d_][\w.'’-]{2,} <[^<>@]+@)")


def _person(text: str) -> str:
    written = re.sub(r"[\[<]{1,2}mailto:", "<", text.strip(" *:：\t")[:WIDEST]).replace("]", ">")
    whole = _NAMED.match(written)
    found = parse_addresses(whole[0] if whole else written)
    shown = str(found[0]) if found else ""
    return shown if any(c.isalpha() for c in shown) else ""


def _without_marks(line: str, depth: int) -> str:
    """Return a line without its first `depth` quote marks; empty if it has fewer."""
    marks = re.match(rf"(?:\s*+> ?){{{depth}}}", line) if depth else None
    return line[marks.end() :] if marks else "" if depth else line


def paragraphs(
    lines: Sequence[str], roles: Sequence[Role], first_line: int, sent: datetime | None = None
) -> list[DocumentPassage]:
    """Return the passages of some lines, split at blank lines and where the role or origin of a quote changes."""
    passages: list[DocumentPassage] = []
    known = [*origins(lines, roles, sent), _UNKNOWN]
    begin = -1
    for at, line in enumerate([*lines, ""]):
        blank = not line or line.isspace()
        changes = blank or roles[at] != roles[begin] or (known[at] is not known[begin] and known[at] != known[begin])
        # A bare quote mark ends a paragraph that did not begin with one.
        if begin >= 0 and (changes or (_is_bare_quote(lines[at - 1]) and not _is_bare_quote(lines[begin]))):
            text, place = "\n".join(lines[begin:at]).strip(), (begin + first_line, at - 1 + first_line)
            written, author = known[begin]
            passages.append(DocumentPassage(text, *place, roles[begin], written=written, author=author))
            begin = -1
        if begin < 0 and not blank:
            begin = at
    return passages


def _is_bare_quote(line: str) -> bool:
    return line[-1:] in "> " and ">" in line and not line.strip(" \t>")


def _label_signatures(text: str, passages: list[DocumentPassage]) -> tuple[DocumentPassage, ...]:
    """Return the passages with banners of servers, disclaimers and the final contact block labelled as signatures."""
    own = [at for at, passage in enumerate(passages) if passage.role == "body"]
    first = passages[own[0]].text[:400] if len(own) > 1 else ""
    is_banner = len(set(BANNER.findall(first.lower()))) > (2 if re.match(r"[\[*(<]|[A-Z]{4}", first) else 3)
    found, own = {*own[:is_banner]}, own[is_banner:]
    if any(hint in text for hint in LEGAL_HINTS):
        found |= {at for at in own[1:] if len(set(LEGAL.findall(passages[at].text[:3000].lower()))) > 1}
        own = [at for at in own if at not in found]
    if len(own) > 1 and _is_contact_block(passages[own[-1]].text):
        found.add(own[-1])
    return tuple(replace(one, role="signature") if at in found else one for at, one in enumerate(passages))


def _is_contact_block(text: str) -> bool:
    lines = [line.strip() for line in text.split("\n")[:10]]
    if not 2 <= len(lines) <= 8 or any(len(line) > 60 for line in lines):
        return False
    named = not any(char.isdigit() or char in "@:" for char in lines[0])
    numbers = sum(bool(PHONE.search(line)) for line in lines)
    contacts = sum(bool(CONTACT.search(line)) for line in lines)
    return named and numbers + contacts >= 1 and numbers <= 4 and not any(one[-1:] in {*".?!"} for one in lines[1:])


# Deduplication of quotes: a passage is indexed in the document that wrote it, not in those that quote it.

_ALL_MARKS = re.compile(r"^[> ]+", re.MULTILINE)
_LONGEST_ATTRIBUTION = 5  # lines


def passage_digests(document: Document) -> list[bytes]:
    """Return a digest of each passage; quote marks, attributions, white space and case are ignored."""
    # That of a passage from an attached file is of all the file too, which so is indexed once, and never in part.
    found = [_digest(passage) for passage in document.passages]
    whole = dict[str, bytes]()
    for passage, digest in zip(document.passages, found, strict=True):
        whole[passage.file] = whole.get(passage.file, b"") + digest * bool(passage.file)
    return [
        blake2b(whole[one.file] + digest, digest_size=8).digest() if one.file else digest
        for one, digest in zip(document.passages, found, strict=True)
    ]


def split_passages(
    document: Document, digests: Sequence[bytes], owners: Mapping[bytes, str]
) -> tuple[list[DocumentPassage], list[bytes], list[bytes]]:
    """Return the passages to index, its own and quotes that no other document owns, their digests, and the others'."""
    kept, owned, quoted = [], [], []
    for passage, digest in zip(document.passages, digests, strict=True):
        if passage.is_repeated and owners.get(digest, document.id) != document.id:
            quoted.append(digest)
        else:
            kept.append(passage)
            owned.append(digest)
    return kept, owned, quoted


def _digest(passage: DocumentPassage) -> bytes:
    text, lines = passage.text, passage.text.split("\n", _LONGEST_ATTRIBUTION + 1)
    marked = next((at for at, line in enumerate(lines) if line.lstrip(" ").startswith(">")), 0)
    if passage.role != "body" and marked and attribution_lines(lines, marked - 1) == marked:
        text = "\n".join(lines[marked:])
    bare = " ".join(_ALL_MARKS.sub("", text).casefold().split())
    return blake2b(bare.encode("utf-8", "replace"), digest_size=8).digest()
