"""Who speaks: in every form of transcript, whatever kind of name, each sentence is its own speaker's."""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.chunking import chunk
from engine.ingest.mail import read_mail
from engine.ingest.transcripts import read_transcripts
from engine.ingest.types import ParseLimits
from engine.text.words import spoken_sentences
from store.types import Document
from tests.effort import examples

NAMES = {
    "proper": ("Ann Lee", "Bob Ray"),
    "lower-case": ("potuz", "ann lee"),
    "hyphenated": ("jochem-brouwer", "Anne-Marie"),
    "e-mail": ("ann@choir.example", "Bob Ray <bob@choir.example>"),
    "cjk": ("王伟", "李娜"),
    "digits": ("SPEAKER_00", "user42"),
    "emoji": ("Ann 🎻", "🚗 bob"),
    "brackets": ("Ann (PM)", "Bob [Geth]"),
    "particles": ("Marius van der Wijden", "Mr. Chris d'Entremont"),
    "bar": ("Kalo | Obol", "nixo"),
    "words": ("mark", "Will"),
}
SAID = ("We meet on Monday", "Note: bring your own score", "The rent is 40 euros at 10:30", "so: the point is: wait")
Turns = list[tuple[str, str]]


def turns_of(names: tuple[str, str]) -> Turns:
    one, other = names
    return [(one, SAID[0]), (other, SAID[1]), (one, SAID[2]), (other, SAID[3]), (one, "Fine"), (other, "Good")]


def lines(turns: Turns, form: str, start: str = "") -> str:
    return start + "\n".join(form.format(name=name, text=text, at=at) for at, (name, text) in enumerate(turns, 10))


def whisper(turns: Turns, field: bool) -> str:
    spoken = [{"text": text, "speaker": name} if field else {"text": f"{name}: {text}"} for name, text in turns]
    return json.dumps({"segments": [{"start": at, "end": at + 1, **one} for at, one in enumerate(spoken)]})


CUE = "00:00:{at}.000 --> 00:00:{at}.900\n"
MEET = "Sync (2024-05-03 10:00 GMT+2) - Transcript\nAttendees\nSomebody Else\n\nTranscript\n\n"
FORMS: dict[str, tuple[str, Callable[[Turns], str]]] = {
    "plain": ("txt", lambda turns: lines(turns, "{name}: {text}")),
    "wide colon": ("txt", lambda turns: lines(turns, "{name}：{text}")),
    "apart": ("md", lambda turns: lines(turns, "{name}: {text}\n")),
    "bold": ("md", lambda turns: lines(turns, "**{name}:** {text}\n", "# Sync\n\n")),
    "bullets": ("md", lambda turns: lines(turns, "- **{name}**: {text}")),
    "timed": ("txt", lambda turns: lines(turns, "[00:00:{at}] {name}: {text}")),
    "time behind": ("txt", lambda turns: lines(turns, "{name} (00:{at}): {text}")),
    "block": ("txt", lambda turns: lines(turns, "{name}  0:{at}\n{text}\n")),
    "square": ("txt", lambda turns: lines(turns, "[{name}] 11:02:{at}\n{text}\n")),
    "meet": ("txt", lambda turns: lines(turns, "{name}: {text}", MEET + "00:00:00\n\n")),
    "meet blocks": ("txt", lambda turns: lines(turns, "{name}\n{text}\n", MEET)),
    "vtt": ("vtt", lambda turns: lines(turns, CUE + "{name}: {text}\n", "WEBVTT\n\n")),
    "vtt voices": ("vtt", lambda turns: lines(turns, CUE + "<v {name}>{text}</v>\n", "WEBVTT\n\n")),
    "srt": ("srt", lambda turns: lines(turns, "1\n" + CUE.replace(".", ",") + "{name}: {text}\n")),
    "sbv": ("sbv", lambda turns: lines(turns, "0:00:{at}.000,0:00:{at}.900\n{name}: {text}\n")),
    "json": ("json", lambda turns: whisper(turns, field=True)),
    "json text": ("json", lambda turns: whisper(turns, field=False)),
    "zoom chat": ("txt", lambda turns: lines(turns, "00:00:{at}\t{name}:\t{text}")),
    "zoom chat, older": ("txt", lambda turns: lines(turns, "00:00:{at} From {name} to Everyone: {text}")),
    "whatsapp, ios": ("txt", lambda turns: lines(turns, "[03/05/2024, 19:00:{at}] {name}: {text}")),
    "whatsapp, android": ("txt", lambda turns: lines(turns, "03/05/2024, 19:{at} - {name}: {text}")),
    "page": ("html", lambda turns: lines(turns, "<p><b>{name}</b>: {text}</p>", "<!doctype html><body>\n")),
}
_UNWRITABLE = {("vtt voices", "e-mail"), ("page", "e-mail"), ("square", "brackets")}  # the form has no way to write it


