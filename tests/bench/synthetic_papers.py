"""The documents of the synthetic corpus, from a seed: mail in the form of RFC 822, minutes as `Speaker: text`.

A mail tells one fact among sentences that tell none; a meeting tells one of each kind of its circle.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from random import Random

from tests.bench.synthetic_kinds import Kind
from tests.bench.synthetic_kinds_more import KINDS

TOLD = 3  # things of a kind that documents tell of: two in mail, one in a meeting; the others are told nowhere
_BEGAN = datetime(2024, 1, 8, 7, tzinfo=UTC)
_MEETINGS = {
    **{"home": "family council", "choir": "choir committee", "boats": "boat club"},
    **{"school": "parents' evening", "office": "planning round", "street": "neighbours' meeting"},
}
_PEOPLE = (
    *("Agnes Holt", "Boris Stein", "Clara Winter", "Dirk Amsel", "Elsa Brook", "Frida Lang", "Georg Thal"),
    *("Hanna Ebert", "Igor Maar", "Julia Senn", "Karl Oster", "Lena Frey", "Moritz Zahn", "Paula Rieck"),
)
_TALK = (
    *("I hope this finds you well.", "It has been raining here for days.", "Forgive me for answering so late."),
    *("I have asked around and this is what I heard.", "There is not much else to report.", "Do tell the others."),
    *("I wrote it down before I could forget it.", "We talked about this last week, as you may remember."),
    *("Let me know should anything change.", "It took a while until everybody agreed.", "Nobody was against it."),
    *("I am on the road and shall read my mail in the evening.", "Thank you for all your help."),
    *("Please keep this message, for I shall lose my own note.", "Somebody asked about it again yesterday."),
    *("You may pass this on.", "More of it when we see each other.", "It is as we thought it would be."),
)
_SAID = (
    *("Shall we begin?", "I have nothing to add to that.", "Could somebody write this down?", "Yes, I heard it too."),
    *("That was a long discussion last time.", "Let us come to the next point.", "I am glad that this is settled."),
    *("Who else wants to speak?", "It is warm in here.", "Then we all agree.", "I shall ask again to be sure."),
    *("We are a little late already.", "Good.", "I had understood it in another way, but fine."),
)


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that one document tells."""

    kind: Kind
    thing: str
    answer: str
    document: str

    @property
    def sentence(self) -> str:
        """Give the words in which it is told."""
        return self.kind.told.format(it=self.thing, answer=self.answer)


@dataclass(frozen=True, slots=True)
class World:
    """The texts of the documents by their paths, and what they tell."""

    documents: dict[str, str]
    facts: tuple[Fact, ...]


def world(seed: int) -> World:
    """Make all documents of one user; equal seeds give equal ones."""
    random = Random(f"papers {seed}")
    me, *others = random.sample(_PEOPLE, len(_PEOPLE))
    circles = {
        circle: f"docs/{_meeting_day(number)} {name}.txt" for number, (circle, name) in enumerate(_MEETINGS.items())
    }
    drawn = [one for kind in KINDS for one in _drawn(random, kind, circles[kind.circle])]
    mailed = [one for one in drawn if not one.document]
    random.shuffle(mailed)
    facts, documents = [one for one in drawn if one.document], dict[str, str]()
    for circle, path in circles.items():
        documents[path] = _minutes(
            random, [one for one in facts if one.kind.circle == circle], random.sample(others, 4)
        )
    for number, one in enumerate(mailed, 1):
        fact = Fact(one.kind, one.thing, one.answer, f"mail/{number:03}.eml")
        documents[fact.document] = _mail(random, fact, me, random.choice(others), seed, number)
        facts.append(fact)
    return World(documents, tuple(facts))


def _drawn(random: Random, kind: Kind, meeting: str) -> list[Fact]:
    things, answers = random.sample(kind.things, TOLD), random.sample(kind.answers, TOLD)
    places = (meeting, *[""] * (TOLD - 1))
    return [Fact(kind, *each) for each in zip(things, answers, places, strict=True)]


def _meeting_day(number: int) -> str:
    return f"{_BEGAN + timedelta(days=19 * number + 5):%Y-%m-%d}"


def _minutes(random: Random, facts: list[Fact], people: list[str]) -> str:
    said = list[str]()
    for fact in random.sample(facts, len(facts)):
        said += [*random.sample(_SAID, 4), fact.sentence]
    said.append("Thank you all, until next time.")
    return "".join(f"{people[number % len(people)]}: {text}\n" for number, text in enumerate(said))


def _mail(random: Random, fact: Fact, me: str, sender: str, seed: int, number: int) -> str:
    written = _BEGAN + timedelta(days=2 * number, minutes=random.randrange(720))
    before, after = random.randint(2, 6), random.randint(2, 6)
    around = random.sample(_TALK, before + after)
    body = (f"Dear {me.split()[0]},", "", " ".join((*around[:before], fact.sentence)), "", " ".join(around[before:]))
    head = (
        *(f"From: {_address(sender)}", f"To: {_address(me)}", f"Subject: {fact.kind.topic}"),
        *(f"Date: {format_datetime(written)}", f"Message-ID: <{seed}.{number}@synthetic.example.org>"),
        *("MIME-Version: 1.0", "Content-Type: text/plain; charset=us-ascii"),
    )
    return "\r\n".join((*head, "", *body, "", f"All the best, {sender.split()[0]}", ""))


def _address(name: str) -> str:
    return f"{name} <{name.lower().replace(' ', '.')}@example.org>"
