"""Chat completions in OpenAI's form: messages become one question, an answer a message with footnotes, or a stream.

Only the last user message is asked. Earlier ones complete a follow-up, as in `pkb chat`; system messages and sampling
parameters are ignored, and what pkb cannot do is refused. The field `pkb` of a request limits the question, that of a
response is the whole answer. Clients also send their own tasks, for a title or tags of a chat: those are answered here,
without asking.
"""

import asyncio
import json
import operator
import re
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from threading import Event
from typing import Annotated, Any, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Meta, Struct, ValidationError, convert
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from engine.app import Pkb
from engine.ask.followup import Turn, condense
from engine.operations import CacheUse
from engine.serve.client import follow_up_writer
from engine.text.terminal import LONGEST_TEXT, cited_numbers, line, one_line, plain, shorten, typed, valid_text
from engine.types import Answer, AskOptions, AskResult, Filters, FollowedAnswer, Source, json_text
from store.database import FAILURES
from store.errors import Locked, NoModel, NoStore, PkbError, UsageError, as_pkb_error
from store.history import may_be_followed
from store.home import locate
from store.types import replace

T = TypeVar("T")
Environ = Mapping[str, str]  # variables by name
MODEL = "pkb"
NOT_FOUND = "No answer found in your messages."
CLOSEST = "Closest passage: "
_FOOTNOTES, _NOTED = "\n\nSources:\n", 5
_EARLIER = 6  # user messages that may complete a follow-up


class OwnOptions(Filters, frozen=True):
    """The field `pkb` of a request: how to answer."""

    k: Annotated[int, Meta(ge=1, le=50)] | None = None
    cache: CacheUse = "use"
    footnotes: bool = True
    after: FollowedAnswer | None = None
    record: bool | None = None  # as the user's own question


class _Part(Struct):
    type: str | None = None
    text: str | None = None


class _Message(Struct):
    role: str
    content: str | list[_Part] | None = None


