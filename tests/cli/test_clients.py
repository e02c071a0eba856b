"""Requests as chat programs, editors and launchers send them: each is answered, or refused with a reason."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Pkb
from tests.cli.http_endpoint import Served, http_endpoint
from tests.demo import environment

KEY = "Who has the spare key to the workshop?"
GUIDE = Path(__file__).parents[2] / "docs" / "guide.md"
ASKED = [{"role": "user", "content": KEY}]
PARTS = [{"role": "user", "content": [{"type": "text", "text": KEY}]}]
SAMPLING = {"temperature": 0.7, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0}
TOOL = {"type": "function", "function": {"name": "read_file", "parameters": {"type": "object", "properties": {}}}}
CHAT = f"USER: {KEY}\nASSISTANT: Gus Tindall."
BELOW_HEADINGS = (
    "### Task:\n{task}\n### Output:\nJSON format: {form}\n### Chat History:\n<chat_history>\n{chat}\n</chat_history>"
)
CONVERSATION = f"Conversation:\nUser: {KEY}\nAI: Gus Tindall."

QUESTIONS: Mapping[str, Mapping[str, Any]] = {
    "Open WebUI": {"model": "pkb", "stream": True, "stream_options": {"include_usage": True}, "messages": ASKED},
    "Open WebUI, with a system prompt": {
        "model": "pkb", "stream": False, "messages": [{"role": "system", "content": "Be short."}, *ASKED], **SAMPLING,
    },
    "LibreChat": {
        "model": "pkb", "user": "65f0", "stream": True, "messages": PARTS, **SAMPLING,
        "stream_options": {"include_usage": True},
    },
    "Continue": {"model": "pkb", "stream": True, "max_tokens": 4096, "messages": ASKED, **SAMPLING},
    "Continue, as an agent": {
        "model": "pkb", "stream": True, "messages": PARTS, "tools": [TOOL], "tool_choice": "auto",
        "parallel_tool_calls": False,
    },
    "Zed": {
        "model": "pkb", "messages": ASKED, "stream": True, "stream_options": {"include_usage": True},
        "max_completion_tokens": 4096, "temperature": 1.0, "tools": [TOOL], "tool_choice": "auto",
        "prompt_cache_key": "6b1f",
    },
    "Raycast": {"model": "pkb", "messages": ASKED, "stream": True, "temperature": 0.5},
}  # fmt: skip
CHORES: Mapping[str, tuple[str, Mapping[str, Any], str]] = {
    "a title for Open WebUI": (
        BELOW_HEADINGS.format(task="Make a short title.", form='{ "title": "Some words" }', chat=CHAT),
        {"max_completion_tokens": 1000}, json.dumps({"title": KEY}),
    ),
    "tags for Open WebUI": (
        BELOW_HEADINGS.format(task="Name 1 to 3 tags.", form='{ "tags": ["one", "two"] }', chat=CHAT), {},
        json.dumps({"tags": []}),
    ),
    "follow-ups for Open WebUI": (
        BELOW_HEADINGS.format(task="Suggest what is asked next.", form='{ "follow_ups": ["One?"] }', chat=CHAT), {},
        json.dumps({"follow_ups": []}),
    ),
    "a title for LibreChat": (
        f"Write a 5-word-or-less title for this conversation, and nothing else.\n\n{CONVERSATION}", SAMPLING, KEY,
    ),
    "a title for Continue": (
        f"Reply to this with a title for the chat that has 3-4 words, without other text.\n\n{KEY}",
        {"max_tokens": 16}, KEY,
    ),
    "a title for an earlier Continue": (
        f"Reply with a title for this chat in 3-4 words.\n\n{KEY}", {"max_tokens": 12}, KEY,
    ),
    "a title for Zed": (
        "", {"messages": [
            *ASKED, {"role": "assistant", "content": "Gus Tindall."},
            {"role": "user", "content": "Make a 3-7 word title for this conversation.\nOne line, please."},
        ]}, KEY,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def home(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(made, tmp_path_factory.mktemp("clients") / "demo"))


@pytest.fixture(scope="module")
def http(home: Path) -> Iterator[Served]:
    with http_endpoint({**environment(home), "PKB_DAEMON": "off"}) as found:
        yield found


def said(http: Served, request: Mapping[str, Any], base: str = "/v1") -> str:
    """Return the text of an answer, whole or streamed, in which every chunk is well formed."""
    reply = http.get(f"{base}/chat/completions", request)
    assert reply.status == 200, reply.body
    if not request.get("stream"):
        return str(reply.row["choices"][0]["message"]["content"])
    *events, last = [event.removeprefix("data: ") for event in reply.body.decode().split("\n\n") if event]
    assert last == "[DONE]"
    choices = [choice for event in events for choice in json.loads(event)["choices"]]
    assert choices[-1]["finish_reason"] == "stop"
    return "".join(choice["delta"].get("content", "") for choice in choices)


@pytest.mark.parametrize("client", QUESTIONS)
def test_a_clients_question_is_answered(http: Served, client: str) -> None:
    assert [model["id"] for model in http.get("/v1/models").row["data"]] == ["pkb"]
    assert "Gus Tindall" in said(http, QUESTIONS[client])


@pytest.mark.parametrize("client", ["Open WebUI", "LibreChat", "Continue", "Zed"])
def test_the_settings_of_the_guide_reach_the_endpoint(http: Served, client: str) -> None:
    (base,) = re.findall(
        rf"^\| {client} \|.*\bhttp://[\w.]+:8642(/\w+)[`\"].*\|$", GUIDE.read_text("utf-8"), re.MULTILINE
    )
    assert "Gus Tindall" in said(http, QUESTIONS[client], base)


@pytest.mark.parametrize("chore", CHORES)
def test_a_clients_chore_is_done_without_a_search(http: Served, chore: str) -> None:
    before = http.get("/v1/stats").row
    task, more, wanted = CHORES[chore]
    assert said(http, {"model": "pkb", "messages": [{"role": "user", "content": task}], **more}) == wanted
    assert http.get("/v1/stats").row == before


def started(client: str) -> list[str]:
    """Return the command that a client starts with the configuration of the guide."""
    found = re.findall(rf"^\| {client} \|.*`(\{{.*\"args\".*\}})` \|$", GUIDE.read_text("utf-8"), re.MULTILINE)
    (server,) = [json.loads(one).popitem()[1]["pkb"] for one in found]
    assert server["command"] == "pkb"
    return [sys.executable, "-m", "cli.app", *server["args"]]


def talk(pkb: Pkb, command: list[str], *requests: tuple[str, Any]) -> list[Any]:
    """Return the results of requests to `pkb mcp`, written to its input as a client does."""
    rows = [{"jsonrpc": "2.0", "id": n, "method": name, "params": given} for n, (name, given) in enumerate(requests)]
    rows[1:1] = [{"jsonrpc": "2.0", "method": "notifications/initialized"}]
    environ = {**environment(pkb.folder), "PKB_DAEMON": "off"}
    with subprocess.Popen(
        command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    ) as process:
        assert process.stdin
        assert process.stdout
        found = list[Any]()
        for row in rows:
            process.stdin.write(json.dumps(row) + "\n")
            process.stdin.flush()
            if "id" in row:
                found.append(json.loads(process.stdout.readline())["result"])
        process.stdin.close()
    return found


@pytest.mark.parametrize(
    ("client", "name", "protocol", "capabilities"),
    [("Claude Desktop", "claude-ai", "2025-06-18", {"extensions": {}}), ("Zed", "Zed", "2025-03-26", {})],
)
def test_an_mcp_client_finds_tools_resources_and_prompts(
    pkb: Pkb, client: str, name: str, protocol: str, capabilities: Mapping[str, Any]
) -> None:
    about = {"protocolVersion": protocol, "capabilities": capabilities, "clientInfo": {"name": name, "version": "1"}}
    hello, tools, resources, prompts, answer = talk(
        pkb, started(client), ("initialize", about), ("tools/list", {}), ("resources/list", {}), ("prompts/list", {}),
        ("tools/call", {"name": "ask", "arguments": {"question": KEY}, "_meta": {"progressToken": 1}}),
    )  # fmt: skip
    assert hello["protocolVersion"] == protocol
    assert "ask" in [one["name"] for one in tools["tools"]]
    assert resources["resources"][0]["uri"].startswith(("mid:", "file:"))
    assert [one["name"] for one in prompts["prompts"]] == ["digest", "meeting"]
    assert "Gus Tindall" in answer["content"][0]["text"]


def test_the_raycast_script_of_the_guide_prints_an_answer(pkb: Pkb, tmp_path: Path) -> None:
    (script,) = re.findall(r"```sh\n(#!/bin/sh\n# @raycast.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    file, command = tmp_path / "pkb.sh", tmp_path / "pkb"
    file.write_text(script)
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m cli.app "$@"\n')
    command.chmod(0o700)
    environ = environment(pkb.folder)
    environ["PATH"] = f"{tmp_path}:{environ['PATH']}"
    done = subprocess.run(["sh", str(file), KEY], env=environ, capture_output=True, text=True, check=True)
    assert "Gus Tindall" in done.stdout
