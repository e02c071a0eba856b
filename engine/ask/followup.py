"""Follow-ups completed without a model, with the subject of the last question. English, by its wording alone.

If the last turns have no subject, there is no completion. A question about the previous answer is looked up in that
answer's source. Knows no model and no cache.
"""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from math import exp
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from engine.ask.candidates import Candidate, Candidates, Reading
from engine.llm.stopping import complete
from engine.text.question import ASKING_WORDS, Question, bare, core, understand
from engine.text.words import FUNCTION_WORDS, content_words, words
from engine.types import Answer
from prompts import prompt, word_patterns
from store.types import replace

if TYPE_CHECKING:
    from engine.kv.restore import PromptReader


_LONG, _LONGEST = 400, 30  # characters and words; a longer question stands alone
_SHORT, _BRIEF, _BACK = 9, 5, 3  # words before a final pronoun; words of a fragment; turns that may have the subject
_ANY_DAY = datetime(2000, 1, 1)  # names and the kind of answer do not depend on it
_DO = r"(?:do|does|did|can|could|will|would|shall|should|(?-i:may)|might|must)"
_HELPER = rf"(?:(?:{_DO}|is|are|was|were|has|have|had)(?:n['’]t)?)"
_ENGLISH = word_patterns("english")
_PREPOSITION = f"(?:{_ENGLISH['preposition']})"
_ARTICLE = r"(?:the|an?|my|our|your)"
_WHAT = r"(?:what time|how(?: (?:long|old|often|far|late|many|much))?|who(?:m|se)?|what|which|when|where|why)"
_WORD = rf"(?:(?:{_PREPOSITION} )?{_WHAT}(?: else)?)"
_ASKING = rf"(?:(?:what|which|whose|how many|how much)(?: (?!{_HELPER}\b)[\w'’-]+){{1,2}}?|{_WORD})"
_ABOUT = re.compile(r"(?:what|how) about (?P<what>.+)", re.IGNORECASE)
_ONE = re.compile(r"\b(?:the|which|another|that|this) ones?$", re.IGNORECASE)
_PARTS = re.compile(rf"(?:(?P<asking>{_ASKING}) )?(?P<helper>{_HELPER}) (?P<rest>.+)", re.IGNORECASE)
_OWNS = re.compile(rf"(?P<asking>who)(?P<helper>) (?P<rest>(?:has|have|had) {_ARTICLE} .+)", re.IGNORECASE)
_END = rf"(?= (?:{_PREPOSITION}|and|or|that|which|who|now|{_ARTICLE})\b|[,;:]|$)"
_PHRASE = re.compile(rf"\b{_ARTICLE} .+?{_END}", re.IGNORECASE)
_WHOLE = re.compile(rf"(?<=\bof ){_ARTICLE} .+?{_END}", re.IGNORECASE)  # of "the subject of the mail", the mail
_PRONOUN = r"(?:i|you|he|she|it|we|they|there)"
_OBJECT = re.compile(  # what Ann did
    rf"(?:what|which|who|whom|how much|how many)\b(?! time).* (?:{_DO}|has|have|had)", re.IGNORECASE
)
_ORDINAL = r"(first|second|third|fourth|fifth|last|next)"
_STATE = re.compile(r"\w(?:ed|en|ing)\b")  # what somebody or something is, such as "moved"
_ATTRIBUTE = re.compile(rf"{_ARTICLE} (?:\w+ )?(?:{_ENGLISH['attribute']})", re.IGNORECASE)
_SUBJECT = re.compile(rf"(?:(?:{_ASKING} )?{_HELPER}|why) (?P<it>he|she|they|it|his|her|their|its)\b", re.IGNORECASE)
_LAST = re.compile(rf"(?:{_ASKING}|{_HELPER}) .*\b(?P<it>him|her|them|it|there)$", re.IGNORECASE)
_EMPTY = re.compile(r"\bit\b.* (?:to|that|if|when)\b|\bit (?:rain|snow)", re.IGNORECASE)  # is it true that
_SILENT = FUNCTION_WORDS | frozenset(words("else really sure more ok okay thanks thank please exactly right hello hi"))


