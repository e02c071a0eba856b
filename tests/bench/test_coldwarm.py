"""Cold against warm: what counts as a difference, and real engines under each condition."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from engine.session import session
from engine.settings import save
from tests.bench.coldwarm import (
    Difference,
    Reply,
    answered,
    cases,
    compare,
    main,
    partners,
    reply_of,
    table,
)
from tests.bench.home import NANO, environment
from tests.engine.models.served import TEMPLATE, free_port, write_nano

TOPS = ({"a": -0.1, "b": -3.0}, {"c": -0.2, "d": -2.0}, {"e": -0.3})


def test_equal_answers_have_no_gap() -> None:
    assert compare("warm", Reply("ace", TOPS), Reply("ace", TOPS, 10, 9)) == Difference("warm", 10, None, 0.0, 0.9)


def test_the_first_token_that_differs_is_found_and_later_ones_do_not_count_as_a_gap() -> None:
    other = ({"a": -0.1, "b": -3.0}, {"c": -2.5, "d": -0.1}, {"e": -9.0})
    found = compare("warm", Reply("ace", TOPS), Reply("ade", other))
    assert found.first == 1
    assert found.gap == pytest.approx(2.3)


def test_an_answer_that_goes_on_differs_where_the_other_ends() -> None:
    assert compare("warm", Reply("ac", TOPS[:2]), Reply("ace", TOPS)).first == 2


def test_without_log_probabilities_characters_are_compared() -> None:
    found = compare("warm", Reply("ace"), Reply("acd", TOPS))
    assert (found.first, found.gap) == (2, None)
    assert compare("warm", Reply("ace"), Reply("acd")).first == 2


def test_no_two_prompts_begin_alike_and_each_holds_what_its_question_is_about() -> None:
    made = [case for case, _ in cases(6, (1, 3))]
    assert [len(case.documents) for case in made] == [1, 3, 1, 3, 1, 3]
    assert len({case.system[0] for case in made}) == 6


def test_partners_share_the_beginning_of_a_prompt_and_ask_something_else() -> None:
    case, spare = cases(2, (4,))[1]
    shorter, longer, edited = partners(case, spare).values()
    assert (len(shorter.documents), len(longer.documents), len(edited.documents)) == (2, 5, 4)
    assert longer.documents[:4] == case.documents
    assert edited.documents[:3] == case.documents[:3]
    assert edited.documents[3][:100] == case.documents[3][:100]
    assert edited.documents[3] != case.documents[3]
    assert case.question not in {shorter.question, longer.question, edited.question}


@pytest.mark.parametrize(
    "top",
    [
        [{"id": 7, "token": "a", "logprob": -0.5}, {"id": 9, "token": "a", "logprob": -1}],
        [{"token": "\ufffd", "bytes": [195], "logprob": -0.5}, {"token": "\ufffd", "bytes": [196], "logprob": -1}],
    ],
)
def test_a_completion_is_read_and_tokens_of_the_same_text_are_told_apart(top: list[object]) -> None:
    choice = {"message": {"content": "a"}, "logprobs": {"content": [{"top_logprobs": top}]}}
    usage = {"prompt_tokens": 20, "prompt_tokens_details": {"cached_tokens": 19}}
    found = reply_of({"choices": [choice], "usage": usage})
    assert (found.text, len(found.tops[0]), found.prompt, found.reused) == ("a", 2, 20, 19)


def test_a_completion_without_log_probabilities_is_read() -> None:
    assert reply_of({"choices": [{"message": {"content": "a"}, "logprobs": None}]}) == Reply("a")


def test_the_table_counts_by_condition() -> None:
    rows = [Difference("warm", 10, None, 0.0, 0.9), Difference("warm", 10, 4, 0.25, 0.7)]
    assert list(table(rows))[-1] == "| warm | 2 | 1 [0.09, 0.91] | 4 | 0.25 | 0.80 |"


@pytest.mark.slow
def test_pkb_answers_bit_identically_behind_an_edited_prompt_and_in_another_session(tmp_path: Path) -> None:
    case, spare = cases(1, (2,))[0]
    edited = partners(case, spare)["behind an edited prompt"]
    found = list[Reply]()
    for name, first in (("one", case), ("two", edited)):
        save(Path(environment(tmp_path / name)["PKB_CONFIG"]), "model.name", str(NANO))
        for given in (first, case):
            with session(environment(tmp_path / name)) as opened:
                opened.make()
                assert opened.model
                found.append(answered(opened.model.load(), given, 6))
    cold, again, _, behind = found
    assert [compare("", cold, one).gap for one in (again, behind)] == [0.0, 0.0]
    assert (cold.tokens == again.tokens == behind.tokens, len(cold.tokens)) == (True, 6)
    assert cold.reused == 0
    assert 0 < (behind.reused or 0) < (again.reused or 0) < (cold.prompt or 0)


@pytest.mark.slow
def test_pkb_is_the_same_cold_and_warm_in_processes_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pkb", "--model", str(NANO), "--prompts", "1", "--documents", "2", "--tokens", "8", "--json"]) == 0
    rows = [Difference(**row) for row in json.loads(capsys.readouterr().out)]
    assert [(row.first, row.gap) for row in rows] == [(None, 0.0)] * 5
    assert all(row.reused for row in rows)


@pytest.mark.slow
def test_real_servers_are_started_asked_and_started_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed")
    (tmp_path / "hub").mkdir()
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    port = free_port()
    file = write_nano(tmp_path / "nano.gguf")
    commands = {
        f"http://127.0.0.1:{port}": [
            *("-m", "tests.engine.models.served", str(file), str(port), str(tmp_path)),
        ],
        f"http://127.0.0.1:{port}#default_model": [
            *("-m", "mlx_lm.server", "--model", str(NANO), "--port", str(port), "--chat-template", TEMPLATE),
        ],
    }
    for url, words in commands.items():
        start = shlex.join([sys.executable, *words])
        main([url, "--start", start, "--prompts", "1", "--documents", "1", "--tokens", "4", "--json"])
        rows = [Difference(**row) for row in json.loads(capsys.readouterr().out)]
        assert len(rows) == 5
        assert all(row.gap is not None and row.reused is not None for row in rows)
        assert rows[0].reused == pytest.approx(1, abs=0.1)
