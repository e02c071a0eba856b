"""The synthetic corpus is what it says: the same from the same seed, in its shares, with answers in its documents."""

from collections import Counter
from email import message_from_bytes
from itertools import combinations
from pathlib import Path
from random import Random

import pytest

from engine.ingest.files import read
from engine.ingest.types import ParseLimits
from store.types import Document
from tests.bench import synthetic
from tests.bench.corpus import Query, User, same
from tests.bench.synthetic import QUESTIONS, SHARES, TOLD, Asker, world
from tests.bench.synthetic_kinds import ABSENT, KINDS


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[User]:
    return synthetic.users(tmp_path_factory.mktemp("synthetic"))


def files(user: User) -> dict[str, bytes]:
    paths = sorted(path for folder in user.folders for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(user.folders[0].parent).as_posix(): path.read_bytes() for path in paths}


def documents(user: User) -> dict[str, Document]:
    found = dict[str, Document]()
    for name in files(user):
        (reading,) = read(user.folders[0].parent / name, None, ParseLimits())
        assert (reading.problem, reading.document is None) == (None, False), name
        if reading.document is not None:
            found[name] = reading.document
    return found


def labelled(seed: int) -> list[tuple[str, Query]]:
    return Asker(world(seed), Random(f"stream {seed}")).stream(QUESTIONS)


def test_equal_seeds_give_equal_bytes_and_questions(made: list[User], tmp_path: Path) -> None:
    again = synthetic.users(tmp_path)
    assert [files(user) for user in again] == [files(user) for user in made]
    assert [user.queries for user in again] == [user.queries for user in made]


def test_other_seeds_give_other_documents_and_questions(made: list[User]) -> None:
    assert len({str(files(user)) for user in made}) == len(made)
    assert len({user.queries for user in made}) == len(made)


def test_files_that_are_there_are_left_alone(tmp_path: Path) -> None:
    (user,) = synthetic.users(tmp_path, (1,))
    before = {path: path.stat() for folder in user.folders for path in folder.iterdir()}
    synthetic.users(tmp_path, (1,))
    assert {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in before} == {
        path: (status.st_mtime_ns, status.st_ino) for path, status in before.items()
    }


def test_a_user_has_sixty_mails_and_six_meetings(made: list[User]) -> None:
    assert {Counter(name.split("/")[0] for name in files(user))["mail"] for user in made} == {60}
    assert {Counter(name.split("/")[0] for name in files(user))["docs"] for user in made} == {6}


def test_mail_has_the_headers_of_mail(made: list[User]) -> None:
    for name, data in files(made[0]).items():
        if name.endswith(".eml"):
            message = message_from_bytes(data)
            assert all(message[key] for key in ("From", "To", "Subject", "Date", "Message-ID")), name
            assert message.defects == []


def test_every_document_is_ingested_with_its_date_and_without_problems(made: list[User]) -> None:
    for user in made:
        found = documents(user)
        kinds = Counter(document.kind for document in found.values())
        assert kinds == {"mail": 60, "transcript": 6}
        assert all(document.date for document in found.values())
        assert len({document.id for document in found.values()}) == len(found)
        assert all(len(one.recipients) == 4 for one in found.values() if one.kind == "transcript")


def test_every_answer_stands_in_what_is_ingested_of_its_one_document(made: list[User]) -> None:
    for user in made:
        found = documents(user)
        for query in user.queries:
            if query.answer:
                (name,) = query.documents
                body = "\n".join(passage.text for passage in found[name].passages if passage.role == "body")
                assert query.answer in body, (user.name, query)


def test_no_fact_is_told_twice(made: list[User]) -> None:
    facts = world(1).facts
    texts = [document.text for document in documents(made[0]).values()]
    assert {sum(fact.sentence in text for text in texts) for fact in facts} == {1}


def test_a_stream_has_its_stated_shares() -> None:
    assert sum(SHARES.values()) == pytest.approx(1)
    for seed in synthetic.SEEDS:
        counts = Counter(label for label, _ in labelled(seed))
        assert {label: counts[label] / QUESTIONS for label in SHARES} == pytest.approx(SHARES)


def test_repeated_and_rephrased_questions_share_an_answer_with_an_earlier_one_and_others_do_not() -> None:
    for seed in synthetic.SEEDS:
        asked = labelled(seed)
        for number, (label, query) in enumerate(asked):
            earlier = [one for _, one in asked[:number]]
            assert any(same(query, one) for one in earlier) == (label in ("repeated", "rephrased")), (label, query)
            assert (query.text in {one.text for one in earlier}) == (label == "repeated"), (label, query)


def test_twins_have_the_words_of_an_earlier_question_about_another_thing_and_no_answer_of_it() -> None:
    for seed in synthetic.SEEDS:
        asked = labelled(seed)
        shapes = {way.format(it=thing): (way, thing) for kind in KINDS for way in kind.asked for thing in kind.things}
        for number, (label, query) in enumerate(asked):
            if label == "twin":
                way, thing = shapes[query.text]
                others = [one for _, one in asked[:number] if shapes.get(one.text, ("", ""))[0] == way]
                assert any(shapes[one.text][1] != thing for one in others)
                assert not any(same(query, one) for one in others)


def test_nothing_is_told_of_what_is_asked_in_vain() -> None:
    for seed in synthetic.SEEDS:
        told = {(fact.kind.topic, fact.thing) for fact in world(seed).facts}
        whose = {way.format(it=it): (kind.topic, it) for kind in KINDS for way in kind.asked for it in kind.things}
        vain = [query for label, query in labelled(seed) if label == "unanswerable"]
        assert all(query.answer == "" and not query.documents for query in vain)
        assert all(query.text in ABSENT or whose[query.text] not in told for query in vain)


def test_kinds_can_be_told_apart_and_told_in_full() -> None:
    texts = [way.format(it=thing) for kind in KINDS for way in kind.asked for thing in kind.things]
    assert len(set(texts)) == len(texts)
    assert {len(kind.asked) for kind in KINDS} == {3}
    assert all(TOLD < len(set(kind.things)) == len(kind.things) for kind in KINDS)
    assert all(TOLD <= len(set(kind.answers)) == len(kind.answers) for kind in KINDS)
    assert Counter(kind.circle for kind in KINDS) == dict.fromkeys({kind.circle for kind in KINDS}, 5)


def test_facts_about_two_things_are_not_the_same() -> None:
    queries = [Query(fact.kind.asked[0], fact.answer, frozenset((fact.document,))) for fact in world(2).facts]
    assert not any(same(one, other) for one, other in combinations(queries, 2))
