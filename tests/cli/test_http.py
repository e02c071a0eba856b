"""`pkb serve --http` as programs use it: by OpenAI's own client, by plain requests, and by those it must refuse."""

import json
import re
import shutil
import socket
import ssl
import stat
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from threading import Event
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qsl, quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.http.completions import ChatRequest, OwnOptions, parse
from engine.http.routes import HttpAddress, serve
from engine.types import FollowedAnswer
from store.errors import UsageError
from tests.cli.conftest import Pkb
from tests.cli.http_endpoint import Served, http_endpoint
from tests.cli.serving import served, wait
from tests.demo import environment
from tests.effort import PATIENCE_S
from tests.engine.models.chatserver import chatting

KEY = "Who has the spare key to the workshop?"
CONCERT = "When is the summer concert?"


@pytest.fixture(scope="module")
def home(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(made, tmp_path_factory.mktemp("http") / "demo"))


@pytest.fixture(scope="module")
def http(home: Path) -> Iterator[Served]:
    with http_endpoint({**environment(home), "PKB_DAEMON": "off"}) as found:
        yield found


def ask(http: Served, question: str, **more: Any) -> Any:
    create: Any = http.client.chat.completions.create  # its overloads are one for each kind of stream
    return create(model="pkb", messages=[{"role": "user", "content": question}], **more)


def test_openais_client_lists_the_model_and_gets_an_answer_with_footnotes_and_sources(http: Served) -> None:
    assert [model.id for model in http.client.models.list()] == ["pkb"]
    assert http.client.models.retrieve("pkb").id == "pkb"
    made = ask(http, KEY)
    own = made.model_extra["pkb"]
    text = made.choices[0].message.content
    above = "Closest passage: " if own["grade"] == "closest" else ""
    assert text.startswith(f"{above}{own['answer']}")
    assert "Gus Tindall" in own["answer"]
    path, lines = own["sources"][0]["path"], "{}-{}".format(*own["sources"][0]["lines"])
    place = rf"\[{re.escape(path)}:{lines}\]\(http://127\.0\.0\.1:\d+/\?(.*)\)"
    (link,) = re.findall(rf"^\[1\] .*, {place}$", text, re.MULTILINE)
    assert dict(parse_qsl(link)) == {"path": path, "lines": lines}
    assert made.choices[0].finish_reason == "stop"
    assert ask(http, KEY).model_extra["pkb"]["tier"] == "exact"
    plain = ask(http, KEY, extra_body={"pkb": {"footnotes": False}})
    assert plain.choices[0].message.content == f"{above}{own['answer']}"


def test_a_streamed_answer_is_the_same_as_the_whole_one(http: Served) -> None:
    whole = ask(http, CONCERT)
    chunks = list(ask(http, CONCERT, stream=True, stream_options={"include_usage": True}))
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    (last,) = [chunk for chunk in chunks if chunk.choices and chunk.choices[0].finish_reason]
    assert said == whole.choices[0].message.content
    assert last.model_extra["pkb"]["answer"] == whole.model_extra["pkb"]["answer"]
    assert chunks[-1].usage == whole.usage
    assert len({chunk.id for chunk in chunks}) == 1


def test_earlier_messages_complete_a_follow_up(http: Served) -> None:
    said = [
        {"role": "system", "content": "Answer in verse."},
        {"role": "user", "content": CONCERT},
        {"role": "assistant", "content": ask(http, CONCERT).choices[0].message.content},
        {"role": "user", "content": [{"type": "text", "text": "and where?"}]},
    ]
    row = http.get("/v1/chat/completions", {"messages": said}).row["pkb"]
    assert row["question"] == "Where is the summer concert?"
    assert "Ropeworks" in row["answer"]


TASK = """### Task:
Name this chat.
### Output:
JSON: {form}
### Chat History:
<chat_history>
USER: Who has the key of the boathouse?
ASSISTANT: Gus Tindall.
</chat_history>"""


@pytest.mark.parametrize(
    ("form", "wanted"),
    [
        ('{ "title": "a few words" }', {"title": "Who has the key of the boathouse?"}),
        ('{"tags": ["one", "two"]}', {"tags": []}),
    ],
)
@pytest.mark.parametrize("streams", [False, True])
def test_the_tasks_that_clients_send_by_themselves_are_filled_in_and_not_asked(
    http: Served, pkb: Pkb, form: str, wanted: object, streams: bool
) -> None:
    before = pkb("stats", "--json").row["tiers"]
    task = TASK.replace("{form}", form)
    if streams:
        said = "".join(one.choices[0].delta.content or "" for one in ask(http, task, stream=True))
    else:
        said = ask(http, task).choices[0].message.content
    assert (json.loads(said), pkb("stats", "--json").row["tiers"]) == (wanted, before)


