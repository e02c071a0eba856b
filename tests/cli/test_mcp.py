"""`pkb mcp` as clients use it: over its standard input and output, by the client of the official SDK."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult, Tool

from engine.mcp import server
from store.database import open_ledger
from store.history import History
from tests.cli.conftest import Pkb
from tests.cli.serving import Served
from tests.demo import environment
from tests.effort import PATIENCE_S
from tests.engine.models.chatserver import chatting

KEY = "Who has the spare key to the workshop?"
Call = tuple[str, dict[str, Any]]


Talk = tuple[list[Tool], list[CallToolResult], str]


def process(environ: Mapping[str, str]) -> Any:
    """Return the transport to a server in a process of its own."""
    words = ["-m", "cli.app", "mcp"]
    return stdio_client(StdioServerParameters(command=sys.executable, args=words, env=dict(environ), cwd=Path.cwd()))


def talk(to: Any, calls: Sequence[Call]) -> Talk:
    """List the tools of a server and call some; returns its instructions, too."""

    async def talked() -> Talk:
        async with Client(to) as client:
            tools = (await client.list_tools()).tools
            return tools, [await client.call_tool(name, given) for name, given in calls], client.instructions or ""

    return asyncio.run(talked())


def served(
    environ: Mapping[str, str], calls: Sequence[Call], *, writes: bool = False, within: str | None = None
) -> Talk:
    """Talk to a server in this process."""
    return talk(server(environ, writes=writes, collection=within), calls)


def environ(pkb: Pkb) -> dict[str, str]:
    return {**environment(pkb.folder), "PKB_DAEMON": "off"}


def text(result: CallToolResult) -> str:
    (block,) = result.content
    assert block.type == "text"
    return block.text


def test_a_client_reads_asks_and_counts_and_can_cite_what_it_gets(pkb: Pkb) -> None:
    spring = {"since": "2024-03", "until": "2024-04"}
    calls: list[Call] = [
        ("ask", {"question": KEY}),
        ("search", {"query": "rehearsal", "limit": 3}),
        ("list", {"title": "rehearsal", "limit": 2}),
        ("list", {**spring, "limit": 0}),
        ("ask", {"question": "Who won the chess game on Mars?"}),
        ("todo", {"since": "2024-05", "kind": "task", "limit": 3}),
        ("meeting", {"name": "workshop"}),
        ("people", {"name": "ann"}),
    ]
    tools, (asked, searched, listed, counted, declined, todo, meeting, people), about = talk(
        process(environ(pkb)), calls
    )
    assert [tool.name for tool in tools] == [
        "ask", "search", "list", "show", "todo", "meeting", "digest", "people",
    ]  # fmt: skip
    assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
    assert all(tool.description and tool.output_schema for tool in tools)
    assert "never an instruction" in about
    assert asked.structured_content["answered"]
    first = asked.structured_content["sources"][0]
    assert "Gus Tindall" in asked.structured_content["answer"]
    assert f"{first['path']}:{first['lines'][0]}-{first['lines'][1]}" in text(asked)
    assert first["id"].startswith("file:///")
    assert first["date"].startswith("2024-02-27")
    assert len(searched.structured_content["passages"]) == 3
    (message, _) = listed.structured_content["documents"]
    assert message["id"] == f"mid:{message['message_id']}"
    assert counted.structured_content["total"] == int(pkb("list", "--count", *flags(spring)).out)
    assert not declined.structured_content["answered"]
    assert text(declined).startswith("No answer found.")
    assert meeting.structured_content["people"].startswith("Dele Marsh, Gus Tindall")
    assert "Priya orders it from Kettlewick.\n    → decision\n" in text(meeting)
    expected = pkb("todo", "--since", "2024-05", "--kind", "task", "-n", "3", "--json").row["items"]
    assert people.structured_content["people"] == pkb("people", "ann", "--json").row["people"]
    found = [(one["who"], one["asked_by"], one["due"]) for one in todo.structured_content["items"]]
    assert found == [(one["who"], one["asked_by"], one["due"]) for one in expected]
    assert "→ task, for Mira Okafor, asked by Tobias Renn\n" in text(todo)
    assert [one["source"]["path"] for one in todo.structured_content["items"]] == [
        one["source"]["path"] for one in expected
    ]


def flags(filters: Mapping[str, str]) -> list[str]:
    return [part for name, value in filters.items() for part in (f"--{name}", value)]


def test_what_messages_say_stands_between_markers_that_differ_each_time(pkb: Pkb) -> None:
    _, results, _ = served(environ(pkb), [("search", {"query": "rehearsal"})] * 2)
    markers = [text(one).splitlines()[0].split(">")[0] + ">" for one in results]
    assert markers[0].startswith("<messages-")
    assert markers[0] != markers[1]
    assert all(text(one).endswith(mark.replace("<", "</")) for one, mark in zip(results, markers, strict=True))


def test_a_document_is_read_in_parts_by_the_lines_that_sources_name(pkb: Pkb) -> None:
    path = pkb("search", "spare", "key", "workshop", "--json").row["sources"][0]["path"]
    whole = pkb("show", path, "--json").row
    calls: list[Call] = [("show", {"path": path, "first_line": 5, "limit": 4}), ("show", {"path": "/etc/passwd"})]
    _, (part, other), _ = served(environ(pkb), calls)
    (shown,) = part.structured_content["documents"]
    assert shown["lines"] == [5, 8]
    assert shown["last_line"] == whole["lines"][1]
    assert shown["text"].split("\n") == whole["text"].split("\n")[5 - whole["lines"][0] :][:4]
    assert f"(more: first_line=9, of {whole['lines'][1]})" in text(part)
    assert other.is_error
    assert "this file is not indexed" in text(other)


def test_documents_are_resources_by_the_ids_that_results_give(pkb: Pkb) -> None:
    async def read() -> tuple[Any, Any, list[str], list[str]]:
        async with Client(server(environ(pkb), writes=False)) as client:
            listed = (await client.list_resources()).resources
            templates = (await client.list_resource_templates()).resource_templates
            found = await client.call_tool("search", {"query": "spare key to the workshop"})
            ids = [listed[0].uri, (found.structured_content or {})["passages"][0]["id"]]
            texts = list[str]()
            for uri in ids:
                (one,) = (await client.read_resource(uri)).contents
                texts.append(getattr(one, "text", ""))
            for wrong in ("mid:nobody@example.org", "file:///etc/passwd"):
                with pytest.raises(MCPError, match="this file is not indexed"):
                    await client.read_resource(wrong)
            return listed, templates, ids, texts

    listed, templates, ids, texts = asyncio.run(read())
    newest = pkb("list", "--json").row["documents"][0]
    assert (listed[0].name, listed[0].uri) == (newest["title"], f"mid:{newest['message_id']}")
    assert [one.uri_template for one in templates] == ["mid:{message_id}", "file:///{+path}"]
    assert ids[1].startswith("file:///")
    assert all(one.startswith("<messages-") for one in texts)
    assert "From today I keep the spare key" in texts[1]
    assert pkb("show", ids[0], "--json").row["path"] == newest["path"]


def test_prompts_hold_a_digest_and_a_meeting(pkb: Pkb) -> None:
    async def read() -> tuple[list[str], list[str]]:
        async with Client(server(environ(pkb), writes=False)) as client:
            names = [one.name for one in (await client.list_prompts()).prompts]
            given = {"digest": {"since": "2024-06-01"}, "meeting": {"name": "workshop"}}
            made = [await client.get_prompt(name, given[name]) for name in names]
            return names, [getattr(one.messages[0].content, "text", "") for one in made]

    names, (digest, meeting) = asyncio.run(read())
    assert names == ["digest", "meeting"]
    assert "gazebo" in digest
    assert "Priya orders it from Kettlewick" in meeting
    assert "<messages-" in meeting


def kept(pkb: Pkb) -> tuple[int, list[str | None]]:
    """Return how many answers are cached, and the keys of the questions that were asked."""
    with closing(open_ledger(pkb.folder / "home" / "ledger.db")) as ledger:
        last = History(ledger).last()
    return pkb.answers(), [last.key.hex() if last and last.key else None]


def test_without_leave_to_write_nothing_is_cached_and_with_it_answers_are(pkb: Pkb) -> None:
    before = pkb.answers()
    served(environ(pkb), [("ask", {"question": KEY})])
    assert kept(pkb) == (before, [None])
    tools, (asked, again, _, ingested, third), _ = served(
        environ(pkb),
        [*[("ask", {"question": KEY})] * 2, ("wrong", {}), ("ingest", {}), ("ask", {"question": KEY})],
        writes=True,
    )
    hints = {tool.name: tool.annotations.read_only_hint for tool in tools if tool.annotations}
    assert [name for name, reads in hints.items() if not reads] == ["ask", "wrong", "ingest"]
    assert [one.structured_content["tier"] for one in (asked, again, third)] == ["full", "exact", "full"]
    assert ingested.structured_content["done"].startswith("0 added")
    assert pkb.answers() == before + 1


def test_a_server_limited_to_a_collection_shows_nothing_else(pkb: Pkb) -> None:
    names = list(pkb("stats", "--json").row["collections"])
    assert len(names) > 1
    one, other = names[:2]
    elsewhere = pkb("list", "--in", other, "--json").row["documents"][0]["path"]
    calls: list[Call] = [
        ("list", {"limit": 0}),
        ("list", {"collection": one, "limit": 0}),
        ("list", {"collection": other, "limit": 0}),
        ("show", {"path": elsewhere}),
    ]
    _, (everything, same, refused, unseen), _ = served(environ(pkb), calls, within=one)
    assert everything.structured_content == same.structured_content
    assert everything.structured_content["total"] == int(pkb("list", "--count", "--in", one).out)
    assert refused.is_error
    assert unseen.is_error


def test_errors_say_what_to_do_and_leave_the_server_running(fresh: Pkb) -> None:
    calls: list[Call] = [
        ("ask", {"question": KEY}),
        ("search", {"query": "x", "limit": 900}),
        ("list", {"since": "the 99th"}),
        ("list", {"limit": 0}),
    ]
    _, results, _ = served(environ(fresh), calls)
    assert all(one.is_error for one in results)
    assert "try: pkb ingest" in text(results[0])
    assert text(results[1]) == "search: limit: input should be less than or equal to 50"
    assert "--since the 99th is not a day" in text(results[2])


def test_a_call_that_is_cancelled_cancels_its_question(home: Served) -> None:
    with chatting() as writer:
        assert home.run("model", "use", f"openai:{writer.url}").returncode == 0
        writer.hold = Event()

        async def give_up() -> None:
            async with Client(server(home.environ, writes=False)) as client:
                async with anyio.create_task_group() as group:
                    group.start_soon(client.call_tool, "ask", {"question": KEY})
                    while not writer.completions():
                        await anyio.sleep(0.02)
                    group.cancel_scope.cancel()
                assert await anyio.to_thread.run_sync(writer.left.wait, PATIENCE_S)

        asyncio.run(give_up())


def test_it_ends_with_its_input_and_writes_nothing_but_messages(pkb: Pkb) -> None:
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    done = subprocess.run(
        [sys.executable, "-m", "cli.app", "mcp"], input=json.dumps(hello).encode() + b"\n{no json\n", env=environ(pkb),
        capture_output=True, check=True,
    )  # fmt: skip
    assert [json.loads(row)["jsonrpc"] for row in done.stdout.splitlines()] == ["2.0"] * len(done.stdout.splitlines())
    assert json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "pkb"
    assert done.stderr == b""
