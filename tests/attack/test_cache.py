"""Whatever was asked or changed before, an answer of the cache is the one that would be made anew."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine.text.time_sensitive import whole_document_question
from prompts import word_patterns
from store.errors import UsageError
from tests.attack.lab import ANN, BEN, EVIL, Lab, mail

RENT, KEY = "How much is the boathouse rent?", "Who has the spare key?"
MAILS = {
    "rent.eml": mail("The boathouse rent is 900 euros."),
    "key.eml": mail("Gus Tindall has the spare key.", title="Key"),
    "room.eml": mail("C# is taught in room 4. C is taught in room 9. IT is in room 2.", title="Rooms", sender=BEN),
    "ben.eml": mail(
        "The boathouse rent is 700 euros.", sender=BEN, title="Rent of last year", day="2023-06-05T10:00+00:00"
    ),
}


@pytest.fixture(scope="module")
def shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Return a home that all pairs of questions are asked in, one after another."""
    lab = Lab(tmp_path_factory.mktemp("cache"))
    lab.read(MAILS)
    return lab


@dataclass(frozen=True, slots=True)
class Pair:
    """A question that may leave its answer to another one; both are asked in one home."""

    first: str
    then: str
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)


PAIRS = {
    "another sender": Pair(RENT, RENT, {"sender": "ann"}, {"sender": "ben"}),
    "no sender": Pair(RENT, RENT, {"sender": "ben"}, {}),
    "a sender that is JSON": Pair(RENT, RENT, {"sender": 'ann", "recipient": "ben'}, {"sender": "ann"}),
    "a sender that is SQL": Pair(RENT, RENT, {"sender": "ann' OR '1'='1"}, {"sender": "ann"}),
    "a sender of another case": Pair(RENT, RENT, {"sender": "BEN"}, {"sender": "ben"}),
    "days": Pair(RENT, RENT, {"since": "2024-01-01"}, {"until": "2023-12-31"}),
    "fewer sources": Pair(RENT, RENT, {"k": 1}, {"k": 5}),
    "C and C#": Pair("Where is C taught?", "Where is C# taught?"),
    "it and IT": Pair("Where is it?", "Where is IT?"),
    "a zero-width blank": Pair("Who has the spare\u200b key?", KEY),
    "a Cyrillic letter": Pair("Who has the spаre key?", KEY),
    "full width": Pair("Ｗｈｏ has the spare key?", KEY),
    "a null": Pair("Who has the spare\0 key?", KEY),
    "an end that differs after 9,000 letters": Pair("x " * 4_500 + RENT, "x " * 4_500 + KEY),
    "a negation": Pair(KEY, "Who has no spare key?"),
    "a name for another": Pair("What did Ann write about the rent?", "What did Ben write about the rent?"),
    "a year": Pair("How much was the rent in 2023?", "How much was the rent in 2024?"),
    "a polite frame": Pair(f"Could you tell me {RENT[0].lower()}{RENT[1:]}", RENT),
    "a view that is no opinion": Pair("What is Ann's view of the rent?", "What are Ann's opinions on the rent?"),
    "a view of several": Pair("What was Ben's view of the rent?", "What were Ben's thoughts about the rent?"),
    "half a surrogate": Pair("Who has the spare key \udcff?", KEY),
    "a right-to-left mark": Pair("\u202eWho has the spare key?", KEY),
}


@pytest.mark.parametrize("name", PAIRS)
def test_no_question_is_given_the_answer_of_another(shared_lab: Lab, name: str) -> None:
    pair = PAIRS[name]
    for _ in range(2):
        shared_lab.ask(pair.first, **pair.before)
    assert shared_lab.both(pair.then, **pair.after)[0] == shared_lab.both(pair.then, **pair.after)[1]
    assert shared_lab.both(pair.first, **pair.before)[0] == shared_lab.both(pair.first, **pair.before)[1]


def edited(lab: Lab) -> None:
    """Change a file in place; size and time of the change stay as they were."""
    path = lab.mail / "rent.eml"
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"900", b"901"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def exchanged(lab: Lab) -> None:
    one, other, between = lab.mail / "rent.eml", lab.mail / "ben.eml", lab.mail / "between"
    one.rename(between)
    other.rename(one)
    between.rename(other)