@pytest.mark.parametrize(
    "question",
    [
        TASK.replace("{form}", "a title"),
        TASK.replace("{form}", '{"title": "x"}').replace("###", ""),
        TASK.replace("{form}", '{"title": "x"}').replace("</chat_history>", ""),
    ],
)
def test_what_only_looks_like_a_clients_task_is_a_question(question: str) -> None:
    assert parse({"messages": [{"role": "user", "content": question}]}).question == question.strip()


def test_earlier_pictures_and_an_empty_turn_to_be_filled_in_are_passed_over() -> None:
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {}}, {"type": "text", "text": "this?"}]}
    said = [picture, {"role": "assistant", "content": "A shed."}, {"role": "user", "content": KEY}]
    asked = parse({"messages": [*said, {"role": "assistant", "content": ""}]})
    assert (asked.question, asked.before) == (KEY, (("this?", "A shed."),))


def test_what_stands_for_nothing_alone_is_asked_of_the_answer_before_and_not_cached(http: Served) -> None:
    source = ask(http, KEY).model_extra["pkb"]["sources"][0]
    after = {name: source[name] for name in ("path", "message_id", "quote")}
    said = [{"role": "user", "content": "Who was it again?"}]
    row = http.get("/v1/chat/completions", {"messages": said, "pkb": {"after": after}}).row["pkb"]
    assert row["sources"][0]["path"] == source["path"]


def test_questions_of_clients_are_cached_but_are_the_users_only_if_they_say_so(http: Served) -> None:
    question = "Who plays the piano at the rehearsal?"
    recent = http.get("/v1/recent").row["questions"]
    assert [ask(http, question).model_extra["pkb"]["tier"] for _ in range(2)][1] == "exact"
    assert http.get("/v1/recent").row["questions"] == recent
    ask(http, question, extra_body={"pkb": {"record": True}})
    assert http.get("/v1/recent").row["questions"] == [question, *recent][:5]


def test_every_question_is_recorded_if_the_server_says_so(home: Path) -> None:
    with http_endpoint({**environment(home), "PKB_DAEMON": "off"}, "--record") as found:
        found.get("/v1/chat/completions", {"messages": [{"role": "user", "content": "Who has the tandem?"}]})
        assert found.get("/v1/recent").row["questions"][0] == "Who has the tandem?"


def test_an_answer_is_marked_as_wrong_by_its_question(http: Served) -> None:
    for question in (CONCERT, KEY):
        ask(http, question, extra_body={"pkb": {"record": True}})
    assert http.get("/v1/wrong", {"question": CONCERT}).row["question"] == CONCERT
    assert [ask(http, one).model_extra["pkb"]["tier"] for one in (CONCERT, KEY)] == ["full", "exact"]
    assert http.get("/v1/wrong", {"question": "never asked"}).status == 500


@pytest.mark.parametrize("path", ["/v1/wrong", "/v1/open"])
def test_what_changes_or_opens_something_is_as_guarded_as_a_question(http: Served, path: str) -> None:
    assert http.get(path, {}, token="wrong").status == 401
    assert http.get(path, {}, Origin="https://evil.example.org").status == 403
    assert http.get(path, b"{").status == 400
    assert http.get(path, []).row["error"]["message"] == "expected `object`, got `array`"
    assert http.get(path).status == 405


def test_only_indexed_files_are_opened_and_only_for_a_page_on_this_machine(home: Path, tmp_path: Path) -> None:
    environ = {**environment(home), "PKB_DAEMON": "off", "PKB_OPENER": "touch"}
    with http_endpoint(environ) as found:
        refused = found.get("/v1/open", {"path": "/etc/passwd"})
        assert (refused.status, refused.row["error"]["message"]) == (400, "/etc/passwd is not indexed")
        assert found.get("/v1/open", {}).row["error"]["message"] == "this path is not indexed"
        path = found.get("/v1/list?limit=1").row["documents"][0]["path"]
        assert found.get("/v1/open", {"path": path}).status == 200
        assert found.get("/v1/recent").row["opens"]
    (tmp_path / "config.toml").write_text('[serve]\nhosts = "pkb.example.org"\n')
    with http_endpoint({**environ, "PKB_CONFIG": str(tmp_path / "config.toml")}) as found:
        assert found.get("/v1/open", {"path": path}).status == 404
        assert not found.get("/v1/recent").row["opens"]


