"""Documents as `pkb show` gives them: the decoded text, under the line numbers that sources name."""

from collections.abc import Sequence
from typing import Any

from store.search import Reader
from store.types import Place


def shown(reader: Reader, places: Sequence[Place]) -> list[dict[str, Any]]:
    """Give the documents that stand at these places, in order, as plain values."""
    kept = reader.documents([place.document for place in places])
    return [_shown(kept[place.document], place) for place in places if place.document in kept]


def _shown(row: dict[str, Any], place: Place) -> dict[str, Any]:
    before = place.lines_before or 0
    return {
        "schema": 1,
        "path": place.path,
        "item": place.item,
        "message_id": row["message_id"],
        "kind": row["kind"],
        "title": row["title"],
        "sender": row["sender"],
        "recipients": [name for name in row["recipients"].split("\n") if name],
        "date": row["date"].isoformat() if row["date"] else None,
        "collection": place.collection,
        "lines": [before + 1, before + row["text"].count("\n") + 1],
        "text": row["text"],
    }
