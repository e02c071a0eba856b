"""Tokenization and stemming, the same for the index and for questions; sentences, with the speaker before a colon.

Words are casefolded, unaccented and lightly stemmed; addresses, numbers and compounds are indexed whole and in parts;
scripts without spaces become bigrams. Sentence splitting handles such scripts, too, wrapped lines, lists and
abbreviations. Knows nothing of scores.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from functools import cache, lru_cache
from itertools import chain, pairwise

from msgspec import Struct

from engine.text.time_sensitive import FUNCTION_WORDS as FUNCTION_WORDS
from prompts import word_groups, word_sets
from store.types import plain_words, turns

# `re` does not count Indic vowel signs as letters, but they are part of the word.
_LETTERS = r"(?:[^\W_]++|[\u0900-\u0963\u0966-\u0dff]++)++"
_NUMBER = r"\d+(?:[.,:/-]\d+)+"
_WORD = re.compile(
    r"(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)++"  # an address, only at its start: runs stay linear
    rf"|{_NUMBER}|{_LETTERS}(?:['-]{_LETTERS})*"
)
_PLAIN_WORD = re.compile(rf"{_NUMBER}|[a-z\d]++(?:['-][a-z\d]++)*", re.ASCII)  # of most texts, in half the time
_IS_NUMBER, _PARTS = re.compile(_NUMBER), re.compile(_LETTERS)
_CLITIC = re.compile(r"'(?:s|re|ve|ll|d|m)$")
_TIMED = re.compile(r"(\d+)([a-z]+)$")
_ORDINALS = frozenset(("st", "nd", "rd", "th"))
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+$")
_SIGNS = str.maketrans("’‘ʼ‐‑‒", "'''---")
# Thai, Lao, Khmer, Myanmar, kana and Han are written without spaces; Hangul glues endings on.
_UNSPACED = re.compile(
    r"([\u0e01-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
    r"\uf900-\ufaff\U00020000-\U0003ffff]+)"
)
_VOWEL = re.compile(r"[aeiouy]")
_LISTED = word_sets("question_words")


def words(text: str) -> list[str]:
    """Return the words of a text in order; joining them by spaces and splitting again gives the same set."""
    if text.isascii():
        text = text.lower()
    else:  # casefolded and composed, without common accents, with one kind of apostrophe and hyphen
        apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold().translate(_SIGNS))
        text = unicodedata.normalize("NFKC", "".join(c for c in apart if not "\u0300" <= c <= "\u036f"))
    pattern = _PLAIN_WORD if text.isascii() and "@" not in text else _WORD
    return [*chain.from_iterable(map(_index_forms, pattern.findall(text)))]


def content_words(text: str) -> frozenset[str]:
    """Return the words of a text that say something."""
    return frozenset(words(text)) - FUNCTION_WORDS


@lru_cache(maxsize=1 << 16)
def _index_forms(token: str) -> tuple[str, ...]:
    if _IS_NUMBER.fullmatch(token):
        if _GROUPED.fullmatch(token):
            return (_number(token.replace(",", "")),)
        return (token, *(_number(part) for part in re.findall(r"\d+", token)))
    if "@" in token:
        return (token, *(word for part in _PARTS.findall(token) for word in _compound(part)))
    return _compound(_CLITIC.sub("", token))


def _compound(token: str) -> tuple[str, ...]:
    """Return a word, or the parts of a compound and, of two parts, the compound written as one."""
    if _UNSPACED.search(token):  # the bigrams of each run, and the words between runs
        found = list[str]()
        for place, piece in enumerate(_UNSPACED.split(token)):
            if place % 2:
                found += [piece[i : i + 2] for i in range(max(1, len(piece) - 1))]
            else:
                found += [word for part in _PARTS.findall(piece) for word in _simple(part)]
        return tuple(found)
    parts = _PARTS.findall(token)
    if len(parts) == 1:
        return _simple(parts[0])
    joined = _simple("".join(parts)) if len(parts) == 2 else ()
    return joined if token.endswith("n't") else (*(word for part in parts for word in _simple(part)), *joined)


def _simple(word: str) -> tuple[str, ...]:
    """Return the stem of a word; "5pm" and "3rd" are indexed under their number too."""
    timed = _TIMED.fullmatch(word)
    if timed is None:
        return (_part(word),)
    number, unit = _number(timed[1]), timed[2]
    return (number,) if unit in _ORDINALS else (word, number, _part(unit))


def _part(word: str) -> str:
    return _number(word) if word.isdigit() else stem(word)


def _number(digits: str) -> str:
    return digits.lstrip("0") or "0"


def stem(word: str) -> str:
    """Return a word without the commonest English endings (plural, -ed, -ing, -ly, silent e)."""
    if not (word.isascii() and word.isalpha()):
        return word
    while (shorter := _shorten(word)) != word:  # until nothing changes, so that stemming is idempotent
        word = shorter
    return word


def _shorten(word: str) -> str:
    if len(word) < 4:
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zzes", "oes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    for ending in ("ing", "ed", "ly"):
        rest = word[: -len(ending)]
        if word.endswith(ending) and len(rest) > 2 and _VOWEL.search(rest):
            if ending == "ly":
                return rest
            if rest[-1] == rest[-2] and rest[-1] not in "lsz":  # doubled before the ending
                return rest[:-1]
            # Without its e, a verb in "-se" would look like a plural.
            return rest + "e" if rest.endswith("s") and not rest.endswith(("ss", "ocus")) else rest
    return word[:-1] if word.endswith("e") and word[-2] != "s" else word


# Stemmed endings by which words of one root differ. -er is left out: the agent is not the action.
_INFLECTED = frozenset(("", "e", "y", "at", "ate", "se"))
_FAMILY = _INFLECTED | _LISTED["endings"]
_DOUBTFUL = frozenset(("y", "al", "ial", "ity", "ic", "ant", "ent"))  # "office" and "official" are unrelated
_ALTERNATIONS = frozenset(map(frozenset, (("d", "sion"), ("l", "ility"), ("t", "c"), ("t", "cy"))))  # decide, able
_SPELLED = re.compile(r"(?:is|ys)(?=e$|ation)|(?<=[^t])our(?!n|c)")  # organise, analyse, neighbourhood


@cache
def _forms() -> dict[str, str]:
    return {one: _base_of(plain, {}) for *others, plain in word_groups("inflections") for one in others}


@cache
def irregular_verbs() -> frozenset[str]:
    """Return the irregular pasts and participles of verbs."""
    return frozenset(word for *forms, _ in word_groups("inflections") for word in forms if not word.endswith("ing"))


@lru_cache(maxsize=1 << 14)
def base(word: str) -> str:
    """Return the base form of a lower-case word: irregular forms resolved, one spelling, stemmed."""
    return _forms().get(word) or _base_of(word, _forms())


def _base_of(word: str, forms: Mapping[str, str]) -> str:
    if word[:1].isdigit():
        return word.replace(",", "").lstrip("0") or "0"
    if len(word) > 4 and word.endswith("ied"):
        word = word[:-3] + "y"
    short = stem(word)
    if len(short) > 5:
        short = stem(_SPELLED.sub(lambda match: match[0].replace("s", "z").replace("our", "or"), short))
    return forms.get(short, short)


@lru_cache(maxsize=1 << 14)
def one_root(one: str, other: str) -> bool:
    """Return whether two base forms share a root, as a verb and its noun or an adjective and its noun do."""
    if not (one.isalpha() and other.isalpha()):
        return False
    pairs = zip(one, other, strict=False)
    shared = next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
    rests = frozenset((one[shared:], other[shared:]))
    if rests in _ALTERNATIONS:
        return shared >= 4
    least = 6 if rests & _DOUBTFUL else 5
    return shared >= max(least, (len(one) + len(other)) / 4) and rests <= _FAMILY and bool(rests & _INFLECTED)


def terms(text: str) -> frozenset[str]:
    """Return the words of a text, and of its numbers the groups of digits: "$189,148.34" is 189, 148 and 34."""
    return frozenset(word for word in words(text) if not re.search(r"\d", word)).union(re.findall(r"\d+", text))


FULL_LINE = 48  # characters: a line of mail at least this long was wrapped and continues on the next one
_RAGGED = 8  # characters: a wrapped line may be this much shorter than the next word would have allowed

_SPEAKER = re.compile(r"(?P<bold>\*\*)?(?P<name>[^\s:\-*•>\d\"'(\[][^:\n\"?!]{0,99}?):(?(bold)\*\*)(?:[ \t]+|$)")
_REPLIES = frozenset(["re", "aw", "fw", "fwd", "wg"])  # subject prefixes, not speakers
_OPENER = re.compile(r"\s*(?:[-*•+–—]\s|>|\d{1,3}[.)]\s|\(?[a-zA-Z][.)]\s|\||#{1,6}\s|[-=_*]{3,})")
_STOP = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]*]{0,4}(?=\s)|[。！？｡]++[」』）”]{0,4}")
_WIDE = frozenset("。！？｡")
_TITLES, _NUMBERED = _LISTED["abbreviations"], _LISTED["numbered"]  # "No. 5", but "The answer is no. We go."
_ORDINAL = re.compile(r"\d{1,2}$")
_MONTH = re.compile(r"\s+(?:jan|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|o[ck]t|nov|de[cz])[a-z]*\b", re.I)
_LAST_WORD = re.compile(r"[^\s(\[\"“'/]+$")


class Span(Struct, frozen=True):
    """Offsets in a text; of a sentence, its speaker if known, too, and the number of its turn or paragraph."""

    start: int
    end: int
    speaker: str | None = None
    turn: int = 0


def sentences(text: str) -> list[Span]:
    """Return the sentences in order; only white space and speaker names in front of turns are left out."""
    found = list[Span]()
    speaker: str | None = None
    for turn, (start, end, name, new) in enumerate(_blocks(text)):
        speaker = name if new else speaker
        found += [Span(a, b, speaker, turn) for a, b in _split(text, start, end)]
    return found


def spoken_sentences(text: str, speakers: Collection[str]) -> list[Span]:
    """Return the sentences of a chunk of a transcript whose speakers have these names; none crosses a turn."""
    found = list[Span]()
    for number, turn in enumerate(turns(text, speakers)):
        for start, end, *_ in _blocks(text[turn.said : turn.end], labelled=False):
            parts = _split(text, turn.said + start, turn.said + end)
            found += [Span(a, b, turn.speaker, number) for a, b in parts]
    return found


def speaker_label(line: str) -> tuple[str, int] | None:
    """Return the speaker that a line starts with and where the speech begins; None if there is none."""
    match = _SPEAKER.match(line)
    if match is None or match["name"].lower() in _REPLIES:
        return None
    words = re.sub(r"\([^()]*\)", " ", match["name"]).split()
    proper = all(not word[0].islower() or word in _LISTED["particles"] for word in words)
    return (match["name"].strip(), match.end()) if words and len(words) <= 6 and proper else None


def _blocks(text: str, *, labelled: bool = True) -> list[tuple[int, int, str | None, bool]]:
    """Return (start, end, speaker, is a turn) of each turn, paragraph or list item; no sentence crosses these."""
    blocks, at, last = list[tuple[int, int, str | None, bool]](), 0, 0
    lines = text.splitlines(keepends=True)
    widest = max((len(line.rstrip()) for line in lines if not line.startswith(">")), default=0)
    for line in lines:
        start, at = at, at + len(line)
        body = line.rstrip()
        head = speaker_label(body) if labelled else None
        if not body:
            last = 0
            continue
        # A list item starts a block, and so does a line whose first word had room on the one above.
        word, room = body.split(maxsplit=1)[0], widest - last
        starts = _OPENER.match(body) or (not word[0].islower() and len(word) + _RAGGED < room)
        if head is None and last >= FULL_LINE and not starts:
            first, _, name, new = blocks[-1]
            blocks[-1] = (first, start + len(body), name, new)
        else:
            skip = head[1] if head else 0
            blocks.append((start + skip, start + len(body), head[0] if head else None, head is not None))
        last = len(body)
    return blocks


def _split(text: str, start: int, end: int) -> list[tuple[int, int]]:
    cuts = [match.end() for match in _STOP.finditer(text, start, end) if _ends_sentence(text, start, end, match)]
    parts = ((first, last, text[first:last]) for first, last in pairwise([start, *cuts, end]))
    return [(last - len(part.lstrip()), first + len(part.rstrip())) for first, last, part in parts if part.strip()]


def _ends_sentence(text: str, start: int, end: int, stop: re.Match[str]) -> bool:
    """Return whether a stop ends a sentence, and not an abbreviation, a list number or an ellipsis."""
    if stop.group()[0] in _WIDE:
        return True
    rest = text[stop.end() : min(end, stop.end() + 80)]
    following = rest.lstrip()[:1]
    if following.islower():
        return stop.group()[0] in "!?" and len(stop.group()) > 1
    if stop.group() != ".":
        return True
    word = _LAST_WORD.search(text, max(start, stop.start() - 20), stop.start())
    last = word.group().lower() if word else ""
    if last in _TITLES or (len(last) == 1 and last.isalpha() and last != "i"):
        return False
    if last in _LISTED["may end"] or "." in last:
        return following.isupper() or not following
    if (last in _NUMBERED and following.isdigit()) or (_ORDINAL.fullmatch(last) and _MONTH.match(rest)):
        return False
    return not last.isdigit() or stop.start() - start > len(last)  # else it numbers an item of a list


# Sentences in other texts, however they are quoted: wrapped, marked, cut, punctuated otherwise.

_LEAST, _ENOUGH = 6, 24.0  # different words of a run, and bits: a word has as many as it halves the number of texts
_THREE, _WIDEST = 3, 50  # words
_MOST_WORDS = 1000  # in a pattern
FRONT = re.compile(  # marks of quotes, initials, numbers, times and speakers in front of a line
    r"(?:[ \t]*+(?:[|>]|[^\W\d_]{1,12}>|<[^<>\n]{1,60}>|\[[^\[\]\n]{1,40}\]|\d[\d:.,/)-]*+(?=\s|$)(?:[ \t]*+-->.*)?))*+"
    r"[ \t]*+(?:[*_]*+[^\W\d_][^:\n\"?!]{0,60}:[*_]*+(?=\s|$))?"
)
# A hyphen at the end of a line: the word was wrapped there, or is written with one.
_WRAPPED = re.compile(r"[-\u2010\xad](?<=[^\W\d_].)[ \t]*+\r?\n")
_HYPHEN = re.compile(rf"{_WRAPPED.pattern}[ \t]*+(?=[^\W\d_])")


def readings(text: str) -> list[str]:
    """Return a text as it is, without its line prefixes, and also sorted by these: another text may interrupt it."""
    fronts = [(line, FRONT.match(line)) for line in text.split("\n")]
    split = [(re.sub(r"\s|[\d:.,]+", "", match[0]), line[match.end() :]) for line, match in fronts if match]
    bare = "\n".join(rest for _, rest in split)
    sorted_bare = "\n".join(rest for _, rest in sorted(split, key=lambda one: one[0]))
    return list(dict.fromkeys(one for found in (text, bare, sorted_bare) for one in (found, _HYPHEN.sub("", found))))


class WordRun(Struct, frozen=True):
    """Words in a row, rare enough together to be one text's own; `three` are the rarest neighbours among them."""

    words: str
    three: str
    rarest: str  # of the three


