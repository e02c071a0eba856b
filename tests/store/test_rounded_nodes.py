"""KV nodes that a peer sends rounded: errors within the bound of their layer, about 5 bits a number, damage a miss."""

from io import BytesIO
from pathlib import Path
from typing import Any
from zlib import Z_HUFFMAN_ONLY, compressobj

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.kv_files import BadNode, Header, Key, Tensor, verify, write_to
from store.peers import PeerBook, PeerSource, parse_address
from store.remote import FetchedNode, Remote, RemoteCall, RemoteMiss, headers_of, inflated, rounded
from tests.effort import PATIENCE_S, examples
from tests.store.kv_kit import ROOT, Kept
from tests.store.sharing import close_remotes, home_of, introduce, sharing

__all__ = ["close_remotes"]  # a fixture
LAYERS, SHAPE, BOUND = 6, (1, 3, 128, 64), 0.03
(HEADER,) = headers_of(ROOT, [tuple(range(SHAPE[2]))])


def numbers(layer: int, seed: int = 0, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """Return values whose channels differ in mean and spread, as those of keys do."""
    draw = np.random.default_rng([seed, layer])
    spread, mean = draw.uniform(0.3, 2, (*shape[:2], 1, shape[3])), draw.normal(0, 3, (*shape[:2], 1, shape[3]))
    return np.asarray((mean + spread * draw.normal(0, 1, shape)) * (1 + layer), "<f4")


def stored(array: np.ndarray, dtype: str) -> tuple[bytes, np.ndarray]:
    """Return an array's bytes in a dtype, and its values in it."""
    if dtype == "BF16":
        raw = (array.view("<u4") >> 16).astype("<u2")
        return raw.tobytes(), (raw.astype("<u4") << 16).view("<f4")
    kind = {"F32": "<f4", "F16": "<f2", "I8": "i1"}[dtype]
    raw = np.rint(array * 5).clip(-127, 127).astype(kind) if dtype == "I8" else array.astype(kind)
    return raw.tobytes(), raw.astype("<f4")


def node(dtype: str = "F32", *more: Tensor, seed: int = 0) -> tuple[FetchedNode, dict[str, np.ndarray]]:
    """Return a node of several layers, and its values."""
    tensors, values = list[Tensor](more), dict[str, np.ndarray]()
    for layer in range(LAYERS):
        for number, kv in enumerate("kv"):
            raw, values[f"{layer}.{kv}"] = stored(numbers(layer, 2 * seed + number), dtype)
            tensors.append(Tensor(f"{layer}.{kv}", dtype, SHAPE, raw))
    write_to(file := BytesIO(), HEADER, tensors)
    return FetchedNode(verify(file), file), values


class Sender:
    """A source of one node in rounded form, with what a test does to it."""

    def __init__(self, file: BytesIO, sent: bytes | None = None) -> None:
        self.size = len(file.getbuffer())
        file.seek(0)
        self.sent = rounded(file) if sent is None else sent

    def sizes(self, keys: Any, call: RemoteCall) -> list[int]:
        return [self.size]

    def read(self, key: Key, size: int, call: RemoteCall) -> BytesIO:
        call.sent, call.received = len(self.sent), size
        return inflated(self.sent, size)


def fetched(source: Sender) -> FetchedNode:
    return Remote(source, is_rounded=True).fetch(HEADER, source.size, PATIENCE_S)


def values_of(found: FetchedNode) -> dict[str, np.ndarray]:
    kinds = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "I8": "i1"}
    every = {one.name: (one, np.frombuffer(one.buffer, kinds[one.dtype]).reshape(one.shape)) for one in found.tensors}
    return {
        name: (raw.astype("<u4") << 16).view("<f4") if one.dtype == "BF16" else raw.astype("<f4")
        for name, (one, raw) in every.items()
    }


@pytest.mark.parametrize(("dtype", "rounding"), [("F32", 2**-20), ("F16", 2**-11), ("BF16", 2**-8), ("I8", 0.5)])
def test_errors_stay_within_the_bound_of_their_layer_and_are_measured(dtype: str, rounding: float) -> None:
    sent, wanted = node(dtype)
    source = Sender(sent.file)
    got = fetched(source)
    assert [one.dtype for one in got.tensors] == [dtype] * 2 * LAYERS
    found, squares = values_of(got), list[float]()
    for name, values in wanted.items():
        error, spread = found[name] - values, float(values.std())
        bound = BOUND * spread * (1 + int(name[0]) / (LAYERS - 1))
        assert np.abs(error).max() <= bound + rounding * (1 if dtype == "I8" else float(np.abs(values).max()))
        assert np.abs(error).max() > 0.9 * bound or dtype == "I8"
        squares.append(float(np.square(error).mean()) / spread**2)
    assert got.error == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-3)
    assert got.error < 0.035
    bits = 8 * len(source.sent) / (len(wanted) * np.prod(SHAPE))
    assert got.sent == len(source.sent)
    assert 4 < bits < 5.6


