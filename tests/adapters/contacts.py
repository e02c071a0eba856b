"""Examples about who wrote, and how people are reached: headers, signatures, lists of people, forwarded mail.

Half of the questions without an answer ask for what is shown of somebody else, or for what is not shown of somebody.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

from engine.llm.prompt import chunk_segment
from engine.text.dates import spell_date
from engine.text.people import chunk_header, origin_line
from store.types import Chunk, Document, DocumentPassage
from tests.adapters import tasks
from tests.adapters.tasks import Example, Task
from tests.nano.entities import Person, person
from tests.nano.fillers import CLOSINGS, GREETINGS, SUBJECTS, TALK, sentence
from tests.nano.pool import Pool

_RANKS = ("", "Senior ", "Assistant ", "Chief ", "Deputy ", "Head ", "Junior ")
_FIELDS = (
    "Accountant", "Adviser", "Analyst", "Architect", "Buyer", "Clerk", "Counsel", "Director", "Editor", "Engineer",
    "Librarian", "Manager", "Nurse", "Planner", "Producer", "Scientist", "Secretary", "Surveyor", "Trader", "Trainer",
)  # fmt: skip
_OF = ("", "", " of Operations", " for Research", ", Legal", ", Public Affairs", " of the Board", ", Finance")
_ENDINGS = ("com", "org", "net", "example.org", "co.uk", "edu", "gov", "de")
_PHONES = ("{a}-{b}-{c}", "({a}) {b}-{c}", "+1 {a} {b} {c}", "{a}.{b}.{c}", "{a} {b} {c}", "x{c}", "+44 20 {b} {c}")
_MAIL = (
    "What is the email address of {n}?", "What is {n}'s email address?", "Which address does {n} write from?",
    "How can I reach {n} by email?", "email of {n}?",
)  # fmt: skip
_CALL = (
    "What is the phone number of {n}?", "What is {n}'s phone number?", "Which number can I call {n} on?",
    "How do I reach {n} by phone?", "phone number of {n}",
)  # fmt: skip
_TITLE = ("Who is {n}?", "What is {n}'s job title?", "What does {n} do?", "Which position does {n} hold?")
_FIRM = ("Which company is {n} with?", "Where does {n} work?", "Who does {n} work for?")
_SENT = (
    'Who sent the email with the subject "{s}"?', "Who sent the email with the subject '{s}'?", "Who wrote about {s}?",
    "Who is the message '{s}' from?",
)  # fmt: skip
_GOT = ("Who was '{s}' sent to?", "Who received the email with the subject '{s}'?", 'Whom did {n} send "{s}" to?')
_DAY = ("When was the email '{s}' sent?", "On which day did {n} write about {s}?", "What is the date of '{s}'?")


@dataclass(frozen=True, slots=True)
class Card:
    """What is known of somebody; empty where it is not told."""

    who: Person
    address: str
    phone: str
    title: str
    firm: str

    def line(self, rng: Random) -> str:
        """Return one line of a list of people."""
        parts = [part for part in (self.title, self.firm, self.phone, self.address) if part]
        return rng.choice((", ", " - ", "  ", "; ")).join([self.who.full, *parts])

    def signature(self, rng: Random) -> list[str]:
        """Return the lines under a mail."""
        phone = rng.choice(("Tel: {}", "Phone {}", "{}", "Office: {}", "tel. {}")).format(self.phone)
        rows = [self.title, self.firm, phone if self.phone else "", self.address]
        return [self.who.full, *filter(None, rows)]


@dataclass(frozen=True, slots=True)
class Sent:
    """A mail: its number, who wrote to whom, when, about what, and the cards that its text shows."""

    number: int
    author: Card
    reader: Card
    date: datetime
    subject: str
    shown: tuple[Card, ...]
    chunk: Chunk


def example(rng: Random, others: Sequence[Chunk] = (), unseen: bool = False) -> Example:
    """Draw mails of some people, mixed with others, and ask for what they show of these people."""
    pool = Pool(rng, unseen, invented=0.4)
    cards = [_card(pool) for _ in range(rng.randint(3, 6))]
    count = rng.randint(1, 5)
    places = sorted(rng.sample(range(count + len(others)), count))
    first = datetime(rng.randint(1999, 2026), rng.randint(1, 12), rng.randint(1, 28), tzinfo=UTC)
    mails = [_mail(pool, place + 1, cards, first + timedelta(days=at)) for at, place in enumerate(places)]
    left, own = iter(others), {one.number: one.chunk for one in mails}
    shown = [own.get(number) or next(left) for number in range(1, count + len(others) + 1)]
    made = [task for one in cards for task in _about(rng, mails, one, cards)]
    made += [task for one in mails for task in _of_mail(rng, mails, one)]
    rng.shuffle(made)
    chunks = tuple(chunk_segment(number, chunk) for number, chunk in enumerate(shown, 1))
    return Example(chunks, tuple(made[:14]))


def _card(pool: Pool) -> Card:
    rng, who = pool.rng, person(pool)
    firm = f"{pool.word().capitalize()} {rng.choice(('Ltd', 'Inc.', 'Group', 'Bank', 'Energy', 'University'))}"
    short = firm.split()[0].lower()
    first, last = who.first.lower(), who.last.lower()
    mailbox = rng.choice((f"{first}.{last}", f"{first[0]}{last}", f"{last}{first[0]}", first, f"{first}_{last}"))
    address = f"{mailbox}@{short if rng.random() < 0.7 else pool.word()}.{rng.choice(_ENDINGS)}"
    digits = {"a": rng.randint(200, 989), "b": rng.randint(200, 999), "c": rng.randint(1000, 9999)}
    phone = rng.choice(_PHONES).format(**digits) if rng.random() < 0.6 else ""
    title = f"{rng.choice(_RANKS)}{rng.choice(_FIELDS)}{rng.choice(_OF)}" if rng.random() < 0.6 else ""
    return Card(who, address, phone, title, firm if rng.random() < 0.5 else "")


def _mail(pool: Pool, number: int, cards: Sequence[Card], date: datetime) -> Sent:
    rng = pool.rng
    author, reader, *rest = rng.sample(cards, len(cards))
    title = sentence(pool, SUBJECTS, {})
    title = f"{rng.choice(('RE: ', 'FW: ', 'Re: ', 'Fwd: '))}{title}" if rng.random() < 0.4 else title
    people = {"u": reader.who.first, "w": author.who.first}
    talk = [sentence(pool, TALK, people) for _ in range(rng.randint(0, 5))]
    rows, shown = [sentence(pool, GREETINGS, people), " ".join(talk)], [author, reader]
    if rest and rng.random() < 0.35:
        listed = rng.sample(rest, min(len(rest), 3))
        rows += [one.line(rng) for one in listed]
        shown += listed
    if rng.random() < 0.7:
        rows += [sentence(pool, CLOSINGS, {}), *author.signature(rng)]
    if rest and rng.random() < 0.3:
        rows += _forwarded(rng, rest[0], author, date - timedelta(hours=rng.randint(1, 90)), title)
        shown.append(rest[0])
    chunk = _chunk(author, reader, date, title, "\n".join(filter(None, rows)))
    told = "\n".join((chunk.origin or chunk.header, chunk.text))
    return Sent(number, author, reader, date, title, tuple(one for one in shown if one.who.full in told), chunk)


def _forwarded(rng: Random, author: Card, reader: Card, date: datetime, title: str) -> list[str]:
    at = f"{date:%A, %B} {date.day}, {date:%Y %H:%M}"
    sender = rng.choice((f"{author.who.full} [mailto:{author.address}]", f"{author.who.full} <{author.address}>"))
    return [
        "-----Original Message-----",
        f"From: {sender}",
        f"Sent: {at}",
        f"To: {reader.who.full}",
        f"Subject: {title}",
    ]


def _chunk(author: Card, reader: Card, date: datetime, title: str, text: str) -> Chunk:
    named = (f"{author.who.full} <{author.address}>", f"{reader.who.full} <{reader.address}>")
    document = Document(
        id="", kind="mail", title=title, sender=named[0], recipients=named[1:], date=date, message_id=None, text=text,
        passages=(),
    )  # fmt: skip
    part = DocumentPassage("", 1, 1)
    return Chunk("", "", 0, chunk_header(document, part), text, 1, 1, origin=origin_line(document, part))


def _about(rng: Random, mails: Sequence[Sent], card: Card, cards: Sequence[Card]) -> list[Task]:
    """Ask for something of a person: answered with the mails that show it, if any does."""
    made, today = list[Task](), mails[-1].date + timedelta(days=rng.randint(0, 30))
    kinds: list[tuple[tuple[str, ...], Callable[[Card], str]]] = [
        (_MAIL, lambda one: one.address), (_CALL, lambda one: one.phone), (_TITLE, lambda one: one.title),
        (_FIRM, lambda one: one.firm),
    ]  # fmt: skip
    for wordings, part in rng.sample(kinds, 2):
        said = part(card)
        question = rng.choice(wordings).format(n=card.who.full)
        where = _where(mails, card, said) if said else []
        if not where and (wordings is _TITLE or rng.random() < 0.5):
            continue  # whatever a message says of somebody tells who that is
        made.append(tasks.answer(question, today, said if where else "", where[:2]))
        wrong = rng.choice([part(one) for one in cards if one is not card])
        if where and rng.random() < 0.4:
            made.append(tasks.check(question, said, holds=True))
        elif wrong and wrong != said and rng.random() < 0.5:
            made.append(tasks.check(question, wrong, holds=False))
    return made


def _where(mails: Sequence[Sent], card: Card, said: str) -> list[int]:
    """Return the numbers of the mails that show something of a person."""
    texts = {one.number: f"{one.chunk.origin or one.chunk.header}\n{one.chunk.text}" for one in mails}
    return [number for number, text in texts.items() if card.who.full in text and said in text]


def _of_mail(rng: Random, mails: Sequence[Sent], one: Sent) -> list[Task]:
    """Ask who wrote a mail, to whom and when; now and then about one that is not shown."""
    today, name = mails[-1].date + timedelta(days=rng.randint(0, 30)), one.author.who.full
    same = [other.number for other in mails if other.subject == one.subject]
    if len(same) > 1:
        return []
    sent = rng.choice(_SENT).format(s=one.subject)
    holds = rng.random() < 0.5
    made = [
        tasks.answer(sent, today, name, same),
        tasks.answer(rng.choice(_GOT).format(s=one.subject, n=name), today, one.reader.who.full, same),
        tasks.answer(rng.choice(_DAY).format(s=one.subject, n=name), today, spell_date(one.date), same),
        tasks.check(sent, name if holds else one.reader.who.full, holds=holds),
    ]
    absent = sentence(Pool(rng, invented=0.4), SUBJECTS, {})
    if absent not in {other.subject for other in mails} and rng.random() < 0.5:
        made.append(tasks.answer(rng.choice(_SENT).format(s=absent), today, "", []))
    return rng.sample(made, min(2, len(made)))
