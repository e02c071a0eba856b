"""Exact nearest vectors by 8-bit estimates: a bound rules out most rows, and only the others are read in full.

Vectors are turned to the axes along which a shard's differ most, and their first coordinates stored in 8 bits. What the
other coordinates add to a dot product is at most the product of their lengths (Cauchy and Schwarz).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from store.hits import Vectors

AXES = 192  # of MiniLM's 384: .95 of the squares of its vectors, and 1 to 3 rows in a hundred are read in full
LEAST = 4_096  # rows, fewer of which are scanned in full: 2 MB and half a millisecond at 384 numbers
_BLOCK = 2_048  # rows turned into floats at a time, so that they stay in the processor's cache
_ROUNDING = 1e-5  # of single precision, in a dot product of unit vectors
_MANY = 0.25  # of the rows: a scan of all is faster


def estimates_of(matrix: Vectors, axes: int = AXES, least: int = LEAST) -> dict[str, NDArray[Any]]:
    """Return the arrays that estimates are made from; none for so few or so short rows that a full scan is as fast."""
    rows, width = matrix.shape
    if rows < least or width <= axes:
        return {}
    turn = np.ascontiguousarray(np.linalg.eigh(matrix.T @ matrix)[1][:, ::-1][:, :axes], np.float32)
    front = matrix @ turn
    scale = np.maximum(np.abs(front).max(1), np.finfo(np.float32).tiny) / np.float32(127)
    rounded = np.rint(front / scale[:, None])
    return {
        "axes": turn,
        "front": rounded.astype(np.int8),
        "scale": scale,
        "rest": np.linalg.norm(matrix - front @ turn.T, axis=1),
        "error": np.linalg.norm(front - rounded * scale[:, None], axis=1).max(keepdims=True),
    }


@dataclass(frozen=True, slots=True)
class VectorScores:
    """The dot products of a shard's vectors with one: estimates, and by how much each may be too low; 0 if exact."""

    matrix: Vectors
    values: NDArray[np.float32]
    slack: NDArray[np.float32] | None


def estimate(arrays: Mapping[str, NDArray[Any]], vector: Vectors) -> VectorScores:
    """Estimate the dot products of a shard's vectors with a unit vector."""
    matrix: Vectors = arrays["vectors"]
    if "front" not in arrays:
        return VectorScores(matrix, matrix @ vector, None)
    front, turned = arrays["front"], vector @ arrays["axes"]
    values = np.empty(len(front), np.float32)
    for start in range(0, len(front), _BLOCK):
        end = start + _BLOCK
        np.dot(front[start:end].astype(np.float32), turned, out=values[start:end])
    values *= arrays["scale"]
    others = np.float32(np.linalg.norm(vector - arrays["axes"] @ turned))
    error = arrays["error"][0] * np.linalg.norm(turned) + np.float32(_ROUNDING)
    return VectorScores(matrix, values, arrays["rest"] * others + error)


def exact(
    parts: Sequence[VectorScores], inside: Sequence[NDArray[np.bool_]], vector: Vectors, limit: int
) -> list[NDArray[np.float32]]:
    """Return the dot products of all rows that may be among the best `limit` of those inside; -inf for the others."""
    places = [np.flatnonzero(use) for use in inside]
    floor, rows = np.float32(-np.inf), np.concatenate(places)
    if len(rows) > limit:
        values = np.concatenate([part.values[place] for part, place in zip(parts, places, strict=True)])
        best = np.argpartition(values, len(values) - limit)[len(values) - limit :]
        owners = np.searchsorted(np.cumsum([len(place) for place in places]), best, "right")
        own = (part.matrix[rows[best[owners == number]]] @ vector for number, part in enumerate(parts))
        floor = min(products.min(initial=np.inf) for products in own)
    return [_exact(part, use, vector, floor) for part, use in zip(parts, inside, strict=True)]


def _exact(part: VectorScores, use: NDArray[np.bool_], vector: Vectors, floor: np.float32) -> NDArray[np.float32]:
    found = np.full(len(part.values), -np.inf, np.float32)
    if part.slack is None:
        return np.where(use, part.values, found)
    rows = np.flatnonzero(use & (part.values + part.slack >= floor))
    found[rows] = (part.matrix @ vector)[rows] if len(rows) > _MANY * len(found) else part.matrix[rows] @ vector
    return found