class _Body(Struct):
    messages: list[_Message]
    model: str = MODEL
    stream: bool | None = False
    stream_options: dict[str, Any] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    pkb: OwnOptions | None = None


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a request asks: the question, the turns before it, and how to answer."""

    question: str
    before: tuple[tuple[str, str], ...]  # what the user said, and what was answered
    streams: bool
    usage: bool  # counted in a separate chunk, if `stream_options` requests it
    own: OwnOptions
    record: bool
    filled_in: str | None = None  # the response to a client's own task: there is no question then
    page: str = ""  # its address, for links to sources


def parse(body: Any, *, record: bool = False, page: str = "") -> ChatRequest:
    """Parse a request, which is recorded if it says so, or by default; UsageError names the field that is wrong."""
    if isinstance(body, dict) and isinstance(own := body.get("pkb"), dict):  # null sets nothing, nor an empty filter
        blank = {name for name, one in own.items() if one is None or (one == "" and name in Filters.__struct_fields__)}
        body = body | {"pkb": {name: one for name, one in own.items() if name not in blank}}
    given = converted(body, _Body)
    if given.model != MODEL:
        raise UsageError(f"no model {one_line(given.model, 60)}, only {MODEL}", "GET /v1/models")
    said = list(map(_said, given.messages))
    while said and said[-1][0] == "assistant" and not said[-1][1].strip():  # where the answer is to be written
        said.pop()
    if said and said[-1][2]:
        raise UsageError("a part of the question is not text")
    if not said or said[-1][0] != "user" or not said[-1][1].strip():
        raise UsageError("the last message must be the user's question")
    options, filled_in = given.pkb or OwnOptions(), _filled_in([text for role, text, _ in said if role == "user"])
    if filled_in is None:
        for name, allows in _ALLOWED.items():
            if (value := body.get(name)) is not None and not allows(value):
                raise UsageError(f"{name} is not supported with this value")
    return ChatRequest(
        question="" if filled_in else typed(said[-1][1].strip()),
        before=tuple(_turns([one[:2] for one in said[:-1]]))[-_EARLIER:],
        streams=bool(given.stream),
        usage=bool((given.stream_options or {}).get("include_usage")),
        own=options,
        record=record if options.record is None else options.record,
        filled_in=filled_in,
        page=page,
    )


def converted(body: Any, kind: type[T], *, strict: bool = True) -> T:
    """Return a body as a value of a type; UsageError names the field that is wrong."""
    try:
        return convert(body, kind, strict=strict)
    except ValidationError as found:
        said = line(str(found).replace("`$.", "`"))
        raise UsageError(said[:1].lower() + said[1:]) from None


# What an answer cannot keep to is refused: ignored, the client would take the answer for something else.
_ALLOWED: dict[str, Callable[[Any], bool]] = {
    "n": lambda value: type(value) is int and value == 1,
    "response_format": lambda value: value == {"type": "text"},
    "tool_choice": lambda value: value in ("none", "auto"),
    "logprobs": operator.not_,
    "stop": operator.not_,
    **dict.fromkeys(("max_tokens", "max_completion_tokens"), lambda value: bool(value >= 16)),  # no quote is cut
}


_HEADING = re.compile(r"^#{1,6} \S", re.MULTILINE)
_FORM = re.compile(r'\{\s*"(\w{1,40})"\s*:\s*(["\[])')  # of what is wanted: a JSON object with a text or a list
_CHAT_END = re.compile(r"</(\w{1,40})>\s*\Z")
_LONGEST_TITLE = 60  # characters
_TITLED = ("title", "(?:chat|conversation)", "words?")  # in the line that asks for one
_TITLE = re.compile("".join(rf"(?=[^\n]*\b{word}\b)" for word in _TITLED) + r"[^\n]+\n\n(?:\w+:\n)?", re.IGNORECASE)
_TITLE_OF_THIS = re.compile(r"[^\n]*\d[ -]words?\b[^\n]*\btitle\b[^\n]*\b(?:chat|conversation)\b", re.IGNORECASE)


def _filled_in(said: Sequence[str]) -> str | None:
    """Return the response to a client's own task (a title, an empty list of tags); None for a question.

    A task is one message under headings, which shows the form of a JSON object and ends with a chat between tags; or a
    line that asks for a title of a chat in so many words, and the chat below it, or in the messages before it.
    """
    if len(said) > 1 and _TITLE_OF_THIS.match(said[-1]):
        return _title(said[0])
    if len(said) == 1 and (wanted := _TITLE.match(said[0])):
        return _title(said[0][wanted.end() :])
    if len(said) != 1 or len(_HEADING.findall(said[0])) < 2:
        return None
    form, end = _FORM.search(said[0]), _CHAT_END.search(said[0])
    if form is None or end is None:
        return None
    chat = said[0][: end.start()].rpartition(f"<{end[1]}>")[2]
    return json.dumps({form[1]: _title(chat) if form[2] == '"' else []}, ensure_ascii=False)


def _title(chat: str) -> str:
    return one_line(re.sub(r"\s*\w{1,20}:\s", "", chat, count=1).strip().partition("\n")[0], _LONGEST_TITLE)


def _said(one: _Message) -> tuple[str, str, bool]:
    parts = one.content if isinstance(one.content, list) else [_Part("text", one.content or "")]
    texts = [part.text or "" for part in parts if part.type == "text"]
    return one.role, valid_text("\n".join(texts)), len(texts) < len(parts)


def _turns(said: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield each user message with the answer to it, without footnotes."""
    for (role, text), (answering, answer) in pairwise([*said, ("", "")]):
        if role == "user" and text.strip():
            said_before, _, _ = answer.removeprefix(CLOSEST).partition(_FOOTNOTES)
            yield text.strip()[:LONGEST_TEXT], said_before[:LONGEST_TEXT] if answering == "assistant" else ""


def _completed(pkb: Pkb, asked: ChatRequest, options: AskOptions) -> tuple[str, AskOptions]:
    """Return the question completed from earlier ones; an unclear one is asked as typed, without the answer cache."""
    turns = list[Turn]()
    for said, answered in asked.before:
        whole = condense(said, turns).asked
        if whole and (not options.record or may_be_followed(pkb.session.ledger, whole)):
            turns.append(Turn(whole, None if answered in ("", NOT_FOUND) else answered))
    condensed = condense(asked.question, turns, follow_up_writer(pkb.session))
    if condensed.asked is None:
        return asked.question, replace(options, read_bank=False, write_bank=False, after=asked.own.after)
    if condensed.by == "itself":
        return condensed.asked, options
    # What only the client knows of may rest on what was forgotten since.
    after, writes = asked.own.after, options.write_bank and options.record
    return condensed.asked, replace(options, write_bank=writes, after=after and replace(after, typed=asked.question))