class Turn(Struct, frozen=True):
    """A complete question and its answer; `focus` is the short answer (a name, day or place), empty if unknown."""

    asked: str
    answer: str | None = None
    focus: str = ""

    @property
    def people(self) -> list[str]:
        """Return the people that a pronoun may mean, likeliest first: the answer, then names in the question."""
        question = understand(self.asked, _ANY_DAY)
        free = [one for one in question.names if not re.search(rf"\b(?:in|at|from|to) {re.escape(one)}", self.asked)]
        answered = [self.focus] if question.asked == "person" and self.focus[:1].isupper() else []
        return [re.sub(r"['’]s$", "", name) for name in answered + free]

    @property
    def topic(self) -> str:
        """Return the phrase that names the topic of the question; empty if there is none."""
        line, parts = bare(self.asked), take_apart(self.asked)
        found = _WHOLE.search(line) or _PHRASE.search(line)
        noun = re.fullmatch(r"(?:how many|which) ([\w ]+)", (parts and parts["asking"]) or "", re.IGNORECASE)
        if parts and noun and not (found and found.start() == parts.start("rest")):  # which band will play at the fair
            return noun[1] if noun[1].endswith("s") else f"the {noun[1]}"
        if found is None:
            return ""
        verb = re.search(rf"\b{_DO} $", line[: found.start()], re.IGNORECASE) or found[0].endswith("ed")
        phrase = found[0].rpartition(" ")[0] if verb and found[0].count(" ") > 1 else found[0]
        return phrase.removesuffix(" been")


def take_apart(text: str) -> re.Match[str] | None:
    """Return a question as its question word, its helping verb and the rest; None if its form is not a question."""
    return _OWNS.fullmatch(bare(text)) or _PARTS.fullmatch(bare(text))


_OWNED = re.compile(r"\b(?:his|her|their|its)\b", re.IGNORECASE)
_POINTS = re.compile(  # or "at what price"
    rf"(?:{_ASKING}|{_HELPER}|{_PREPOSITION}) .*\b(?:that|this|these|those|so)$|.*\b(?:there|then)$|.*\belse\b.*"
    rf"|{_PREPOSITION} (?:what|which)\b (?!.*\b{_HELPER}\b).+",
    re.IGNORECASE,
)
# Who said or sent what was just quoted.
WHO_SAID = re.compile(rf"who (?:{_ENGLISH['said']})(?: (?:it|so|that|this|the (?:mail|message)))?", re.IGNORECASE)


def is_vague(text: str) -> bool:
    """Return whether a question that is complete in form does not say what it is about: "who asked?", "at what price?".

    A question with a name or a number is specific enough, unless it asks for that person's words.
    """
    line = core(text)
    unnamed = re.sub(r"(?<!^)\b(?!I\b)[A-Z][\w'’-]*", "", line)
    said = says_nothing(unnamed) and ASKING_WORDS.issuperset(words(line)[-1:])  # what Ann said: of what?
    said = said and re.search(r"\b(?:e-?mail|phone|number|address)$", line, re.IGNORECASE) is None
    if not said and (len(line.split()) > _SHORT or unnamed != line or re.search(r"\d", line)):
        return False
    points = said or _OWNED.search(line) or _POINTS.fullmatch(line) or WHO_SAID.fullmatch(line)
    return bool(points) or says_nothing(line)


def says_nothing(line: str) -> bool:
    """Return whether a line has only question words."""
    return not set(words(line)) - _SILENT - ASKING_WORDS


