"""Splits a mail's text into paragraphs and tells its writer's own from quotes, forwards, signatures, in linear time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.ingest import marks, phrases
from store.types import Passage, Role


@dataclass(frozen=True, slots=True)
class Quotes:
    """The role of a message quoted below a mail's own words or with its writer named, and of one that stands alone."""

    below: Role = "quote"
    alone: Role = "quote"


ANSWERED = Quotes()
NEW = Quotes(alone="forward")  # nobody answers without a mark: it is passed on
PASSED_ON = Quotes("forward", "forward")


def passages_of(text: str, quotes: Quotes = ANSWERED, first_line: int = 1) -> tuple[Passage, ...]:
    """Give the paragraphs of a mail's text with their roles.

    Lines count from `first_line`. Every line that is not blank is in exactly one passage.
    """
    lines = text.split("\n")
    return _signatures(text, paragraphs(lines, line_roles(lines, quotes), first_line))


def line_roles(lines: Sequence[str], quotes: Quotes = ANSWERED) -> list[Role]:
    """Give each line its role; blank lines have that of the lines above."""
    roles: list[Role] = []
    state: Role = "body"
    attributed = False
    for at, line in enumerate(lines):
        text = line.strip()
        if not text or state == "forward":
            roles.append(state)
        elif text[0] == ">" and not (line[0] != ">" and text[1:2].isdigit()):  # indented: "more than 40"
            roles.append(quotes.below if attributed else quotes.alone)
            state = "body" if state == "signature" else state
        elif not marks.may_mark(text):
            roles.append(state)
        elif marks.is_forward_mark(text):
            state = "forward"
            roles.append(state)
        elif state == "quote":
            roles.append(state)
        else:
            state = _own(lines, at, state, quotes, roles)
            attributed = attributed or roles[-1] == quotes.below
    return roles


def _own(lines: Sequence[str], at: int, state: Role, quotes: Quotes, roles: list[Role]) -> Role:
    """Judge a line outside quotes that may be a mark: set its role and those above it, give the state behind it."""
    text = lines[at].strip()
    if marks.is_original_mark(text):
        return _begin(lines, at, 0, quotes, roles)
    if marks.starts_header_block(lines, at):
        return _begin(lines, at, marks.lead_in(lines, at), quotes, roles)
    if count := marks.attribution_lines(lines, at):
        roles[at - count + 1 :] = [quotes.below] * count
        return state if marks.next_is_quoted(lines, at + 1) else quotes.below
    if _begins_signature(lines, at):
        roles.append("signature")
        return "signature"
    roles.append("signature" if marks.is_sent_from(text) else state)
    return state


def _begin(lines: Sequence[str], at: int, above: int, quotes: Quotes, roles: list[Role]) -> Role:
    """Let a quoted message begin `above` lines above this one."""
    own = any(line.strip() for line in lines[: at - above])
    quoted = quotes.below if own else quotes.alone
    roles[at - above :] = [quoted] * (above + 1)
    return quoted


def _begins_signature(lines: Sequence[str], at: int) -> bool:
    if lines[at].lstrip()[0] not in "-_=*—":
        return False
    if lines[at] == "-- ":
        return True
    if lines[at].rstrip() in ("--", "—"):
        rest = [line for line in lines[at + 1 : at + 40] if line.strip() and not line.lstrip().startswith(">")]
        return len(rest) <= 12
    return marks.starts_list_footer(lines, at)


def paragraphs(lines: Sequence[str], roles: Sequence[Role], first_line: int) -> list[Passage]:
    """Cut lines at blank ones and where the role changes."""
    passages: list[Passage] = []
    begin = -1
    for at, line in enumerate([*lines, ""]):
        blank = not line or line.isspace()
        if begin >= 0 and (blank or roles[at] != roles[begin] or _ends_quoted(lines, begin, at - 1)):
            text = "\n".join(lines[begin:at]).strip()
            passages.append(Passage(text, begin + first_line, at - 1 + first_line, roles[begin]))
            begin = -1
        if begin < 0 and not blank:
            begin = at
    return passages


def _ends_quoted(lines: Sequence[str], begin: int, last: int) -> bool:
    """Say whether a bare quote mark ends the paragraph; one that begins it does not."""
    return _is_bare_quote(lines[last]) and not _is_bare_quote(lines[begin])


def _is_bare_quote(line: str) -> bool:
    return line[-1:] in "> " and ">" in line and not line.strip(" \t>")


def _signatures(text: str, passages: list[Passage]) -> tuple[Passage, ...]:
    """Find disclaimers, and the block of name and numbers that ends the writer's own text."""
    own = [at for at, passage in enumerate(passages) if passage.role == "body"]
    if any(hint in text for hint in phrases.LEGAL_HINTS):
        legal = {at for at in own[1:] if _is_legal(passages[at].text)}
        passages = [replace(one, role="signature") if at in legal else one for at, one in enumerate(passages)]
        own = [at for at in own if at not in legal]
    if len(own) > 1 and _is_contact_block(passages[own[-1]].text):
        passages[own[-1]] = replace(passages[own[-1]], role="signature")
    return tuple(passages)


def _is_legal(text: str) -> bool:
    return len({found.lower() for found in phrases.LEGAL.findall(text[:3000])}) >= 2


def _is_contact_block(text: str) -> bool:
    lines = [line.strip() for line in text.split("\n")[:10]]
    if not 2 <= len(lines) <= 8 or any(len(line) > 60 for line in lines):
        return False
    named = not any(char.isdigit() or char in "@:" for char in lines[0])
    numbers = sum(bool(phrases.PHONE.search(line)) for line in lines)
    contacts = sum(bool(phrases.CONTACT.search(line)) for line in lines)
    return (
        named
        and numbers <= 4
        and numbers + contacts >= 1
        and not any(line.endswith((".", "?", "!")) for line in lines[1:])
    )
