"""What no client of the page sends: every address, whatever comes, answers with a short error or as usual, at once."""

import json
import random
import shutil
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from engine.http.completions import LONGEST_BODY
from engine.http.routes import _CONNECTIONS as CONNECTIONS
from engine.http.routes import application
from engine.text.terminal import LONGEST_TEXT
from tests.cli.http_endpoint import Reply, Served, http_endpoint
from tests.demo import environment
from tests.effort import slow_only

COMPLETIONS = "/v1/chat/completions"
KEY = "Who has the spare key to the workshop?"
SHORT = 3_000  # bytes of an error


@pytest.fixture(scope="module")
def http(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("http") / "home"
    shutil.copytree(made, home)  # what is asked is recorded there
    with http_endpoint({**environment(home), "PKB_DAEMON": "off"}) as found:
        yield found


def routes() -> list[tuple[str, str]]:
    """Return method and path of all routes."""
    made = application({}, port=1, token="x")._app
    assert isinstance(made, Starlette)
    found = [one for one in made.routes if isinstance(one, Route)]
    assert len(found) == len(made.routes) > 8
    return [(method, one.path) for one in found for method in one.methods or () if method != "HEAD"]


ROUTES = [pytest.param(*one, id=" ".join(one)) for one in routes()]


def is_refused(found: Reply) -> bool:
    """Return whether it is a short error with a message, which says what to do next."""
    is_short = 400 <= found.status < 500 and len(found.body) < SHORT
    return is_short and bool(found.row["error"]["message"] and found.row["error"]["next"])


def body(**more: Any) -> bytes:
    """Return a request for an answer; what is given replaces what is usual."""
    return json.dumps({"messages": [{"role": "user", "content": KEY}], **more}).encode()


def posted(http: Served, data: bytes) -> Reply:
    return http.send(http.head("POST", COMPLETIONS, f"Content-Length: {len(data)}") + b"\r\n" + data)


TARGETS = {
    "NUL": "a%00b",
    "not UTF-8": "%FF%FE",
    "half a surrogate pair": "%ED%A0%80",
    "no escape": "100%",
    "half an escape": "%e",
    "no digits": "%zz",
    "overlong": "%C0%AF",
}


WRONG = {
    "another method": ("PATCH", "", {}),
    "another address": ("GET", "/no", {}),
    "another host": ("", "", {"Host": "evil.example"}),
    "another page": ("", "", {"Origin": "http://evil.example"}),
    "no filter": ("", "?q=key&path=x&k=0&limit=x&since=never&kind=x&collection=none", {}),
}


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("wrong", WRONG)
def test_every_error_says_what_to_do_next(http: Served, method: str, path: str, wrong: str) -> None:
    other, more, headers = WRONG[wrong]
    lines = {"Host": http.root.removeprefix("http://"), "Authorization": f"Bearer {http.token}", **headers}
    about = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    asked = f"{other or method} {path.replace('{name}', 'x')}{more} HTTP/1.1\r\n{about}\r\n"
    found = http.send(asked.encode())
    assert is_refused(found) or (found.status == 200 and wrong == "no filter")


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("text", TARGETS.values(), ids=TARGETS)
def test_an_address_that_is_no_text_is_refused(http: Served, method: str, path: str, text: str) -> None:
    target = path.replace("{name}", f"{text}.js") if "{" in path else f"{path}?q={text}&path={text}&since={text}"
    assert is_refused(http.send(http.head(method, target) + b"\r\n"))


LONG = {
    "a name": "a" * 300,
    "a path": "a/" * 6_000,
    "letters": "a" * 12_000,
    "slashes": "/" * 12_000,
    "dots": "../" * 4_000,
    "a home": "~" + "a" * 12_000,
    "patterns": "%25_*[" * 2_000,
    "quotes": "%22%27" * 2_000,
    "numbers": "9" * 12_000,
    "emoji": quote("😀") * 1_000,
    "operators": "a%20AND%20(" * 1_000,
}


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_over_long_values_are_answered_or_refused(http: Served, method: str, path: str) -> None:
    for text in LONG.values():
        for name in ("q", "path", "title", "sender", "document", "collection", "since", "k", "limit", "message_id"):
            if "{" not in path:
                found = http.send(http.head(method, f"{path}?q=key&{name}={text}") + b"\r\n")
                assert found.status == 200 or is_refused(found)
        found = http.send(http.head(method, path.replace("{name}", f"{text}.js")) + b"\r\n")
        assert found.status == 200 or is_refused(found)


def test_a_name_that_is_too_long_for_a_file_is_not_found(http: Served) -> None:
    for name in ("a" * 300, "a" * 12_000, "..%2f" * 500 + "page", "page.js%2f..%2fapi", "~root"):
        found = http.send(http.head("GET", f"/{name}.js") + b"\r\n")
        assert (found.status, is_refused(found)) == (404, True)
    assert http.send(http.head("GET", f"/v1/show?path=~{'a' * 300}") + b"\r\n").status == 400
    assert http.send(http.head("GET", "/v1/stats/") + b"\r\n").status == 404


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    "headers",
    [
        ["Host: example.org"],
        ["Authorization: Bearer x"],
        ["Origin: http://a", "Origin: http://b"],
        ["Content-Length: 2", "Content-Length: 3"],
        ["Content-Length: 2, 3"],
        ["Content-Length: -1"],
        ["Content-Length: two"],
        ["Content-Length: " + "9" * 30],
        ["Content-Length: " + "9" * 19],
        [f"Content-Length: {LONGEST_BODY + 1}"],
        ["Content-Length: 2", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: gzip, chunked"],
        ["a b: c"],
        ["no colon"],
        ["a: b\0c"],
        ["a: " + "b" * 200_000],
        [f"a{n}: b" for n in range(20_000)],
    ],
    ids=lambda headers: headers[-1][:30],
)
def test_headers_that_contradict_each_other_or_are_too_long_are_refused(
    http: Served, method: str, path: str, headers: list[str]
) -> None:
    assert is_refused(http.send(http.head(method, path, *headers) + b"\r\n{}"))


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\0\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET /\0 HTTP/1.1\r\n\r\n",
        "GET /é HTTP/1.1\r\n\r\n".encode(),
        b"GET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"A" * 200_000,
        b"\r\n" * 100_000,
        b"GET /" + b"a" * 200_000,
    ],
    ids=lambda data: repr(data[:20]),
)
def test_what_is_no_request_is_refused(http: Served, data: bytes) -> None:
    found = http.send(data)
    assert is_refused(found)
    assert found.headers["content-security-policy"].startswith("default-src 'none'")


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_body_without_an_end_is_refused_at_once(http: Served, method: str, path: str) -> None:
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    most = 3 * LONGEST_BODY // len(piece)
    assert is_refused(http.send(http.head(method, path, "Transfer-Encoding: chunked") + b"\r\n", *[piece] * most))
    length = "Content-Length: 99999999999"
    assert is_refused(http.send(http.head(method, path, length) + b"\r\n", *[b" " * 0x10000] * most))


