"""Public sets are read with bad rows named and left out; two questions are the same if an answer fits both."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.corpus import CORPORA, PUBLIC, Query, question, same, users

DOCUMENT, OTHER, NONE = frozenset(("docs/a.txt",)), frozenset(("docs/b.txt",)), frozenset[str]()


def put(folder: Path, *rows: object) -> Path:
    """Write a set's questions beside an empty folder of documents."""
    (folder / "docs").mkdir(parents=True)
    lines = [one if isinstance(one, str) else json.dumps(one) for one in rows]
    (folder / "questions.jsonl").write_text("\n".join(lines), "utf-8")
    return folder


def row(text: str, answer: str = "Green", **more: Any) -> dict[str, Any]:
    """Return one row of questions.jsonl."""
    return {"question": text, "answer": answer, "doc_ids": ["docs/a.txt"], **more}


def test_a_folder_with_questions_is_a_user_and_each_text_is_asked_once_in_order(tmp_path: Path) -> None:
    put(tmp_path / "locomo/conv-2", row("Who?", "Ida"), row("What?", unanswerable=True), row("Who?", "Bo"))
    put(tmp_path / "locomo/conv-1", row("Why?", paraphrase_of="x"))
    one, other = users("locomo", tmp_path, tmp_path / "out")
    assert (one.name, other.name, other.corpus) == ("conv-1", "conv-2", "locomo")
    assert other.folders == (tmp_path / "locomo/conv-2/docs",)
    assert other.queries == (Query("Who?", "Ida", DOCUMENT), Query("What?", "", DOCUMENT))


def test_what_needs_a_document_in_view_or_has_a_wrong_gold_is_not_asked(tmp_path: Path) -> None:
    put(tmp_path / "qmsum/a", row("Here?", standalone=False), row("Bad?", gold_error={"type": "x"}), row("Good?"))
    (user,) = users("qmsum", tmp_path, tmp_path)
    assert [query.text for query in user.queries] == ["Good?"]


def test_a_bad_line_is_named_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path / "qmsum/a", "[" * 100_000, {"question": "Secret?"}, row("Good?"), row(" "), row("X?", doc_ids=[1]))
    assert len(users("qmsum", tmp_path, tmp_path)[0].queries) == 1
    said = capsys.readouterr().err.splitlines()
    assert [line.split(", ")[1].partition(":")[0] for line in said] == ["line 1", "line 2", "line 4", "line 5"]
    assert "Secret" not in "".join(said)


def test_only_the_synthetic_corpus_is_there_without_data(tmp_path: Path) -> None:
    found = {corpus: users(corpus, tmp_path / "none", tmp_path / "out") for corpus in CORPORA}
    assert [corpus for corpus, some in found.items() if some] == ["synthetic"]
    with pytest.raises(ValueError, match=r"no corpus 'letters'; there are synthetic, locomo"):
        users("letters", tmp_path, tmp_path)


def test_every_set_beside_the_checkout_gives_users_whose_documents_are_there(shared: Path, tmp_path: Path) -> None:
    for corpus in PUBLIC:
        found = users(corpus, shared / "data", tmp_path)
        assert found, corpus
        for user in found:
            assert len({query.text for query in user.queries}) == len(user.queries) > 0
            known = {path for query in user.queries for path in query.documents}
            assert [path for path in known if not (user.folders[0].parent / path).is_file()] == []


def test_answers_are_compared_by_words_and_documents() -> None:
    one = Query("Who?", "The Blue Heron.", DOCUMENT)
    assert same(one, Query("Which?", "blue heron", DOCUMENT | OTHER))
    assert same(one, Query("Which?", "blue heron", NONE))
    assert not same(one, Query("Which?", "blue heron", OTHER))
    assert not same(one, Query("Who?", "Bo", DOCUMENT))
    assert not same(one, Query("Who?", "", DOCUMENT))


def test_two_questions_that_nothing_answers_are_the_same_in_the_same_words_only() -> None:
    assert same(Query("Who pays?", "", DOCUMENT), Query("who pays", "", NONE))
    assert not same(Query("Who pays?", "", DOCUMENT), Query("Who sails?", "", DOCUMENT))


@given(st.text(min_size=1).filter(str.strip))
def test_every_question_is_the_same_as_itself(text: str) -> None:
    assert same(Query(text, text, DOCUMENT), Query(text, text, DOCUMENT))


@given(
    st.binary()
    | st.dictionaries(st.sampled_from(("question", "answer", "doc_ids")), st.text() | st.none()).map(
        lambda row: json.dumps(row).encode()
    )
)
def test_whatever_a_line_holds_it_is_a_question_or_left_out(line: bytes) -> None:
    found = question(line)
    assert found is None or found["question"].strip() != ""