def linked(lab: Lab) -> None:
    (lab.mail / "rent.eml").unlink()
    os.link(lab.mail / "ben.eml", lab.mail / "rent.eml")


def replaced(lab: Lab) -> None:
    (lab.mail / "rent.eml").unlink()
    (lab.mail / "rent.eml").mkdir()


CHANGES: dict[str, Callable[[Lab], object]] = {
    "edited under its old size and time": edited,
    "two files under each other's names": exchanged,
    "one file under two names": linked,
    "deleted": lambda lab: (lab.mail / "rent.eml").unlink(),
    "moved into a folder": lambda lab: (
        lab.put("more/x", b""),
        (lab.mail / "rent.eml").rename(lab.mail / "more" / "r.eml"),
    ),
    "corrected by a newer mail": lambda lab: lab.put(
        "new.eml", mail("Correction: the boathouse rent is now 950 euros.", day="2024-06-18T10:00+00:00")
    ),
    "claimed by a newer mail of a stranger": lambda lab: lab.put(
        "new.eml", mail("The boathouse rent is now 5 euros.", day="2024-06-18T10:00+00:00", sender=EVIL)
    ),
    "copied": lambda lab: lab.put("copy.eml", MAILS["rent.eml"]),
    "made a folder": replaced,
    "emptied": lambda lab: (lab.mail / "rent.eml").write_bytes(b""),
}


@pytest.mark.parametrize("name", CHANGES)
def test_no_answer_outlives_the_mail_that_it_is_from(lab: Lab, name: str) -> None:
    lab.read(MAILS)
    for _ in range(2):
        lab.ask(RENT)
    CHANGES[name](lab)
    lab.read()
    cached, anew = lab.both(RENT)
    assert cached == anew
    assert all(Path(place[0]).exists() for place in cached[1])


@pytest.mark.parametrize(("aspect", "wording"), word_patterns("wordings").items())
def test_the_standard_wording_of_a_whole_document_asks_for_it(aspect: str, wording: str) -> None:
    found = whole_document_question(wording)
    assert found is not None
    assert found.aspect == aspect


@pytest.mark.parametrize("question", ["", " ", "?", "\0", "\u200b", "???", "\udcff", "\n\n"])
def test_an_empty_question_has_no_answer_in_the_cache(shared_lab: Lab, question: str) -> None:
    with suppress(UsageError):
        assert shared_lab.ask(question).tier != "exact"


@dataclass(frozen=True, slots=True)
class Lookalikes:
    """Two questions that look alike, and the sentences of the mails, or of the turns of a meeting, that answer them."""

    kind: str
    told: list[str]
    first: str
    then: str


