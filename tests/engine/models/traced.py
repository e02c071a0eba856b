"""Counts the operations of the products that a llama's layers really compute, as they are called."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from engine.models.mlx import Mlx


@contextmanager
def traced(model: Mlx) -> Iterator[list[int]]:
    """Trace every product while in here; what is given holds one number, the count so far.

    Rows times columns times width, twice, for each linear layer; and the same for the two products of attention.
    """
    from mlx_lm.models import base, llama

    counted = [0]
    product = type(model.model.model.layers[0].mlp.down_proj)
    linear, attention = product.__call__, base.scaled_dot_product_attention

    def traced_linear(layer: Any, rows: Any) -> Any:
        counted[0] += 2 * rows.shape[0] * rows.shape[1] * layer.weight.size
        return linear(layer, rows)

    def traced_attention(queries: Any, keys: Any, values: Any, *rest: Any, **named: Any) -> Any:
        _, heads, rows, width = queries.shape
        counted[0] += 2 * 2 * heads * rows * width * keys.shape[2]
        return attention(queries, keys, values, *rest, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(product, "__call__", traced_linear)
        patch.setattr(llama, "scaled_dot_product_attention", traced_attention)
        yield counted