def test_filters_limit_a_question_and_a_decline_says_so(http: Served) -> None:
    made = ask(http, KEY, extra_body={"pkb": {"since": "2024-06", "cache": "off", "k": 2}})
    own = made.model_extra["pkb"]
    assert all(one["date"] >= "2024-06" for one in own["sources"])
    nowhere = ask(http, "Who won the chess game on Mars?")
    assert not nowhere.model_extra["pkb"]["answered"]
    assert nowhere.choices[0].message.content.startswith("No answer found in your messages.")


def test_search_list_show_and_stats_are_what_the_commands_print(http: Served, home: Path, pkb: Pkb) -> None:
    found = http.get("/v1/search?q=rehearsal&k=2&sender=ann").row
    same = pkb("search", "rehearsal", "-k", "2", "--from", "ann", "--json").row
    assert found == same
    assert http.get("/v1/list?title=rehearsal&limit=3&oldest=true").row == pkb(
        "list", "rehearsal", "-n", "3", "--oldest", "--json"
    ).row  # fmt: skip
    path = found["sources"][0]["path"]
    shown = http.get(f"/v1/show?path={quote(path)}").row["documents"]
    assert shown == pkb("show", path, "--json").rows
    assert http.get("/v1/todo?since=2024-05&limit=5&kind=task").row == pkb(
        "todo", "--since", "2024-05", "-n", "5", "--kind", "task", "--json"
    ).row  # fmt: skip
    assert http.get("/v1/stats").row.keys() == pkb("stats", "--json").row.keys()


def test_several_clients_at_once_get_their_own_answers(http: Served) -> None:
    questions = [KEY, CONCERT] * 4
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda one: ask(http, one).model_extra["pkb"], questions))
    assert [one["question"] for one in made] == questions
    assert len({one["answer"] for one in made}) == 2


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/stats", {"token": ""}, 401),
        ("/v1/stats", {"token": "x" * 43}, 401),
        ("/v1/stats", {"Authorization": "Basic eDp5"}, 401),
        ("/v1/stats", {"Host": "pkb.example:80"}, 403),
        ("/", {"Host": "pkb.example"}, 403),
        ("/v1/stats", {"Origin": "http://pkb.example"}, 403),
        ("/v1/stats", {"Origin": "null"}, 403),
    ],
)
def test_requests_from_elsewhere_or_without_the_token_are_refused(
    http: Served, path: str, headers: dict[str, str], status: int
) -> None:
    found = http.get(path, **headers)
    assert found.status == status
    assert found.row["error"]["message"]
    assert found.headers["content-security-policy"].startswith("default-src 'none'")


def test_the_own_page_may_ask_and_every_response_forbids_other_origins(http: Served) -> None:
    found = http.get("/v1/stats", Origin=http.root)
    assert found.status == 200
    assert found.headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in found.headers
    assert "server" not in found.headers


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/v1/search", 400, "q is empty"),
        ("/v1/search?q=x&k=51", 400, "<= 50 - at `k`"),
        ("/v1/search?q=x&since=soon", 400, "--since soon is not a day"),
        ("/v1/search?q=x&collection=none", 400, "no collection none"),
        ("/v1/todo?kind=wish", 400, "invalid enum value 'wish' - at `kind`"),
        ("/v1/list?limit=-1", 400, ">= 0 - at `limit`"),
        ("/v1/show?path=/etc/passwd", 400, "this path is not indexed"),
        ("/v1/show", 400, "this path is not indexed"),
        ("/v1/models/gpt", 404, "no such model"),
        ("/v1/embeddings", 404, "nothing at this address"),
        ("/v1/chat/completions", 405, "another method"),
    ],
)
def test_wrong_requests_are_told_what_is_wrong(http: Served, path: str, status: int, message: str) -> None:
    found = http.get(path)
    assert found.status == status
    assert message in found.row["error"]["message"]