def documents(name: str, text: str) -> list[Document]:
    found = [item.document for item in read_transcripts(name, text.encode(), ParseLimits())]
    return [document for document in found if document]


def said(found: list[Document]) -> Turns:
    """Return what is quoted of some documents, with its speaker."""
    return [
        (span.speaker or "", one.text[span.start : span.end])
        for document in found
        for one in chunk(document, document.passages)
        for span in spoken_sentences(one.text, document.recipients)
    ]


@pytest.mark.parametrize("form", FORMS)
def test_every_sentence_is_its_speakers_in_every_form_and_with_every_kind_of_name(form: str) -> None:
    ending, written = FORMS[form]
    for kind, names in NAMES.items():
        if (form, kind) not in _UNWRITABLE:
            turns = turns_of(names)
            found = said(documents(f"call.{ending}", written(turns)))
            assert [one for one in found if one[0]] == turns, (kind, found)


@pytest.mark.parametrize(
    "line",
    [
        *(
            "Note: bring cake",
            "Where: the hall",
            "http: is a scheme",
            "Action items: none",
            "10:30 we meet",
            "Monday: off",
        ),
        *("TODO: chairs", "Step 2: play", "the point is: we wait", "May 3: concert", "Next steps: rest", "PS: thanks"),
        *(
            "https://choir.example: our page",
            "so: no",
            "E-mail: ann@choir.example",
            "Deadline: Friday",
            "12: the number",
        ),
    ],
)
def test_a_label_that_does_not_come_back_is_no_speaker(line: str) -> None:
    talk = "ann: We meet.\nBob: Where?\nann: In the hall.\nBob: Good.\n"
    assert {speaker for speaker, _ in said(documents("call.txt", f"{talk}\n{line}\n"))} == {"ann", "Bob", ""}
    assert {
        speaker for speaker, _ in said(documents("notes.md", f"We met for long.\n\n{line}\n\nThen we left.\n"))
    } == {""}


def test_lower_case_names_that_come_back_in_front_of_wrapped_text_are_speakers() -> None:
    text = "potuz: word\nword\nword\nBob: word\nword\nword\n" * 3 + "finally: word\n"
    assert {speaker for speaker, _ in said(documents("a.txt", text))} == {"potuz", "Bob"}


def test_a_line_of_a_message_that_looks_like_anothers_turn_stays_its_writers() -> None:
    text = "03/05/2024, 19:00 - Ann: I pay nothing\n03/05/2024, 19:01 - Bob: look:\nAnn: I pay 500\n\nAnn: I do\n"
    assert said(documents("chat.txt", text))[1:] == [("Bob", "look:"), ("Bob", "Ann: I pay 500"), ("Bob", "Ann: I do")]


def test_text_behind_an_empty_line_is_nobodys() -> None:
    text = "Ann: I will.\nBob: Good.\n\nThe next meeting is on Friday.\n"
    assert said(documents("a.txt", text))[-1] == ("", "The next meeting is on Friday.")


def test_a_long_turn_has_its_speaker_in_each_of_its_chunks() -> None:
    found = said(documents("a.txt", f"potuz: {'We go on. ' * 300}\nAnn: Stop.\n"))
    assert {speaker for speaker, _ in found} == {"potuz", "Ann"}
    assert found[-1] == ("Ann", "Stop.")


def test_two_voices_in_one_cue_are_two_turns() -> None:
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\nAnn: Hello\nto you\nbob: Hi\n"
    assert said(documents("a.vtt", text)) == [("Ann", "Hello to you"), ("bob", "Hi")]


def test_more_speakers_than_a_meeting_has_room_for_keep_their_turns() -> None:
    turns = [(f"guest{number}", f"I am number {number}") for number in range(300)]
    assert said(documents("a.txt", lines(turns, "{name}: {text}"))) == turns


