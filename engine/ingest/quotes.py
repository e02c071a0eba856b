"""Splits a mail's text into passages and labels each as body, quote, forward or signature, in linear time."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from store.types import DocumentPassage, Role

# Marks: lines at which a quote, a forwarded message or a signature starts.

_RULE = r"[\s=*]*+[-_]{2,}+[-_=*\s]*+"

ORIGINAL = re.compile(
    _RULE + r"(?:Original (?:Message|Appointment|Mail)|Reply (?:Separator|Message)"
    r"|Ursprüngliche (?:Nachricht|E-Mail)|Original-Nachricht|Message d['’]origine|Message original"
    r"|Mensaje original|Messaggio originale|Mensagem original|Oorspronkelijk bericht"
    r"|Oprindelig meddelelse|Ursprungligt meddelande|Opprinnelig melding|Alkuperäinen viesti"
    r"|Исходное сообщение|Wiadomość oryginalna|原始邮件|原始郵件|元のメッセージ)\b.{0,60}$",
    re.IGNORECASE,
)
FORWARDED = re.compile(
    _RULE + r"(?:Forwarded (?:by|message|mail)|Forward Header|Weitergeleitete Nachricht|Message transféré"
    r"|Mensaje reenviado|Messaggio inoltrato|Mensagem encaminhada|Doorgestuurd bericht|Videresendt|Vidarebefordrat"
    r"|Пересылаемое сообщение|转发邮件|転送メッセージ)\b"
    r"|(?:Begin forwarded message|Anfang der weitergeleiteten (?:Nachricht|E-Mail)"
    r"|Début du (?:message )?(?:transféré|réexpédié)|Inicio del mensaje reenviado|Inizio messaggio inoltrato"
    r"|Begin doorgestuurd bericht|Início da mensagem reencaminhada)\b.{0,20}$",
    re.IGNORECASE,
)
FIELD = re.compile(  # groups: 1 from, 2 to, 3 cc, 4 date, 5 subject
    r"[*\s]{0,12}(?:(from|von|de|da|van|från|fra|od|от|发件人|寄件者|差出人)"
    r"|(to|an|à|para|aan|till|til|a|do|кому|收件人|宛先)"
    r"|(cc|kopie|копия|抄送)"
    r"|(sent|date|gesendet|datum|envoyé|enviado(?: el)?|fecha|data|inviato|verzonden|skickat|sendt|dato|wysłano"
    r"|дата|отправлено|发送时间|日期|送信日時|日時)"
    r"|(subject|re|betreff|objet|asunto|oggetto|assunto|onderwerp|ämne|emne|temat|тема|主题|主旨|件名)"
    r")[*\s]{0,4}[:：]",
    re.IGNORECASE,
)
STARTS = re.compile(
    r"(?:On|Am|Le|El|Il|Op|Em|Den|W dniu|Dnia|Dne|På|Pe|In|At|Quoting|Citat|В|Пн|Вт|Ср|Чт|Пт|Сб|Вс|在|于|\d{4})\b",
    re.IGNORECASE,
)
WROTE_END = re.compile(
    r"(?:wrote|writes|said|schrieb|a écrit|escribió|ha scritto|schreef|escreveu|skrev|napisała?|пишет|написала?"
    r"|kirjoitti|yazdı|写道|寫道|のメール)(?:\s.{0,80})?\s{0,5}[:：]$",
    re.IGNORECASE,
)
ADDRESS_END = re.compile(r"[^\s<>@]{1,80}@[^\s<>@]{1,120}>?\s{0,5}[:：]$")
DATED = re.compile(r"\d{1,4}[./:年-]\s?\d{1,2}|@|\b(?:19|20)\d\d\b")

_WHEN = r"\d{1,2}/\d{1,2}/(?:19|20)?\d\d\s{1,3}\d{1,2}:\d\d(?::\d\d)?\s?(?:[AP]M)?"
NOTES_DATE = re.compile(rf"(?:{_WHEN}|\d{{1,2}}:\d\d(?::\d\d)? [AP]M)$", re.IGNORECASE)
NOTES_ON = re.compile(rf".{{2,120}} on (?:{_WHEN}|\d{{1,2}}/\d{{1,2}}/(?:19|20)?\d\d)$", re.IGNORECASE)

SENT_FROM = re.compile(
    r"(?:Sent|Send) (?:from|via|with|using|wirelessly)(?: (?:my|the|a|via|Yahoo|Outlook|Mail|Gmail))?\b"
    r"[\w .+&®™'-]{0,60}$"
    r"|(?:Von meine[mr]|Gesendet (?:von|mit)|Envoyé (?:de|depuis|à partir)|Enviado (?:desde|do|de|a partir)"
    r"|Inviato da(?:l mio)?|Verzonden (?:vanaf|met|van)|Skickat från|Sendt fra|Wysłane z|Отправлено (?:с|из)"
    r"|Get Outlook for)\b[^.?!]{1,60}\.?$"
    r"|(?:發自|发自)我的.{1,30}$",
    re.IGNORECASE,
)
SIGNED_STARTS = frozenset(  # the first four letters of everything that SENT_FROM matches
    (
        *("sent", "send", "von ", "gese", "envo", "envi", "invi"),
        *("verz", "skic", "wysł", "отпр", "get ", "發自我的", "发自我的"),
    )
)
MOBILE = re.compile(r"desk|office|home|car\b|bed\b|account", re.IGNORECASE)
LIST_FOOTER = re.compile(
    r"mailing list|mailingliste|unsubscribe|liste de diffusion|listinfo|yahoogroups|groups\.google", re.IGNORECASE
)
LEGAL = re.compile(
    r"confidential|privileged|intended (?:only |solely |exclusively )?(?:for|recipient)|notify the sender"
    r"|unauthori[sz]ed|disclaim|received this .{0,40}in error|vertraulich|destinataire|confidencial",
    re.IGNORECASE,
)
LEGAL_HINTS = ("onfiden", "ntended", "ertraulich", "isclaim", "ONFIDENTIAL", "estinataire", "rivileged")
PHONE = re.compile(r"(?:\+|\(|\b)\d[\d ()./-]{6,20}\d\b")
CONTACT = re.compile(r"(?:https?://|www\.)\S{3}|\S@\S{3}")


_COLONS = frozenset(":：")
_RULES = frozenset("-_=*—")
_WIDEST = 400  # characters of a line that are matched


def may_mark(line: str) -> bool:
    """Return whether a stripped line can be a mark at all; most lines cannot, and skip the patterns."""
    return (
        line[0] in _RULES
        or line[-1] in _COLONS
        or ":" in line[:20]
        or "：" in line[:20]
        or (len(line) <= 90 and line[:4].lower() in SIGNED_STARTS)
    )


def is_forward_mark(line: str) -> bool:
    """Return whether a stripped line announces a forwarded message."""
    return FORWARDED.match(line[:_WIDEST]) is not None


def is_original_mark(line: str) -> bool:
    """Return whether a stripped line announces the original message."""
    return ORIGINAL.match(line[:_WIDEST]) is not None


def starts_header_block(lines: Sequence[str], at: int) -> bool:
    """Return whether a quoted header starts here: From or To, and at least two more of five fields close by."""
    first = FIELD.match(lines[at][:_WIDEST])
    if first is None or first.lastindex in (3, 5):
        return False
    seen, misses = {first.lastindex}, 0
    for line in lines[at + 1 : at + 24]:
        found = FIELD.match(line[:_WIDEST])
        if found is not None:
            seen.add(found.lastindex)
            misses = 0
        elif line.strip():
            misses += 1
        if misses > (6 if found is None and line[:1].isspace() else 3) or len(seen) >= 4:
            break
    return len(seen) >= 3 and bool(seen & {1, 2}) and bool(seen & {4, 5})


def lines_above_header(lines: Sequence[str], at: int) -> int:
    """Return the number of lines above a header block that belong to it: a rule, or Notes' writer and date."""
    above = at - 1
    while above >= 0 and at - above < 4 and not lines[above].strip():
        above -= 1
    if above < 0:
        return 0
    text = lines[above].strip()[:_WIDEST]
    if NOTES_ON.match(text) or (len(text) >= 5 and not text.strip("-_=*")):
        return at - above
    if not NOTES_DATE.match(text):
        return 0
    for name in range(above - 1, max(above - 4, -1), -1):
        line = lines[name].strip()
        if 0 < len(line) <= 120 and not line.startswith("Sent by:"):
            return at - name
    return at - above


