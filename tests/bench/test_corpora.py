"""Corpora: users with folders and streams, none without data; and when two questions are the same."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.corpora import CORPORA, question, users
from tests.bench.corpus import Query, safe, same, settled, words

DOCUMENT, OTHER, NONE = frozenset(("docs/a.txt",)), frozenset(("docs/b.txt",)), frozenset[str]()


def put(folder: Path, *rows: object) -> Path:
    """Write a set's questions beside an empty folder of documents."""
    (folder / "docs").mkdir(parents=True)
    lines = [one if isinstance(one, str) else json.dumps(one) for one in rows]
    (folder / "questions.jsonl").write_text("\n".join(lines), "utf-8")
    return folder


def row(text: str, answer: str = "Green", **more: Any) -> dict[str, Any]:
    """Make one line of questions.jsonl."""
    return {"question": text, "answer": answer, "doc_ids": ["docs/a.txt"], **more}


def test_a_folder_with_questions_is_a_user_and_each_text_is_asked_once_in_order(tmp_path: Path) -> None:
    put(tmp_path / "locomo/conv-2", row("Who?", "Ida"), row("What?"), row("Who?", "Bo"))
    put(tmp_path / "locomo/conv-1", row("Why?", paraphrase_of="x"))
    one, other = users("locomo", tmp_path, tmp_path / "out")
    assert (one.name, other.name, other.corpus) == ("conv-1", "conv-2", "locomo")
    assert other.folders == (tmp_path / "locomo/conv-2/docs",)
    assert other.queries == (Query("Who?", "Ida", DOCUMENT), Query("What?", "Green", DOCUMENT))


def test_a_set_that_is_one_user_has_the_name_of_the_set(tmp_path: Path) -> None:
    put(tmp_path / "paraphrase", row("Who?"))
    assert [user.name for user in users("paraphrase", tmp_path, tmp_path)] == ["paraphrase"]


def test_what_needs_a_document_in_view_or_has_a_wrong_gold_is_not_asked(tmp_path: Path) -> None:
    put(tmp_path / "qmsum/a", row("Here?", standalone=False), row("Bad?", gold_error={"type": "x"}), row("Good?"))
    (user,) = users("qmsum", tmp_path, tmp_path)
    assert [query.text for query in user.queries] == ["Good?"]


def test_what_nothing_answers_has_an_empty_gold() -> None:
    assert question(json.dumps(row("Who?", "a trap", unanswerable=True))) == Query("Who?", "", DOCUMENT)


def test_a_bad_line_is_named_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = put(tmp_path / "qmsum/a", "[", {"question": "Secret?"}, row("Good?"), row(" ")) / "questions.jsonl"
    assert len(users("qmsum", tmp_path, tmp_path)[0].queries) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"{file}, line 1: skipped: not JSON",
        f"{file}, line 2: skipped: no text in answer",
        f"{file}, line 4: skipped: no question with its documents",
    ]


def test_only_the_synthetic_corpus_is_there_without_data(tmp_path: Path) -> None:
    found = {corpus: users(corpus, tmp_path / "none", tmp_path / "out") for corpus in CORPORA}
    assert [corpus for corpus, some in found.items() if some] == ["synthetic"]
    assert all(user.corpus == "synthetic" and safe(user.name) == user.name for user in found["synthetic"])


def test_an_unknown_corpus_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no corpus 'letters'; there are synthetic, locomo"):
        users("letters", tmp_path, tmp_path)


def test_every_set_beside_the_checkout_gives_users_whose_documents_are_there(shared: Path, tmp_path: Path) -> None:
    for corpus in ("locomo", "qmsum", "enron-annotated", "clinton-foia", "paraphrase"):
        found = users(corpus, shared / "data", tmp_path)
        assert found, corpus
        for user in found:
            assert len({query.text for query in user.queries}) == len(user.queries) > 0
            known = {path for query in user.queries for path in query.documents}
            assert [path for path in known if not (user.folders[0].parent / path).is_file()] == []


def test_pairs_of_paraphrases_are_both_asked_and_the_same(shared: Path, tmp_path: Path) -> None:
    (user,) = users("paraphrase", shared / "data", tmp_path)
    by_text = {query.text: query for query in user.queries}
    rows = [json.loads(line) for line in (shared / "data/paraphrase/questions.jsonl").read_text("utf-8").splitlines()]
    first = {one["id"]: by_text[one["question"]] for one in rows}
    pairs = [(first[of], first[one["id"]]) for one in rows if (of := one.get("paraphrase_of"))]
    alike = sum(same(one, other) for one, other in pairs)
    assert alike > 0.99 * len(pairs) > 700


def test_the_same_words_are_the_same_answer_whatever_their_dress() -> None:
    one, other = Query("Who?", "The Blue Heron.", DOCUMENT), Query("Which?", "blue heron", DOCUMENT | OTHER)
    assert (same(one, other), same(other, one)) == (True, True)


def test_the_same_answer_out_of_other_documents_is_not_the_same() -> None:
    assert not same(Query("Who?", "Ida", DOCUMENT), Query("Which?", "Ida", OTHER))
    assert same(Query("Who?", "Ida", DOCUMENT), Query("Which?", "Ida", NONE))


def test_another_answer_is_not_the_same() -> None:
    assert not same(Query("Who?", "Ida", DOCUMENT), Query("Who?", "Bo", DOCUMENT))
    assert not same(Query("Who?", "Ida", DOCUMENT), Query("Who?", "", DOCUMENT))


def test_two_questions_that_nothing_answers_are_the_same_in_the_same_words_only() -> None:
    assert same(Query("Who pays?", "", DOCUMENT), Query("who pays", "", NONE))
    assert not same(Query("Who pays?", "", DOCUMENT), Query("Who sails?", "", DOCUMENT))


@given(st.text(min_size=1).filter(str.strip))
def test_every_text_has_words_and_is_the_same_as_itself(text: str) -> None:
    assert words(text) != ()
    assert same(Query(text, text, DOCUMENT), Query(text, text, DOCUMENT))


@given(st.text())
def test_a_safe_name_is_one_part_of_a_path(name: str) -> None:
    try:
        found = safe(name)
    except ValueError:
        return
    assert Path(found).name == found
    assert not found.startswith(".")
    assert found.isascii()


@given(
    st.text()
    | st.dictionaries(st.sampled_from(("question", "answer", "doc_ids", "standalone")), st.text() | st.none()).map(
        json.dumps
    )
)
def test_whatever_a_line_holds_it_is_a_question_or_a_value_error(line: str) -> None:
    try:
        found = question(line)
    except ValueError:
        return
    assert found is None or found.text.strip() != ""


def test_deep_nesting_is_not_json_to_us() -> None:
    with pytest.raises(ValueError, match="not JSON"):
        question("[" * 200_000)


def test_a_file_is_rewritten_only_when_it_differs(tmp_path: Path) -> None:
    file = tmp_path / "a/b.txt"
    settled(file, "one")
    before = file.stat().st_ino
    settled(file, "one")
    assert file.stat().st_ino == before
    settled(file, "two \ud800")
    assert (file.read_text(), list(file.parent.iterdir())) == ("two ?", [file])