LOOKALIKES = [
    Lookalikes(**json.loads(line)) for line in Path(__file__).with_name("borrowed.jsonl").read_text().splitlines()
]
HOMES = 20  # neighbours in the file are about one place, and stand in different homes
CLUB = [f"The {one} of the rowing club is in Leeds." for one in ("kitchen", "garage", "library", "office", "garden")]
SENSES = {
    "the other thing is not among the sources": Lookalikes(
        "mails", ["The exam of the rowing club is on Monday.", *CLUB, "The test of the rowing club is on Friday."],
        "When is the exam of the rowing club?", "When is the test of the rowing club?"),
    "the other word stands beside the answer in another sense": Lookalikes(
        "mails", ["The exam of the rowing club is on Monday. Please test the lamps of the rowing club before.", *CLUB,
                  "The test of the rowing club is on Friday."],
        "When is the exam of the rowing club?", "When is the test of the rowing club?"),
    "a phrase of the list": Lookalikes(
        "mails", ["We schedule the stall of the fair on Monday.", "We set up the stall of the fair on Friday."],
        "When do we schedule the stall of the fair?", "When do we set up the stall of the fair?"),
    "two senses of one form": Lookalikes(
        "mails", ["Ann makes rafts of the old pine boards.", "Ann thinks of the old pine boards that they smell."],
        "What does Ann think of the old pine boards?", "What does Ann make of the old pine boards?"),
    "mine and ours": Lookalikes(
        "mails", ["My locker in the old boathouse is green.", "Our locker in the old boathouse is red."],
        "Which colour is my locker in the old boathouse?", "Which colour is our locker in the old boathouse?"),
    "mine and any": Lookalikes(
        "mails", ["My locker in the old boathouse is green.", "The locker in the old boathouse is red."],
        "Which colour is my locker in the old boathouse?", "Which colour is the locker in the old boathouse?"),
    "a form for another form": Lookalikes(
        "mails", ["The tax form of the tennis club is due on Monday.", "The tax of the tennis club is due on Friday."],
        "When is the tax form of the tennis club due?", "When is the tax of the tennis club due?"),
    "in it and near it": Lookalikes(
        "mails", ["Gus Tindall has a shop in the old harbour.", "Ida Moss has a shop near the old harbour."],
        "Who has a shop in the old harbour?", "Who has a shop near the old harbour?"),
    "about it and of it": Lookalikes(
        "mails", ["The talk about the old church is on Monday.", "The talk of the old church is on Friday."],
        "When is the talk about the old church?", "When is the talk of the old church?"),
    "for it and with it": Lookalikes(
        "mails", ["The concert for the old school is in Leeds.", "The concert with the old school is in Bergen."],
        "Where is the concert for the old school?", "Where is the concert with the old school?"),
    "one and several": Lookalikes(
        "mails", ["The saving of the book club is 350 euros.", "The savings of the book club are 900 euros."],
        "How much is the saving of the book club?", "How much are the savings of the book club?"),
    "a word less": Lookalikes(
        "mails", ["The winter test of the rowing club is on Monday.", *CLUB,
                  "The test of the rowing club is on Friday."],
        "When is the winter test of the rowing club?", "When is the test of the rowing club?"),
    "a synonym of a synonym": Lookalikes(
        "mails", ["The examination of the rowing club is on Monday.", "The trial of the rowing club is on Friday."],
        "When is the examination of the rowing club?", "When is the trial of the rowing club?"),
    "a derived form": Lookalikes(
        "mails", ["The organ of the parish hall is in Leeds.", "The organisation of the parish hall is in Bergen."],
        "Where is the organ of the parish hall?", "Where is the organisation of the parish hall?"),
}  # fmt: skip


def archive(folder: Path, pairs: list[Lookalikes]) -> Lab:
    """Return a home with the mails and meetings of some pairs, and their vectors."""
    made = Lab(folder)
    for number, pair in enumerate(pairs):
        turns = [f"Mira Holt: {sentence}\n\nBen Ode: Right." for sentence in pair.told]
        if pair.kind == "turns":
            made.put(f"{number}.txt", "\n\n".join(turns).encode())
        for each, sentence in enumerate(pair.told if pair.kind != "turns" else ()):
            day = f"2024-06-{3 + each:02}T10:00+00:00"
            made.put(f"{number}-{each}.eml", mail(sentence, title="News", sender=BEN if each else ANN, day=day))
    with made.open() as pkb:
        pkb.ingest([made.mail])
    return made


def lent(made: Lab, pairs: list[Lookalikes]) -> list[tuple[str, Any, Any]]:
    """Ask both questions of each pair; return what was lent to the second one that is not said of it anew."""
    found = []
    with made.open() as pkb:
        for pair in pairs:
            pkb.ask(pair.first)
            given, anew = pkb.ask(pair.then), pkb.ask(pair.then, cache="off")
            if given.text != anew.text:
                found.append((pair.then, given.text, anew.text))
    return found


@pytest.mark.parametrize("home", range(HOMES))
def test_no_thing_gets_the_answer_of_another_that_the_synonyms_join(tmp_path: Path, home: int) -> None:
    pairs = LOOKALIKES[home::HOMES]
    assert lent(archive(tmp_path / "one", pairs), pairs) == []


@pytest.mark.parametrize("sense", SENSES)
def test_no_question_gets_the_answer_of_one_in_another_sense(tmp_path: Path, sense: str) -> None:
    pair = SENSES[sense]
    back = Lookalikes(pair.kind, pair.told, pair.then, pair.first)
    assert lent(archive(tmp_path / "one", [pair]), [pair]) == lent(archive(tmp_path / "two", [pair]), [back]) == []


def test_a_paraphrase_in_the_same_words_is_lent_without_reading_again(tmp_path: Path) -> None:
    made = archive(tmp_path / "one", LOOKALIKES[:1])
    with made.open() as pkb:
        pkb.ask(LOOKALIKES[0].first)
        assert pkb.ask("When will the exam of the rowing club be?").tier == "semantic"