def test_what_is_not_keys_or_values_and_what_has_extremes_is_exact() -> None:
    wild = numbers(0)
    wild[0, 0, 0, 0] = np.inf
    others = [
        Tensor("0.k.scales", "F16", (1, 3, 128, 2), np.arange(768, dtype="<f2").tobytes()),
        Tensor("end", "I32", (1,), np.array([7], "<i4").tobytes()),
        Tensor("7.k", "F32", SHAPE, wild.tobytes()),
        Tensor("8.v", "F32", SHAPE, bytes(4 * int(np.prod(SHAPE)))),
        Tensor("9.v", "F32", (1, 3, 128, 0), b""),
    ]
    got = {
        one.name: (one.dtype, one.shape, bytes(one.buffer))
        for one in fetched(Sender(node("F32", *others)[0].file)).tensors
    }
    assert [got[one.name] for one in others] == [(one.dtype, one.shape, one.buffer) for one in others]


def test_a_few_values_far_out_do_not_make_the_others_coarse() -> None:
    sent, wanted = node("F32")
    far = wanted["0.k"].copy()
    far[0, 0, 0, 0] += 300.0
    tensors = [Tensor("0.k", "F32", SHAPE, far.tobytes()), *sent.tensors[1:]]
    write_to(file := BytesIO(), HEADER, [one for one in tensors if one.name[0] == "0"])
    found = values_of(fetched(Sender(file)))["0.k"]
    assert np.abs(found - far).max() <= 1.001 * BOUND * far.std()


@examples(60)
@given(st.data())
def test_damage_is_a_miss(data: st.DataObject) -> None:
    whole = Sender(node("F16")[0].file)
    at = data.draw(st.integers(0, len(whole.sent) - 1))
    cut = data.draw(st.booleans())
    sent = (
        whole.sent[:at]
        if cut
        else whole.sent[:at] + bytes([whole.sent[at] ^ data.draw(st.integers(1, 255))]) + whole.sent[at + 1 :]
    )
    source = Sender(node("F16")[0].file, sent)
    with pytest.raises(RemoteMiss, match=r"damaged|refused"):
        fetched(source)


@pytest.mark.parametrize("change", ["mean", "step", "error", "missing"])
def test_steps_that_do_not_fit_are_a_miss(change: str) -> None:
    source = Sender(node("F32")[0].file)
    inside = inflated(source.sent, source.size)
    tensors = {one.name: one for one in FetchedNode(verify(inside), inside).tensors}
    odd = {
        "mean": Tensor("0.k.mean", "BF16", (1, 1, 1, 64), bytes(128)),
        "step": Tensor("0.k.step", "F32", (2,), bytes(8)),
        "error": Tensor("error", "F32", (0,), b""),
    }
    if change == "missing":
        del tensors["0.k.step"]
    else:
        tensors[odd[change].name] = odd[change]
    write_to(made := BytesIO(), HEADER, list(tensors.values()))
    coder = compressobj(1, 8, -15, 8, Z_HUFFMAN_ONLY)
    sent = coder.compress(made.getvalue()) + coder.flush()
    with pytest.raises(RemoteMiss, match="refused"):
        fetched(Sender(node("F32")[0].file, sent))


def test_a_small_reply_cannot_become_a_large_file() -> None:
    coder = compressobj(9, 8, -15)
    bomb = coder.compress(bytes(64 << 20)) + coder.flush()
    assert len(inflated(bomb, 1000).getbuffer()) < 1 << 17
    with pytest.raises(BadNode):
        inflated(b"\xff" * 100, 1000)


def test_a_peer_rounds_what_it_has_and_sends_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "desktop").mkdir()
    kept = Kept(tmp_path / "desktop")
    sent, wanted = node("F32")
    here = kept.store.keep(ROOT, None, HEADER.ids, 1.0, sent.tensors)
    assert here is not None
    kept.close()
    introduce(tmp_path / "desktop", tmp_path / "laptop", "desktop", "laptop")
    with sharing(tmp_path / "desktop") as server:
        where = parse_address(f"https://127.0.0.1:{server.address.port}#desktop")
        source = PeerSource(lambda: where, PeerBook(home_of(tmp_path / "laptop").share), is_rounded=True)
        remote = Remote(source, is_rounded=True)
        (size,) = remote.find([HEADER.key], PATIENCE_S)
        got = remote.fetch(HEADER, size, PATIENCE_S)
        assert (len(got.file.getbuffer()), got.sent < size / 5) == (size, True)
        found = values_of(got)
        assert max(np.abs(found[name] - values).max() / values.std() for name, values in wanted.items()) < 2.01 * BOUND
        assert remote.rate is not None
        with pytest.raises(RemoteMiss, match="absent"):
            remote.fetch(Header(HEADER.root, bytes(16), HEADER.parent, HEADER.path, HEADER.ids), size, PATIENCE_S)
        remote.cancel()


def test_the_rate_counts_bytes_of_the_node_and_the_time_of_decoding() -> None:
    seconds = iter([0.0, 1.0, 2.0, 2.0, 5.0, 5.0, 5.0, 5.0])
    source = Sender(node("F32")[0].file)
    remote = Remote(source, lambda: next(seconds, 5.0), is_rounded=True)
    remote.fetch(HEADER, source.size, PATIENCE_S)
    assert remote.rate == pytest.approx(source.size / 3.0)