def test_wrong_completions_are_told_what_is_wrong(http: Served) -> None:
    from openai import BadRequestError, NotFoundError

    with pytest.raises(NotFoundError, match="there is nothing at this address"):
        http.client.embeddings.create(model="pkb", input="x")
    with pytest.raises(BadRequestError, match="no model gpt-9, only pkb"):
        http.client.chat.completions.create(model="gpt-9", messages=[{"role": "user", "content": KEY}])
    asked = {"messages": [{"role": "user", "content": KEY}]}
    unkept: dict[str, dict[str, Any]] = {
        "n": {"n": 2},
        "response_format": {"response_format": {"type": "json_object"}},
        "tool_choice": {"tools": [], "tool_choice": "required"},
        "logprobs": {"logprobs": True},
        "stop": {"stop": ["."]},
    }
    for body, message in [
        (b"{", "the body is not JSON"),
        (b"[" * 100_000, "the body is not JSON"),
        (b" " * (1 << 20) + b"{}", "the body is longer"),
        ({}, "object missing required field `messages`"),
        ({"messages": []}, "the last message must be the user's question"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "a part of the question is not text"),
        ({"messages": [{"role": "user", "content": KEY}], "pkb": {"k": 0}}, ">= 1 - at `pkb.k`"),
        *((one | asked, f"{name} is not supported") for name, one in unkept.items()),
        (asked | {"max_tokens": 1}, "max_tokens is not supported"),
    ]:
        found = http.get("/v1/chat/completions", body)
        assert (found.status, message in found.row["error"]["message"]) == (400, True)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from(
    ["model", "messages", "stream", "n", "pkb", "stream_options", "response_format", "stop", "max_tokens"]
)
messages = st.fixed_dictionaries({"role": st.just("user") | json_values, "content": st.text(max_size=8) | json_values})
own = st.dictionaries(st.sampled_from(["k", "cache", "sender", "after", "footnotes"]), json_values)
bodies = st.dictionaries(fields, json_values | st.lists(messages, max_size=4) | own)


@given(bodies | json_values)
def test_any_body_is_a_request_or_told_what_is_wrong(body: Any) -> None:
    with suppress(UsageError):
        assert isinstance(parse(body), ChatRequest)


def test_null_and_empty_options_are_as_if_they_were_not_given() -> None:
    blank = {
        "sender": "",
        "since": "",
        "cache": None,
        "footnotes": None,
        "k": None,
        "after": {"path": "a", "quote": "b"},
    }
    parts = [{"type": "image_url", "text": None}, {"type": "text", "text": "earlier"}]
    said = [
        {"role": "user", "content": parts},
        {"role": "assistant", "content": None},
        {"role": "user", "content": KEY},
    ]
    found = parse({"messages": said, "pkb": blank}).own
    assert found == OwnOptions(after=FollowedAnswer("a", "b"))


def test_the_token_is_private_and_stays_until_it_is_replaced(home: Path, http: Served) -> None:
    token = home / "home" / "http.token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert token.read_text().strip() == http.token
    environ = {**environment(home), "PKB_DAEMON": "off"}
    with http_endpoint(environ) as again:
        assert again.token == http.token
    with http_endpoint(environ, "--new-token") as other:
        assert other.token != http.token
        assert other.get("/v1/models", token=http.token).status == 401


ELSEWHERE = "127.0.0.2"  # loopback too, on Linux, but not the address that is meant by it


