"""How much room a prompt takes in nodes, by what the layers of a model keep, and what whole snapshots would take.

Run `python -m tests.bench.forms`. Shapes are those of real models; they are filled with noise, in bfloat16.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from engine.models import caches, runtime

SEGMENTS = (250, 150, 150, 150, 150, 150)  # tokens: system, chunks


@dataclass(frozen=True, slots=True)
class Shape:
    """Layers as they keep: heads and width of keys, layers that keep all tokens, windows, numbers of running states."""

    heads: int
    width: int
    full: int
    windowed: int = 0
    window: int = 0
    states: tuple[tuple[int, ...], ...] = ()  # of each of three layers in four


SHAPES = {
    "30 layers, 3 heads of 64, all tokens": Shape(3, 64, 30),
    "26 layers, 1 head of 256, 22 see 512 tokens": Shape(1, 256, 4, 22, 512),
    "32 layers, 4 heads of 256, 24 keep a state of 32 x 128 x 128": Shape(
        4, 256, 8, states=((1, 3, 8192), (1, 32, 128, 128))
    ),
}


class Noise:
    """A cache of a shape, which reads noise."""

    def __init__(self, shape: Shape, dtype: Any) -> None:
        from mlx_lm.models.cache import ArraysCache, KVCache, RotatingKVCache

        self.shape, self.dtype = shape, dtype
        self.cache: list[Any] = [KVCache() for _ in range(shape.full)]
        self.cache += [RotatingKVCache(max_size=shape.window) for _ in range(shape.windowed)]
        self.states = [ArraysCache(size=len(shape.states)) for _ in range(3 * shape.full if shape.states else 0)]
        self.cache += self.states

    def read(self, count: int) -> None:
        """Read so many tokens."""
        import mlx.core as mx

        for layer in self.cache[: self.shape.full + self.shape.windowed]:
            size = (1, self.shape.heads, count, self.shape.width)
            layer.update_and_fetch(mx.random.normal(size).astype(self.dtype), mx.random.normal(size).astype(self.dtype))
        for layer in self.states:
            conv, state = (mx.random.normal(size) for size in self.shape.states)
            layer.cache = [conv.astype(self.dtype), state]
        caches.compute(self.cache)


def sizes() -> None:
    """Print what the nodes of one prompt take in all, and what whole snapshots behind every segment would."""
    import mlx.core as mx

    for name, shape in SHAPES.items():
        noise, ours, theirs = Noise(shape, mx.bfloat16), [], []
        for at, count in enumerate(SEGMENTS):
            noise.read(count)
            end = sum(SEGMENTS[: at + 1])
            kept = caches.cut(noise.cache, end - count, end, caches.settle(noise.cache, count))
            ours.append(sum(memoryview(one.buffer).nbytes for one in kept))
            both = [array for layer in noise.cache[: shape.full] for array in layer.keys_and_values()]
            rest = [array for layer in noise.cache[shape.full :] for array in _arrays(layer)]
            theirs.append(sum(array.nbytes for array in (*both, *rest)))
        said = f"{sum(ours) / 1e6:6.1f} MB in nodes (the last {ours[-1] / 1e6:.1f})"
        print(f"{name}: {said}, {sum(theirs) / sum(ours):.2f} times that in snapshots")


def _arrays(layer: Any) -> Sequence[Any]:
    return layer.cache if hasattr(layer, "cache") else (layer.keys, layer.values)


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        runtime.load_blas(Path(place))
        sizes()
