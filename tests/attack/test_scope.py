"""A view of one collection tells nothing of the others: every tool, route and command with a scope is tried.

What has a scope is found by looking, so that a new one is tried too. Two other collections have words, people,
addresses, folders and Message-IDs that name them; whatever comes back holds none that was not put in.
"""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from mcp import Client
from starlette.routing import Route
from starlette.testclient import TestClient
from typer.models import OptionInfo

from cli import output
from engine.http.routes import application
from engine.mcp import server
from tests.attack.lab import Lab, mail
from tests.cli.conftest import Pkb as Commands
from tests.cli.conftest import commands

FEW = settings(max_examples=8, phases=[Phase.generate], derandomize=True, database=None)
MARKS = re.compile("kestrel[a-z0-9]*|osprey[a-z0-9]*", re.IGNORECASE)  # of the two collections that are not in view
ME = "Ben Ode <ben@finch.example>"
ANN, THEIR_ANN = "Ann Lee <ann.lee@finch.example>", "Ann Lee <ann@kestrel.example>"
IN_VIEW, OTHERS = "finch", ("kestrel", "osprey")
FEES = "The boathouse rent is 900 euros. Can you send me the ledger by 1 July?"
PLAN = "Budget meeting\n2024-06-03\n\nAnn Lee: The finch hall costs 40 euros.\nBob Ray: I will order the chairs.\n"


def letters() -> dict[str, bytes]:
    """Return the files of three collections, which share people, titles, threads, copies and quotes."""
    shared = mail(FEES, "Message-ID: <shared@finch.example>", sender=ANN, to=ME, title="Rent")
    rent = mail("Where is the key of the shed?", "Message-ID: <key@finch.example>", sender=ANN, to=ME, title="Shed key")
    files = {"finch/rent.eml": shared, "finch/key.eml": rent, "finch/plan.txt": PLAN.encode()}
    late = "An impostor writes about the boathouse rent."
    files["finch/late.eml"] = mail(
        late, sender=THEIR_ANN.replace("kestrel", "finch"), to=ME, day="2024-06-10T10:00+00:00"
    )
    files["finch/bob.eml"] = mail(
        "Please pay the boathouse rent by 3 July.", sender="Bob Ray <bob@finch.example>", to=ME
    )
    for place, name in enumerate(OTHERS):
        files[f"{name}/copy-{name}.eml"] = shared
        files[f"{name}/key-{name}.eml"] = mail(
            f"The {name}key of the shed is under the {name}stone. Done, I have sent the ledger.",
            f"Message-ID: <{name}id@{name}.example>", "In-Reply-To: <key@finch.example>",
            sender=f"Ann Lee <ann@{name}.example>", to=f"Bob Ray <bob@{name}.example>, {ANN}", title="Re: Shed key",
            day=f"2023-0{place + 1}-05T10:00+00:00",
        )  # fmt: skip
        files[f"{name}/rent-{name}.eml"] = mail(
            f"The boathouse rent is now {name}9 euros, not 900 euros.", sender=f"Annette Lee <lee@{name}.example>",
            to=f"ann.lee@{name}.example", title="Rent", day=f"2024-06-1{place + 2}T10:00+00:00",
        )  # fmt: skip
        files[f"{name}/again-{name}.eml"] = mail(late, sender=f"Mo {name.title()} <mo@{name}.example>", to=ME)
        files[f"{name}/plan-{name}.txt"] = (
            PLAN.replace("finch hall", f"{name}hall").replace("Bob", name.title()).encode()
        )
        files[f"{name}/{name}.mbox"] = b"From x\nnothing\n\x00\xff"
    return files


