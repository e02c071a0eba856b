"""Model servers: their addresses, their streams however they are cut, what they tell, and how a reply is broken off."""

import json
from collections.abc import Generator, Iterator
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.models.served import (
    CONTEXT,
    Completion,
    ServerClient,
    ServerModel,
    api_key,
    endpoint_of,
    events,
    exposure,
    parse_endpoint,
    reach,
)
from engine.settings import ModelSettings, Settings, put
from store.errors import NoModel, PkbError, UsageError
from tests.effort import PATIENCE_S
from tests.engine.models.chatserver import ChatServer, Told, chatting, delta, streamed

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def cut(body: bytes, places: list[int]) -> Iterator[bytes]:
    """Yield a body in chunks that end at these places."""
    borders = sorted({0, len(body), *(place % (len(body) + 1) for place in places)})
    yield from (body[start:end] for start, end in pairwise(borders))


@given(st.lists(TEXTS), st.lists(st.integers(0, 10_000)), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_events_are_the_same_however_the_bytes_are_cut(
    texts: list[str], places: list[int], end: str, unfinished: bool
) -> None:
    blocks = [
        f": keepalive{end}{end}event: x{end}data: {json.dumps({'a': text}, ensure_ascii=False)}" for text in texts
    ]
    body = "".join(f"{block}{end}{end}" for block in blocks)
    body = body.removesuffix(end * 2) if unfinished else body
    assert [json.loads(data)["a"] for data in events(cut(body.encode(), places))] == texts


@given(st.dictionaries(TEXTS, TEXTS), st.sampled_from([None, 1]), st.lists(st.integers(0, 10_000)))
def test_one_json_object_is_one_event(values: dict[str, str], indent: int | None, places: list[int]) -> None:
    body = b"\xef\xbb\xbf\n " + json.dumps(values, ensure_ascii=False, indent=indent).encode()
    assert [json.loads(data) for data in events(cut(body, places))] == [values]


@given(st.binary(), st.lists(st.integers(0, 10_000)))
def test_garbage_is_read_or_refused(body: bytes, places: list[int]) -> None:
    try:
        for piece in Completion().pieces(events(cut(body, places))):
            assert piece
    except ValueError:
        pass


@given(
    TEXTS.filter(lambda text: text.strip() and not text.lstrip().startswith("<")), st.text(), st.lists(st.integers(0))
)
def test_reasoning_is_not_said(said: str, reasoned: str, places: list[int]) -> None:
    reasoned = reasoned.replace("</think>", "")
    for before in ("", f"\n<think>{reasoned}</think>\n\n"):
        text, done = before + said, Completion()
        borders = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
        found = (json.dumps({"choices": [{"delta": {"content": text[a:b]}}]}) for a, b in pairwise(borders))
        assert "".join(done.pieces(found)) == (said.lstrip() if before else said)
        assert done.has_reasoned == bool(before)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("openai:http://127.0.0.1:11434#llama3.2:3b", "openai:http://127.0.0.1:11434/v1#llama3.2:3b"),
        ("openai:http://localhost:8080/", "openai:http://localhost:8080/v1"),
        ("openai:http://0.0.0.0:8000/v1/chat/completions#a/b", "openai:http://127.0.0.1:8000/v1#a/b"),
        ("openai:https://models.example.org/api/v1/", "openai:https://models.example.org/api/v1"),
        ("openai:https://models.example.org/openai#x", "openai:https://models.example.org/openai/v1#x"),
        ("openai:http://[::1]:1234/v1beta/openai", "openai:http://[::1]:1234/v1beta/openai"),
        ("openai:HTTP://Example.ORG", "openai:http://example.org/v1"),
    ],
)
def test_an_address_is_completed(text: str, whole: str) -> None:
    assert str(parse_endpoint(text)) == whole
    assert parse_endpoint(whole) == parse_endpoint(text)


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1:11434", "localhost:11434#x", "ftp://127.0.0.1", "http://", "http://u:secret@127.0.0.1", "http://a b",
        "http://127.0.0.1:99999", "http://127.0.0.1:0", "http://127.0.0.1/?a=b", "http://127.0.0.1#\x1b[2J", "", "file:///etc",
    ],
)  # fmt: skip
def test_what_is_no_address_is_a_mistake(text: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_endpoint(f"openai:{text}")
    assert "secret" not in error.value.message


@given(st.text() | st.from_regex(r"https?://[\w.:\[\]@%-]{1,30}(/[\w.%-]*)*(#.*)?"))
def test_any_text_is_an_address_that_says_the_same_again_or_a_mistake(text: str) -> None:
    try:
        found = parse_endpoint(f"openai:{text}")
    except UsageError:
        return
    assert parse_endpoint(str(found)) == found


def settings(name: str, **more: Any) -> ModelSettings:
    found = Settings()
    for key, value in {"name": name, **more}.items():
        found = put(found, f"model.{key}", value)
    return found.model


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "[::1]"])
def test_this_machine_needs_no_encryption(host: str) -> None:
    assert exposure(endpoint_of(settings(f"openai:http://{host}:1"))) == ""