def footnotes(reply: Answer, page: str = "") -> str:
    """Return the sources of an answer as text, with the place of each: a Markdown link to the page, if it is given."""
    found = [source for source in reply.sources if not source.copy][: max(_NOTED, *cited_numbers(reply.text or ""), 0)]
    return _FOOTNOTES + "\n".join(_noted(number, one, page) for number, one in enumerate(found, 1)) if found else ""


def _noted(number: int, source: Source, page: str) -> str:
    who, day = source.author or source.sender or source.speaker or "", (source.date or "no date")[:10]
    about = " · ".join(filter(None, [one_line(source.title, 80) or "no subject", one_line(who, 80), day]))
    lines = "-".join(map(str, source.lines))
    place = f"{plain(source.path)}:{lines}"
    if page:
        given = {"path": source.path, "message_id": source.message_id or "", "lines": lines}
        shown = re.sub(r"([][])", r"\\\1", place)
        place = f"[{shown}]({page}?{urlencode(given, errors='surrogateescape')})"
    return f"[{number}] {about}, {place}"


def answer_json(result: AskResult | None) -> dict[str, Any]:
    """Return the extension of a response: the answer as `pkb ask --json` prints it; empty if nothing was asked."""
    return {"pkb": {**result.reply.to_json(), "notices": result.trace.notices}} if result else {}


def text_of(asked: ChatRequest, result: AskResult | None) -> str:
    """Return an answer as the text of a message."""
    if result is None:
        return plain(asked.filled_in or "")
    reply = result.reply
    above = CLOSEST if reply.text and reply.grade == "closest" else ""
    before = f" (before: {reply.before})" if reply.before else ""
    notes = footnotes(reply, asked.page) if asked.own.footnotes else ""
    return above + plain((reply.text or NOT_FOUND) + before) + notes