def attribution_lines(lines: Sequence[str], at: int) -> int:
    """Return the number of lines of an attribution ("On Monday Ann wrote:") that ends here, 0 if none does."""
    if not _ends_attribution(lines[at], lines, at + 1):
        return 0
    text = ""
    for begin in range(at, max(at - 4, -1), -1):
        line = lines[begin].strip()
        text = f"{line} {text}"
        if not line or line[0] == ">" or len(text) > _WIDEST:
            break
        if STARTS.match(line.lstrip("*_- ")) and DATED.search(text):
            return at - begin + 1
    return int(next_is_quoted(lines, at + 1))


def is_sent_from(line: str) -> bool:
    """Return whether a line is the signature of a phone or mail program."""
    text = line.strip()
    return len(text) <= 90 and SENT_FROM.match(text) is not None and not MOBILE.search(text)


def starts_list_footer(lines: Sequence[str], at: int) -> bool:
    """Return whether a mailing list's footer starts here: a rule, then the list's name or how to unsubscribe."""
    rule = lines[at].strip()
    if len(rule) < 20 or rule.strip("_-=*") or len(rule) > 120:
        return False
    return any(LIST_FOOTER.search(line[:_WIDEST]) for line in lines[at + 1 : at + 4])


def _ends_attribution(text: str, lines: Sequence[str], behind: int) -> bool:
    tail = text[-200:].rstrip()
    if tail[-1:] not in _COLONS:
        return False
    if WROTE_END.search(tail):
        return True
    return ADDRESS_END.search(tail) is not None and next_is_quoted(lines, behind)