def lacks(text: str, *, first: bool = False) -> Literal["question", "subject", "reference", "unclear"] | None:
    """Return the part that a question leaves out; None if it is complete. `first`: no question precedes it."""
    line = core(text)
    if len(line) > _LONG or len(line.split()) > _LONGEST or not line + bare(text):
        return None
    # Only a place, a day or a name: "in Rome?", "and the tickets?".
    joined, words_said = line != bare(text), line.split()
    is_part = (joined or ("?" in text and not first)) and len(words_said) <= _BRIEF
    is_part = is_part and not re.search(rf"^{_WORD}\b|\b{_HELPER}\b", line, re.I)
    is_named = joined or bool(re.match(rf"{_PREPOSITION} ", line, re.I)) or all(one[0].isupper() for one in words_said)
    if _ABOUT.fullmatch(line) or (is_part and is_named):
        return "subject"
    if re.fullmatch(_WORD, line, re.IGNORECASE):
        return "question"
    if references(line):
        return "reference"
    return "unclear" if not set(words(line)) - _SILENT or (_ONE.search(line) and len(line.split()) <= _SHORT) else None


def references(line: str) -> list[re.Match[str]]:
    """Return the pronouns that nothing in their own question explains, in order."""
    explained = len(line.split()) > _SHORT or re.search(rf"\b{_ARTICLE} | (?!I\b)[A-Z]", line)
    found = (_SUBJECT.match(line), None if explained else _LAST.fullmatch(line))
    by_place = {one.start("it"): one for one in found if one}
    return [] if _EMPTY.search(line) else list(by_place.values())


def by_rules(text: str, turns: Sequence[Turn]) -> str | None:
    """Return a follow-up as a complete question, given the turns, latest last; None if no rule applies."""
    missing, made = lacks(text), core(text)
    if not turns or missing == "unclear" or any(len(turn.asked) > _LONG for turn in turns[-_BACK:]):
        return None
    if missing == "question":
        made = _asked_another_way(made, turns[-1])
    elif missing == "subject":
        about = _ABOUT.fullmatch(made)
        if _OWNED.match(made):
            return None  # "and her number?" asks of the same person, "and the fair?" of another event
        made = _asked_of(about["what"] if about else made, turns[-1])
    elif missing == "reference":
        made = _resolved(made, turns)
    return f"{made[:1].upper()}{made[1:]}?" if made else None


def _asked_another_way(asking: str, last: Turn) -> str:
    parts = take_apart(last.asked)
    if parts is None:
        return f"{asking} is {last.topic}" if last.topic and asking.lower() != "why" else ""
    helper, rest = parts["helper"], parts["rest"]
    if asking.lower() == "why" and re.match("is|are|was|were", helper, re.IGNORECASE) and not _STATE.search(rest):
        return ""  # "when is the concert?" has no answer with a reason
    is_else, has_subject = asking.lower().endswith("else"), re.match(rf"{_ARTICLE} |[A-Z]|{_PRONOUN}\b", rest)
    if has_subject and not is_else and _OBJECT.fullmatch(f"{parts['asking']} {helper}"):
        return ""  # "when does Ann want me to bring" lacks what
    if is_else or has_subject:
        return " ".join(f"{asking} {helper} {rest}".split())
    actor = last.topic if last.topic not in rest else next(iter(last.people), "someone")  # who will bring the cake
    return f"{asking} {helper or 'is it that'} {actor} {rest}"


def _asked_of(what: str, last: Turn) -> str:
    """Ask the last question of something else: another day, person, place or thing."""
    question, name = bare(last.asked), r"[A-Z0-9]\S*(?: [A-Z0-9]\S*)*"
    if led := re.match(rf"{_PREPOSITION} ", what, re.IGNORECASE):
        old = re.search(rf"\b{led[0]}{name}", question) if what[led.end() :][0].isupper() else None
        if not old and re.search(r"\d", what) and re.search(r"\d", question):
            return ""  # "over 200?", where up to 100 was asked about
        return f"{question[: old.start()]}{what}{question[old.end() :]}" if old else f"{question} {what}"
    if (other := re.fullmatch(rf"the {_ORDINAL}", what)) and (old := re.search(rf"\b{_ORDINAL}\b", question)):
        return f"{question[: old.start()]}{other[1]}{question[old.end() :]}"  # "and the second?"
    phrases = [found[0] for found in _PHRASE.finditer(question)]
    phrase = phrases[0 if _ATTRIBUTE.fullmatch(what) else -1] if len(phrases) > 1 else last.topic
    phrase = next((one for one in phrases if one.endswith(f" {what.rpartition(' ')[2]}")), phrase)  # another prize
    start = parts.start("rest") if (parts := take_apart(question)) else 0  # "which DevNet" asks for a name
    named = understand(question, _ANY_DAY).names if what[:1].isupper() else ()
    replaced = next((one for one in named if question.find(one, start) >= 0), phrase)
    at = question.find(replaced, start if replaced in named else 0) if replaced else -1
    return f"{question[:at]}{what}{question[at + len(replaced) :]}" if at >= 0 else ""