QUESTIONS = (
    "How much is the boathouse rent?", "What does the boathouse rent cost?", "Where is the key of the shed?",
    "What did Ann Lee say about the rent?", "Who is Ann Lee?", "What did Mo say?", "zzzz qqqq",
    "Summarize the budget meeting", "Who was at the budget meeting?", "What is Bob's email address?",
)  # fmt: skip


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Return a home of three collections in which questions were asked in each, one answer was wrong, and jobs ran."""
    lab = Lab(tmp_path_factory.mktemp("scope"))
    for name, raw in letters().items():
        lab.put(name, raw)
    with lab.open() as pkb:
        for name in (IN_VIEW, *OTHERS):
            pkb.ingest([lab.mail / name], collection=name)
        for question in QUESTIONS[:4]:
            for where in (*OTHERS, None):
                pkb.ask(question, collection=where)
        pkb.ask("Who is Ann Lee?", collection=OTHERS[1])
        pkb.reject()
        pkb.ask("How much is the boathouse rent?", collection=IN_VIEW)
        pkb.idle(budget_s=20)
        pkb.ask("Where is the key of the shed?", collection=OTHERS[0])
    return lab


@pytest.fixture(scope="module")
def words_of(archive: Lab) -> dict[str, st.SearchStrategy[Any]]:
    """Return what a parameter of a name is given: what is in view, and what is not."""
    paths = [str(archive.mail / name) for name in letters()]
    people = [
        "ann",
        "Ann Lee",
        "lee",
        "ann.lee@finch.example",
        "ann@kestrel.example",
        "kestrel.example",
        "mo",
        "nobody",
    ]
    titles = ["Rent", "Shed key", "Re: Shed key", "Budget meeting", "plan", "lee", "nothing"]
    return {
        "name": st.sampled_from([*people, ""]),
        "sender": st.sampled_from(people), "recipient": st.sampled_from([*people, "bob"]),
        "since": st.sampled_from(["2023", "2024-06-01", "2024-06-11"]),
        "until": st.sampled_from(["2024-06-09", "2024"]),
        "collection": st.just(IN_VIEW), "document": st.sampled_from([*paths, *titles]), "path": st.sampled_from(paths),
        "message_id": st.sampled_from(["kestrelid@kestrel.example", "shared@finch.example", "key@finch.example"]),
        "title": st.sampled_from(titles), "question": st.sampled_from(QUESTIONS), "query": st.sampled_from(QUESTIONS),
        "q": st.sampled_from(QUESTIONS), "words": st.sampled_from(QUESTIONS),
        "kind": st.sampled_from(["task", "question"]),
    }  # fmt: skip


def told(given: Any, said: Any) -> set[str]:
    """Return the marks in what was said that were not in what was given."""
    return {one.lower() for one in MARKS.findall(said)} - {one.lower() for one in MARKS.findall(json.dumps(given))}


def drawn(data: st.DataObject, words: Mapping[str, st.SearchStrategy[Any]], names: Mapping[str, Any]) -> dict[str, Any]:
    """Draw values of some parameters; of one that is not known by its name, by its schema."""
    found = {}
    for name, schema in names.items():
        needed = schema.get("required", False)
        if needed or data.draw(st.integers(0, 2), label=f"{name}?") == 0:
            found[name] = data.draw(words[name] if name in words else of_schema(schema), label=name)
    return found


def of_schema(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    kinds = [schema.get("type"), *(one.get("type") for one in schema.get("anyOf", ()))]
    if "integer" in kinds:
        return st.integers(schema.get("minimum", 1), min(schema.get("maximum", 50), 50))
    return st.booleans() if "boolean" in kinds else st.sampled_from(QUESTIONS)


def tools(environ: Mapping[str, str], *, writes: bool) -> dict[str, dict[str, Any]]:
    """Return the tools of a server with the schemas of their parameters."""

    async def listed() -> Any:
        async with Client(server(environ, writes=writes, collection=IN_VIEW)) as client:
            return (await client.list_tools()).tools

    found = asyncio.run(listed())
    return {
        tool.name: {
            name: {**schema, "required": name in tool.input_schema.get("required", ())}
            for name, schema in tool.input_schema["properties"].items()
        }
        for tool in found
    }


def called(environ: Mapping[str, str], name: str, given: Mapping[str, Any], *, writes: bool) -> str:
    """Call a tool; return all that its client is sent."""

    async def answered() -> Any:
        async with Client(server(environ, writes=writes, collection=IN_VIEW)) as client:
            return await client.call_tool(name, dict(given))

    return str(asyncio.run(answered()).model_dump_json())


@pytest.mark.parametrize("writes", [False, True])
def test_no_tool_of_a_limited_server_tells_of_another_collection(
    archive: Lab, words_of: Mapping[str, st.SearchStrategy[Any]], writes: bool
) -> None:
    known = tools(archive.environ, writes=writes)
    assert {"ask", "search", "list", "show", "todo", "people"} <= known.keys()
    if writes:
        known.pop("ingest")  # below: it changes the home

    @FEW
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        for name, parameters in known.items():
            given = drawn(data, words_of, parameters)
            assert told(given, called(archive.environ, name, given, writes=writes)) == set(), (name, given)

    holds()


def routes(environ: Mapping[str, str]) -> tuple[TestClient, dict[str, dict[str, Any]]]:
    """Return a client of the page's API, and the parameters of each route that a collection can limit."""
    app: Any = application(environ, port=8642, token="t")
    found = dict[str, dict[str, Any]]()
    client = TestClient(app, "http://127.0.0.1:8642", headers={"Authorization": "Bearer t"})
    for route in app._app.routes:
        assert isinstance(route, Route)
        if route.path.startswith("/v1/") and "models" not in route.path and "GET" in (route.methods or ()):
            found[route.path] = {
                name: {} for name in ("q", "name", "title", "kind", "document", "path", "message_id", *FILTERS)
            }
    return client, found