def next_is_quoted(lines: Sequence[str], at: int) -> bool:
    """Return whether the first non-blank line of the next three starts with `>`."""
    behind = next((line.lstrip() for line in lines[at : at + 3] if line.strip()), "")
    return behind.startswith(">")


# Passages and their roles.


@dataclass(frozen=True, slots=True)
class QuoteRoles:
    """The role of a message quoted below the mail's own text or with an attribution, and of one without either."""

    below: Role = "quote"
    alone: Role = "quote"


IN_REPLY = QuoteRoles()
IN_NEW_MAIL = QuoteRoles(alone="forward")  # a subject without a reply mark: what it quotes is forwarded
IN_FORWARD = QuoteRoles("forward", "forward")


def passages_of(text: str, quotes: QuoteRoles = IN_REPLY, first_line: int = 1) -> tuple[DocumentPassage, ...]:
    """Return the paragraphs of a mail's text with their roles; lines count from `first_line`.

    Every non-blank line is in exactly one passage.
    """
    lines = text.split("\n")
    return _label_signatures(text, paragraphs(lines, line_roles(lines, quotes), first_line))


def line_roles(lines: Sequence[str], quotes: QuoteRoles = IN_REPLY) -> list[Role]:
    """Return the role of each line; blank lines take that of the line above."""
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
        elif not may_mark(text):
            roles.append(state)
        elif is_forward_mark(text):
            state = "forward"
            roles.append(state)
        elif state == "quote":
            roles.append(state)
        else:
            state = _mark_line(lines, at, state, quotes, roles)
            attributed = attributed or roles[-1] == quotes.below
    return roles


def _mark_line(lines: Sequence[str], at: int, state: Role, quotes: QuoteRoles, roles: list[Role]) -> Role:
    """Set the role of a line outside quotes that may be a mark, and of lines above it; return the next state."""
    text = lines[at].strip()
    if is_original_mark(text):
        return _start_quote(lines, at, 0, quotes, roles)
    if starts_header_block(lines, at):
        return _start_quote(lines, at, lines_above_header(lines, at), quotes, roles)
    if count := attribution_lines(lines, at):
        roles[at - count + 1 :] = [quotes.below] * count
        return state if next_is_quoted(lines, at + 1) else quotes.below
    if _begins_signature(lines, at):
        roles.append("signature")
        return "signature"
    roles.append("signature" if is_sent_from(text) else state)
    return state


def _start_quote(lines: Sequence[str], at: int, above: int, quotes: QuoteRoles, roles: list[Role]) -> Role:
    """Start a quoted message `above` lines above this one; return the next state."""
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
    return starts_list_footer(lines, at)


def paragraphs(lines: Sequence[str], roles: Sequence[Role], first_line: int) -> list[DocumentPassage]:
    """Return the passages of some lines, split at blank lines and where the role changes."""
    passages: list[DocumentPassage] = []
    begin = -1
    for at, line in enumerate([*lines, ""]):
        blank = not line or line.isspace()
        if begin >= 0 and (blank or roles[at] != roles[begin] or _ends_quoted(lines, begin, at - 1)):
            text = "\n".join(lines[begin:at]).strip()
            passages.append(DocumentPassage(text, begin + first_line, at - 1 + first_line, roles[begin]))
            begin = -1
        if begin < 0 and not blank:
            begin = at
    return passages


def _ends_quoted(lines: Sequence[str], begin: int, last: int) -> bool:
    """Return whether the paragraph ends with a bare quote mark that did not also start it."""
    return _is_bare_quote(lines[last]) and not _is_bare_quote(lines[begin])


def _is_bare_quote(line: str) -> bool:
    return line[-1:] in "> " and ">" in line and not line.strip(" \t>")


def _label_signatures(text: str, passages: list[DocumentPassage]) -> tuple[DocumentPassage, ...]:
    """Return the passages with disclaimers and the final contact block labelled as signatures."""
    own = [at for at, passage in enumerate(passages) if passage.role == "body"]
    if any(hint in text for hint in LEGAL_HINTS):
        legal = {at for at in own[1:] if _is_legal(passages[at].text)}
        passages = [replace(one, role="signature") if at in legal else one for at, one in enumerate(passages)]
        own = [at for at in own if at not in legal]
    if len(own) > 1 and _is_contact_block(passages[own[-1]].text):
        passages[own[-1]] = replace(passages[own[-1]], role="signature")
    return tuple(passages)


def _is_legal(text: str) -> bool:
    return len({found.lower() for found in LEGAL.findall(text[:3000])}) >= 2


def _is_contact_block(text: str) -> bool:
    lines = [line.strip() for line in text.split("\n")[:10]]
    if not 2 <= len(lines) <= 8 or any(len(line) > 60 for line in lines):
        return False
    named = not any(char.isdigit() or char in "@:" for char in lines[0])
    numbers = sum(bool(PHONE.search(line)) for line in lines)
    contacts = sum(bool(CONTACT.search(line)) for line in lines)
    return (
        named
        and numbers <= 4
        and numbers + contacts >= 1
        and not any(line.endswith((".", "?", "!")) for line in lines[1:])
    )
