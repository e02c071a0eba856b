"""A model that can spell and nothing else: a real tokenizer in the frame of its chat template, and no weights."""

import json
from pathlib import Path

from engine.models.frames import find_template, frame
from engine.models.mlx import SUB_STEP, Mlx
from engine.models.protocols import Frame
from engine.models.tokens import Tokens, open_tokenizer

NAMES = ("bos_token", "eos_token", "unk_token", "pad_token")


class Remembering(Tokens):
    """A vocabulary that splits each text once."""

    def __init__(self, folder: Path) -> None:
        super().__init__(open_tokenizer(folder / "tokenizer.json"))
        self._known: dict[str, list[int]] = {}

    def text(self, text: str) -> list[int]:
        """Give the ids of a text."""
        if text not in self._known:
            self._known[text] = super().text(text)
        return self._known[text]


def speller(folder: Path) -> Mlx:
    """Give the model whose tokenizer.json and tokenizer_config.json stand in a folder."""
    config, vocabulary = json.loads((folder / "tokenizer_config.json").read_text("utf-8")), Remembering(folder)
    framing = frame(find_template(folder, config) or "", {key: config[key] for key in NAMES}, folder.name)
    return Mlx(
        name=folder.name,
        context=config["model_max_length"],
        frame=Frame(*map(vocabulary.control, (framing.opening, framing.turning, framing.closing))),
        sub_step=SUB_STEP["cpu"],
        stops=frozenset(),
        one_line=False,
        vocabulary=vocabulary,
        model=None,
    )
