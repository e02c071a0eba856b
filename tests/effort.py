"""How much a test tries, a part of it in `make test` and all of it in `make test-slow`; and how long it waits."""

from collections.abc import Mapping
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet
from hypothesis import settings

PATIENCE_S = 300.0  # within which anything happens, on however busy a machine


def slow_only(*values: Any) -> list[ParameterSet]:
    """Return parameters that only `make test-slow` tries."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def sampled(cases: Mapping[str, Any], every: int = 6) -> list[ParameterSet]:
    """Return named parameters of which `make test` tries one in so many."""
    return [
        pytest.param(value, id=name, marks=[pytest.mark.slow] if at % every else [])
        for at, (name, value) in enumerate(cases.items())
    ]


def examples(count: int, **more: Any) -> settings:
    """Return settings for so many examples under the thorough profile, and a tenth of them under the quick one."""
    return settings(max_examples=max(1, round(count * settings().max_examples / 100)), **more)
