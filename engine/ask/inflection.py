"""The form by which two words of a question are compared: irregular verbs and plurals, spellings, numbers, one root.

Small tables of English beside the light stemming of `words`; knows no question.
"""

import re
from functools import lru_cache

from engine.ask.words import stem

# Forms first, what they are forms of last.
_IRREGULAR = """
arose arisen arise, ate eaten eat, awoke awoken awake, became become, began begun begin, bent bend, bit bitten bite,
bled bleed, blew blown blow, bore borne bear, bought buy, bound bind, broke broken break, brought bring, built build,
came come, caught catch, chose chosen choose, clung cling, dealt deal, died dying die, drank drunk drink,
drew drawn draw, drove driven drive, dug dig, dwelt dwell, fell fallen fall, fed feed, felt feel, fled flee,
flew flown fly, forbade forbidden forbid, forgave forgiven forgive, forgot forgotten forget, fought fight, found find,
froze frozen freeze, gave given give, went gone go, got gotten get, grew grown grow, heard hear, held hold,
hid hidden hide, hung hang, kept keep, knew known know, laid lay, led lead, left leave, lent lend, lost lose, made make,
meant mean, met meet, paid pay, ran run, rang rung ring, rode ridden ride, rose risen rise, said say, sang sung sing,
sank sunk sink, sat sit, saw seen see, sent send, shook shaken shake, shot shoot, shown show, shrank shrunk shrink,
slept sleep, sold sell, sought seek, spent spend, spoke spoken speak, stole stolen steal, stood stand,
struck stricken strike, stuck stick, swam swum swim, swore sworn swear, swept sweep, swung swing, took taken take,
taught teach, thought think, threw thrown throw, tied tie, told tell, tore torn tear, understood understand, used using
use, woke woken wake, won win, wore worn wear, wove woven weave, wrote written write, children child, men man,
women woman, feet foot, teeth tooth, mice mouse, lives life, wives wife, knives knife, leaves leaf, halves half,
shelves shelf, criteria criterion, phenomena phenomenon, analyses analysis, two 2, three 3, four 4, five 5, six 6,
seven 7, eight 8, nine 9, ten 10, eleven 11, twelve 12, twenty 20, thirty 30, forty 40, fifty 50, hundred 100,
first 1st, second 2nd, third 3rd, fourth 4th, fifth 5th, sixth 6th, seventh 7th, eighth 8th, ninth 9th, tenth 10th,
colour color, favour favor, favourite favorite, honour honor, labour labor, neighbour neighbor, behaviour behavior,
humour humor, rumour rumor, centre center, theatre theater, metre meter, litre liter, programme program, cheque check,
grey gray, defence defense, offence offense, licence license, catalogue catalog, dialogue dialog, travelling travel,
travelled travel, cancelled cancel, fulfil fulfill, enrol enroll, usa us., uk uk.
"""
# What is left of two words of one root, as the stemming leaves it. None is -er: who does is not what is done.
_PLAIN = frozenset(("", "e", "y", "at", "ate", "se"))
_DERIVED = """
ion ation ition ment ement ance ence anc enc ancy ency ant ent nes ness iness iv ativ ical abl ibl ur ication al ial ic
ity ou
"""
_FAMILY = _PLAIN.union(_DERIVED.split())
_DOUBTFUL = frozenset(("y", "al", "ial", "ity", "ic", "ant", "ent"))  # office and official are two things
_BENT = frozenset(map(frozenset, (("d", "sion"), ("l", "ility"), ("t", "c"), ("t", "cy"))))  # decide, able
_SPELLED = re.compile(r"(?:is|ys)(?=e$|ation)|(?<=[^t])our(?!n|c)")  # organise, analyse, neighbourhood


def _forms() -> dict[str, str]:
    forms = dict[str, str]()
    for group in " ".join(_IRREGULAR.split()).split(", "):
        *others, plain = group.split()
        forms |= dict.fromkeys(others, _bare(plain))
    return forms


@lru_cache(maxsize=1 << 14)
def base(word: str) -> str:
    """Give the form by which a lower-case word is compared: its verb, noun or number, spelled one way, stemmed."""
    return _FORMS.get(word) or _bare(word)


def _bare(word: str) -> str:
    if word[:1].isdigit():
        return word.replace(",", "").lstrip("0") or "0"
    if len(word) > 4 and word.endswith("ied"):
        word = word[:-3] + "y"
    short = stem(word)
    if len(short) > 5:
        short = stem(_SPELLED.sub(lambda match: match[0].replace("s", "z").replace("our", "or"), short))
    return _FORMS.get(short, short)


_FORMS = dict[str, str]()
_FORMS |= _forms()


@lru_cache(maxsize=1 << 14)
def one_root(one: str, other: str) -> bool:
    """Tell whether two base forms are a verb and its noun, or an adjective and its noun."""
    if not (one.isalpha() and other.isalpha()):
        return False
    pairs = zip(one, other, strict=False)
    shared = next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
    rests = frozenset((one[shared:], other[shared:]))
    if rests in _BENT:
        return shared >= 4
    least = 6 if rests & _DOUBTFUL else 5
    return shared >= max(least, (len(one) + len(other)) / 4) and rests <= _FAMILY and bool(rests & _PLAIN)
