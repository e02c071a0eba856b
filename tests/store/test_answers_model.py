"""The answer cache and dependent rows equal a model of a few dictionaries after any order of changes."""

from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from store.answers import AnswerBank, PendingVerification, RefreshCandidates, State, Verifications
from store.database import open_ledger
from store.search import QuestionVectors
from tests.effort import examples
from tests.store.answers_kit import EMBEDDER, WIDTH, by_hand, direction, entry, names, vectors

KEYS = ("a", "b", "c", "d", "e")
STATES: tuple[State, ...] = ("answered", "pending", "prefilled")


@dataclass(slots=True)
class Entry:
    """What the model knows of one entry."""

    state: State
    size: int
    used: float
    uses: int = 0
    tau: float | None = None
    vector: int | None = None  # its seed


@dataclass(slots=True)
class Model:
    """What the answer cache should hold."""

    budget: int
    entries: dict[str, Entry] = field(default_factory=dict)
    pendings: dict[str, str] = field(default_factory=dict)  # key -> the key that was matched
    hints: set[str] = field(default_factory=set)
    judged: list[bool] = field(default_factory=list)

    def keep(self, key: str, state: State, seed: int | None) -> None:
        """Store an entry, and evict what exceeds the budget."""
        former = self.entries.get(key)
        vector = seed if seed is not None else former.vector if former else None
        text = entry(key, state)
        size = 2 * len(key) + len(text.scope + text.writer + text.reply + "[]")
        size += 0 if vector is None else 4 * WIDTH
        if size > self.budget:
            self.drop(key)
            return
        others = {name: one for name, one in self.entries.items() if name != key}
        while sum(one.size for one in others.values()) + size > self.budget:
            name = min(others, key=lambda name: (others[name].uses, others[name].used, name))
            del others[name]
            self.drop(name)
        made = Entry(state, size, 1.0, vector=vector)
        if former:
            made.used, made.uses, made.tau = former.used, former.uses, former.tau
        self.entries[key] = made

    def drop(self, key: str) -> None:
        """Delete an entry and its dependent rows."""
        self.entries.pop(key, None)
        self.hints.discard(key)
        self.pendings = {own: matched for own, matched in self.pendings.items() if key not in (own, matched)}


_KEY = st.sampled_from(KEYS)
_STEP = st.one_of(
    st.tuples(st.just("keep"), _KEY, st.sampled_from(STATES), st.none() | st.integers(0, 3)),
    st.tuples(st.just("used"), _KEY),
    st.tuples(st.just("drop"), _KEY),
    st.tuples(st.just("tau"), _KEY, st.sampled_from([0.86, 0.9, 0.95])),
    st.tuples(st.just("owe"), _KEY, _KEY),
    st.tuples(st.just("settle"), _KEY, st.booleans()),
    st.tuples(st.just("hint"), _KEY),
    st.tuples(st.just("done"), _KEY),
    st.tuples(st.just("budget"), st.integers(20, 500)),
    st.tuples(st.just("look"), st.integers(0, 3)),
)


@examples(60, suppress_health_check=list(HealthCheck))
@given(st.lists(_STEP, max_size=40))
def test_any_order_of_changes_leaves_what_the_model_has(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]
) -> None:
    folder, model = tmp_path_factory.mktemp("bank"), Model(500)
    with closing(open_ledger(folder / "ledger.db", create=True)) as ledger:
        bank, verifications, hints, found = (
            AnswerBank(ledger),
            Verifications(ledger),
            RefreshCandidates(ledger),
            vectors(ledger),
        )
        for now, (fact, *words) in enumerate(steps, 2):
            if fact == "look":
                assert names(found, direction(words[0])) == by_hand(ledger, direction(words[0]))
            else:
                _change(fact, words, float(now), model, bank, verifications, hints)
            assert bank.size()[1] <= max(model.budget, sum(one.size for one in model.entries.values()))
        assert bank.size() == (len(model.entries), sum(one.size for one in model.entries.values()))
        assert {key: _told(bank, key) for key in KEYS} == {key: _expected(model, key) for key in KEYS}
        assert {pending.key.decode(): pending.matched.decode() for pending in verifications.all()} == model.pendings
        assert {key.decode() for key, *_ in hints.all()} == model.hints
        assert verifications.result_counts() == (len(model.judged), model.judged.count(False))
        _nothing_else_is_near(model, found)


def _change(
    fact: str,
    words: list[Any],
    now: float,
    model: Model,
    bank: AnswerBank,
    verifications: Verifications,
    hints: RefreshCandidates,
) -> None:
    key = str(words[0])
    name, there = key.encode(), model.entries.get(key)
    if fact == "keep":
        _, state, seed = words
        vector = None if seed is None else direction(seed).tobytes()
        bank.put(name, entry(key, state), model.budget, vector, 0.5, EMBEDDER)
        model.keep(key, state, seed)
    elif fact == "used":
        bank.record_use(name, 1, now)
        if there:
            there.uses, there.used = there.uses + 1, now
    elif fact == "drop":
        bank.drop(name)
        model.drop(key)
    elif fact == "tau":
        bank.raise_tau(name, words[1])
        if there:
            there.tau = max(there.tau or 0.0, words[1])
    elif fact == "owe":
        there = there if key != words[1] and words[1] in model.entries else None
        assert verifications.add(PendingVerification(name, words[1].encode(), 0.9, "Friday", now)) == bool(there)
        if there:
            model.pendings[key] = words[1]
    elif fact == "settle":
        verifications.resolve(name, correct=words[1], at=now)
        if model.pendings.pop(key, None):
            model.judged.append(words[1])
    elif fact == "hint":
        hints.add([name], "c1", now)
        model.hints |= {key} & model.entries.keys()
    elif fact == "done":
        hints.remove(name)
        model.hints.discard(key)
    else:
        model.budget = words[0]


def _told(bank: AnswerBank, key: str) -> tuple[object, ...] | None:
    found = bank.find(key.encode())
    return (found, found.uses, found.last_used) if found else None


def _expected(model: Model, key: str) -> tuple[object, ...] | None:
    one = model.entries.get(key)
    return (replace(entry(key, one.state), tau=one.tau), one.uses, one.used) if one else None


def _nothing_else_is_near(model: Model, found: QuestionVectors) -> None:
    """Find exactly the answered entries under their own vectors."""
    for seed in range(4):
        same = {key for key, one in model.entries.items() if one.vector == seed and one.state == "answered"}
        assert set(names(found, direction(seed), least=0.9999)) == same
