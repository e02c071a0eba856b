"""Tells the lines that mark what is not the writer's own: attributions, header blocks, forwards, signatures."""

from collections.abc import Sequence

from engine.ingest import phrases

_COLONS = frozenset(":：")
_RULES = frozenset("-_=*—")
_WIDEST = 400  # characters of a line that are looked at


def may_mark(line: str) -> bool:
    """Say whether a stripped line can be any mark; this spares most lines the patterns."""
    return (
        line[0] in _RULES
        or line[-1] in _COLONS
        or ":" in line[:20]
        or "：" in line[:20]
        or (len(line) <= 90 and line[:4].lower() in phrases.SIGNED_STARTS)
    )


def is_forward_mark(line: str) -> bool:
    """Say whether a forwarded message begins here, by the words of a stripped line."""
    return phrases.FORWARDED.match(line[:_WIDEST]) is not None


def is_original_mark(line: str) -> bool:
    """Say whether an answered message begins here, by the words of a stripped line."""
    return phrases.ORIGINAL.match(line[:_WIDEST]) is not None


def starts_header_block(lines: Sequence[str], at: int) -> bool:
    """Say whether a quoted header stands here: From or To, and at least two others of five fields, close together."""
    first = phrases.FIELD.match(lines[at][:_WIDEST])
    if first is None or first.lastindex in (3, 5):
        return False
    seen, misses = {first.lastindex}, 0
    for line in lines[at + 1 : at + 24]:
        found = phrases.FIELD.match(line[:_WIDEST])
        if found is not None:
            seen.add(found.lastindex)
            misses = 0
        elif line.strip():
            misses += 1
        if misses > (6 if found is None and line[:1].isspace() else 3) or len(seen) >= 4:
            break
    return len(seen) >= 3 and bool(seen & {1, 2}) and bool(seen & {4, 5})


def lead_in(lines: Sequence[str], at: int) -> int:
    """Count the lines right above a header block that belong to it: a rule, or writer and moment as Notes puts them."""
    above = at - 1
    while above >= 0 and at - above < 4 and not lines[above].strip():
        above -= 1
    if above < 0:
        return 0
    text = lines[above].strip()[:_WIDEST]
    if phrases.NOTES_ON.match(text) or (len(text) >= 5 and not text.strip("-_=*")):
        return at - above
    if not phrases.NOTES_DATE.match(text):
        return 0
    for name in range(above - 1, max(above - 4, -1), -1):
        line = lines[name].strip()
        if 0 < len(line) <= 120 and not line.startswith("Sent by:"):
            return at - name
    return at - above


def attribution_lines(lines: Sequence[str], at: int) -> int:
    """Count the lines of an attribution such as "On Monday Ann wrote:" that ends here, 0 if none does."""
    if not _ends_attribution(lines[at], lines, at + 1):
        return 0
    text = ""
    for begin in range(at, max(at - 4, -1), -1):
        line = lines[begin].strip()
        text = f"{line} {text}"
        if not line or line[0] == ">" or len(text) > _WIDEST:
            break
        if phrases.STARTS.match(line.lstrip("*_- ")) and phrases.DATED.search(text):
            return at - begin + 1
    return int(next_is_quoted(lines, at + 1))


def is_sent_from(line: str) -> bool:
    """Say whether a phone or mail program signed here."""
    text = line.strip()
    return len(text) <= 90 and phrases.SENT_FROM.match(text) is not None and not phrases.MOBILE.search(text)


def starts_list_footer(lines: Sequence[str], at: int) -> bool:
    """Say whether a mailing list's own lines begin here: a rule, then the list's name or how to leave it."""
    rule = lines[at].strip()
    if len(rule) < 20 or rule.strip("_-=*") or len(rule) > 120:
        return False
    return any(phrases.LIST_FOOTER.search(line[:_WIDEST]) for line in lines[at + 1 : at + 4])


def _ends_attribution(text: str, lines: Sequence[str], behind: int) -> bool:
    tail = text[-200:].rstrip()
    if tail[-1:] not in _COLONS:
        return False
    if phrases.WROTE_END.search(tail):
        return True
    return phrases.ADDRESS_END.search(tail) is not None and next_is_quoted(lines, behind)


def next_is_quoted(lines: Sequence[str], at: int) -> bool:
    """Say whether the next line that is not blank, of three, is quoted by `>`."""
    behind = next((line.lstrip() for line in lines[at : at + 3] if line.strip()), "")
    return behind.startswith(">")
