"""`pkb adapter train`: learns from accepted answers, is judged by others, and is used only if it is better."""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from engine.idle.finetune import Examples, Score, collect, f1, finetune, plan_training, train_at_idle
from engine.idle.types import OutOfTime
from engine.session import session
from store.answers import AnswerBank
from tests.cli.conftest import Pkb
from tests.cli.taught_home import teach
from tests.demo import NANO, environment


@pytest.fixture(scope="module")
def lessons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home in which quotes have answered 56 questions, to be copied."""
    folder = tmp_path_factory.mktemp("lessons")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(folder).items():
            patch.setenv(name, value)
        teach(folder)
    return folder


@pytest.fixture
def taught(lessons: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Pkb:
    """Return pkb in such a home, which answers with nano from now on."""
    folder = Path(shutil.copytree(lessons, tmp_path / "taught"))
    pkb = Pkb(folder, monkeypatch, capsys)
    pkb("config", "set", "model.name", str(NANO))
    return pkb


@pytest.mark.slow
def test_a_better_adapter_answers_from_now_on_and_can_be_rolled_back(taught: Pkb) -> None:
    first = taught("adapter", "train", "--iters", "25", "--json").row
    assert first["version"] == 1
    assert first["after"]["f1"] > first["before"]["f1"]
    assert first["context_reused"] > first["context_computed"] > 0
    (listed,) = taught("adapter", "list", "--json").row["adapters"]
    assert (listed["name"], listed["kind"], listed["tasks"]) == ("own", "activated", ["answer"])
    assert listed["training"]["f1_after"] == pytest.approx(first["after"]["f1"], abs=1e-3)
    row = taught("ask", "Where is the summer hike?", "--json").row
    assert row["adapter"] == "own"
    assert len(row["answer"].split()) > 3  # a sentence, as quotes answered, not a few words
    assert taught("adapter", "rollback", "own").code == 2
    modes = {path.stat().st_mode & 0o077 for path in (taught.folder / "home" / "adapters").rglob("*")}
    assert modes == {0}
    shown = taught("forget", "--question", "Where is the summer hike?", "--dry-run")
    assert "pkb: adapter own was trained on this: it is removed" in shown.err
    assert taught("forget", "--question", "Where is the summer hike?", "--yes").code == 0
    assert taught("adapter", "list", "--json").row["adapters"] == []


@pytest.mark.slow
def test_one_that_is_not_better_changes_nothing(taught: Pkb) -> None:
    ran = taught("adapter", "train", "--iters", "1")
    assert "not better than before: nothing was changed" in ran.out
    assert taught("adapter", "list", "--json").row["adapters"] == []
    assert taught("config", "get", "adapter.answer").out.strip() == ""
    assert not any((taught.folder / "home" / "adapters").glob("*"))


def test_a_dry_run_counts_and_trains_nothing(taught: Pkb) -> None:
    row = taught("adapter", "train", "--dry-run", "--json").row
    assert (row["examples"] + row["held_out"], row["enough"], row["version"]) == (56, True, None)
    assert row["before"] is None
    assert not (taught.folder / "home" / "adapters").exists()


def test_answers_marked_wrong_are_no_examples(taught: Pkb) -> None:
    taught("model", "use", "quote")
    taught("ask", "Where is the spring picnic?")
    taught("wrong")
    taught("ask", "Where is the spring picnic?")
    taught("config", "set", "model.name", str(NANO))
    row = taught("adapter", "train", "--dry-run", "--json").row
    assert row["examples"] + row["held_out"] == 55
    assert row["left_out"]["marked wrong"] == 1


def test_an_answer_whose_message_is_gone_is_no_example(fresh: Pkb) -> None:
    teach(fresh.folder, 6)
    fresh("config", "set", "model.name", str(NANO))
    before = fresh("adapter", "train", "--dry-run", "--json").row
    (fresh.folder / "mail" / "1.eml").unlink()
    fresh("ingest")
    after = fresh("adapter", "train", "--dry-run", "--json").row
    assert after["examples"] + after["held_out"] < before["examples"] + before["held_out"] == 6


def test_too_few_examples_are_an_error(fresh: Pkb) -> None:
    teach(fresh.folder, 5)
    fresh("config", "set", "model.name", str(NANO))
    ran = fresh("adapter", "train")
    assert ran.code == 2
    assert "too little to learn from" in ran.err


def test_quotes_cannot_be_trained(fresh: Pkb) -> None:
    teach(fresh.folder, 5)
    assert fresh("adapter", "train").code == 2


def test_what_is_held_out_is_never_learnt(taught: Pkb) -> None:
    with session(environment(taught.folder)) as opened:
        found = collect(opened)
        assert {one.asked for one in found.trained} & {one.asked for one in found.held_out} == set()
        key, *_ = (key for key, _ in AnswerBank(opened.ledger).answered())
        AnswerBank(opened.ledger).drop(key)
        later = collect(opened)
    assert {one.asked for one in later.held_out} <= {one.asked for one in found.held_out}
    assert later.digest != found.digest or len(later.held_out) < len(found.held_out)


@pytest.mark.slow
def test_an_interrupted_training_goes_on(taught: Pkb) -> None:
    steps = list[int]()

    def is_over() -> bool:
        return bool(steps)

    with session(environment(taught.folder)) as opened:
        with pytest.raises(OutOfTime):
            finetune(
                opened, updates=10, is_over=is_over,
                on_progress=lambda what, done, _: steps.append(done) if what == "training" else None,
            )  # fmt: skip
        assert steps == [5]
        found = finetune(opened, updates=10)
    assert (found.resumed, found.updates) == (5, 10)


@pytest.mark.slow
def test_an_idle_run_that_ends_leaves_the_rest_to_the_next(taught: Pkb) -> None:
    calls = iter(range(1000))
    with session(environment(taught.folder)) as opened:
        assert [job.subject for job in plan_training(opened)] == ["own"]
        assert train_at_idle(opened, lambda: next(calls) > 3).state == "continued"
        assert [job.subject for job in plan_training(opened)] == ["own"]
        opened.ledger.set("adapter.trained", "50")
        assert plan_training(opened) == []


def test_idle_runs_train_only_where_they_may(taught: Pkb) -> None:
    jobs = taught("idle", "--dry-run", "--json").row["units"]
    assert [job for job in jobs if job["job"] == "train"] == []
    taught("config", "set", "adapter.train", "idle")
    jobs = taught("idle", "--dry-run", "--json").row["units"]
    assert [job["state"] for job in jobs if job["job"] == "train"] == ["planned"]


@pytest.mark.parametrize(
    ("given", "wanted", "score"),
    [("the park", "the park", 1.0), ("", "", 1.0), ("", "the park", 0.0), ("blue cheese", "blue moon cheese", 0.8)],
)
def test_f1_is_that_of_words(given: str, wanted: str, score: float) -> None:
    assert f1(given, wanted) == pytest.approx(score, abs=0.01)


def test_more_right_words_do_not_make_up_for_fewer_whole_answers() -> None:
    assert Score(5, 0.7, 10).beats(Score(5, 0.6, 10))
    assert not Score(4, 0.7, 10).beats(Score(5, 0.6, 10))
    assert not Score(6, 0.6, 10).beats(Score(5, 0.6, 10))


def test_examples_without_judges_are_not_enough() -> None:
    assert not Examples((), (), Counter()).are_enough
