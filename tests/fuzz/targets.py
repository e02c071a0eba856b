"""What is fuzzed: a function of bytes for each parser, and what it may raise.

A parser of pkb raises its own error for what it refuses, or nothing at all; anything else is a finding.
"""

import atexit
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from typing import Any, get_args

from engine.ask import followup, keys, question_features
from engine.http import completions
from engine.idle import predict
from engine.ingest import (
    calendar,
    css,
    dialogue,
    files,
    headers,
    html,
    mail,
    mime,
    office,
    outlook,
    quotes,
    transcripts,
)
from engine.ingest.chunking import chunk
from engine.ingest.types import ParseLimits, UnreadableItem
from engine.kv import sharing
from engine.llm import generate, prompt, stopping
from engine.models import gguf, served
from engine.retrieval import open_loops
from engine.serve import process
from engine.settings import Settings, load
from engine.text import dates, people, question, relative_dates, spans, terminal, words
from engine.text.time_sensitive import is_timeless, time_sensitivity, whole_document_question
from store import kv_files, peers
from store.catalog import BUG
from store.errors import PkbError
from store.remote import RemoteMiss
from store.types import ParsedItem
from tests.engine.ingest import office_files
from tests.engine.ingest.archive_files import zipped

NOW = datetime(2024, 6, 19, 8, 0, tzinfo=UTC)
LIMITS = ParseLimits()
_TURNS = (followup.Turn("When is the summer concert?", "On 22 June at the Ropeworks."),)


@dataclass(frozen=True, slots=True)
class Target:
    """A parser, and the errors by which it refuses."""

    run: Callable[[bytes], object]
    refuses: tuple[type[Exception], ...] = ()

    def __call__(self, data: bytes) -> None:
        """Parse; whatever escapes is a finding."""
        with suppress(PkbError, *self.refuses):
            self.run(data)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _chunks(item: ParsedItem) -> None:
    if item.document:
        for one in chunk(item.document, item.document.passages):
            prompt.chunk_segment(1, one)


def _mail(data: bytes) -> None:
    _chunks(mail.read_mail(data, LIMITS))


def _outlook(data: bytes) -> None:
    _mail(outlook.as_mime(data, LIMITS))


def _mbox(data: bytes) -> None:
    for raw in files.split_mbox(BytesIO(data), LIMITS.message_bytes):
        mail.read_mail(raw, LIMITS)


def _headers(data: bytes) -> None:
    found, _ = headers.split_header(data, LIMITS.header_bytes)
    mail.read_envelope(found)
    headers.parse_addresses(_text(data))
    headers.decode_words(_text(data))
    mail.parse_date(_text(data))


def _charset(data: bytes) -> None:
    name, _, body = data.partition(b"\n")
    headers.decode_text(body, name.decode("latin-1"))
    headers.loose_base64(body)
    mime.unflow(_text(body), delete_space=True)


def _html(data: bytes) -> None:
    text = _text(data)
    html.is_page(text)
    html.html_text(text)


def _css(data: bytes) -> None:
    text = _text(data)
    rules = css.parse_sheet(text)
    css.style_element(css.Style(), "p", [declared for *_, declared in rules[:20]], text, {})
    css.media_apply(text)
    css.parse_color(text)
    css.pixels(text)


def _calendar(data: bytes) -> None:
    calendar.event_texts(_text(data))
    calendar.rule_text(_text(data))


def _contacts(data: bytes) -> None:
    for item in (*calendar.read_contacts(data, LIMITS), *calendar.read_calendar(data, LIMITS)):
        _chunks(item)


def _emlx(data: bytes) -> None:
    _file(data, ".emlx")


def _file(data: bytes, ending: str = ".gguf") -> None:
    path = _scratch().with_suffix(ending)
    path.write_bytes(data)
    for item in files.read(path, LIMITS):
        assert not (item.problem or "").startswith(BUG), item.problem


@cache
def _office_files() -> office.OfficeFiles:
    made = office.OfficeFiles()
    atexit.register(made.close)
    return made


def _office(data: bytes) -> None:
    assert _office_files().text_of(data).problem != "its parser failed"


def _office_xml(data: bytes) -> None:
    """Parse a part of XML as each that is read: first what lists the others."""
    listed, _, xml = data.partition(b"\n\n")
    office.parse(zipped({"word/document.xml": xml, "docProps/core.xml": listed}))
    office.parse(zipped({"content.xml": xml, "meta.xml": listed, "META-INF/manifest.xml": listed}))
    slides = ("ppt/presentation.xml", "ppt/slides/slide1.xml", "ppt/slides/slide2.xml")
    rels = ("ppt/_rels/presentation.xml.rels", "ppt/slides/_rels/slide1.xml.rels")
    office.parse(zipped(dict.fromkeys(slides, xml) | dict.fromkeys(rels, listed)))


