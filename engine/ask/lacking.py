"""Whether a question stands alone, and if not, what it leaves out: its wording is looked at, and nothing before it.

English; what it takes for a follow-up is short. A doubtful case stands alone where names or things are said in it.
"""

import re
from datetime import datetime
from typing import Literal

from engine.ask.moving import moves
from engine.ask.phrases import ASKING, HELPER, PREPOSITION, bare, dated
from engine.ask.question import understand
from engine.ask.words import FUNCTION_WORDS, words

Lack = Literal["question", "subject", "place", "reference", "unclear"]
LONG, _LONGEST = 400, 30  # characters and words; a question of more stands alone
_SHORT = 9  # words; in a longer one "this" may mean what it says itself
_BRIEF = 5  # words of what is only a part of a question
_NOTHING = r"(?:exactly|precisely|then|there|though|again|so(?: [a-z]+)?|not|(?<=why )(?:was|is) that|please)"
_LEAD = re.compile(
    r"(?:(?:(?:and|but|or|also|then|so(?! far| many| much|-))\b[,.:;]?|(?:ok|okay|well|yes|no|right|hm+|thanks)[,.;!]+)"
    r"(?: |$))+",
    re.IGNORECASE,
)
WORD = re.compile(
    rf"(?=\S+(?: \S+){{0,4}}$)(?P<asking>{ASKING}|how come|how so|wh(?:om?|at|ere) (?:with|for|from|to))"
    rf"(?: {_NOTHING})*",
    re.IGNORECASE,
)
ABOUT = re.compile(r"(?:what|how) about (?P<what>.+)", re.IGNORECASE)
_FRAGMENT = re.compile(rf"(?!.*\b{HELPER}\b)(?:{PREPOSITION} )?[\w'’:.-]+(?: [\w'’:.-]+){{0,4}}", re.IGNORECASE)
_OPENS = re.compile(rf"(?:{ASKING}|{HELPER})\b", re.IGNORECASE)
BEHIND = rf"(?=$| (?:{PREPOSITION}|when|if|because|and|or|now|today|tomorrow|yesterday|last|next|this)\b)"
_ONE = re.compile(
    r"\bthe ones?\b|\b(?:the \w+|which|another|that|this) ones?$|^(?:anything|something) else\b", re.IGNORECASE
)
_MORE = re.compile(r"(?:(?:can you )?tell me )?more(?: about (?:it|that|this|them))?", re.IGNORECASE)
# One verb, and nothing that it is about: who will come?
HANGING = re.compile(
    rf"(?P<all>(?:who|what|which \w+|how many(?: \w+)?)(?: else)?(?: {HELPER}(?: not| be| been)?)? (?P<verb>[a-z]+))"
    r"(?P<rest>(?: (?:first|too|also|again|now|early|late|today|tomorrow|tonight|yesterday))?)",
    re.IGNORECASE,
)
_VERBS = {
    "to": "come comes came coming go goes went going gone invited",
    "for": "pay pays paid paying responsible vote voted signed",
    "with": "help helps helped helping happen happens happened agree agrees agreed involved",
    "about": "know knows knew say says said think thinks thought complain complained asked",
    "in": "participate participates participated participating interested",
    "at": "play plays played playing sing sings sang singing speak speaks spoke speaking perform performs performed "
    "performing eat cook present presenting",
    "": "win wins won attend attends attended attending organise organises organised organize organizes organized "
    "organising organizing lead leads led leading start started join joins joined joining cancel cancelled canceled "
    "miss missed run runs ran running wrote sent sold bought booked approved decided proposed suggested",
}
WAYS = {verb: way for way, verbs in _VERBS.items() for verb in verbs.split()}
# Where a pronoun stands that nothing in its own question explains.
_SUBJECT = re.compile(
    rf"(?:(?:{ASKING} )?{HELPER}|why|how come) (?P<it>he|she|they|it|his|her|their|its|this|that|these|those)\b",
    re.IGNORECASE,
)
_NAME = r"(?:(?-i:[A-Z])[\w.-]*(?: (?-i:[A-Z])[\w.-]*)*|I|we|you|they|the \w+|my \w+)"
_POINTS = rf"(?P<it>(?:him|her|them|it|this|that){BEHIND}|one$)"
_OBJECTS = (
    re.compile(rf"(?:who|what|which \w+)(?: else)?(?: {HELPER})?(?: [a-z]+){{1,2}} {_POINTS}", re.IGNORECASE),
    re.compile(rf"(?:{ASKING} )?{HELPER} {_NAME} [a-z]+(?: {PREPOSITION})? {_POINTS}", re.IGNORECASE),
    re.compile(rf"(?i:who|what)(?: [a-z]+){{2,5}} {PREPOSITION} (?P<it>him|her|them|it)$"),
)
_OWNED = re.compile(r"(?:what|which|how many) \w+(?: \w+)? (?:has|have|had) (?:his|her|their|its)\b", re.IGNORECASE)
_OWNER = re.compile(r"(?:who|what|which \w+)(?: [a-z]+){1,2} (?P<it>his|her|their|its) [a-z]+$", re.IGNORECASE)
_EMPTY = re.compile(
    r"(?:it|that|this) (?:take|takes|took|cost|true|possible|important|necessary|likely|ok|okay|safe|easy|hard|worth|be"
    r"|called|mean|seem|feel|matter|so)\b.* (?:to|that|for|if|when)\b|it (?:rain|snow|too late|late)",
    re.IGNORECASE,
)
_THERE = re.compile(
    r"(?:(?:who|which \w+)\b.*|.*(?<!\bis)(?<!\bare)(?<!\bwas)(?<!\bwere)) (?P<it>there)"
    r"(?=$| (?:on|in|at|with|last|next)\b)",
    re.IGNORECASE,
)
_ALONE = re.compile(
    rf"$| (?:{PREPOSITION}|true|right|correct|so|ok|okay|possible|allowed|confirmed|certain|clear|enough|all|because"
    r"|why|how|when|[a-z]+ed|mean|work|happen|change|matter|cost|take|help|start|end|begin)\b",
    re.IGNORECASE,
)
_THEN = re.compile(r".* (?P<it>then)$", re.IGNORECASE)
_SHOWN = re.compile(
    rf"(?:\b{PREPOSITION} that|^(?:{ASKING} )?{HELPER} that|\b(?:this|these|those)) (?P<noun>[a-z]\w+)", re.IGNORECASE
)
_SMALL = "is was are were will can who which that with in of on at he she they we you i it there have has had the a an"
_PLAIN = frozenset(_SMALL.split())
_SAYING_NOTHING = (
    "else really sure more ok okay thanks thank please exactly true right anything something other hello hi yes"
)
_SILENT = FUNCTION_WORDS | frozenset(words(_SAYING_NOTHING))
_A_DAY = datetime(2000, 1, 1)  # any: only whether a stretch is a date is asked


