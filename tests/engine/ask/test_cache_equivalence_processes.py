"""Cache equivalence among processes: two at once with room for neither, and a series, each killed in the middle."""

from contextlib import ExitStack, closing
from pathlib import Path
from random import Random

import pytest

from tests.effort import slow_only
from tests.engine.ask.equivalence_home import BUDGET, Worker, open_store, prepare, unfinished, used, wrong_with


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model in it, and what it makes of every prompt with nothing kept."""
    folder = tmp_path_factory.mktemp("home")
    prepare(folder)
    return folder


@pytest.mark.slow
def test_two_processes_with_room_for_neither_are_bit_identical_to_a_cold_one(cold: Path) -> None:
    prompts = 40
    with ExitStack() as stack:
        workers = [stack.enter_context(closing(Worker(cold))) for _ in range(2)]
        for seed, worker in enumerate(workers):
            worker.begin(seed, prompts)
        for worker in workers:
            worker.finish()
    with open_store(cold) as (_, store):
        written = store.index.written()
    assert [(worker.codes, len(worker.said), worker.wrong()) for worker in workers] == [([0], prompts, [])] * 2
    assert min(sum(one["reused"] > 0 for one in worker.said) for worker in workers) > prompts // 10
    assert written > 2 * BUDGET, written


@pytest.mark.parametrize("kills", [3, *slow_only(10)])
def test_whenever_it_is_killed_the_store_is_sound_and_bit_identical_to_a_cold_run(cold: Path, kills: int) -> None:
    rng, left = Random(4), list[str]()
    with closing(Worker(cold)) as worker:
        for seed in range(kills):
            worker.begin(seed, 40, step=rng.randint(1, 400))
            worker.finish()
            left += unfinished(cold)
            assert (worker.codes[-1], used(cold) <= BUDGET, wrong_with(cold)) == (-9, True, "")
        worker.begin(kills, 12)
        worker.finish()
    assert (worker.codes[-1], worker.wrong(), used(cold) <= BUDGET) == (0, [], True)
    assert left or kills < 10  # of ten deaths some are in the middle of something
