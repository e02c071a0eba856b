"""What a model with a role adapter is asked besides questions: about chunks, and whether they support an answer.

Chunks are read as in the prompt of an answer, so that all roles load each other's KV tensors.
"""

from collections.abc import Sequence

from engine.llm.blocks import in_blocks
from engine.llm.prefill import PromptReader
from engine.llm.prompt import Ids, Prompt, Segments, chunk_ids, chunk_segment, system_ids, system_segment
from engine.models.types import LanguageModel
from prompts import prompt
from store.types import Chunk


def request_segments(reader: PromptReader, chunks: Sequence[Chunk], request: str) -> Segments:
    """Return the prompt of a request about chunks."""
    model = reader.model
    last: Ids = (*model.tokens(request), *model.frame.closing)
    texts = tuple(chunk_segment(number, chunk) for number, chunk in enumerate(chunks, 1))
    documents = tuple(chunk.document for chunk in chunks)
    written = Prompt(system_segment(roles=True), texts, request, tuple(range(len(chunks))), documents)
    ids = (system_ids(model), *(chunk_ids(model, number, chunk) for number, chunk in enumerate(chunks, 1)), last)
    segments = Segments(written, ids, 0)
    return in_blocks(model, segments) if reader.ropes else segments


def check_ids(model: LanguageModel, question: str, answer: str) -> Ids:
    """Return the last segment that asks whether the chunks support an answer."""
    said = prompt("check").format(question=" ".join(question.split()), answer=" ".join(answer.split()))
    return (*model.tokens(said), *model.frame.closing)


VERDICTS = ("yes", "no")
LEAST_YES = 0.5  # probability of a yes that confirms another question's answer
