"""Makes turns of cues: finds who speaks where the text alone says so, and puts together what one speaker says."""

from collections.abc import Sequence
from dataclasses import replace

from engine.ingest.speakers import speakers_of, split_head
from engine.ingest.subtitles import Cue
from store.types import Passage

TURN, PAUSE = 100, 15.0  # words of a turn that is put together; seconds of silence that end it


def named(found: Sequence[Cue]) -> list[Cue]:
    """Give the cues with the speaker that stands in front of their text, where none is known."""
    heads = [split_head(cue.text) if cue.speaker is None else None for cue in found]
    names = speakers_of(head for cue, head in zip(found, heads, strict=True) if cue.speaker is None)
    known = list[Cue]()
    for cue, head in zip(found, heads, strict=True):
        spoken = head and head[0] in names and head[2].strip()
        known.append(replace(cue, speaker=head[0], text=head[2].strip()) if head and spoken else cue)
    return known


def joined(found: Sequence[Cue]) -> list[Passage]:
    """Put what one speaker says without a long pause together, up to about 100 words."""
    turns, words, until = list[Passage](), 0, None
    for cue in found:
        more, before = len(cue.text.split()), turns[-1] if turns else None
        if before and _goes_on(before, cue, words + more, until):
            turns[-1] = replace(before, text=f"{before.text} {cue.text}", last=max(before.last, cue.last))
            words += more
        else:
            turns.append(Passage(cue.text, cue.first, cue.last, "body", cue.speaker, cue.at))
            words = more
        until = cue.until
    return turns


def _goes_on(turn: Passage, cue: Cue, words: int, until: float | None) -> bool:
    spoken = turn.speaker is not None or cue.until is not None
    silent = cue.at is not None and until is not None and cue.at - until > PAUSE
    return spoken and turn.speaker == cue.speaker and words <= TURN and not silent