def word_runs(text: str, bits: Mapping[str, float]) -> list[tuple[WordRun, int]]:
    """Return, for each word, the shortest run from it that is long and rare enough, with its sentence's number."""
    spans = enumerate(sentences(text))
    split = [(number, word) for number, span in spans for word in plain_words(text[span.start : span.end])]
    words, weights = [word for _, word in split], [bits[word] for _, word in split]
    found, end = list[tuple[WordRun, int]](), 0
    for start, (number, _) in enumerate(split):
        last = min(len(words), start + _WIDEST)
        while not (enough := len({*words[start:end]}) >= _LEAST and sum(weights[start:end]) >= _ENOUGH) and end < last:
            end += 1
        if enough:
            at = max(range(start, end - _THREE + 1), key=lambda at: sum(weights[at : at + _THREE]))
            rarest = words[max(range(at, at + _THREE), key=weights.__getitem__)]
            run = WordRun(f" {' '.join(words[start:end])} ", " ".join(words[at : at + _THREE]), rarest)
            found.append((run, number))
    return found


class RunIndex:
    """Runs of words, to be found in texts."""

    def __init__(self, runs: Iterable[WordRun]) -> None:
        self._by_word: dict[str, set[WordRun]] = {}
        for run in runs:
            self._by_word.setdefault(run.rarest, set()).add(run)

    @property
    def pattern(self) -> str:
        """Return a regular expression of all texts that may hold a run, whatever its case; "" for too many words."""
        if len(self._by_word) > _MOST_WORDS:
            return ""
        words = "|".join(filter(str.isascii, self._by_word)) or "$a"
        return rf"[^\x00-\x7f]|[a-z]-[ \t]*\r?\n|(?:^|[^a-z0-9])(?:{words})(?:[^a-z0-9]|$)"

    def found(self, text: str) -> set[WordRun]:
        """Return the runs in a text."""
        texts = {text, _HYPHEN.sub("", text)}
        lines = [plain_words(line) for one in texts for line in one.split("\n")]
        there, found = {*chain.from_iterable(lines)}, set[WordRun]()
        likely = (run for word in self._by_word.keys() & there for run in self._by_word[word])
        near = [run for run in likely if there.issuperset(run.three.split())]
        # Where no word is wrapped, neighbours in any reading are so in a line, too, or the first one ends a line.
        if near and not _WRAPPED.search(f"{text}\n"):
            pairs, ends = {*chain.from_iterable(map(pairwise, lines))}, {line[-1] for line in lines if line}
            near = [run for run in near if all(a in ends or (a, b) in pairs for a, b in pairwise(run.words.split()))]
        for words in map(plain_words, readings(text) if near else ()):
            threes, joined = {*map(" ".join, zip(words, words[1:], words[2:], strict=False))}, f" {' '.join(words)} "
            found.update(run for run in near if run.three in threes and run.words in joined)
        return found