FILTERS = ("sender", "recipient", "since", "until")
WHOLE = ("/v1/show", "/v1/stats")  # of one file that is named, and of the whole home: no collection limits them


def test_no_route_limited_to_a_collection_tells_of_another(
    archive: Lab, words_of: Mapping[str, st.SearchStrategy[Any]]
) -> None:
    client, known = routes(archive.environ)
    assert {"/v1/search", "/v1/list", "/v1/todo", "/v1/people"} <= known.keys()
    limited = {path: names for path, names in known.items() if path not in WHOLE}

    @FEW
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        for path, names in limited.items():
            given = drawn(data, words_of, names) | {"collection": IN_VIEW}
            given.setdefault("q", "boathouse rent")
            assert told(given, client.get(path, params=given).text) == set(), (path, given)
        own = drawn(data, words_of, {name: {} for name in (*FILTERS, "document")}) | {"collection": IN_VIEW}
        if data.draw(st.booleans()):
            place = data.draw(words_of["path"])
            own["after"] = {"path": place, "message_id": None, "quote": ""}
        asked = data.draw(words_of["question"])
        said = [{"role": "user", "content": "When?" if "after" in own else asked}]
        body = {"messages": said, "pkb": own, "stream": data.draw(st.booleans())}
        assert told(body, client.post("/v1/chat/completions", json=body).text) == set(), body

    holds()


def flags(command: Any) -> dict[str, str]:
    """Return the parameters of a command that takes --in as a limit, with their flags; none of another."""
    shown = {one.name: one for one in command.params}
    within = shown.get("collection")
    if within is None or within.help != limit_help():
        return {}
    named = {name: max(one.opts, key=len) for name, one in shown.items() if one.param_type_name == "option"}
    return {name: named[name] for name in ("sender", "recipient", "since", "until", "document") if name in named}


def limit_help() -> str:
    (option,) = [
        one for one in get_args(get_args(output.Collection) and output.Collection)[1:] if isinstance(one, OptionInfo)
    ]
    return option.help or ""


# The tools of `mcp` are called one by one. `forget --in` says what to forget, and names whatever else holds its words.
APART = {"mcp", "forget"}


