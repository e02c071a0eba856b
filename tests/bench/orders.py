"""Orders of chunks in a prompt to compare with pkb's: by relevance, and along cached prefixes.

Along what is kept, a prompt, and so an answer, depends on what happens to be there.
"""

from collections.abc import Callable, Sequence
from functools import cache

from engine.llm.prompt import Ids, PromptChunk, chunk_ids, in_document_order, system_ids
from engine.models.types import LanguageModel
from store.kv_tree import Key, TreeRoot, child_key

Uses = Callable[[Key], int | None]  # how often the node of a key was used, None where it is not kept
_Path = tuple[PromptChunk, ...]


def by_relevance(shown: Sequence[PromptChunk]) -> list[PromptChunk]:
    """Sort by source, best first; the chunks of one source as they stand in their document."""
    return sorted(shown, key=lambda one: (one.source, one.chunk.position))


def along_what_is_kept(
    model: LanguageModel, root: TreeRoot, uses: Uses, shown: Sequence[PromptChunk]
) -> list[PromptChunk]:
    """Put those chunks first that make the longest kept path, in tokens, then the most used one; the rest by date.

    Under another number a chunk is another segment, so a kept one comes back only to its place.
    """

    @cache
    def ids(number: int, one: PromptChunk) -> Ids:
        return chunk_ids(model, number, one.chunk)

    def best(parent: Key, left: Sequence[PromptChunk], number: int) -> tuple[int, int, _Path]:
        found: tuple[int, int, _Path] = (0, 0, ())
        for one in left:
            key = child_key(parent, ids(number, one))
            if (used := uses(key)) is None:
                continue
            tokens, more, path = best(key, [other for other in left if other is not one], number + 1)
            found = max(found, (tokens + len(ids(number, one)), more + used, (one, *path)), key=lambda way: way[:2])
        return found

    ordered = in_document_order(shown)
    path = best(child_key(root.key, system_ids(model)), ordered, 1)[2]
    return [*path, *(one for one in ordered if one not in path)]