def test_google_meet_gives_title_day_and_times() -> None:
    text = MEET.replace("Somebody Else", "Ann Lee, Bob Ray") + "00:00:00\n\nAnn Lee: Hello.\n00:05:00\nBob Ray: Hi.\n"
    document = documents("x.txt", f"{text}\nTranscription ended after 00:31:40\n")[0]
    assert document.title == "Sync (2024-05-03 10:00 GMT+2) - Transcript"
    assert document.date
    assert document.date.isoformat() == "2024-05-03T10:00:00+02:00"
    spoken = [(turn.speaker, turn.at, turn.text) for turn in document.passages if turn.speaker]
    assert spoken == [("Ann Lee", 0, "Hello."), ("Bob Ray", 300, "Hi.")]
    assert document.passages[-1].text == "Transcription ended after 00:31:40"


# WhatsApp.


def days(text: str) -> list[str]:
    return [document.date.isoformat()[:16] if document.date else "" for document in documents("chat.txt", text)]


@pytest.mark.parametrize(
    ("stamps", "expected"),
    [
        (["03/05/2024, 19:00 - ", "13/05/2024, 08:00 - "], ["2024-05-03T19:00", "2024-05-13T08:00"]),
        (["5/3/24, 7:00\u202fPM - ", "5/13/24, 8:00\u202fAM - "], ["2024-05-03T19:00", "2024-05-13T08:00"]),
        (["5/3/24, 7:00 PM - ", "5/4/24, 12:05 AM - "], ["2024-05-03T19:00", "2024-05-04T00:05"]),
        (["\u200e[03/05/2024, 19:00:12] ", "[04/05/2024, 7:00:00 pm] "], ["2024-05-03T19:00", "2024-05-04T19:00"]),
        (["03.05.24, 19:00 - ", "04.05.24, 07:10 - "], ["2024-05-03T19:00", "2024-05-04T07:10"]),
        (["[2024-05-03, 19:00:12] ", "[2024-05-04, 19:00:12] "], ["2024-05-03T19:00", "2024-05-04T19:00"]),
        (
            ["03/05/2024, 19:00 - ", "03/06/2024, 19:00 - ", "04/06/2024, 9:00 - "],
            ["2024-05-03", "2024-06-03", "2024-06-04"],
        ),
        (["4/30/24, 19:00 - ", "5/1/24, 9:00 - "], ["2024-04-30", "2024-05-01"]),
        (["01/02/24, 7:00 am - ", "02/01/24, 9:00 am - "], ["2024-01-02", "2024-02-01"]),  # else time ran backwards
    ],
)
def test_the_order_of_day_and_month_is_that_of_the_whole_chat(stamps: list[str], expected: list[str]) -> None:
    found = days("\n".join(f"{stamp}Ann: We meet tomorrow" for stamp in stamps))
    assert [one[: len(day)] for one, day in zip(found, expected, strict=True)] == expected


def test_a_chat_is_a_document_a_day_on_the_lines_of_the_file() -> None:
    text = (
        "[03/05/2024, 19:00:01] Choir: \u200eMessages and calls are end-to-end encrypted.\n"
        '[03/05/2024, 19:00:02] \u200eAnn created group "Choir: spring"\n'
        "[03/05/2024, 19:01:00] ~\u202fAnn: We meet tomorrow\nBring:\n- scores\n"
        "[04/05/2024, 08:00:00] +49 170 1234567: I am late\n[04/05/2024, 08:00:01] +49 170 1234567: Sorry\n"
    )
    items = read_transcripts("_chat.txt", text.encode(), ParseLimits())
    assert [(item.item, item.offset) for item in items] == [(0, 0), (1, 5)]
    assert [item.document.title for item in items if item.document] == ["Choir", "Choir"]
    first, second = documents("_chat.txt", text)
    assert [(turn.speaker, turn.text, turn.first, turn.last) for turn in first.passages[2:]] == [
        ("Ann", "We meet tomorrow\nBring:\n- scores", 3, 5)
    ]
    assert [turn.speaker for turn in first.passages[:2]] == [None, None]
    assert said([second]) == [("+49 170 1234567", "I am late"), ("+49 170 1234567", "Sorry")]
    assert second.text == "\n".join(text.split("\n")[5:7])


def test_no_word_of_a_chat_is_lost_where_dates_are_wrong() -> None:
    text = "03/05/2024, 19:00 - Ann: one\n99/99/2024, 19:00 - Bob: two\n03/05/2024, 19:02 - Ann: three\n"
    assert [one for one, _ in said(documents("chat.txt", text))] == ["Ann", "Bob", "Ann"]


# Real calls.


def _spoken(text: str) -> Turns:
    """Return the turns of a WebVTT file whose every cue begins with a name."""
    cues = [block.split("\n", 2)[-1] for block in re.split(r"\n\n+", text) if "-->" in block]
    return [(name, said) for name, _, said in (cue.partition(": ") for cue in cues)]