def usage(result: AskResult | None) -> dict[str, int]:
    """Return the tokens of an answer; zeros where no model read."""
    tokens = (result.reply.tokens if result else None) or {}
    read, written = tokens.get("prompt") or 0, tokens.get("generated") or 0
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _head(kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": MODEL}


_STATUS: Mapping[type[PkbError], int] = {UsageError: 400, NoStore: 409, Locked: 503, NoModel: 503}
LONGEST_BODY = 1 << 20  # bytes of a request
_LONGEST = 200  # characters of an error, which may name what was asked
_NEXT: Mapping[int | str, str] = {  # to an error that does not say itself what to do
    **dict.fromkeys((401, 403), "pkb serve --http"),  # which prints address and token
    **dict.fromkeys((404, 405, "model_not_found"), "GET /v1/models"),
    **dict.fromkeys((408, Locked.code), "the request again"),
    **dict.fromkeys((PkbError.code, 500), "pkb doctor"),
}
_Event = str | AskResult | PkbError  # a piece of an answer, the answer, what went wrong
_BUG = PkbError("this is a bug in pkb", "pkb doctor")


def error(message: str, kind: str, code: int | str, next_step: str | None = None) -> Mapping[str, Any]:
    """Return an error as OpenAI's clients read it, with what to type, or to ask for, next."""
    step = next_step or _NEXT.get(code, "the request again, corrected")
    return {"error": {"message": shorten(message, _LONGEST), "type": kind, "param": None, "code": code, "next": step}}


def json_response(row: Any, status: int = 200) -> Response:
    """Return values as the JSON of a response."""
    return Response(json_text(row), status, media_type="application/json")


def failure(request: Request, raised: Exception) -> Response:
    """Return an error as a response."""
    found = as_pkb_error(raised)
    status = next((status for kind, status in _STATUS.items() if isinstance(found, kind)), 500)
    kind = "invalid_request_error" if status == 400 else "server_error"
    return json_response(error(line(found.message), kind, found.code, found.next_step), status)


class _Gone(Exception):
    """The client has closed the connection."""


async def complete(end_ahead: Callable[[str], None], request: Request, *, record: bool = False) -> Response:
    """Answer a chat completion, streamed if the request asks for it; a client's own task without opening the home."""
    environ = request.scope["environ"]
    asked = parse(await read_json(request), record=record, page=str(request.base_url))
    gone, events, first = Event(), asyncio.Queue[_Event](), None
    if asked.filled_in is None:
        await asyncio.to_thread(end_ahead, str(locate(environ).data))  # which waits for one that connects
        loop = asyncio.get_running_loop()

        def post(event: _Event) -> None:
            loop.call_soon_threadsafe(events.put_nowait, event)

        answering = loop.run_in_executor(None, work, environ, asked, post, gone)
        answering.add_done_callback(lambda ran: events.put_nowait(_BUG) if ran.exception() else None)
        wanted, leaving = asyncio.ensure_future(events.get()), asyncio.ensure_future(request.receive())
        done, waiting = await asyncio.wait((wanted, leaving), return_when=asyncio.FIRST_COMPLETED)
        for one in waiting:
            one.cancel()
        if wanted not in done:
            gone.set()
            return Response(status_code=499)  # nobody reads it
        first = wanted.result()
    if isinstance(first, PkbError):
        return failure(request, first)
    if isinstance(first, str) or asked.streams:
        return StreamingResponse(_stream(asked, first, events, gone), media_type="text/event-stream")
    message = {"role": "assistant", "content": text_of(asked, first), "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return json_response(_head("chat.completion") | {"choices": [choice], "usage": usage(first)} | answer_json(first))


async def read_json(request: Request) -> Any:
    """Return the JSON of the body; UsageError if it is too long, is none, or holds what no text may."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_BODY:
            raise UsageError(f"the body is longer than {LONGEST_BODY:,} bytes")
    try:
        found = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        raise UsageError("the body is not JSON") from None
    if re.search(rb"(?<!\\)(?:\\\\)*\\u0000", body):
        raise UsageError("the body has a NUL character")
    return found


def work(environ: Environ, asked: ChatRequest, post: Callable[[_Event], object], gone: Event) -> None:
    """Answer a question in a thread; `post` is given each piece, and the answer or what went wrong."""

    def check() -> None:
        if gone.is_set():
            raise _Gone

    def say(text: str) -> None:
        check()
        post(text)

    try:
        with Pkb(server=True, environ=environ) as pkb:
            pkb.session.on_beat = check
            options = pkb.options(pkb.scope(asked.own), asked.own.k, asked.own.cache)
            question, options = _completed(pkb, asked, replace(options, record=asked.record))
            result = pkb.answer(question, options, say if asked.streams else None)
            post(result)
            result.keep()
    except _Gone:
        pass
    except FAILURES as found:
        post(as_pkb_error(found))


async def _stream(
    asked: ChatRequest, first: _Event | None, events: asyncio.Queue[_Event], gone: Event
) -> AsyncIterator[str]:
    """Yield an answer as server-sent events; a client that stops reading cancels the question."""
    head, event, said = _head("chat.completion.chunk"), first, False

    def chunk(delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _event({**head, "choices": [choice], **more})

    try:
        yield chunk({"role": "assistant", "content": ""})
        while isinstance(event, str):
            said = said or bool(event)
            yield chunk({"content": plain(event)})
            event = await events.get()
        if isinstance(event, PkbError):
            yield _event(error(line(event.message), "server_error", event.code, event.next_step))
        else:
            notes = footnotes(event.reply, asked.page) if event and asked.own.footnotes else ""
            if rest := notes if said else text_of(asked, event):
                yield chunk({"content": rest})
            yield chunk({}, "stop", **answer_json(event))  # the whole answer
            if asked.usage:
                yield _event({**head, "choices": [], "usage": usage(event)})
        yield "data: [DONE]\n\n"
    finally:
        gone.set()


def _event(row: Mapping[str, Any]) -> str:
    return f"data: {json_text(row)}\n\n"