def status(url: str, headers: Mapping[str, str], context: ssl.SSLContext | None = None) -> int:
    """Return the status of a response."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers={**headers}), context=context) as found:
            return int(found.status)
    except HTTPError as refused:
        with refused:
            return refused.code


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
def test_another_address_is_served_under_tls_to_those_with_the_token(tmp_path: Path) -> None:
    environ, pem = {**environment(tmp_path), "PKB_DAEMON": "off"}, tmp_path / "home" / "http.pem"
    with http_endpoint(environ, "--host", ELSEWHERE) as found:
        assert found.api.startswith(f"https://{ELSEWHERE}:")
        assert stat.S_IMODE(pem.stat().st_mode) == 0o600
        context, token = ssl.create_default_context(cafile=str(pem)), {"Authorization": f"Bearer {found.token}"}
        assert status(f"{found.api}/models", token, context) == 200
        assert status(f"{found.api}/models", {}, context) == 401
        assert status(f"{found.api}/models", {**token, "Host": "evil.example.org"}, context) == 403
        with pytest.raises(URLError, match="CERTIFICATE_VERIFY_FAILED"):
            status(f"{found.api}/models", token, ssl.create_default_context())
    before = pem.read_bytes()
    with http_endpoint(environ, "--host", ELSEWHERE) as found:
        assert pem.read_bytes() == before  # a client that has pinned it goes on
        assert status(f"{found.api}/models", token, context) == 200
    pem.chmod(0o644)
    with http_endpoint(environ, "--host", ELSEWHERE):
        assert pem.read_bytes() != before  # another user may have read the key
        assert stat.S_IMODE(pem.stat().st_mode) == 0o600


def test_only_an_address_that_other_machines_reach_is_said_to_be_one(tmp_path: Path) -> None:
    environ = {**environment(tmp_path), "PKB_DAEMON": "off"}
    found = list[HttpAddress]()

    def ready(address: HttpAddress) -> None:
        found.append(address)
        raise KeyboardInterrupt

    for host in ("127.1", "localhost", *(["::1", ELSEWHERE] if sys.platform == "linux" else [])):
        with pytest.raises(KeyboardInterrupt):
            serve(environ, host, 0, ready, names=[], tls=True, renew=False)
        assert (found[-1].is_open, found[-1].certificate is None) == (False, host != ELSEWHERE)
        assert found[-1].root.startswith(
            {"::1": "http://[::1]:", ELSEWHERE: "https://127.0.0.2:"}.get(host, "http://127.0.0.1:")
        )


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
def test_names_that_are_configured_reach_it_and_a_proxy_may_end_tls(tmp_path: Path, fresh: Pkb) -> None:
    environ = {**environment(tmp_path), "PKB_DAEMON": "off"}
    fresh("config", "set", "serve.hosts", "PKB.example.org host.docker.internal", env=environ)
    with http_endpoint(environ, "--host", "0.0.0.0", "--no-tls") as found:
        port = found.api.rpartition(":")[2].removesuffix("/v1")
        assert found.page.startswith(f"http://pkb.example.org:{port}/#token=")
        url, token = f"http://{ELSEWHERE}:{port}/v1/models", {"Authorization": f"Bearer {found.token}"}
        for host in ("pkb.example.org", "PKB.Example.ORG", f"host.docker.internal:{port}"):
            assert status(url, {**token, "Host": host}) == 200
        assert status(url, {**token, "Host": "evil.example.org"}) == 403
        for origin, expected in {"https://pkb.example.org": 200, "https://evil.example.org": 403}.items():
            assert status(url, {**token, "Host": "pkb.example.org", "Origin": origin}) == expected


def test_every_address_at_once_needs_a_name(fresh: Pkb) -> None:
    ran = fresh("serve", "--http", "--host", "0.0.0.0")
    assert (ran.code, ran.err) == (
        2, "pkb: at 0.0.0.0 clients need a name for this machine; try: pkb config set serve.hosts 192.168.1.5\n",
    )  # fmt: skip
    assert fresh("serve", "--http", "--host", "0").err == ran.err.replace("0.0.0.0", "0")  # which is the same address
    nowhere = fresh("serve", "--http", "--host", "nowhere.invalid").err
    assert nowhere == "pkb: nowhere.invalid is not an address of this machine; try: pkb serve --help\n"
    gone = fresh("serve", "--http", "--host", "192.0.2.1", "--port", "0")
    assert (gone.code, gone.err.startswith("pkb: cannot listen at 192.0.2.1, port 0: ")) == (1, True)
    assert "while" not in gone.err  # as the standard library goes on
    assert fresh("serve", "--host", "127.0.0.1").code == 2
    for wrong in ("https://pkb.example.org", "[::1]", "ü" * 64):
        assert fresh("config", "set", "serve.hosts", wrong).code == 0
        refused = fresh("serve", "--http", "--host", "0.0.0.0")
        assert (refused.code, "is neither a name nor an address" in refused.err) == (2, True)


def test_before_anything_is_ingested_requests_are_told_what_to_type(tmp_path: Path) -> None:
    with http_endpoint({**environment(tmp_path), "PKB_DAEMON": "off"}) as empty:
        found = empty.get("/v1/search?q=x")
        assert (found.status, found.row["error"]["next"]) == (409, "pkb ingest FOLDER")
        assert empty.get("/").status == 200


def test_a_port_in_use_is_said(pkb: Pkb) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = pkb("serve", "--http", "--port", str(port))
        assert (ran.code, ran.err) == (1, f"pkb: port {port} is in use; try: pkb serve --http --port {port + 1}\n")
    assert pkb("serve", "--port", "8080").code == 2


@pytest.mark.slow
def test_a_client_that_goes_away_cancels_its_question(home: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(home, tmp_path / "demo"))
    with served(folder, environment(folder)) as own, chatting() as writer:
        assert own.run("model", "use", f"openai:{writer.url}").returncode == 0
        writer.hold = Event()
        with http_endpoint(own.environ) as http:
            connection = HTTPConnection(http.root.removeprefix("http://"), timeout=PATIENCE_S)
            body = json.dumps({"messages": [{"role": "user", "content": KEY}], "stream": True, "pkb": {"cache": "off"}})
            connection.request(
                "POST", "/v1/chat/completions", body, {"Authorization": f"Bearer {http.token}"}
            )  # fmt: skip
            wait(writer.completions)
            connection.close()
            assert writer.left.wait(PATIENCE_S)
