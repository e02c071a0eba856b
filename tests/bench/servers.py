"""Time to the first token of real model servers: a prompt that is new to them, and another question about the same.

Usage: python -m tests.bench.servers [COUNT]
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from engine.models.served import ServerModel, reach
from engine.settings import ModelSettings
from tests.engine.models.served import LlamaServer, mlx_server, write_nano

_MAIL = "The picnic is on Friday at 6pm in the park. Ann brings the plates, and Ben the music.\n"
_LINES = 24


def first_token(model: ServerModel, system: str, question: str) -> float:
    """Return the seconds until a model says the first of an answer."""
    prompt = model.begin()
    for segment in (system, "[1]\n" + _MAIL * _LINES):
        model.prefill(prompt, model.tokens(segment))
    began = time.perf_counter()
    pieces = iter(model.decode(prompt, model.tokens(question), 8))
    next(pieces)
    taken = time.perf_counter() - began
    list(pieces)
    return taken


def measure(url: str, count: int) -> None:
    """Print the median, the lowest and the highest time, and the tokens that the server reused."""
    model = reach(ModelSettings(f"openai:{url}"), {})
    taken: dict[str, list[float]] = {"new": [], "again": []}
    for number in range(count + 1):
        system = f"{number}: Answer the question from the messages below.\n"
        times = [first_token(model, system, f"Question: {word} is the picnic?\nAnswer:") for word in ("When", "Where")]
        if number:  # after the first, which warms it up
            for kind, seconds in zip(taken, times, strict=True):
                taken[kind].append(1000 * seconds)
    for kind, found in taken.items():
        print(f"  {kind:<6}{statistics.median(found):8.1f} ms  {min(found):.1f} to {max(found):.1f}, n = {len(found)}")
    estimated = sum(len(model.tokens(text)) for text in (system, "[1]\n" + _MAIL * _LINES))
    told = model.last
    print(f"  reused {told.reused} of {told.prompt} tokens, which were estimated at {estimated} without the question")


def main() -> None:
    """Measure both servers with the bundled tiny model."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    with tempfile.TemporaryDirectory() as folder:
        llama = LlamaServer(write_nano(Path(folder) / "nano.gguf"))
        print("llama.cpp")
        measure(llama.url, count)
        with mlx_server(Path(folder) / "mlx") as url:
            print("mlx_lm.server")
            measure(url, count)


if __name__ == "__main__":
    main()
