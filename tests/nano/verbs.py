"""Verbs with their forms, and verbs made up on the regular pattern."""

from dataclasses import dataclass

from tests.nano.pool import Pool

_DEEDS = (
    *("bring brings brought bringing", "buy buys bought buying", "make makes made making", "bake bakes baked baking"),
    *("order orders ordered ordering", "print prints printed printing", "fetch fetches fetched fetching"),
    *("collect collects collected collecting", "repair repairs repaired repairing", "paint paints painted painting"),
    *("clean cleans cleaned cleaning", "lend lends lent lending", "borrow borrows borrowed borrowing"),
    *("send sends sent sending", "return returns returned returning", "book books booked booking"),
    *("check checks checked checking", "carry carries carried carrying", "build builds built building"),
    *("find finds found finding", "sell sells sold selling", "take takes took taking", "hire hires hired hiring"),
    *("write writes wrote writing", "read reads read reading", "cook cooks cooked cooking", "fix fixes fixed fixing"),
    *("design designs designed designing", "deliver delivers delivered delivering", "pack packs packed packing"),
    *("choose chooses chose choosing", "prepare prepares prepared preparing", "suggest suggests suggested suggesting"),
    *("propose proposes proposed proposing", "donate donates donated donating", "win wins won winning"),
    *(
        "lose loses lost losing",
        "play plays played playing",
        "open opens opened opening",
        "store stores stored storing",
    ),
    *("pay for pays for paid for paying for", "look for looks for looked for looking for", "want wants wanted wanting"),
    *("like likes liked liking", "need needs needed needing", "wash washes washed washing", "move moves moved moving"),
    *("translate translates translated translating", "sign signs signed signing", "get gets got getting"),
    *("organise organises organised organising", "hang up hangs up hung up hanging up", "give gives gave giving"),
    *(
        "photograph photographs photographed photographing",
        "mend mends mended mending",
        "cancel cancels cancelled cancelling",
    ),
    *("replace replaces replaced replacing", "test tests tested testing", "copy copies copied copying"),
    *("measure measures measured measuring", "finish finishes finished finishing", "wear wears wore wearing"),
    *("hide hides hid hiding", "show shows showed showing", "break breaks broke breaking", "draw draws drew drawing"),
)
_TRIPS = (
    *("arrive arrives arrived arriving", "leave leaves left leaving", "return returns returned returning"),
    *("start starts started starting", "fly flies flew flying", "land lands landed landing", "come comes came coming"),
    *("move out moves out moved out moving out", "retire retires retired retiring", "call calls called calling"),
    *(
        "begin begins began beginning",
        "visit us visits us visited us visiting us",
        "travel travels travelled travelling",
    ),
    *(
        "set off sets off set off setting off",
        "come back comes back came back coming back",
        "move in moves in moved in moving in",
    ),
)
_TALKS = (
    *("talk talks talked talking", "speak speaks spoke speaking", "complain complains complained complaining"),
    *(
        "ask asks asked asking",
        "write writes wrote writing",
        "think thinks thought thinking",
        "worry worries worried worrying",
    ),
    *("report reports reported reporting", "laugh laughs laughed laughing"),
)
_GATHERINGS = (
    *("meet meets met meeting", "rehearse rehearses rehearsed rehearsing", "train trains trained training"),
    *("practise practises practised practising", "play plays played playing", "gather gathers gathered gathering"),
    *("sing sings sang singing", "dance dances danced dancing", "work works worked working"),
)
TASKS = (
    "send in",
    "hand in",
    "return",
    "pay",
    "sign",
    "finish",
    "order",
    "book",
    "submit",
    "collect",
    "fill in",
    "print",
)
_TASKED = (
    "sent in",
    "handed in",
    "returned",
    "paid",
    "signed",
    "finished",
    "ordered",
    "booked",
    "submitted",
    "collected",
    "filled in",
    "printed",
)


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb in its four forms; the third is past tense and participle alike."""

    base: str
    third: str
    past: str
    going: str

    def values(self) -> dict[str, str]:
        """Return the forms by slot."""
        return {"v": self.base, "vs": self.third, "ved": self.past, "ving": self.going}


def _verb(text: str) -> Verb:
    words = text.split()
    n = len(words) // 4
    return Verb(*(" ".join(words[at : at + n]) for at in range(0, 4 * n, n)))


def deed(pool: Pool) -> Verb:
    """Draw something that people do with things; one in six is made up."""
    if pool.rng.random() < 0.16:
        stem = pool.word().rstrip("aeiouy") or "tr"
        return Verb(stem, f"{stem}s", f"{stem}ed", f"{stem}ing")
    return _verb(pool.rng.choice(_DEEDS))


def trip(pool: Pool) -> Verb:
    """Draw a coming or going."""
    return _verb(pool.rng.choice(_TRIPS))


def talk(pool: Pool) -> Verb:
    """Draw a way to speak about things."""
    return _verb(pool.rng.choice(_TALKS))


def gathering(pool: Pool) -> Verb:
    """Draw what groups do regularly."""
    return _verb(pool.rng.choice(_GATHERINGS))


def task(pool: Pool) -> Verb:
    """Draw what is done by a deadline."""
    at = pool.rng.randrange(len(TASKS))
    return Verb(TASKS[at], TASKS[at], _TASKED[at], TASKS[at])
