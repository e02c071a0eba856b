"""Runs a language model layer by layer, a block of tokens at a time: for KV that arrives layer by layer.

For models of the llama form, whose layers differ in nothing. A layer gives the same bits as in a prefill of the whole
model in the same steps. Knows no prompts, plans or streams.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.models import kv_cache
from engine.models.kv_cache import Cache
from engine.models.mlx import Mlx
from store.errors import PkbError

ARCHITECTURES = ("llama", "qwen2")


@dataclass(frozen=True, slots=True)
class LayerSize:
    """The size of a layer: its parameters, the width of its queries, its bytes and those of a token's KV."""

    parameters: int
    width: int
    bytes: int
    token_bytes: int


@dataclass(frozen=True, slots=True)
class LayerwiseModel:
    """A model, and a cache with space for a number of tokens that its layers fill one by one."""

    model: Mlx
    cache: Cache

    @property
    def layers(self) -> int:
        """Return the number of layers."""
        return len(self.cache)

    @property
    def heads(self) -> int:
        """Return the number of key and value heads of a layer."""
        return int(self.cache[0].keys.shape[1])

    @property
    def width(self) -> int:
        """Return the numbers of a key or value of one head."""
        return int(self.cache[0].keys.shape[3])

    @property
    def layer_size(self) -> LayerSize:
        """Return the size of its layers, which are alike."""
        from mlx.utils import tree_flatten

        layer = self.model.model.model.layers[0]
        arrays = dict(tree_flatten(layer.parameters())).values()
        return LayerSize(
            sum(array.size for array in arrays),
            layer.self_attn.n_heads * self.width,
            sum(array.nbytes for array in arrays),
            2 * self.heads * self.width * self.cache[0].keys.dtype.size,
        )

    def embed(self, ids: Sequence[int]) -> Any:
        """Return the states of a block before the lowest layer: (1, tokens, width)."""
        import mlx.core as mx

        return self.model.model.model.embed_tokens(mx.array(list(ids))[None])

    def forward(self, layer: int, states: Any, start: int, *, adapted: bool = False) -> Any:
        """Compute a layer for a block at position `start`; earlier tokens must have their keys and values in it.

        With `adapted` the role adapter acts, as on the last segment of a prompt.
        """
        import mlx.core as mx

        self.model.yield_point()
        part = self.cache[layer]
        part.state = (part.keys, part.values, start)
        mask = part.make_mask(states.shape[1], return_array=False, window_size=None)
        self.model.adapter.acts = adapted
        found = self.model.model.model.layers[layer](states, mask, cache=part)
        mx.eval([found, part.keys, part.values])
        return found

    def place(self, layer: int, start: int, head: int, keys: Any, values: Any) -> None:
        """Put keys and values of some heads, from `head` on, (heads, tokens, width), at position `start` of a layer."""
        import mlx.core as mx

        part = self.cache[layer]
        for array, new in ((part.keys, keys), (part.values, values)):
            heads, tokens, _ = new.shape
            array[:, head : head + heads, start : start + tokens, :] = mx.array(new).astype(array.dtype)[None]
        mx.eval([part.keys, part.values])

    def logits(self, states: Any) -> Any:
        """Return the logits behind the last layer: (1, tokens, vocabulary)."""
        model = self.model.model
        states = model.model.norm(states)
        return model.model.embed_tokens.as_linear(states) if model.args.tie_word_embeddings else model.lm_head(states)

    def finish(self, tokens: int) -> Cache:
        """Return the cache, in all layers as long as the prompt."""
        for part in self.cache:
            part.state = (part.keys, part.values, tokens)
        return self.cache


def layerwise(model: Mlx, tokens: int) -> LayerwiseModel:
    """Return a model to run layer by layer, with space for so many tokens; PkbError if it is of another form."""
    import mlx.core as mx

    cache, inner = model.begin(), model.model
    if inner.model_type not in ARCHITECTURES or not kv_cache.is_sliceable(cache) or model.bits:
        raise PkbError(f"{model.name} cannot be run layer by layer", "pkb model list")
    inner(mx.array([[1]]), cache=cache)  # evaluated lazily: only the shapes are needed
    for part in cache:
        one, heads, _, width = part.keys.shape
        shape = (one, heads, tokens, width)
        part.state = (mx.zeros(shape, part.keys.dtype), mx.zeros(shape, part.values.dtype), 0)
    mx.eval([(part.keys, part.values) for part in cache])
    return LayerwiseModel(model, cache)
