"""The floating-point operations of a model's steps, by formula: an Mlx that counts its rows and what they attend to."""

import sys
from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.llm.resident import ResidentModel
from engine.models import kv_cache
from engine.models.mlx import Mlx
from engine.models.types import Drafter

if TYPE_CHECKING:
    from engine.models.kv_cache import Cache


@dataclass(frozen=True, slots=True)
class Size:
    """The sizes that FLOPs are computed from: parameters of layers and head, number of layers, width of attention.

    `width` is that of all query heads together.
    """

    parameters: int
    head_parameters: int
    layers: int
    width: int


@dataclass(slots=True)
class Work:
    """Rows read and decoded, rejected drafts among them, and the pairs that attention compared; mutable.

    `pairs` counts, for each token, all tokens before its step and all of its step; `generated` the tokens decoded that
    were no rejected drafts. `behind` has the length of each cache in use behind which rows are decoded.
    """

    read: int = 0
    decoded: int = 0
    pairs: int = 0
    generated: int = 0
    behind: dict[int, int] = field(default_factory=dict)


def flops(size: Size, work: Work) -> float:
    """Return the floating-point operations of the counted steps.

    2 for each parameter and token (a product and a sum), and 4 for each layer, unit of width and pair of tokens: 2 for
    queries with keys and 2 for weights with values (Hoffmann et al. 2022, appendix F, without softmax and norms). The
    head counts for decoded tokens only: prefill computes no logits.
    """
    products = size.parameters * (work.read + work.decoded) + size.head_parameters * work.decoded
    return 2.0 * products + 4.0 * size.layers * size.width * work.pairs


def size_of(model: Mlx) -> Size:
    """Return the sizes that a model's FLOPs are computed from; without attention if the config lacks its width."""
    from mlx_lm.utils import get_total_parameters

    args = model.model.args
    width, heads = getattr(args, "hidden_size", 0), getattr(args, "num_attention_heads", 1)
    table = getattr(args, "vocab_size", 0) * width
    tables = 1 if getattr(args, "tie_word_embeddings", True) else 2  # an embedding look-up multiplies nothing
    attention = heads * (getattr(args, "head_dim", None) or width // heads)
    return Size(get_total_parameters(model.model) - tables * table, table, len(model.model.layers), attention)


@dataclass(frozen=True, slots=True, eq=False)
class Metered(Mlx):
    """A model that counts its work; `shape` has the sizes of the model it stands for, None for its own."""

    work: Work = field(default_factory=Work, repr=False)
    shape: Size | None = None

    @property
    def flops(self) -> float:
        """Return the FLOPs so far."""
        return flops(self.shape or size_of(self), self.work)

    def decode(
        self, cache: "Cache", ids: Sequence[int], most: int, drafts: Drafter | None = None
    ) -> Generator[str, None, None]:
        """Prefill the last segment and yield the text of each generated token."""
        self.work.behind[id(cache)] = behind = kv_cache.length(cache) + len(ids)
        try:
            yield from Mlx.decode(self, cache, ids, most, drafts)
        finally:
            del self.work.behind[id(cache)]
            self.work.generated += max(0, kv_cache.length(cache) - behind)

    def decodes(self, cache: "Cache") -> bool:
        """Return whether the next rows of a cache are decoded."""
        return kv_cache.length(cache) >= self.work.behind.get(id(cache), sys.maxsize)

    def _rows(self, cache: "Cache", ids: Any, *, adapted: bool = False) -> Any:
        if self.decodes(cache):
            self.work.decoded += len(ids)
        else:
            self.work.read += len(ids)
        self.work.pairs += len(ids) * (kv_cache.length(cache) + len(ids))
        return Mlx._rows(self, cache, ids, adapted=adapted)


def parts_of(model: Mlx) -> dict[str, Any]:
    """Return the fields of a model, for one of a class of ours."""
    return {name: getattr(model, name) for name in Mlx.__dataclass_fields__}


class MeteredResident(ResidentModel):
    """Keeps a metered model."""

    def get(self, key: Hashable, load: "Callable[[], Mlx]") -> Mlx:
        """Return the model of this key, metered."""
        return super().get(key, lambda: Metered(**parts_of(load())))