def _plain(text: str) -> str:
    return re.sub(r"\W+", "", text).lower()


@pytest.mark.parametrize("call", ["acdc/docs/acdc_2026-07-09_182", "rpcstandards/docs/rpcstandards_2026-06-15_028"])
def test_no_line_of_a_real_call_is_given_to_another_speaker(shared: Path, call: str) -> None:
    text = (shared / f"data/zoom/{call}.vtt").read_text().replace("\r", "")
    found = said(documents("call.vtt", text))
    letters = [(speaker, letter) for speaker, sentence in found for letter in _plain(sentence)]
    assert letters == [(name, letter) for name, sentence in _spoken(text) for letter in _plain(sentence)]


CHAT_LINES = st.lists(
    st.sampled_from(
        [
            *("03/05/2024, 19:00 - Ann: yes", "13/5/24, 7:00\u202fPM - Bob: no", "[2024-05-03, 19:00:12] ann lee: ok"),
            *(
                "99/99/9999, 99:99 - Cy: when",
                "03/05/2024, 19:00 - Ann left",
                "\u200e[03/05/24, 7:00:00 PM] Ann: \u200ehi",
            ),
            *(
                "",
                "more words",
                "Ann: pasted",
                "0000/00/00, 00:00 - x: y",
                "03/05/2024, 19:00 - : none",
                "3/4/05, 1:00 - Di: ",
            ),
        ]
    ),
    max_size=12,
)


@given(CHAT_LINES)
@examples(200)
def test_any_lines_of_a_chat_keep_their_words_and_lines(lines: list[str]) -> None:
    text = "\n".join([*(["03/05/2024, 19:00 - Ann: one"] * 3), *lines])
    items = read_transcripts("chat.txt", text.encode(), ParseLimits())
    assert [item.item for item in items] == [*range(len(items))]
    kept, whole = Counter[str](), text.split("\n")
    for item in items:
        assert item.document is not None
        assert item.offset is not None
        for turn in item.document.passages:
            assert 1 <= turn.first <= turn.last <= item.document.text.count("\n") + 1
            assert whole[item.offset : item.offset + turn.last] == item.document.text.split("\n")[: turn.last]
            kept.update(re.findall(r"[a-z]+", f"{turn.speaker or ''} {turn.text}".lower()))
    # Di says nothing; a label of the same speaker again may be left out.
    spoken = re.sub(r"(?m)^.* - Di: $|^.*?\d\d:\d\d.{0,10}?(?= - |\] )|PM|^Ann: (?=pasted)", "", text)
    assert not Counter(re.findall(r"[a-z]+", spoken.lower())) - kept


# Pages sent as text.

PAGE = "<html><body><p>The rehearsal is on <b>Friday</b>.</p><p>Bring&nbsp;scores.</p></body></html>"


def mail(body: str) -> str:
    raw = f"From: ann@choir.example\nSubject: x\nContent-Type: text/plain\n\n{body}\n"
    found = read_mail(raw.encode(), ParseLimits()).document
    assert found
    return found.text


@pytest.mark.parametrize(
    "body",
    [
        PAGE,
        f"<!DOCTYPE html>\n{PAGE}",
        f"<!-- made by a program -->\n{PAGE}",
        '<div dir="ltr">The rehearsal is on <b>Friday</b>.<br>\n<br>\nBring scores.<br></div>',
        "The rehearsal is on <b>Friday</b>.<br>\n<br>\nBring scores.<br>\n",
    ],
)
def test_a_page_sent_as_text_is_read_as_a_page(body: str) -> None:
    assert mail(body).split() == ["The", "rehearsal", "is", "on", "Friday.", "Bring", "scores."]
    assert " ".join(turn.text for turn in documents("a.txt", body)[0].passages).split()[:4] == [
        "The",
        "rehearsal",
        "is",
        "on",
    ]


@pytest.mark.parametrize(
    "body",
    [
        "Use this:\n<ul>\n<li>one</li>\n</ul>\n",
        "I wrote <br> and <p> where </p> belongs, see below.\n\nAnn\n\nBob wrote:\n> no tags\n> at all\n",
        "<ann@choir.example> wrote:\n> yes\n",
        "if a < b and c > d:\n    go on\n",
    ],
)
def test_a_mail_that_quotes_tags_keeps_them(body: str) -> None:
    assert mail(body).strip() == body.strip()