def test_another_machine_needs_encryption_or_to_be_named() -> None:
    assert exposure(endpoint_of(settings("openai:https://nas.example"))) == ""
    for named in ("", "other.example", "example"):
        with pytest.raises(UsageError, match="without encryption"):
            endpoint_of(settings("openai:http://nas.example:8080", plain_http=named))
    found = endpoint_of(settings("openai:http://nas.example:8080", plain_http="NAS.example"))
    assert exposure(found) == "mail text travels to nas.example unencrypted"


def test_a_key_comes_from_the_environment_or_a_private_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("sk-1\n")
    file.chmod(0o600)
    assert api_key("", {}) is None
    assert api_key("env:MY_KEY", {"MY_KEY": "sk-2"}) == "sk-2"
    assert api_key(f"file:{file}", {}) == "sk-1"


def test_a_key_that_is_none_or_that_others_can_read_is_refused_and_not_repeated(tmp_path: Path) -> None:
    shown, broken = tmp_path / "shown", tmp_path / "broken"
    shown.write_text("sk-secret")
    shown.chmod(0o640)
    broken.write_text("sk-secret\nX-Header: 1")
    broken.chmod(0o600)
    for named in ("env:MY_KEY", f"file:{shown}", f"file:{broken}", f"file:{tmp_path}/none", f"file:{tmp_path}"):
        with pytest.raises(PkbError) as error:
            api_key(named, {})
        assert "sk-secret" not in f"{error.value.message} {error.value.next_step}"
    with pytest.raises(UsageError, match="env:NAME or file:PATH") as refused:
        settings("", key="sk-secret")
    assert "sk-secret" not in f"{refused.value.message} {refused.value.next_step}"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chatting() as found:
        yield found


OLLAMA = {"models": [{"name": "tiny:latest", "digest": "abc"}]}
LOADED = {"models": [{"name": "tiny:latest", "context_length": 600}]}


@pytest.mark.parametrize(
    ("row", "pages", "window", "digest"),
    [
        ({"max_model_len": 900}, {}, 900, ""),  # vLLM
        ({"owned_by": "llamacpp"}, {"/props": {"default_generation_settings": {"n_ctx": 800}}}, 800, ""),
        ({"owned_by": "llamacpp", "meta": {"n_ctx": 700}}, {}, 700, ""),
        ({}, {"/api/tags": OLLAMA, "/api/ps": LOADED}, 600, "abc"),
        ({}, {"/api/tags": OLLAMA, "/api/show": {"parameters": "stop x\nnum_ctx    500"}}, 500, "abc"),
        ({}, {"/api/tags": OLLAMA}, CONTEXT, "abc"),
        ({}, {"/api/v0/models": {"data": [{"id": "tiny", "loaded_context_length": 400}]}}, 400, ""),  # LM Studio
        ({"max_model_len": "many"}, {"/api/tags": Told(b"<html>"), "/props": [1]}, CONTEXT, ""),
    ],
)  # fmt: skip
def test_the_context_is_what_the_server_tells(
    server: ChatServer, row: dict[str, Any], pages: dict[str, Any], window: int, digest: str
) -> None:
    server.models, server.pages = [{"id": "tiny"} | row], pages
    name = "tiny:latest" if digest else "tiny"
    server.models[0]["id"] = name
    found = reach(settings(f"openai:{server.url}#tiny"), {})
    assert (found.window, found.digest) == (window, digest)
    assert reach(settings(f"openai:{server.url}#tiny", context=300), {}).window == 300


@pytest.mark.parametrize(
    ("models", "name", "error"),
    [
        ([], "", "has no model to choose"),
        ([{"id": "a"}, {"id": "b\x1b[2J"}], "", "has several models: a, b[2J"),
        ([{"id": "a"}], "#b", "has no model b, but a"),
    ],
)
def test_a_model_that_the_server_does_not_have_is_none(
    server: ChatServer, models: list[dict[str, Any]], name: str, error: str
) -> None:
    server.models = models
    with pytest.raises(NoModel) as found:
        reach(settings(f"openai:{server.url}{name}"), {})
    assert error in found.value.message
    assert str(found.value.next_step).startswith(f"pkb model use 'openai:{server.url}/v1#")


def model(server: ChatServer, **more: Any) -> ServerModel:
    return ServerModel(ServerClient(parse_endpoint(server.name), **more), None)


def written(asked: ServerModel) -> str:
    """Have a model write after three segments."""
    prompt = asked.begin()
    for text in ("Answer.\n", "[1]\nGrüße 😀\ud800\n"):
        asked.prefill(prompt, asked.tokens(text))
    return "".join(asked.decode(prompt, asked.tokens("When?"), 16))


