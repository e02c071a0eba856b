"""The two array libraries a small encoder runs on: numpy (fast on a CPU) and MLX (fast on a GPU); it knows no model."""

import numpy as np
from numpy.typing import NDArray

from engine.models.bert import Arrays

Floats = NDArray[np.float32]

EPSILON = 1e-12  # the layer norm of BERT
ROWS = 32  # of one GELU block: three blocks of 32 x 1536 floats stay in a core's second-level cache
# -logit(Phi(x)) / x as a polynomial in x squared, highest power first: weighted least maximum over |x| < 5.5
# (Lawson's iteration), so that x / (1 + exp(x * p(x^2))) is GELU within 7e-8; p keeps its sign beyond.
PHI = tuple(
    np.float32(c)
    for c in (
        -3.61123399e-09,
        2.66892871e-07,
        -7.93821976e-06,
        1.10480323e-04,
        6.62599679e-05,
        -0.072668567,
        -1.59576843,
    )
)


def numpy_arrays() -> Arrays:
    """Give numpy, working in place."""
    return Arrays(np.asarray, np.concatenate, _norm, _softmax, _gelu)


def mlx_arrays() -> Arrays:
    """Give MLX on its default device."""
    import mlx.core as mx

    return Arrays(
        array=mx.array,
        join=mx.concatenate,
        norm=lambda x, gain, shift: mx.fast.layer_norm(x, gain, shift, EPSILON),
        softmax=lambda x: mx.softmax(x, axis=-1),
        gelu=lambda x: x * (1 + mx.erf(x * 0.5**0.5)) * 0.5,
    )


def _norm(x: Floats, gain: Floats, shift: Floats) -> Floats:
    x -= x.mean(axis=-1, keepdims=True)
    spread = np.einsum("nd,nd->n", x, x)
    x *= (1 / np.sqrt(spread / np.float32(x.shape[-1]) + np.float32(EPSILON)))[:, None]
    x *= gain
    x += shift
    return x


def _softmax(x: Floats) -> Floats:
    x -= x.max(axis=-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=-1, keepdims=True)
    return x


def _gelu(x: Floats) -> Floats:
    square, power = np.empty((2, min(ROWS, len(x)), x.shape[1]), np.float32)
    with np.errstate(over="ignore"):  # exp of a large number is inf, and x / inf is the right zero
        for at in range(0, len(x), ROWS):
            block = x[at : at + ROWS]
            _gelu_block(block, square[: len(block)], power[: len(block)])
    return x


def _gelu_block(x: Floats, square: Floats, power: Floats) -> None:
    np.multiply(x, x, out=square)
    np.multiply(square, PHI[0], out=power)
    for coefficient in PHI[1:-1]:
        power += coefficient
        power *= square
    power += PHI[-1]
    power *= x
    np.exp(power, out=power)
    power += np.float32(1)
    x /= power
