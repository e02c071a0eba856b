"""One conversation: questions, of which follow-ups are made whole before they are asked, and commands about answers."""

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from cli import out
from cli.plain import one_line
from cli.said import COMMANDS, Said
from cli.session import Session
from store.errors import UsageError

if TYPE_CHECKING:
    from engine.ask.followup import Condensed, Turn, Write
    from engine.types import Answered, Manner


class Talk:
    """A conversation; mutable: it grows."""

    def __init__(self, manner: "Manner", *, as_json: bool, explain: bool) -> None:
        self._manner, self._as_json, self._explain = manner, as_json, explain
        self._said: list[Said] = []
        self._turns: list[Turn] = []  # the questions that stand alone

    def hear(self, typed: str, opened: Session) -> bool:
        """Do what a line says; False where it ends the conversation, PkbError where it cannot be done."""
        name, _, rest = typed.strip().partition(" ")
        if name == "/quit":
            return False
        if name == "/wrong":
            self._wrong(opened)
        elif name.startswith("/"):
            if name not in COMMANDS:
                raise UsageError(f"no command {one_line(name, 40)}", "/help")
            COMMANDS[name](self._said, rest.strip(), opened, self._as_json)
        elif name:
            self._ask(typed.strip(), opened)
        return True

    def _ask(self, typed: str, opened: Session) -> None:
        from cli.daemon.client import answer

        condensed, took = self._condense(typed, opened)
        manner, asked = self._manner, condensed.asked or typed
        if condensed.asked is None:  # what means nothing by itself must neither find nor leave an answer
            manner = replace(manner, read_bank=False, write_bank=False)
        if not self._as_json:
            self._show_condensed(condensed)
        streamed = out.Stream()
        with streamed:
            answered = answer(opened, asked, manner, None if self._as_json else streamed.say)
        self._note(answered, condensed, took)
        self._show(answered, typed, condensed, streamed=streamed.started)
        self._remember(Said(typed, condensed.asked, answered.reply))
        answered.keep()

    def _remember(self, said: Said) -> None:
        self._said.append(said)
        if said.asked is not None:
            from engine.ask.followup import turn_of

            self._turns.append(turn_of(said.reply))

    def _wrong(self, opened: Session) -> None:
        """Take back the last answer, which is then no ground for what is asked next either."""
        from cli.said import take_back

        take_back(self._said, opened, as_json=self._as_json)
        if self._said[-1].asked is not None:
            self._turns[-1] = replace(self._turns[-1], answer=None, focus="")

    def _condense(self, typed: str, opened: Session) -> "tuple[Condensed, float]":
        """Make a question stand alone; gives the milliseconds that it took, too."""
        from engine.ask.followup import condense

        begun = time.perf_counter()
        condensed = condense(typed, self._turns, _writer(opened))
        return condensed, (time.perf_counter() - begun) * 1000

    def _note(self, answered: "Answered", condensed: "Condensed", took: float) -> None:
        from engine.types import Step

        note = f"by {condensed.by}" if condensed.asked else "asked as typed, without the answer cache"
        answered.trace.steps.insert(0, Step("condense", took, note))

    def _show_condensed(self, condensed: "Condensed") -> None:
        from rich.text import Text

        if self._explain or condensed.asked is None or condensed.by != "itself":
            about = one_line(condensed.asked, 400) if condensed.asked else "asked as typed: unclear what it refers to"
            out.console(stderr=True).print(Text(f"→ {about}", style="dim"))

    def _show(self, answered: "Answered", typed: str, condensed: "Condensed", *, streamed: bool) -> None:
        if self._as_json:
            row = answered.reply.to_json() | {"question": typed, "asked": condensed.asked}
            out.data(row | {"explain": answered.trace.to_json()} if self._explain else row)
            return
        from cli.answers import show_answer

        show_answer(answered, streamed=streamed, explain=self._explain)
        print(flush=True)


def _writer(opened: Session) -> "Write | None":
    """Give what has the model make a question stand alone: the process that has it in memory; None where pkb quotes."""
    from cli.daemon.client import wants

    load = opened.writer.load
    if load is None:
        return None
    if wants(opened):
        from cli.daemon.complete import complete

        return partial(complete, opened)
    from engine.ask.followup import with_model

    return with_model(load)