def test_the_first_segment_is_the_systems_and_the_others_are_the_users_in_order(server: ChatServer) -> None:
    server.write = lambda user: streamed("Friday", usage={"prompt_tokens": 9, "completion_tokens": 2})
    asked = model(server, key="sk-1")
    assert written(asked).strip() == "Friday"
    (body,) = server.completions()
    assert [(one["role"], one["content"]) for one in body["messages"]] == [
        ("system", "Answer.\n"),
        ("user", "[1]\nGrüße 😀?\nWhen?"),
    ]
    assert (body["model"], body["stream"], body["temperature"], body["max_tokens"]) == ("tiny", True, 0, 16)
    assert server.heard[0].headers["Authorization"] == "Bearer sk-1"
    assert (asked.last.prompt, asked.last.generated) == (9, 2)


def test_a_server_that_refuses_fields_it_does_not_know_is_asked_without_them(server: ChatServer) -> None:
    strict = Told(b'{"error": {"message": "Unrecognized request argument supplied: chat_template_kwargs"}}', 400)
    server.write = lambda user: streamed("Friday") if len(server.completions()) > 1 else strict
    assert written(model(server)).strip() == "Friday"
    assert sorted(server.completions()[1]) == ["max_tokens", "messages", "model", "stream", "temperature"]


WHOLE = {"choices": [{"message": {"content": "Friday"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}


@pytest.mark.parametrize(
    "told",
    [
        Told(json.dumps(WHOLE).encode(), kind="application/json"),
        Told(delta("", reasoning_content="Let me see.") + delta("Friday") + delta("", "stop")),
        Told(delta("<thi") + delta("nk>Well") + delta("</think>\n\n") + delta("Friday", "stop")),
        Told(b": ping\n\n" + delta("Fri") + delta("day") + b"data: [DONE]"),
    ],
)
def test_what_is_said_is_read_from_each_kind_of_reply(server: ChatServer, told: Told) -> None:
    server.write = lambda user: told
    assert written(model(server)) == "Friday"


SECRET = "the password is swordfish"
REFUSED = {"error": {"message": f"{SECRET}"}}


def refused(message: str, status: int = 400) -> Told:
    return Told(json.dumps({"error": {"message": f"{message}: {SECRET}"}}).encode(), status)


@pytest.mark.parametrize(
    ("told", "error", "code"),
    [
        (Told(delta("Fri")), "broke off", 1),
        (Told(delta("Fri") + b'data: {"choi'), "does not answer as a model server", 1),
        (Told(b"<html>" + SECRET.encode()), "broke off", 1),
        (Told(b'data: "' + SECRET.encode() + b'"\n\n'), "does not answer as a model server", 1),
        (Told(delta("Fri") + b"data: " + json.dumps(REFUSED).encode() + b"\n\n"), "tiny at PLACE reported an error", 1),
        (refused("boom", 500), "tiny at PLACE failed (HTTP 500)", 1),
        (refused("bad"), "refused the request (HTTP 400)", 1),
        (refused("request exceeds the available context size"), "the prompt is too long for tiny", 1),
        (refused("model 'tiny' not found", 404), "there is no model tiny", 12),
        (refused("no route", 404), "has nothing under /v1", 1),
        (refused("no", 401), "asks for an API key", 1),
        (Told(b"", 302, headers={"Location": "http://127.0.0.1:9/"}), "redirects to another address", 1),
        (Told(delta("", reasoning="Hm.") + delta("", "length")), "only reasoned in the 16 tokens", 1),
    ],
)
def test_what_goes_wrong_is_one_line_without_the_servers_words(
    server: ChatServer, told: Told, error: str, code: int
) -> None:
    server.write = lambda user: told
    with pytest.raises(PkbError) as found:
        written(model(server))
    assert error.replace("PLACE", server.place) in found.value.message
    assert (found.value.code, bool(found.value.next_step)) == (code, True)
    assert SECRET not in f"{found.value.message} {found.value.next_step}"


def test_a_redirect_is_not_followed_and_no_proxy_is_used(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with chatting() as other:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, other.url)
        server.write = lambda user: Told(b"", 307, headers={"Location": f"{other.url}/v1/chat/completions"})
        with pytest.raises(PkbError, match="redirects"):
            written(model(server))
        assert (len(server.completions()), other.heard) == (1, [])


def test_an_interrupt_closes_the_connection(server: ChatServer) -> None:
    server.hold = Event()

    def stop() -> None:
        if server.completions():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        written(model(server, yield_point=stop))
    assert server.left.wait(PATIENCE_S)


def test_whoever_has_read_enough_closes_the_connection(server: ChatServer) -> None:
    server.write = lambda user: Told(delta("Friday ") * 200_000)
    asked = model(server)
    prompt = asked.begin()
    asked.prefill(prompt, asked.tokens("Answer."))
    pieces = asked.decode(prompt, asked.tokens("When?"), 16)
    assert next(iter(pieces)) == "Friday "
    assert isinstance(pieces, Generator)
    pieces.close()


@given(TEXTS)
def test_estimated_tokens_are_a_third_of_the_bytes(text: str) -> None:
    asked = ServerModel(ServerClient(parse_endpoint("openai:http://127.0.0.1#tiny")), 1000)
    ids, prompt = asked.tokens(text), asked.begin()
    asked.prefill(prompt, ids)
    assert prompt == [text]
    assert len(ids) == -(-len(text.encode()) // 3)
    assert asked.context == 875
