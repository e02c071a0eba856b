"""llama.cpp itself, answering on this machine: what converted models are held against."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest


class LlamaCpp:
    """A model that llama.cpp has loaded, in fp32 where the file is; `read` prompt tokens the last request computed.

    Its keys and values are in fp32 if `exact`, else as llama.cpp stores them by default.
    """

    def __init__(self, path: Path, *, context: int = 512, threads: int = 1, exact: bool = True) -> None:
        library = pytest.importorskip("xllamacpp", reason="llama.cpp is not installed")
        asked = library.CommonParams()
        asked.model.path = str(path)
        asked.n_ctx, asked.n_parallel, asked.port, asked.verbosity = context, 1, 0, 0
        asked.n_gpu_layers, asked.warmup, asked.use_jinja = 0, False, False
        asked.cpuparams.n_threads = asked.cpuparams_batch.n_threads = threads
        asked.cache_ram_mib = 0  # former prompts are not copied
        if exact:
            asked.cache_type_k = asked.cache_type_v = library.ggml_type.GGML_TYPE_F32
        self.read = 0
        self._server = library.Server(asked)

    def tokens(self, text: str) -> list[int]:
        """Return the token ids of a text; control tokens in it are text."""
        found = self._ask("/tokenize", content=text, add_special=False, parse_special=False)["tokens"]
        return [int(id) for id in found]

    def continued(self, ids: Sequence[int], count: int, *, cached: bool = False) -> list[int]:
        """Return so many likeliest ids after some others; none of them ends the text.

        If `cached`, the beginning that the last prompt had in common is not computed again.
        """
        asked = {"prompt": list(ids), "n_predict": count, "temperature": 0, "ignore_eos": True, "cache_prompt": cached}
        found = self._ask("/completion", **asked, samplers=["top_k"], top_k=1, return_tokens=True)
        self.read = int(found["timings"]["prompt_n"])
        return [int(id) for id in found["tokens"]]

    def _ask(self, path: str, **body: Any) -> dict[str, Any]:
        asked = Request(self._server.listening_address + path, json.dumps(body).encode())
        asked.add_header("content-type", "application/json")
        with urlopen(asked, timeout=100) as answer:
            found: dict[str, Any] = json.load(answer)
        return found
