"""Guessed tokens: whatever is guessed, the answer is the one that is written without; good guesses save steps."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.models.mlx import decode_ids
from engine.models.types import Drafter

IDS = st.integers(0, 5)
TEXTS = st.lists(st.lists(IDS, max_size=20), max_size=4)


@dataclass
class Reader:
    """What a model has read; it goes on with a function of all of it, so that a guess not taken back would show."""

    script: Sequence[int]
    read: list[int] = field(default_factory=list)
    steps: int = 0
    widest: int = 0

    def best(self, read: Sequence[int]) -> int:
        """Follow the script while it was followed, and then say something that depends on all that was read."""
        at = len(read)
        return self.script[at] if list(read) == list(self.script[:at]) else (sum(read) + 7 * at) % 6

    def step(self, ids: Any) -> Any:
        import mlx.core as mx

        found = []
        for id in ids.tolist():
            self.read.append(id)
            found.append(self.best(self.read))
        self.steps, self.widest = self.steps + 1, max(self.widest, len(found))
        return mx.array(found)

    def undo(self, count: int) -> None:
        del self.read[len(self.read) - count :]


def learnt(texts: Sequence[Sequence[int]], most: int, end: tuple[int, ...] = ()) -> Drafter:
    drafts = Drafter(lambda: texts, most)
    drafts.end = end
    drafts.learn()
    return drafts


def written(script: Sequence[int], room: int, drafts: Drafter | None, learn_at: int = 0) -> tuple[list[int], Reader]:
    """Write on; where texts are learnt late, they are after so many tokens."""
    import mlx.core as mx

    reader = Reader([*script, 0])
    found = list[int]()
    for id in decode_ids(mx.array([reader.best([])]), reader.step, reader.undo, room, drafts):
        found.append(id)
        if drafts and len(found) == learn_at:
            drafts.learn()
    assert reader.read == found[:-1]  # of each token but the last, the model has read it once
    return found, reader


@given(st.lists(IDS, min_size=1, max_size=40), TEXTS, st.integers(1, 9), st.data())
def test_any_guesses_leave_the_answer_as_it_is(
    script: list[int], texts: list[list[int]], most: int, data: st.DataObject
) -> None:
    room = data.draw(st.integers(0, len(script)))
    texts = [*texts, script] if data.draw(st.booleans()) else texts
    drafts = Drafter(lambda: texts, most)
    found, reader = written(script, room, drafts, learn_at=data.draw(st.integers(1, 5)))
    assert found == script[:room]
    assert reader.widest <= 1 + most
    assert reader.steps <= max(0, room - 1 - drafts.right)


def test_an_answer_that_was_foretold_takes_few_steps() -> None:
    script = list(range(5, 45))
    found, reader = written(script, 40, learnt([[1, 2, 3], script], 8))
    assert found == script
    assert reader.steps == 5  # 4 that were guessed and the next, behind the first; then 8 and the next each time


def test_guesses_are_as_long_as_they_were_good() -> None:
    drafts = learnt([list(range(30))], 8)
    drafts.add(3)
    widths = []
    for right in (4, 8, 3, 0, 0, 0, 0, 1):
        widths.append(len(drafts.next()))
        assert drafts.judge(drafts.next(), list(range(4, 4 + right))) == min(right, widths[-1])
    assert widths == [4, 8, 8, 8, 4, 2, 1, 1]
    assert len(drafts.next()) == 2


@pytest.mark.parametrize(
    ("texts", "said", "guess"),
    [
        ([[1, 2, 3, 4]], [1], [2, 3, 4]),
        ([[1, 2, 3, 4], [1, 5]], [1], [5]),  # the likeliest text is the last
        ([[1, 2, 3], [9, 2, 4]], [1, 2], [3]),  # two tokens tell more than one
        ([[1, 2, 3]], [8], []),
        ([[1, 2]], [2], []),  # at a text's end nothing is known
        ([], [1, 2, 1], [2, 1]),  # an answer may repeat itself
        ([], [1, 2, 3, 1, 2, 3], []),  # but a third time is not guessed
        ([[4, 1, 2, 3, 1, 2, 3, 5]], [4, 1, 2, 3, 1, 2, 3], []),
    ],
)
def test_what_came_after_the_same_tokens_comes_again(texts: list[list[int]], said: list[int], guess: list[int]) -> None:
    drafts = learnt(texts, 8)
    for id in said:
        drafts.add(id)
    assert drafts.next() == guess


@given(st.lists(st.integers(0, 99), min_size=1, max_size=30, unique=True), st.integers(1, 9))
def test_no_guess_prolongs_a_loop(span: list[int], most: int) -> None:
    script = span * (1 + 90 // len(span))
    drafts = learnt([], most)
    found, _ = written(script, len(script), drafts)
    assert found == script
    assert drafts.right <= len(span) + most


def test_the_end_of_the_likeliest_text_is_the_end_of_the_answer() -> None:
    drafts = learnt([[1, 2], [3, 4]], 8, (98, 99))
    drafts.add(3)
    assert drafts.next() == [4, 98, 99]
    drafts.add(1)
    assert drafts.next() == [2]


def test_texts_that_are_learnt_late_go_on_with_what_was_said() -> None:
    drafts = Drafter(lambda: [[1, 2, 3, 4]], 8)
    drafts.add(1)
    drafts.add(2)
    assert drafts.next() == []
    drafts.learn()
    assert drafts.next() == [3, 4]


def test_only_what_was_yielded_counts_as_guessed_right() -> None:
    drafts, reader = learnt([[1, 2, 3, 4, 5]], 8), Reader([1, 2, 3, 4, 5, 0])
    import mlx.core as mx

    for id in decode_ids(mx.array([1]), reader.step, reader.undo, 5, drafts):
        if id == 4:  # as at a stop
            break
    assert drafts.right == 3


def test_without_drafts_each_token_takes_a_step() -> None:
    found, reader = written([3, 1, 3, 1, 3], 5, None)
    assert (found, reader.steps, reader.widest) == ([3, 1, 3, 1, 3], 4, 1)
