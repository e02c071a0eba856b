"""One word of the model: does what was read bear an answer that was given to a like question.

It costs the reading of one short segment behind a prefix that is kept; where the prefix is not kept, it is not asked.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime

from engine.ask.evidence import Evidence
from engine.ask.generate import read, segments_of
from engine.ask.prefill import Reading
from engine.ask.prompt import Order, in_document_order
from engine.ask.question import Question
from engine.ask.segments import Ids
from engine.ask.trace import Trace
from prompts import prompt
from store.kv_index import path_keys

_WORD = 4  # tokens that "yes" may take, with what stands before it


def bears(
    load: Callable[[], Reading],
    question: Question,
    evidence: Evidence,
    answer: str,
    trace: Trace,
    now: datetime,
    most: int,
    order: Order = in_document_order,
) -> bool:
    """Tell whether the model says yes to an answer; False where it would have to read more than the question first."""
    with trace.step("check") as step, ExitStack() as held:
        reading = load()
        before = segments_of(reading, question, evidence, now, most, order).ids[:-1]
        if not _is_kept(reading, before):
            step.note = "KV cache missing"
            return False
        cache = read(reading, before, Trace(), held).cache
        asked = prompt("check").format(question=" ".join(question.text.split()), answer=" ".join(answer.split()))
        ids = (*reading.model.tokens(asked), *reading.model.frame.closing)
        said = "".join(reading.model.decode(cache, ids, _WORD)).strip()
        step.note = "yes" if _is_yes(said) else "no"
        return _is_yes(said)


def _is_kept(reading: Reading, before: Sequence[Ids]) -> bool:
    """Tell whether all that stands in front of the question need not be computed."""
    if reading.kept is None:
        return False
    peek, root = reading.kept.store.peek, reading.kept.root
    paths = [(before[0], block) for block in before[1:]] if reading.ropes else [tuple(before)]
    return all(peek.uses(path_keys(root, path)[-1]) is not None for path in paths)


def _is_yes(said: str) -> bool:
    return re.match(r"yes\b", said, re.IGNORECASE) is not None  # "yesterday" is no yes
