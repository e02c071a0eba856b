"""llama.cpp itself, answering on this machine: what converted models are held against."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest


class LlamaCpp:
    """A model that llama.cpp has loaded, in fp32 where the file is."""

    def __init__(self, path: Path) -> None:
        library = pytest.importorskip("xllamacpp", reason="llama.cpp is not installed")
        asked = library.CommonParams()
        asked.model.path = str(path)
        asked.n_ctx, asked.n_parallel, asked.port, asked.verbosity = 512, 1, 0, 0
        asked.n_gpu_layers, asked.warmup, asked.use_jinja = 0, False, False
        asked.cpuparams.n_threads = 1
        asked.cache_type_k = asked.cache_type_v = library.ggml_type.GGML_TYPE_F32
        self._server = library.Server(asked)

    def tokens(self, text: str) -> list[int]:
        """Return the token ids of a text; control tokens in it are text."""
        found = self._ask("/tokenize", content=text, add_special=False, parse_special=False)["tokens"]
        return [int(id) for id in found]

    def continued(self, ids: Sequence[int], count: int) -> list[int]:
        """Return so many likeliest ids after some others; none of them ends the text."""
        asked = {"prompt": list(ids), "n_predict": count, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
        found = self._ask("/completion", **asked, samplers=["top_k"], top_k=1, return_tokens=True)["tokens"]
        return [int(id) for id in found]

    def _ask(self, path: str, **body: Any) -> dict[str, Any]:
        asked = Request(self._server.listening_address + path, json.dumps(body).encode())
        asked.add_header("content-type", "application/json")
        with urlopen(asked, timeout=100) as answer:
            found: dict[str, Any] = json.load(answer)
        return found
