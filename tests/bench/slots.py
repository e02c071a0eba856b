"""llama.cpp's server with slots that are saved in files, beside pkb's KV cache: first tokens behind a restored slot."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tests.engine.models.served import LlamaServer

PATIENCE_S = 600


class LlamaSlots:
    """A GGUF file that llama.cpp serves with one slot and one thread; mutable: the slot holds the last prompt."""

    def __init__(self, file: Path, folder: Path, context: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._server = folder, LlamaServer(file, context=context, slots=f"{folder}/")

    def save(self, ids: Sequence[int], name: str) -> Path:
        """Prefill tokens into the empty slot and save it; returns the file."""
        self.erase()
        self._complete(ids, 0)
        self._post("/slots/0?action=save", {"filename": name})
        return self.folder / name

    def restored_token(self, ids: Sequence[int], name: str) -> int:
        """Restore a saved slot, then compute the first token behind a prompt; returns the prompt tokens computed."""
        self._post("/slots/0?action=restore", {"filename": name})
        return self._complete(ids, 1)

    def new_token(self, ids: Sequence[int]) -> int:
        """Compute the first token behind a prompt with nothing cached; returns the prompt tokens computed."""
        self.erase()
        return self._complete(ids, 1)

    def erase(self) -> None:
        """Empty the slot."""
        self._post("/slots/0?action=erase", {})

    def _complete(self, ids: Sequence[int], count: int) -> int:
        asked = {"prompt": list(ids), "n_predict": count, "temperature": 0, "cache_prompt": True, "id_slot": 0}
        return int(self._post("/completion", asked)["timings"]["prompt_n"])

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        asked = Request(self._server.url + path, json.dumps(body).encode())
        asked.add_header("content-type", "application/json")
        with urlopen(asked, timeout=PATIENCE_S) as answer:
            found: dict[str, Any] = json.load(answer)
        return found
