"""The synthetic corpus is deterministic, has its documented shares, and contains the answers in its documents."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from engine.ingest.files import read
from engine.ingest.types import ParseLimits
from store.types import Document
from tests.bench import synthetic
from tests.bench.corpus import Query, User, same
from tests.bench.synthetic import KINDS, QUESTIONS, SHARES, TEXTS, Asker, world


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[User]:
    return synthetic.users(tmp_path_factory.mktemp("synthetic"))


def files(user: User) -> dict[str, bytes]:
    paths = sorted(path for folder in user.folders for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(user.folders[0].parent).as_posix(): path.read_bytes() for path in paths}


def documents(user: User) -> dict[str, Document]:
    found = dict[str, Document]()
    for name in files(user):
        (reading,) = read(user.folders[0].parent / name, ParseLimits())
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
    assert len({user.queries for user in made}) == len({str(files(user)) for user in made}) == len(made)


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
        assert all(query.text in TEXTS["absent"] or whose[query.text] not in told for query in vain)
