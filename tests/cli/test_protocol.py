"""The protocol: frames survive any split, invalid ones are refused, values arrive equal."""

import json
import os
import socket
from datetime import datetime, timedelta, timezone
from itertools import cycle
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from engine.serve.process import (
    LIMIT,
    Broken,
    Request,
    ServerLink,
    answer,
    answered,
    decode,
    encode,
    unpack,
)
from engine.settings import Settings, put
from engine.types import STAGES, Answer, AskOptions, AskResult, FollowedAnswer, Source, Step, Trace, json_values
from store.types import Scope

TEXT = some.text() | some.just("\udcff of a file name")
VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(), inner, max_size=3),
    max_leaves=8,
)
FRAMES = some.lists(
    some.tuples(some.text(), some.dictionaries(some.text().filter(lambda key: key != "kind"), VALUES, max_size=3)),
    max_size=5,
)
MOMENTS = some.datetimes(datetime(1971, 1, 1), datetime(2090, 1, 1)).map(
    lambda at: at.replace(tzinfo=timezone(timedelta(hours=2)))
)
SCOPES = some.builds(Scope, *[some.none() | TEXT] * 2, *[some.none() | some.dates()] * 2, some.none() | TEXT)
FOLLOWED = some.builds(FollowedAnswer, path=TEXT, message_id=some.none() | TEXT, quote=TEXT)
MANNERS = some.builds(AskOptions, scope=SCOPES, after=some.none() | FOLLOWED)
NAMED = some.builds(lambda name: put(Settings(), "model.name", name), TEXT)
REQUESTS = some.builds(Request, TEXT, MANNERS, MOMENTS, NAMED, some.booleans(), some.none() | TEXT)
REPLIES = some.builds(
    Answer,
    tokens=some.none() | some.dictionaries(TEXT, some.integers()),
    ms=some.dictionaries(some.sampled_from(STAGES), some.floats(0, 1e9)),
    sources=some.lists(some.builds(Source, score=some.floats(0, 1), path=TEXT), max_size=2).map(tuple),
    age_s=some.none() | some.floats(0, 1e9),
    similarity=some.none() | some.floats(0, 1),
)


def frames(data: bytes) -> list[dict[str, Any]]:
    """Return the frames that bytes are of; what is left at the end is waited for."""
    return [decode(line) for line in data.split(b"\n")[:-1]]


@given(FRAMES)
def test_frames_follow_each_other(sent: list[tuple[str, dict[str, Any]]]) -> None:
    data = b"".join(encode(kind, values) for kind, values in sent)
    assert frames(data) == [{"kind": kind, **values} for kind, values in sent]


@given(FRAMES.filter(bool), some.lists(some.integers(1, 400), min_size=1))
def test_frames_are_whole_however_they_are_cut(sent: list[tuple[str, dict[str, Any]]], sizes: list[int]) -> None:
    data, (ours, theirs) = b"".join(encode(kind, values) for kind, values in sent), socket.socketpair()
    with ours, theirs:
        Thread(target=_in_pieces, args=(theirs, data, sizes)).start()
        link = ServerLink(ours, os.getpid(), Path("none"))
        assert [link.hello, *(link.receive() for _ in sent[1:])] == [{"kind": kind, **values} for kind, values in sent]
        link.close()


def _in_pieces(end: socket.socket, data: bytes, sizes: list[int]) -> None:
    for size in cycle(sizes):
        if not data:
            return
        end.sendall(data[:size])
        data = data[size:]


@given(some.binary(max_size=200))
def test_bytes_that_are_no_frames_are_refused_or_waited_for(data: bytes) -> None:
    try:
        found = frames(data)
    except Broken:
        return
    assert all(isinstance(frame["kind"], str) for frame in found)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"kind": 1}', b'{"kind": "a", "b": NaN}', b"\xff", b'{"kind": "a"', b"[" * 9000, b"9" * 9000],
)
def test_a_body_that_is_no_frame_is_refused(body: bytes) -> None:
    with pytest.raises(Broken):
        decode(body)


def test_a_frame_that_would_be_too_long_is_not_made() -> None:
    with pytest.raises(Broken):
        encode("ask", {"text": "x" * LIMIT})


def travelled(value: Any) -> Any:
    (frame,) = frames(encode("x", {"value": json_values(value)}))
    return frame["value"]


@given(REQUESTS)
def test_a_question_arrives_as_it_was_asked(request: Request) -> None:
    assert unpack(Request, travelled(request)) == request


@given(REPLIES, some.none() | some.floats(0, 1), some.lists(some.builds(Step)), some.lists(TEXT))
def test_an_answer_arrives_as_it_was_given(
    reply: Answer, covered: float | None, steps: list[Step], notices: list[str]
) -> None:
    sent = AskResult(reply, Trace(steps, notices, 1.5), covered)
    (frame,) = frames(encode("x", {"value": answer(sent)}))
    found = answered(frame["value"])
    assert (found.reply, found.covered) == (sent.reply, sent.covered)
    assert (found.trace.steps, found.trace.notices, found.trace.saved_s) == (steps, notices, 1.5)
    assert json.dumps(found.reply.to_json()) == json.dumps(reply.to_json())


@given(REPLIES, some.data())
def test_an_answer_with_a_part_of_another_type_is_refused(reply: Answer, data: some.DataObject) -> None:
    values = json.loads(json.dumps(answer(AskResult(reply, Trace()))))
    part = data.draw(some.sampled_from(range(len(values))))
    values[part] = data.draw(some.sampled_from([None, 1, 1.5, "soon", [1], {"a": 1}]))
    try:
        found = answered(values)
    except Broken:
        return
    assert found.reply == reply


@given(REQUESTS, some.data())
def test_a_question_with_a_part_of_another_type_is_refused(request: Request, data: some.DataObject) -> None:
    values = json_values(request)
    part = data.draw(some.sampled_from(sorted(values)))
    values[part] = data.draw(some.sampled_from([None, 1, 1.5, "soon", [1], {"a": 1}]))
    try:
        found = unpack(Request, values)
    except Broken:
        return
    assert json_values(found) == values


@pytest.mark.parametrize("values", [None, {}, [], {"text": "a"}])
def test_what_is_no_question_is_refused(values: Any) -> None:
    with pytest.raises(Broken):
        unpack(Request, values)