def _resolved(line: str, turns: Sequence[Turn]) -> str:
    """Put what each pronoun means in its place; empty if one means nothing."""
    for found in reversed(references(line)):
        pronoun, behind = found["it"].lower(), line[found.end("it") :]
        meant = next(filter(None, (_meant(pronoun, turn) for turn in turns[: -_BACK - 1 : -1])), "")
        if not meant:
            return ""
        owner = "'s" if pronoun in ("his", "their", "its") or (pronoun == "her" and behind) else ""
        before = line[: found.start("it")]
        way = "to " if before.endswith(("get ", "go ", "come ")) else "at "
        line = f"{before}{way if pronoun == 'there' else ''}{meant}{owner}{behind}"
    return line


def _meant(pronoun: str, turn: Turn) -> str:
    """Return the person, place or thing of a turn that a pronoun may refer to; empty if it has none."""
    if pronoun in ("he", "she", "him", "her", "his"):
        return next(iter(turn.people), "")
    if pronoun == "there":
        told = turn.focus if understand(turn.asked, _ANY_DAY).asked == "place" else ""
        return told or ((found := re.search(r"\b(?:in|at|near) ([A-Z]\S*)", turn.asked)) and found[1]) or turn.topic
    if pronoun in ("it", "its") and re.match(r"how many\b", turn.asked, re.IGNORECASE):  # not what is counted
        return found[0] if (found := _PHRASE.search(bare(turn.asked))) else turn.topic
    many = " and ".join(turn.people) if pronoun in ("they", "them", "their") else ""
    return turn.topic or many


Write = Callable[[str, Sequence[Turn]], str]  # has a model complete a question, given the turns before it
_TURNS, _ANSWER = 3, 300  # the last turns in a model's prompt; characters of each answer
_MOST, _FEW = 64, 6  # tokens of a question; most words of an answer that is inserted into one
_LABEL = re.compile(r"^\W*(?:(?:the )?(?:last |rewritten |full )*question(?: in full)?\s*:)?[\s\"“*'`]*", re.IGNORECASE)
_NAMED = re.compile(r"(?<=\s)[^\W\d_a-zß-öø-ÿ][\w.'’-]*|\w*\d[\w.,:/-]*")


class Condensed(Struct, frozen=True):
    """A completed question, and who completed it; None if that failed."""

    asked: str | None
    by: Literal["itself", "rules", "model"] = "itself"


def turn_of(reply: Answer) -> Turn:
    """Return a question that was answered as a turn of a conversation."""
    answer = reply.text or ""
    start, end = reply.highlight or (0, 0)
    short = reply.writer == "model" and len(answer.split()) <= _FEW
    focus = bare(answer[start:end] or (answer if short else ""))
    return Turn(reply.question, reply.text, focus if len(focus.split()) <= _FEW else "")


def condense(text: str, turns: Sequence[Turn], write: Write | None = None) -> Condensed:
    """Complete a question from the turns before it, latest last; `write` completes it by a model."""
    missing = lacks(text, first=not turns)
    if missing is None and not (turns and is_vague(text)):
        line = core(text)
        if line in ("", bare(text)):
            return Condensed(text.strip())
        return Condensed(f"{line[:1].upper()}{line[1:]}?", "rules")
    if write and turns and (completed := trusted(write(text, turns), text, turns)):
        return Condensed(completed, "model")
    return Condensed(by_rules(text, turns) if missing else None, "rules")


