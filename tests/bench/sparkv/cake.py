"""SparKV's plan against its rival, Cake: prefill from the front, stream from the back, and meet.

Run `python -m tests.bench.sparkv.cake [--mbps N...] [--tokens N...] [--speed N]`. Simulated by costs: prefill of Llama
3.1 8B at the `--speed` of a machine in tokens a second (by default the Mac mini, M4, of docs/benchmarks/apple.md),
attention growing with the position; KV in 16 and in 8 bits over a link of so many Mbit/s. Ways: compute all, stream
all, compute the first half, Cake in blocks of 128 tokens (what pkb's Loader does with nodes), and SparKV's greedy plan
by layers with its controller. Prints a JSON line for each link, length and codec: how many times sooner than computing
each way has the question, on a steady link and on one that drops to a third after a second.
"""

import json
from argparse import ArgumentParser
from collections.abc import Sequence

from tests.bench.sparkv.schedule import StreamUnit, UnitCosts, greedy, ordered
from tests.bench.sparkv.simulation import STEADY, Speed, controlled, static

BLOCK, QUESTION, LAYERS, HEADS, WIDTH = 128, 50, 32, 8, 128
PARAMETERS, HIDDEN = 8.03e9, 4096
BYTES = {"16 bits": 2.0, "8 bits": 1.0 + 2 / 32}  # of a key or value: a byte, and a scale for each 32
SPEED = 224.81  # tokens a second
DROP = Speed(((0.0, 1.0), (1.0, 1 / 3)))


def costs_of(tokens: int, mbps: float, codec: str, speed: float = SPEED) -> UnitCosts:
    """Return the costs of a prompt of so many tokens before the question."""
    sizes = [BLOCK] * (tokens // BLOCK) + [QUESTION]

    def compute(block: int) -> float:
        pairs = sizes[block] * (block * BLOCK + sizes[block] / 2)
        work = 2 * PARAMETERS * sizes[block] + 4 * LAYERS * HIDDEN * pairs
        return work / (2 * PARAMETERS * speed * LAYERS)

    def stream(unit: StreamUnit) -> float:
        return sizes[unit.block] * 2 * HEADS * WIDTH * BYTES[codec] * 8e-6 / mbps

    own = list(map(compute, range(len(sizes))))
    return UnitCosts.of(len(sizes) - 1, LAYERS, 1, stream, lambda unit: own[unit.block])


def cake(costs: UnitCosts, link: Speed = STEADY, processor: Speed = STEADY) -> float:
    """Return when the question is computed, where blocks are computed from the front and streamed from the back."""
    streaming, computing = [sum(row) for row in costs.wholes], [sum(row) for row in costs.compute]
    front, back, now, sent = 0, costs.blocks, 0.0, 0.0
    while front < back:
        arrives = link.end(sent, streaming[back - 1])
        done = processor.end(now, computing[front])
        if back - front == 1:  # both may have the last one
            now = min(arrives, done) if arrives > now else now
            break
        if arrives <= done:
            back, sent = back - 1, arrives
        else:
            front, now = front + 1, done
    return processor.end(max(now, sent if back < costs.blocks else 0.0), computing[-1])


def ways(costs: UnitCosts, link: Speed) -> dict[str, float]:
    """Return the seconds of each way."""
    blocks, layers = costs.blocks, costs.layers
    depths = {
        "compute": [layers] * blocks, "stream": [0] * blocks,
        "half": [layers if block < blocks // 2 else 0 for block in range(blocks)],
    }  # fmt: skip
    fixed = {name: static(costs, ordered(costs, found), link) for name, found in depths.items()}
    return fixed | {"cake": cake(costs, link), "sparkv": controlled(costs, greedy(costs), link)}


def rows(mbps: Sequence[float], tokens: Sequence[int], speed: float) -> None:
    """Print all cases."""
    for codec in BYTES:
        for length in tokens:
            for link in mbps:
                costs = costs_of(length, link, codec, speed)
                steady, dropped = ways(costs, STEADY), ways(costs, DROP)
                ratio = sum(map(sum, costs.compute)) / max(sum(map(sum, costs.wholes)), 1e-9)
                row = {"codec": codec, "tokens": length, "mbps": link, "compute/stream": round(ratio, 2)}
                row |= {name: round(steady["compute"] / found, 2) for name, found in steady.items()}
                row |= {f"{name}, drop": round(dropped["compute"] / dropped[name], 2) for name in ("cake", "sparkv")}
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--mbps", type=float, nargs="+", default=[50, 100, 175, 250, 400, 850])
    parser.add_argument("--tokens", type=int, nargs="+", default=[1024, 4096, 10240])
    parser.add_argument("--speed", type=float, default=SPEED)
    given = parser.parse_args()
    rows(given.mbps, given.tokens, given.speed)