def test_no_command_limited_to_a_collection_tells_of_another(
    archive: Lab,
    words_of: Mapping[str, st.SearchStrategy[Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in archive.environ.items():
        monkeypatch.setenv(name, value)
    pkb = Commands.__new__(Commands)
    pkb.folder, pkb._patch, pkb._capture = archive.folder, monkeypatch, capsys
    known = {name: found for name, command in commands().items() if (found := flags(command)) and name not in APART}
    assert {"ask", "chat", "search", "list", "todo"} <= known.keys()

    @FEW
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        for name, options in known.items():
            words = [*command_words(name, data, words_of), "--in", IN_VIEW]
            for option, value in drawn(data, words_of, {one: {} for one in options}).items():
                words += [options[option], value]
            words += ["--json"] if data.draw(st.booleans()) else []
            ran = pkb(name, *words, stdin=b"How much is the boathouse rent?\n/answer\nWhen?\n/show 1\n")
            assert told(words, ran.out + ran.err) == set(), (name, words)

    holds()


def command_words(name: str, data: st.DataObject, words: Mapping[str, st.SearchStrategy[Any]]) -> list[str]:
    """Return the arguments of a command, where it needs any."""
    asked, title = data.draw(words["question"]), data.draw(words["title"])
    more = {"ask": [asked, *data.draw(st.sampled_from([[], ["--explain"], ["--cache=refresh"]]))], "search": [asked]}
    return more.get(name, [title] if name == "list" else [])


def test_a_view_is_as_if_there_were_no_other_collection(archive: Lab, tmp_path: Path) -> None:
    alone = Lab(tmp_path)
    for name, raw in letters().items():
        if name.startswith(IN_VIEW):
            alone.put(name, raw)
    with alone.open() as pkb:
        pkb.ingest([alone.mail / IN_VIEW], collection=IN_VIEW)
    calls: list[tuple[str, dict[str, Any]]] = [
        *(("ask", {"question": question}) for question in QUESTIONS[2::2]),
        *(("search", {"query": query, "sender": "ann"}) for query in QUESTIONS[::3]),
        *(("list", {"sender": sender}) for sender in ("ann", "lee", "mo", "bob")),
        *(("todo", {"kind": kind, "since": "2023"}) for kind in ("task", "question")),
        *(("people", {"name": name}) for name in ("", "ann", "lee", "mo", "bob")),
        ("show", {"path": "finch/late.eml"}),
    ]
    for name, asked in calls:
        both = [_plainly(lab, name, asked) for lab in (archive, alone)]
        assert both[0] == both[1], (name, asked)


def _plainly(lab: Lab, name: str, asked: Mapping[str, Any]) -> Any:
    """Call a tool; return what differs by nothing but the home and the time."""
    asked = {**asked, "path": str(lab.mail / asked["path"])} if "path" in asked else asked
    row = json.loads(called(lab.environ, name, asked, writes=False).replace(str(lab.mail), ""))["structured_content"]
    return row | {"tier": None, "age_s": None} if row else row


def rows(lab: Lab) -> dict[str, list[Any]]:
    """Return all rows of the ledger."""
    with lab.open() as pkb:
        names = [
            name for (name,) in pkb.session.ledger.rows.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return {name: sorted(map(repr, pkb.session.ledger.rows.execute(f"SELECT * FROM {name}"))) for name in names}


def test_a_read_only_client_leaves_nothing_and_never_asks_the_last_question(archive: Lab) -> None:
    with archive.open() as pkb:
        pkb.ask("When is the ledger due?", collection=IN_VIEW)
        last = pkb.last_answer()
    before = rows(archive)
    for name in tools(archive.environ, writes=False):
        for question in ("Where is the spare key of the shed?", "When is the ledger due?", "Who is Ann Lee?"):
            asked = {"ask": {"question": question}, "search": {"query": question}, "list": {"title": question}}
            called(archive.environ, name, asked.get(name, {"path": str(archive.mail / "finch/rent.eml")}), writes=False)
    assert rows(archive) == before
    with archive.open() as pkb:
        assert pkb.last_answer() == last


def test_a_client_may_not_call_the_last_answer_of_another_collection_wrong(archive: Lab) -> None:
    with archive.open() as pkb:
        pkb.ask("Where is the key of the shed?", collection=OTHERS[0])
        kept = pkb.last_answer()
        assert "no cached answer" in called(archive.environ, "wrong", {}, writes=True)
        assert pkb.last_answer() == kept


def test_a_client_reads_anew_the_folders_of_its_collection_alone(archive: Lab) -> None:
    fresh = {name: archive.put(f"{name}/new.eml", mail(f"The {name}boat leaves.")) for name in (IN_VIEW, OTHERS[0])}
    assert "1 added" in called(archive.environ, "ingest", {}, writes=True)
    with archive.open() as pkb:
        assert [bool(pkb.show(path)) for path in fresh.values()] == [True, False]
    for path in fresh.values():
        path.unlink()
    with archive.open() as pkb:
        pkb.ingest()


def test_a_server_of_a_collection_that_is_none_names_no_other(archive: Lab) -> None:
    async def answered() -> Any:
        async with Client(server(archive.environ, writes=False, collection="none")) as client:
            return [await client.call_tool("search", {"query": "rent", "collection": one}) for one in (None, "kestrel")]

    said = [one.model_dump_json() for one in asyncio.run(answered())]
    assert [told("kestrel", one) for one in said] == [set(), set()]
    assert all("is_error" in one for one in said)


def test_structured_content_has_the_warnings_notices_and_the_mark_of_the_text(archive: Lab) -> None:
    warned, calls = 0, {
        "search": {"query": "An impostor writes"}, "list": {}, "ask": {"question": "Who writes?"},
        "todo": {"since": "2023"}, "people": {}, "show": {"path": f"{archive.mail}/finch/late.eml"},
    }  # fmt: skip
    for name, asked in calls.items():
        row = json.loads(called(archive.environ, name, asked, writes=False))
        text, data = row["content"][0]["text"], row["structured_content"]
        assert "never an instruction" in data["untrusted"]
        assert isinstance(data["notices"], list)
        marks = set(re.findall(r"! (.*?)(?: · |$)", text, re.MULTILINE))
        assert marks == set(_all(data, "warnings"))
        assert set(re.findall(r"^Note: (.*)$", text, re.MULTILINE)) == set(data["notices"])
        warned += len(marks)
    assert warned


def _all(data: Any, name: str) -> Iterator[str]:
    """Yield the texts of all lists of a name, however deep."""
    if isinstance(data, dict):
        yield from data.get(name, ())
        data = list(data.values())
    for one in data if isinstance(data, list) else ():
        yield from _all(one, name)
