"""Guessed tokens: whatever is guessed, the answer is the one that is written without; good guesses save steps."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.models.drafts import NO_ID, Drafts
from engine.models.greedy import goes_on

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


def written(script: Sequence[int], room: int, drafts: Drafts) -> tuple[list[int], Reader]:
    import mlx.core as mx

    reader = Reader([*script, 0])
    found = list(goes_on(mx.array([reader.best([])]), reader.step, reader.undo, room, drafts))
    assert reader.read == found[:-1]  # of each token but the last, the model has read it once
    return found, reader


@given(st.lists(IDS, min_size=1, max_size=40), TEXTS, st.integers(0, 9), st.data())
def test_any_guesses_leave_the_answer_as_it_is(
    script: list[int], texts: list[list[int]], most: int, data: st.DataObject
) -> None:
    room = data.draw(st.integers(0, len(script)))
    drafts = Drafts([*texts, script] if data.draw(st.booleans()) else texts, most)
    found, reader = written(script, room, drafts)
    assert found == script[:room]
    assert reader.widest <= 1 + most
    assert reader.steps <= max(0, room - 1 - drafts.right)


def test_an_answer_that_was_foretold_takes_few_steps() -> None:
    script = list(range(5, 45))
    found, reader = written(script, 40, Drafts([[1, 2, 3], script], 8))
    assert found == script
    assert reader.steps == 5  # 4 guessed ones and the next behind the first token, then 8 and the next, time and again


def test_guesses_are_as_long_as_they_were_good() -> None:
    drafts = Drafts([list(range(30))], 8)
    drafts.add(3)
    widths = []
    for right in (4, 8, 3, 0, 0, 0, 0, 1):
        widths.append(len(drafts.next()))
        assert drafts.judge(drafts.next(), list(range(4, 4 + right))) == min(right, widths[-1])
    assert widths == [4, 8, 8, 8, 4, 2, 1, 1]
    assert len(drafts.next()) == 2
    assert drafts.right == 4 + 8 + 3 + 1


@pytest.mark.parametrize(
    ("texts", "said", "guess"),
    [
        ([[1, 2, 3, 4]], [1], [2, 3, 4]),
        ([[1, 2, 3, 4], [1, 5]], [1], [5]),  # the likeliest text is the last
        ([[1, 2, 3], [9, 2, 4]], [1, 2], [3]),  # two tokens tell more than one
        ([[1, 2, 3]], [8], []),
        ([[1, 2]], [2], []),  # at a text's end nothing is known
        ([], [1, 2, 1], [2, 1]),  # an answer may repeat itself
    ],
)
def test_what_came_after_the_same_tokens_comes_again(texts: list[list[int]], said: list[int], guess: list[int]) -> None:
    drafts = Drafts(texts, 8)
    for id in said:
        drafts.add(id)
    assert drafts.next() == guess


def test_the_end_of_the_likeliest_text_is_the_end_of_the_answer() -> None:
    drafts = Drafts([[1, 2], [3, 4]], 8)
    drafts.end(99)
    drafts.add(3)
    assert drafts.next() == [4, 99]
    unknown = Drafts([[3, 4]], 8)
    unknown.end(NO_ID)
    unknown.add(3)
    assert unknown.next() == [4]


def test_nothing_is_guessed_of_no_tokens() -> None:
    drafts = Drafts([[1, 2, 3]], 0)
    drafts.add(1)
    assert (bool(drafts), drafts.next()) == (False, [])