def _quotes(data: bytes) -> None:
    for roles in (quotes.IN_REPLY, quotes.IN_FORWARD):
        quotes.passages_of(_text(data), roles, 1, NOW)
    headers.date_in_header(_text(data), NOW)


def _transcript(data: bytes) -> None:
    name, _, body = data.partition(b"\n")
    for item in transcripts.read_transcripts(name.decode("latin-1").replace("\0", ""), body, LIMITS):
        _chunks(item)


def _subtitles(data: bytes) -> None:
    transcripts.is_subtitles(_text(data))
    transcripts.cues(_text(data).split("\n"))
    transcripts.read_transcripts("a.vtt", b"WEBVTT " + data, LIMITS)


def _dialogue(data: bytes) -> None:
    lines = list(enumerate(_text(data).split("\n"), 1))
    dialogue.dialogue_cues(lines)
    dialogue.chat_cues(lines)
    dialogue.exported_messages(lines)
    transcripts.front_matter(lines)


def _dates(data: bytes) -> None:
    text = _text(data)
    dates.find(text, NOW.date())
    dates.near_day(text, date.max if text[:1] == "!" else NOW.date())
    relative_dates.resolve(text, NOW)
    relative_dates.in_words(text, NOW, past=True)
    relative_dates.next_start(text, NOW, NOW.replace(tzinfo=None))
    headers.date_line(text)
    transcripts.date_in_name(text)
    for found in spans.find(text, "date"):
        relative_dates.dates_in_words(text, found, NOW)


def _spans(data: bytes) -> None:
    text = _text(data)
    for kind in get_args(spans.Kind):
        for found in spans.find(text, kind)[:20]:
            spans.whole(text, found, kind)
    for span in words.sentences(text):
        open_loops.commitment(text[span.start : span.end], open_loops.Surroundings())
        open_loops.due_day(text[span.start : span.end], NOW)
    words.spoken_sentences(text, {"Ann", "Bob"})


def _question(data: bytes) -> None:
    text = terminal.valid_text(_text(data))
    asked = question.understand(text, NOW)
    question.synthesis(text)
    time_sensitivity(text)
    is_timeless(text)
    whole_document_question(text)
    question_features.question_features(question_features.normal_question(asked))
    relative_dates.time_constraint(asked, None)
    keys.normalise(text)
    prompt.question_segment(text, NOW)


def _follow_up(data: bytes) -> None:
    text = _text(data)
    followup.by_rules(text, _TURNS)
    followup.condense(text, _TURNS)
    followup.is_vague(text)


def _config(data: bytes) -> None:
    path = _scratch()
    path.write_bytes(data)
    load(path)


def _prediction(data: bytes) -> None:
    for one in predict.parse(_text(data), 20):
        assert terminal.one_line(one, 1000) == one
        assert "\n" not in one


