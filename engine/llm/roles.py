"""What a model with a role adapter is asked about chunks: summaries and questions.

They are read as in the prompt of an answer, so that all roles load each other's KV tensors.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from engine.llm.blocks import in_blocks
from engine.llm.generate import read
from engine.llm.prefill import PromptReader
from engine.llm.prompt import Ids, Prompt, Segments, chunk_ids, chunk_segment, system_ids, system_segment
from engine.types import Trace
from store.types import Chunk


def request(reader: PromptReader, chunks: Sequence[Chunk], said: str, most: int, check: Callable[[], None]) -> str:
    """Return what the model writes on a request about chunks, in at most so many tokens; empty if they do not fit.

    `check` is called before each token; it may raise.
    """
    model = reader.model
    segments = _segments(reader, chunks, said)
    if segments.count + most > model.context:
        return ""
    trace = Trace(asked=False)
    with ExitStack() as held:
        found = read(reader, segments.ids[:-1], trace, held)
        written = list[str]()
        for piece in model.decode(found.cache, segments.ids[-1], most):
            written.append(piece)
            check()
        found.keep()
        found.release()
    return "".join(written)


def _segments(reader: PromptReader, chunks: Sequence[Chunk], said: str) -> Segments:
    model = reader.model
    last: Ids = (*model.tokens(said), *model.frame.closing)
    texts = tuple(chunk_segment(number, chunk) for number, chunk in enumerate(chunks, 1))
    documents = tuple(chunk.document for chunk in chunks)
    prompt = Prompt(system_segment(roles=True), texts, said, tuple(range(len(chunks))), documents)
    ids = (system_ids(model), *(chunk_ids(model, number, chunk) for number, chunk in enumerate(chunks, 1)), last)
    segments = Segments(prompt, ids, 0)
    return in_blocks(model, segments) if reader.ropes else segments