def core(text: str) -> str:
    """Give a question without what joins it to what was said before: and, but, so."""
    line = bare(text)
    return line[found.end() :] if (found := _LEAD.match(line)) else line


def lacks(text: str, *, first: bool = False) -> Lack | None:
    """Tell what a question leaves out; None where it stands alone. A `first` one has nothing before it."""
    line = core(text)
    if len(line) > LONG or len(line.split()) > _LONGEST or not line + bare(text):
        return None
    if _ONE.search(line) and _is_short(line):
        return "unclear"
    if ABOUT.fullmatch(line) or _is_part(line, joined=line != bare(text), asked="?" in text and not first):
        return "subject"
    hanging = HANGING.fullmatch(line)
    if _MORE.fullmatch(line) or (hanging and hanging["verb"].lower() in WAYS):
        return "place"
    if WORD.fullmatch(line) and not understand(f"so {line}", _A_DAY).names:
        return "question"
    if references(line) or shown(line):
        return "reference"
    return None if set(words(line)) - _SILENT else "unclear"


def _is_short(line: str) -> bool:
    return len(line.split()) <= _SHORT


def _is_part(line: str, *, joined: bool, asked: bool) -> bool:
    """Tell whether a question is only a place, a day or a name: "in Rome?", "and the tickets?"."""
    if not (joined or asked) or len(line.split()) > _BRIEF:
        return False
    if dated(line, _A_DAY.date()) == (0, len(line)):
        return True
    if _OPENS.match(line) or not _FRAGMENT.fullmatch(line):
        return False
    begins = re.match(rf"{PREPOSITION} ", line, re.IGNORECASE)
    return joined or bool(begins) or all(word[:1].isupper() for word in line.split())


def references(line: str) -> list[re.Match[str]]:
    """Find pronouns that point out of a question, in order; once the last is replaced there may be others."""
    subject = _SUBJECT.match(line)
    if subject and (_EMPTY.match(line, subject.start("it")) or _OWNED.match(line)):
        subject = None
    objects = (pattern.match(line) for pattern in (*_OBJECTS, _OWNER))
    nouns = [subject] if subject else [one for one in objects if one]
    found = [*nouns, *(one for pattern in (_THERE, _THEN) if (one := pattern.match(line)))]
    own = [one for one in found if not _calendar(" ".join(line[one.start("it") :].split()[:2]))]
    return sorted(own, key=lambda one: one.start("it"))


def shown(line: str) -> re.Match[str] | None:
    """Find "that meeting", where it is not "this week"."""
    found = _SHOWN.search(line)
    if not found or not _is_short(line) or found["noun"].lower() in _PLAIN or _calendar(found[0]):
        return None
    that = re.search(r"\bthat\b", found[0], re.IGNORECASE)
    return None if that and _ALONE.match(line, found.start("noun") - 1) else found


def _calendar(text: str) -> bool:
    """Tell whether "this" and the word behind it are a day or another time as the calendar has it."""
    found = re.search(r"\b(?:this|these) \w+", text, re.IGNORECASE)
    return bool(found and moves(found[0]))
