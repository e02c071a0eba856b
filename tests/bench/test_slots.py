"""Slots of llama.cpp: a restored one spares the tokens that it holds, an erased one none."""

from pathlib import Path

import pytest

from tests.bench.slots import LlamaSlots
from tests.engine.models.served import write_nano

pytest.importorskip("xllamacpp", reason="llama.cpp is not installed")
CONTEXT = list(range(300, 360))


def test_a_restored_slot_spares_its_tokens(tmp_path: Path) -> None:
    slots = LlamaSlots(write_nano(tmp_path / "nano.gguf"), tmp_path / "slots", 256)
    file = slots.save(CONTEXT, "one.bin")
    assert file.stat().st_size > 1000
    assert slots.new_token([*CONTEXT, 400, 401]) == len(CONTEXT) + 2
    slots.new_token(list(range(500, 530)))
    assert slots.restored_token([*CONTEXT, 402, 403], "one.bin") == 2
    slots.erase()
    assert slots.new_token([*CONTEXT, 404]) == len(CONTEXT) + 1
