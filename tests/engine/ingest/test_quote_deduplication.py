"""Quoted passages are indexed once: in the mail that wrote them, not in those that quote it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.quotes import passage_digests, split_passages
from store.types import DocumentPassage, Role
from tests.store.kit import document

_ROLES: list[Role] = ["body", "quote", "forward", "signature", "attachment", "event"]


def passage(text: str, role: Role = "body") -> DocumentPassage:
    return DocumentPassage(text, 1, 1, role)


def test_body_passages_are_always_indexed() -> None:
    said = document("b", passages=(passage("hello"),))
    assert split_passages(said, passage_digests(said), {passage_digests(said)[0]: "a"})[0] == [*said.passages]


def test_a_quote_owned_by_another_mail_is_left_out() -> None:
    quoting = document("b", passages=(passage("yes"), passage("> hello", "quote")))
    kept, _, quoted = split_passages(quoting, passage_digests(quoting), {passage_digests(quoting)[1]: "a"})
    assert (kept, quoted) == ([*quoting.passages[:1]], passage_digests(quoting)[1:])


def test_a_quote_without_an_owner_is_indexed_and_owned() -> None:
    quoting = document("b", passages=(passage("> hello", "quote"),))
    found = split_passages(quoting, passage_digests(quoting), {})
    assert found == ([*quoting.passages], passage_digests(quoting), [])


def test_a_quote_owned_by_the_mail_itself_is_indexed() -> None:
    quoting = document("b", passages=(passage("> hello", "quote"),))
    owners = {passage_digests(quoting)[0]: "b"}
    assert split_passages(quoting, passage_digests(quoting), owners)[0] == [*quoting.passages]


def test_quote_marks_white_space_and_case_are_ignored() -> None:
    one = document("a", passages=(passage("Hello there,\nmy friend"), passage("> > hello  there,\n>> My\tFriend ")))
    assert len(set(passage_digests(one))) == 1


def test_the_attribution_line_is_ignored() -> None:
    said = "On Friday, 3 May 2024, Ann wrote:\n> hello"
    one = document("a", passages=(passage("hello"), passage(said, "quote")))
    assert len(set(passage_digests(one))) == 1


def test_words_above_a_quote_that_are_the_writers_own_count() -> None:
    one = document("a", passages=(passage("hello"), passage("I agree\n> hello", "quote")))
    assert len(set(passage_digests(one))) == 2


def test_a_line_that_lost_its_quote_mark_when_it_was_wrapped_counts() -> None:
    one = document("a", passages=(passage("hello there friend"), passage("> hello\nthere\n> friend", "quote")))
    assert len(set(passage_digests(one))) == 1


def test_other_words_are_another_passage() -> None:
    one = document("a", passages=(passage("hello there"), passage("hello three"), passage("hellothere")))
    assert len(set(passage_digests(one))) == 3


def test_quotes_forwards_and_signatures_are_not_a_documents_own() -> None:
    said = [one.role for one in (passage(role, role) for role in _ROLES) if not one.is_repeated]
    assert said == ["body", "attachment", "event"]


_PASSAGES = st.lists(st.builds(passage, st.text(max_size=20), st.sampled_from(_ROLES)), max_size=8)


@pytest.mark.slow
@given(_PASSAGES, st.sets(st.integers(0, 7)))
def test_every_passage_is_either_kept_and_owned_or_quoted(passages: list[DocumentPassage], elsewhere: set[int]) -> None:
    one = document("a", passages=tuple(passages))
    owners = {digest: "b" for i, digest in enumerate(passage_digests(one)) if i in elsewhere}
    kept, owned, quoted = split_passages(one, passage_digests(one), owners)
    assert (sorted([*owned, *quoted]), len(kept)) == (sorted(passage_digests(one)), len(owned))
