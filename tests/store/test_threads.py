"""Threads: by References and In-Reply-To, in any order of arrival, and by subject where a mail has neither."""

from datetime import UTC, datetime
from itertools import permutations

import pytest

from store.database import Ledger
from store.documents import members
from store.types import Document
from tests.store.kit import Opened, document, entry


def mail(name: str, *links: str, topic: str = "", is_reply: bool = False) -> Document:
    return document(name, links=links, topic=topic, is_reply=is_reply)


def threads(ledger: Ledger) -> set[frozenset[str]]:
    found = ledger.rows.execute("SELECT DISTINCT thread FROM documents").fetchall()
    return {frozenset(members(ledger, thread)) for (thread,) in found}


def keep(opened: Opened, *mails: Document) -> set[frozenset[str]]:
    for one in mails:
        opened.keep(entry(one.id, links=one.links, topic=one.topic, is_reply=one.is_reply))
    return threads(opened.ledger)


def test_a_reply_is_in_the_thread_of_what_it_answers(opened: Opened) -> None:
    assert keep(opened, mail("a", "<a>"), mail("b", "<b>", "<a>")) == {frozenset("ab")}


def test_two_messages_without_ties_are_two_threads(opened: Opened) -> None:
    assert keep(opened, mail("a", "<a>"), mail("b", "<b>")) == {frozenset("a"), frozenset("b")}


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_the_order_of_arrival_does_not_matter_to_references(opened: Opened, order: tuple[int, ...]) -> None:
    mails = [mail("a", "<a>"), mail("b", "<b>", "<a>"), mail("c", "<c>", "<b>", "<a>")]
    assert keep(opened, *(mails[i] for i in order)) == {frozenset("abc")}


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_messages_kept_in_one_commit_are_one_thread_in_any_order(opened: Opened, order: tuple[int, ...]) -> None:
    mails = [entry("a", links=("<a>",)), entry("b", links=("<b>",)), entry("c", links=("<c>", "<b>", "<a>"))]
    opened.keep(*(mails[i] for i in order))
    assert threads(opened.ledger) == {frozenset("abc")}


def test_a_message_that_ties_two_threads_makes_them_one(opened: Opened) -> None:
    first = keep(opened, mail("a", "<a>"), mail("b", "<b>"))
    assert (len(first), keep(opened, mail("c", "<c>", "<a>", "<b>"))) == (2, {frozenset("abc")})


def test_a_missing_link_still_ties_those_who_name_it(opened: Opened) -> None:
    assert keep(opened, mail("b", "<b>", "<a>"), mail("c", "<c>", "<a>")) == {frozenset("bc")}


def test_a_reply_without_references_follows_its_subject(opened: Opened) -> None:
    mails = [mail("a", "<a>", topic="budget"), mail("b", "<b>", topic="budget", is_reply=True)]
    assert keep(opened, *mails) == {frozenset("ab")}


def test_an_equal_subject_that_is_no_reply_is_a_thread_of_its_own(opened: Opened) -> None:
    mails = [mail("a", "<a>", topic="budget"), mail("b", "<b>", topic="budget")]
    assert keep(opened, *mails) == {frozenset("a"), frozenset("b")}


def test_a_subject_leads_to_the_thread_that_used_it_last(opened: Opened) -> None:
    mails = [mail("a", "<a>", topic="lunch"), mail("b", "<b>", topic="lunch")]
    assert keep(opened, *mails, mail("c", "<c>", topic="lunch", is_reply=True)) == {frozenset("a"), frozenset("bc")}


def test_a_reply_with_references_does_not_follow_its_subject(opened: Opened) -> None:
    mails = [mail("a", "<a>", topic="lunch"), mail("b", "<b>", "<x>", topic="lunch", is_reply=True)]
    assert keep(opened, *mails) == {frozenset("a"), frozenset("b")}


def test_members_come_oldest_first(opened: Opened) -> None:
    opened.keep(entry("a", date=datetime(2024, 5, 2, tzinfo=UTC), links=("<a>",)))
    opened.keep(entry("z", date=datetime(2024, 5, 1, tzinfo=UTC), links=("<z>", "<a>")))
    assert members(opened.ledger, "a") == ["z", "a"]