def test_a_client_that_sends_all_before_it_reads_gets_the_answer(http: Served) -> None:
    for size in (LONGEST_BODY + 1, 3 * LONGEST_BODY):
        found = http.get(COMPLETIONS, b" " * size)
        assert (found.status, "the body is longer" in found.row["error"]["message"]) == (400, True)
    assert http.get(COMPLETIONS, b" " * LONGEST_BODY, token="x").status == 401


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "G" * 3_000])
@pytest.mark.parametrize("path", sorted({path for _, path in routes()} - {COMPLETIONS}))
def test_another_method_is_refused(http: Served, method: str, path: str) -> None:
    assert is_refused(http.send(http.head(method, path, "Content-Length: 0") + b"\r\n"))


NO_DICT: tuple[Any, ...] = (1, "x", [], [1], 1.5)
NO_ONE: tuple[Any, ...] = (0, 2, True, 1.5, "1", [], 10**400)
NO_BOOL: tuple[Any, ...] = (1, "x", [], {}, 1.5)
NO_ANSWER: tuple[Any, ...] = (1, "x", [], {}, {"path": 1, "quote": "x"}, {"path": "x", "quote": None})
NO_NAME: tuple[Any, ...] = (1, True, [], {}, "x" * 20_000)
OTHERS: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    1.5,
    10**400,
    "",
    "x",
    "x" * 100_000,
    [],
    [1],
    [[]],
    {},
    {"a": 1},
)
BODIES = [
    b"",
    b"{",
    b"null",
    b"[" * 100_000,
    b"[" * 50_000 + b"]" * 50_000,
    b'{"messages": ' + b"9" * 5_000 + b"}",
    b'{"messages": "\xff"}',
    body().decode().encode("utf-16"),
    b"\0" * 100,
    *(body(messages=one) for one in OTHERS),
    *(body(messages=[one]) for one in OTHERS),
    *(body(messages=[{"role": "user", "content": one}]) for one in OTHERS if one not in ("x", 1)),
    *(body(messages=[{"role": one, "content": KEY}]) for one in OTHERS),
    *(body(messages=[{"role": "user", "content": [{"type": one, "text": KEY}]}]) for one in OTHERS),
    *(body(messages=[{"role": "user", "content": [{"type": "text", "text": one}]}]) for one in OTHERS if one != "x"),
    *(body(**{name: one}) for name in ("stream", "pkb", "stream_options") for one in NO_DICT),
    *(body(n=one) for one in NO_ONE),
    *(body(model=one) for one in OTHERS if one is not None),
    *(body(pkb={"k": one}) for one in OTHERS if one not in (None, 1)),
    *(body(pkb={"cache": one}) for one in OTHERS if one is not None),
    *(body(pkb={"footnotes": one}) for one in NO_BOOL),
    *(body(pkb={"after": one}) for one in NO_ANSWER),
    *(body(pkb={name: one}) for name in ("sender", "until", "document") for one in NO_NAME),
    *(body(pkb={name: "x"}) for name in ("since", "collection", "document")),
]
ODD = ("\ud800", "\udfff", "\udc80", "\0", "a\ud83d b", "\\\\\0")
BODIES += [body(messages=[{"role": "user", "content": f"{KEY} {one}"}]) for one in ODD]
BODIES += [body(pkb={"after": {"path": one, "quote": "x"}}) for one in ODD]
BODIES += [body(pkb={"sender": one}) for one in ODD]
BODIES += [
    body(messages=[{"role": "user", "content": one * (LONGEST_TEXT // len(one) + 1)}]) for one in (KEY, "*", "é")
]


def test_a_body_that_is_no_question_is_refused(http: Served) -> None:
    kept = [data[:80] for data in BODIES if not is_refused(posted(http, data))]
    assert kept == []


def test_a_backslash_before_u0000_is_text(http: Served) -> None:
    assert posted(http, body(messages=[{"role": "user", "content": f"{KEY} \\u0000 \\\\u0000"}])).status == 200


def test_the_longest_question_and_earlier_messages_of_any_length_are_answered(http: Served) -> None:
    longest = f"{KEY} {'x' * LONGEST_TEXT}"[:LONGEST_TEXT]
    assert posted(http, body(messages=[{"role": "user", "content": longest}])).status == 200
    said = [{"role": one, "content": "key, " * 50_000} for one in ("user", "assistant")]
    assert posted(http, body(messages=[*said, {"role": "user", "content": KEY}])).status == 200


def test_of_silent_connections_so_many_stay_and_the_page_answers(http: Served) -> None:
    for begun in (
        b"",
        b"GET / HT",
        http.head("GET", "/"),
        http.head("POST", COMPLETIONS, "Content-Length: 9") + b"\r\n",
    ):
        ends = [http.connect() for _ in range(2 * CONNECTIONS)]
        for end in ends:
            try:
                end.sendall(begun)
            except OSError:
                continue
        assert http.get("/").status == 200
        closed = 0
        for end in ends:
            end.setblocking(False)
            try:
                closed += end.recv(1) == b""
            except ConnectionResetError:
                closed += 1
            except BlockingIOError:
                pass
            end.close()
        assert closed >= CONNECTIONS


def test_a_connection_between_two_requests_is_kept_while_others_come(http: Served) -> None:
    with http.connect() as end:
        for _ in range(3):
            end.sendall(http.head("GET", "/page.js") + b"\r\n")
            answer = HTTPResponse(end)
            answer.begin()
            assert (answer.status, answer.read()[:2]) == (200, b"//")
            answer.close()
            silent = [http.connect() for _ in range(2 * CONNECTIONS)]
            assert http.get("/").status == 200
            for one in silent:
                one.close()


@pytest.mark.parametrize("seed", [1, *slow_only(*range(2, 20))])
def test_random_bytes_get_an_answer(http: Served, seed: int) -> None:
    drawn = random.Random(seed)
    whole = [http.head("GET", "/page.js") + b"\r\n", http.head("POST", COMPLETIONS, "Content-Length: 2") + b"\r\n{}"]
    for _ in range(100):
        data = bytearray(drawn.choice(whole))
        for _ in range(drawn.randint(1, 3)):
            at = drawn.randrange(len(data))
            data[at : at + drawn.randint(0, 3)] = drawn.randbytes(drawn.randint(0, 3))
        if b"\r\n\r\n" in data and not data.startswith(b"POST"):
            found = http.send(bytes(data))
            assert found.status == 200 or is_refused(found)