def trusted(written: str, text: str, turns: Sequence[Turn]) -> str | None:
    """Return the question that a model completed; None if it adds unknown names or is still incomplete."""
    lines = (bare(_LABEL.sub("", one).rstrip("\"”*'` ")) for one in written.splitlines())
    first = next(filter(None, lines), "")
    line = f"{first[:1].upper()}{first[1:]}?" if len(first.split()) > 1 else ""
    before = " ".join(part for turn in turns for part in (turn.asked, turn.answer or ""))
    known, own = content_words(f"{before} {text}"), content_words(core(text))
    named = {word for name in _NAMED.findall(f" {bare(line)}") for word in words(name)}
    filled = (content_words(line) & content_words(before)) - own
    if not line or lacks(line) is not None or not named <= known | FUNCTION_WORDS:
        return None
    asking = re.match(r"(?:how \w+|whom?|what|which|when|where|why)\b(?! about)(?<!how about)", core(text), re.I)
    asks = set(words(asking[0])) if asking else set()
    return line if filled and own <= content_words(line) and asks <= set(words(line)) else None


def with_model(load: "Callable[[], PromptReader]") -> Write:
    """Return a function that completes a question by the model, uncached; it returns "" if the prompt does not fit."""

    def write(text: str, turns: Sequence[Turn]) -> str:
        model = load().model
        system, _, rest = prompt("condense").partition("\n")
        answers = [" ".join((turn.answer or "not found").split())[:_ANSWER] for turn in turns]
        asked = [" ".join(turn.asked.split()) for turn in turns]
        told = [f"Question: {one}\nAnswer: {answer}" for one, answer in zip(asked, answers, strict=True)]
        before = (*model.frame.opening, *model.tokens(f"{system}\n"), *model.frame.turning)
        for count in range(min(_TURNS, len(turns)), 0, -1):
            request = rest.format(turns="\n".join(told[-count:]), question=bare(text))
            last = (*model.tokens(request), *model.frame.closing)
            if len(before) + len(last) + _MOST <= model.context:
                cache = model.begin()
                model.prefill(cache, before)
                return complete(model.decode(cache, last, _MOST), _MOST).text
        return ""

    return write


_BECAUSE = re.compile(r"\b(?:because|since|due to|so that|in order to|the (?:main )?reason)\b", re.IGNORECASE)
_CONCLUDES = re.compile(r"(?:and )?(?:so|therefore|thus|hence|that['’]?s why|that is why)\b", re.IGNORECASE)


def reason_said(found: Candidates, said: Candidate) -> list[Candidate]:
    """Return the sentences that give an answer's reason: the one before a conclusion, else one of the next."""
    if _CONCLUDES.match(said.text):
        return [one for one in found if (one.read, one.place + 1) == (said.read, said.place)]
    later = [one for one in found if one.read == said.read and 0 < one.place - said.place <= 3]
    given = [one for one in later if one.span.turn == said.span.turn and _BECAUSE.search(one.text)]
    return [] if _BECAUSE.search(said.text) else given[:1]


_SAID_LESS = 4.0  # log odds that what was said before counts less
_LEAST, _SCALE = -1.0, 2.5  # of even support, and of what makes it e times as likely


def followed(readings: Sequence[tuple[Question, Sequence[Reading]]], said: str) -> tuple[Question, Reading]:
    """Return the question that the sentences answer best, and these, scored by all its readings; `said` counts less."""
    scored = list[tuple[Question, Reading]]()
    for question, each in readings:
        scores = [{(one.read, one.place): one.score for one in reading.found} for reading in each]
        means = [fmean(own[one.read, one.place] for own in scores) for one in each[0].found]
        pairs = zip(each[0].found, means, strict=True)
        found = [replace(one, score=mean - _SAID_LESS * (one.text in said)) for one, mean in pairs]
        best = max(found, key=lambda one: one.score, default=None)
        odds = (best.score - _LEAST) / _SCALE if best and best.mark else None  # words are no odds
        support = each[0].support if odds is None else 1 / (1 + exp(-odds))
        scored.append((question, Reading(found, support)))
    return max(scored, key=lambda one: one[1].support)
