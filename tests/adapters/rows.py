"""Examples as token ids, in the frame of the model's chat template; each segment is tokenised alone, as pkb does."""

import json
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from engine.models.load import find_template, frame
from tests.adapters.tasks import Example, Role

PADDING = -1
CONTEXT = 2000  # tokens; longer examples are left out
LONGEST = 160  # tokens of a request with its reply


@dataclass(frozen=True, slots=True)
class Row:
    """Ids of a context, of each request with its reply, and targets: the reply's tokens (PADDING before them)."""

    context: list[int]
    said: list[list[int]]
    targets: list[list[int]]
    roles: list[Role]


class Framed:
    """A tokenizer with the frame around prompts."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        config = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
        names = {name: config.get(name, "") for name in ("bos_token", "eos_token")}
        around = frame(find_template(folder, config) or "", names, folder.name)
        self._opening, self._turning, self._closing = map(self.ids, (around.opening, around.turning, around.closing))
        self.end = self.ids(around.ended)[0]

    def ids(self, text: str) -> list[int]:
        """Return the ids of a text."""
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def row(self, example: Example) -> Row:
        """Return an example as ids; its longest tasks are left out."""
        context = [*self._opening, *self.ids(example.system), *self._turning]
        context += [id for chunk in example.chunks for id in self.ids(chunk)]
        packed = Row(context, [], [], [])
        for task in example.tasks:
            request, reply = [*self.ids(task.request), *self._closing], [*self.ids(task.reply), self.end]
            if len(request) + len(reply) <= LONGEST:
                packed.said.append(request + reply[:-1])
                packed.targets.append([PADDING] * (len(request) - 1) + reply)
                packed.roles.append(task.role)
        return packed

    def fits(self, row: Row) -> bool:
        """Return whether a row can be trained on."""
        return bool(row.said) and len(row.context) <= CONTEXT