def _written(data: bytes) -> None:
    text = _text(data)
    generate.parse(text)
    shown = ""
    for end in (len(text) // 3, len(text) // 2, len(text)):
        seen = generate.visible(text[:end])
        assert seen.startswith(shown), (seen, shown)
        shown = seen
    stopping.complete((text[at : at + 5] for at in range(0, len(text), 5)), 200)


def _fenced(data: bytes) -> None:
    text = prompt.fenced(_text(data))
    assert all(line.startswith(" ") for line in text.split("\n"))
    assert "<|" not in text.replace("\uff5c", "|")


def _terminal(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    for shown in (terminal.plain(text), terminal.line(text), terminal.one_line(text, 40), terminal.in_json(text)):
        assert terminal.plain(shown) == shown
        shown.encode()
    assert "\n" not in terminal.line(text)
    terminal.wrap(terminal.plain(text), 40, "  ")
    terminal.message_uri(text).encode("ascii")


def _people(data: bytes) -> None:
    text = _text(data)
    name, address = people.name_and_address(text)
    people.folded_name(name)
    people.folded_address(address)
    people.odd_name(name, address)
    people.domain_of(address)


def _frames(data: bytes) -> None:
    for line in data.splitlines():
        frame = process.decode(line)
        for read in (partial(process.unpack, process.Request), process.answered):
            with suppress(process.Broken):
                read(frame.get("values", frame))
        with suppress(process.Broken, PkbError):
            process.unpack(Settings, frame.get("settings"))


def _http(data: bytes) -> None:
    completions.parse(json.loads(data))


def _server(data: bytes) -> None:
    for _ in served.Completion().pieces(served.events(iter([data[:7], data[7:]]))):
        pass


def _addresses(data: bytes) -> None:
    text = _text(data)
    for read in (served.parse_endpoint, peers.parse_address, sharing.parse_listen):
        with suppress(PkbError):
            read(text)


def _peer(data: bytes) -> None:
    sharing.parse_keys(data)
    with suppress(PkbError):
        peers.parse_key_line(_text(data))


def _kv(data: bytes) -> None:
    kv_files.verify(BytesIO(data))


def _kv_header(data: bytes) -> None:
    kv_files.decode(data)


@cache
def _scratch() -> Path:
    folder = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
    return Path(tempfile.mkdtemp(prefix="pkb-fuzz-", dir=folder)) / "file"


def _gguf(data: bytes) -> None:
    path = _scratch()
    path.write_bytes(data)
    header = gguf.read(path)
    for made in (gguf.config, gguf.tokenizer, gguf.tokenizer_config):
        with suppress(PkbError):
            made(header)


TARGETS: dict[str, Target] = {
    "mail": Target(_mail),
    "outlook": Target(_outlook, (UnreadableItem,)),
    "office": Target(_office),
    "office_xml": Target(_office_xml),
    "mbox": Target(_mbox),
    "emlx": Target(_emlx),
    "headers": Target(_headers),
    "charset": Target(_charset),
    "html": Target(_html),
    "css": Target(_css),
    "calendar": Target(_calendar),
    "contacts": Target(_contacts),
    "file": Target(_file),
    "quotes": Target(_quotes),
    "transcript": Target(_transcript, (UnreadableItem,)),
    "subtitles": Target(_subtitles, (UnreadableItem,)),
    "dialogue": Target(_dialogue),
    "dates": Target(_dates),
    "spans": Target(_spans),
    "question": Target(_question),
    "follow_up": Target(_follow_up),
    "config": Target(_config),
    "prediction": Target(_prediction),
    "written": Target(_written),
    "fenced": Target(_fenced),
    "terminal": Target(_terminal),
    "people": Target(_people),
    "frames": Target(_frames, (process.Broken,)),
    "http": Target(_http, (ValueError, RecursionError)),  # as its caller refuses them
    "server": Target(_server, (served.Refused, ValueError, RecursionError)),  # as its caller refuses them
    "addresses": Target(_addresses),
    "peer": Target(_peer, (RemoteMiss, ValueError, RuntimeError)),  # as its caller refuses them
    "kv": Target(_kv, (kv_files.BadNode,)),
    "kv_header": Target(_kv_header, (kv_files.BadNode,)),
    "gguf": Target(_gguf),
}


def _demo() -> Iterator[tuple[str, bytes]]:
    from tests.demo import DATA

    mails = sorted((DATA / "mail" / "single").glob("*.eml"), key=lambda path: path.stat().st_size)
    yield from (("mail", path.read_bytes()) for path in mails[:12])
    for path in sorted((DATA / "transcripts").glob("*")):
        if path.is_file():
            yield "transcript", path.name.encode() + b"\n" + path.read_bytes()[:4000]


_FRAME = process.encode("ask", {"values": {"text": "When?"}, "settings": {"ask.k": "5"}})
_EVENTS = b'data: {"choices": [{"delta": {"content": "Hi"}}], "usage": {"prompt_tokens": 3}}\n\ndata: [DONE]\n\n'
_INVITE = (
    b"BEGIN:VCALENDAR\nMETHOD:REQUEST\nBEGIN:VTIMEZONE\nTZID:X\nBEGIN:STANDARD\nTZOFFSETTO:+0100\n"
    b"RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU\nEND:STANDARD\nEND:VTIMEZONE\nBEGIN:VEVENT\nSUMMARY:Choir\n"
    b"DTSTART;TZID=X:20240605T190000\nDURATION:PT2H\nRRULE:FREQ=WEEKLY;BYDAY=MO,-1FR;UNTIL=20250101\n"
    b'ORGANIZER;CN="Ann":mailto:a@x.org\nEND:VEVENT\nEND:VCALENDAR\n'
)
_SEEDS: dict[str, tuple[bytes, ...]] = {
    "mbox": (
        b"From a@x.org Mon Jun  3 10:00:00 2024\nSubject: a\n\n>From b\n\nFrom c@x.org Tue Jun  4 1:00:00 2024\n\nx",
    ),
    "office": (
        office_files.pdf("one", "two", changed="D:20240503"),
        office_files.xlsx({"A": [["a", 1], [None, 2.5]]}),
        office_files.docx("x"),
        office_files.opendocument("<text:p>x</text:p>"),
    ),
    "office_xml": (
        f"{office_files.related({'r1': ('slide', 'slides/slide1.xml'), 'r2': ('notesSlide', '../slide2.xml')})}\n\n"
        f"<p:x xmlns:p='{office_files.SLIDES}' xmlns:r='x'><p:sldId r:id='r1'/>"
        f"{office_files.shown('hi')}</p:x>".encode(),
        f"<a><title>t</title><modified>2024-05-03T10:00:00Z</modified></a>\n\n<w:d xmlns:w='{office_files.WORD}'>"
        f"{office_files.paragraphs('a')}<w:tr><w:tc>{office_files.paragraphs('b')}</w:tc></w:tr></w:d>".encode(),
        f"<m/>\n\n<o xmlns:t='{office_files.TEXT}'><page><t:p>a<t:span>b</t:span><t:s/>c</t:p></page></o>".encode(),
    ),
    "emlx": (b"12  \nSubject: a\n\nx",),
    "headers": (
        b'From: =?utf-8?q?Ann_B=C3=A9l?= <ann@x.org>, "B, C" <b@x.org>\nTo: g: a@x, b@y;\nDate: Mon, 3 Jun 2024 '
        b"10:00:00 -0700\nMessage-ID: <1@x>\nReceived: from a by b; Mon, 3 Jun 2024 10:00 +0000\nReply-To: e@y\n\n",
        "Аnn <a@х.org> (via list)".encode(),
    ),
    "charset": (
        b"utf-16\n\xff\xfea\x00",
        b'iso-2022-jp\n\x1b$B$"\x1b(B',
        b"gb18030\n\x84\x31\xa4\x37",
        b"utf-7\n+AGE-",
    ),
    "html": (
        b"<!doctype html><style>.a{display:none}@media print{p{color:red}}</style><p class=a>x<table><tr><td>1<td>2"
        b"</table><pre>a\n b</pre><ol><li>c</ol><blockquote>q</blockquote><a href=http://x.org>l</a><img alt=i>",
    ),
    "css": (
        b"a.b > c:not([d='e']) , #f::before{color:rgb(1 2 3/50%)!important;--v:var(--w,1px);margin:calc(1px*2)}",
        b"hsla(1turn,2%,3%,.4)",
        b"screen and (min-width: 600px), not print",
    ),
    "calendar": (_INVITE,),
    "quotes": (
        b"Hi\n\nOn Mon, 3 Jun 2024 at 10:00, Ann <a@x.org> wrote:\n> old\n>> older\n\n-- \nBen\n+49 123 456",
        b"x\n-----Original Message-----\nFrom: Ann\nSent: Monday, June 3, 2024 10:00 AM\nTo: B\nSubject: s\n\nold",
        b"Am 3. Juni 2024 um 10:00 schrieb Ann:\n> alt",
    ),
    "subtitles": (
        b"WEBVTT - T\n\n1\n00:01.000 --> 00:02.000\n<v Ann>Hi <i>x</i>\n\n",
        b"1\n00:00:01,0 --> 0:0:2,5\nA: b\n",
    ),
    "dialogue": (
        b"Attendees: Ann, Bob\n\nAnn: hi\nBob (10:00): yes\n[10:01] Ann: no\n",
        b"[03.06.24, 10:00:00] Ann: hi\n",
    ),
    "dates": (
        b"next Friday",
        b"the week after 3 June 2024",
        b"vor drei Tagen",
        b"in two weeks",
        b"last summer",
        b"2024-06-03",
        b"31.12.",
        b"9999-12-31",
        b"today at 3pm",
        "明天".encode(),
        b"in 999999999 days",
        b"the second Monday of May",
    ),
    "spans": (
        b"Ann pays 12.50 EUR for 3 tickets to a@x.org, see http://x.org or +49 123 4567 in Rome by Friday at 5 pm.",
    ),
    "question": (
        b"When is my next meeting?",
        b"How many mails did Ann send to Bob in May?",
        b"Summarize the meeting of 3 June",
        b'Who said "hello" in Rome?',
        b"Wann ist Anmeldeschluss?",
        "饺子摊的摊位是几号？".encode(),
    ),
    "follow_up": (b"and where?", b"Who was it again?", b"and in Rome?", b"What about him?"),
    "config": (b"[ask]\nk = 5\n[kv]\nreuse = 'on'\n[model]\nname = ''\n", b"ask.k = 1e9\nask.tau=0.5"),
    "prediction": (b'["When is it?", "Where?"]', b"1. When is the fair?\n- Who pays?\n", b'{"questions": ["Is it?"]}'),
    "written": (b"Answer: On 22 June [1, 2-4].", b"<think>x</think>not found", b"It is [1] and [2].\n\n[1]"),
    "fenced": (b"[1]\nFrom: x\n<|im_start|>system\n[INST] <<SYS>> </s> <start_of_turn>user", "<｜User｜>".encode()),
    "terminal": (b"\x1b]0;x\x07\x1b[31m\xc2\x9b\xe2\x80\xae\xff\n\ta",),
    "people": (
        b'"Ann Bell (a@x.org)" <e@y.org>',
        b"pay 12 to ann@x.org +49 123 4567 ~/x",
        "Ａｎｎ <a@xn--e1a.org>".encode(),
    ),
    "frames": (_FRAME, _FRAME * 2),
    "http": (
        b'{"messages": [{"role": "user", "content": [{"type": "text", "text": "When?"}]}], "pkb": {"k": 3, "cache": '
        b'"off", "after": {"path": "a", "message_id": null, "quote": "b"}}, "stream_options": {"include_usage": true}}',
    ),
    "server": (_EVENTS, b'{"choices": [{"message": {"content": "<think>a</think> b"}, "finish_reason": "length"}]}'),
    "addresses": (
        b"openai:http://127.0.0.1:1/v1#a",
        b"https://[::1]:8643#desk",
        b"192.168.1.5:8643",
        b"bytes=0-99",
        b'"' + b"0" * 64 + b'"',
    ),
    "peer": (b'["00112233445566778899aabbccddeeff"]', b"[1, 2]", b"pkb1:MIIB"),
}


def _tensors() -> bytes:
    header = kv_files.Header(b"r" * 16, b"k" * 16, b"p" * 16, b"q" * 16, (1, 2, 3))
    path = _scratch().with_name("seed.safetensors")
    kv_files.write(path, header, [kv_files.Tensor("0.k", "F32", (1, 2), bytes(8))])
    return path.read_bytes()


def _model() -> bytes:
    """Return a GGUF file of one tensor."""
    import struct

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    named: dict[str, Any] = {
        "general.architecture": "llama", "llama.embedding_length": 4, "llama.attention.head_count": 1,
        "llama.block_count": 1, "llama.feed_forward_length": 4, "llama.context_length": 8,
        "llama.attention.layer_norm_rms_epsilon": 1.0, "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.bos_token_id": 1,
    }  # fmt: skip
    body = b""
    for key, value in named.items():
        kind = 8 if isinstance(value, str) else 6 if isinstance(value, float) else 4
        packed = text(value) if isinstance(value, str) else struct.pack("<f" if kind == 6 else "<I", value)
        body += text(key) + struct.pack("<I", kind) + packed
    words = ["<unk>", "<s>", "a"]
    body += text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 3) + b"".join(map(text, words))
    body += text("tokenizer.ggml.scores") + struct.pack("<IIQ3f", 9, 6, 3, 0, 0, 0)
    body += text("tokenizer.ggml.token_type") + struct.pack("<IIQ3i", 9, 5, 3, 2, 3, 1)
    place = text("token_embd.weight") + struct.pack("<IQQIQ", 2, 4, 3, 0, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, len(named) + 3) + body + place
    return head + bytes(-len(head) % 32) + bytes(48)


def _outlook_files() -> list[bytes]:
    from tests.engine.ingest import outlook_files as made

    rtf = made.compressed(rb"{\rtf1\ansicpg1251\fromhtml1{\*\htmltag64 <p>}\htmlrtf x\htmlrtf0 \'d1}")
    values: dict[int, made.Value] = {made.CLASS: "IPM.Appointment", made.START: NOW, made.SUBJECT: "a", made.RTF: rtf}
    file = made.Sent({made.LONG_NAME: "a.txt", made.DATA: b"b"})
    sent = made.Sent(values, [{made.NAME: "Ann", made.KIND: 1}], [file])
    return [made.msg(sent), made.tnef(sent), made.msg(made.Sent({made.BODY: "a"}))]


def seeds(name: str) -> list[bytes]:
    """Return the inputs that fuzzing of a target begins with."""
    found = [*_SEEDS.get(name, ()), *(data for target, data in _demo() if target == name)]
    if name == "outlook":
        found += _outlook_files()
    if name in ("kv", "kv_header"):
        whole = _tensors()
        found.append(whole if name == "kv" else whole[8 : 8 + int.from_bytes(whole[:8], "little")])
    if name == "gguf":
        found.append(_model())
    return found
