"""A follow-up is made whole by the language model of the resident process, which alone has one in memory.

Where that process is not there, or does not do this, nothing comes of it: then the rules decide.
"""

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from cli.daemon.parcel import pack, unpack
from engine.ask.followup import Turn

if TYPE_CHECKING:
    from cli.session import Session


def complete(opened: "Session", text: str, turns: Sequence[Turn]) -> str:
    """Have the resident process complete a question; empty where it does not."""
    from cli.daemon.client import reach
    from cli.daemon.link import Lost
    from cli.daemon.request import request
    from engine.types import Manner

    link = reach(opened)
    if link is None:
        return ""
    try:
        with closing(link):
            asked = request(opened, text, Manner(), streams=False)
            link.send("complete", {"request": asked, "turns": pack(list(turns))})
            frame = next(link.answers())
    except Lost:
        return ""
    return str(frame.get("said")) if frame["kind"] == "completed" else ""


def completed(opened: "Session", text: str, turns: Any) -> str:
    """Complete a question in the resident process; Broken where the turns are none, empty where pkb quotes."""
    from engine.ask.followup import with_model

    before, load = unpack(list[Turn], turns), opened.writer.load
    return with_model(load)(text, before) if load else ""
