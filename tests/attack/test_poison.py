"""Poisoned mail: no control token, no hidden text, no connection, no link; what it planted goes with its file."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from engine.ingest.chunking import chunk
from engine.ingest.mail import read_mail
from engine.ingest.types import ParseLimits
from engine.llm.prompt import chunk_segment, question_segment
from engine.models.load import frame
from engine.models.types import Tokens, open_tokenizer
from tests.attack.lab import EVIL, NOW, Lab, mail
from tests.attack.poison import FACTS, PLANTED, TOKENS, Poison, corpus, honest
from tests.conftest import SHARED
from tests.demo import NANO

POISON = list(corpus())
REAL = ("tokenizer-smollm2", "stories260K", "stories260K-mailqa", "nano-prototype")
CONTROL = re.compile(
    r"<\|[^|<>\s]{1,30}\|>|<｜[^｜]{1,30}｜>|</?s>|\[/?INST\]|<<SYS>>|<(?:start|end)_of_turn>|<(?:eos|bos|pad|unk)>"
    r"|\[(?:TOOL_RESULTS|AVAILABLE_TOOLS|PAD|UNK|CLS|SEP)\]|</?think>|</?tool_call>"
)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where anything but a local socket is made."""
    usual = socket.socket.__init__

    def checked(own: socket.socket, family: int = -1, *rest: int, **more: int) -> None:
        assert family == socket.AF_UNIX, "a connection"
        usual(own, family, *rest, **more)

    monkeypatch.setattr(socket.socket, "__init__", checked)


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Return a home with honest and hostile mail."""
    lab = Lab(tmp_path_factory.mktemp("poison"))
    assert lab.read(honest() | {one.file: one.raw for one in POISON}) == []
    return lab


def segments(one: Poison) -> list[str]:
    """Return what of a mail, and of its text as a question, a model would read."""
    document = read_mail(one.raw, ParseLimits()).document
    assert document
    parts = chunk(document, document.passages)[:5]
    made = [chunk_segment(number, part) for number, part in enumerate(parts, 1)]
    return [*made, question_segment(document.text[:2000] + "?", NOW)]


def tokenizers() -> Iterator[tuple[str, Tokenizer]]:
    yield "nano", open_tokenizer(NANO / "tokenizer.json")
    for name in REAL if SHARED.is_dir() else ():
        yield name, open_tokenizer(SHARED / "models" / name / "tokenizer.json")


def test_the_corpus_is_large_enough() -> None:
    assert len({one.file for one in POISON}) == len(POISON) >= 60


def test_no_tokenizer_makes_a_control_token_of_a_hostile_mail() -> None:
    for name, tokenizer in tokenizers():
        controls = {id for id, token in tokenizer.get_added_tokens_decoder().items() if token.special}
        tokens = Tokens(tokenizer)
        for one in POISON:
            for segment in segments(one):
                assert controls.isdisjoint(tokens.text(segment[:20_000])), (name, one.file)


@pytest.mark.parametrize("name", TOKENS)
def test_the_segment_of_a_mail_has_no_control_token_as_text_either(name: str) -> None:
    (one,) = [poison for poison in POISON if (poison.kind, poison.name) == ("tokens", name)]
    for segment in segments(one)[:-1]:
        assert CONTROL.findall(segment) == []


@pytest.mark.parametrize("name", ["Qwen-Qwen2.5-7B-Instruct", "meta-llama-Llama-3.1-8B-Instruct"])
def test_no_mail_ends_a_turn_of_a_real_template(name: str) -> None:
    path = SHARED / "models" / "chat-templates" / f"{name}.jinja"
    if not path.is_file():
        pytest.skip("no chat templates beside this checkout")
    framing = frame(path.read_text("utf-8"), {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}, name)
    marks = set(CONTROL.findall(f"{framing}"))
    assert marks
    for one in POISON:
        assert not any(mark in segment for mark in marks for segment in segments(one)[:-1]), one.file


def test_lines_of_a_mail_cannot_pass_for_those_of_a_prompt() -> None:
    for one in POISON:
        for segment in segments(one)[:-1]:
            number, header, *lines = segment.removesuffix("\n").split("\n")
            assert re.fullmatch(r"\[\d+\]", number)
            assert not header.startswith(" ")
            assert all(line.startswith(" ") for line in lines), one.file


def test_hidden_text_is_not_indexed(poisoned: Lab) -> None:
    hidden = [one for one in POISON if one.kind == "hidden"]
    assert [one.file for one in hidden if PLANTED in str(poisoned.show(one.file)[0]["text"])] == []


def test_look_alike_senders_are_marked_beside_the_real_one(poisoned: Lab) -> None:
    senders = [one for one in POISON if one.kind == "sender"]
    assert [one.file for one in senders if not poisoned.show(one.file)[0].get("warnings")] == []


def test_an_answer_from_a_hostile_mail_names_its_file_and_goes_with_it(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    (fact,) = [one for one in FACTS if "fence" in one.question]
    path = lab.put("claim.eml", mail(f"{PLANTED} paints the fence.", sender=f"Eve <{EVIL}>", title=fact.title))
    lab.read()
    said = lab.ask(fact.question)
    assert PLANTED in (said.text or "")
    assert Path(said.sources[0].path) == path
    assert lab.ask(fact.question).tier == "exact"
    path.unlink()
    lab.read(honest())
    again = lab.ask(fact.question)
    assert fact.right in (again.text or "")
    assert PLANTED not in str(again.sources)
    with lab.open() as pkb:
        assert [one for one in pkb.search(PLANTED, k=50) if PLANTED in one.quote.lower()] == []
