"""Counts of documents by folder and by collection, held against counting one by one."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from store.catalog import Catalog, SourceRoot
from store.database import Ledger, open_ledger
from store.types import Place

FILES = ["/a/1", "/a/2", "/a/b/1", "/a/b/c.mbox", "/a-b/1", "/a0", "/c.mbox"]
ROOTS = ["/", "/a", "/a/b", "/a-b", "/a0", "/c.mbox", "/none"]
DAYS = [None, "1999-12-31T23:00:00+00:00", "2024-05-01T09:00:00+00:00", "2024-05-02T09:00:00+00:00"]
entries = st.tuples(st.sampled_from(FILES), st.integers(-2, 40), st.integers(0, 9), st.sampled_from("xy"))


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    with closing(open_ledger(tmp_path_factory.mktemp("catalog") / "ledger.db", create=True)) as one:
        yield one


@example([], [None], {"/a"})
@given(
    st.lists(entries, min_size=20, max_size=60),
    st.lists(st.sampled_from(DAYS), max_size=9),
    st.sets(st.sampled_from(ROOTS)),
)
def test_folders_and_collections_count_each_of_their_documents_once(
    ledger: Ledger, drawn: list[tuple[str, int, int, str]], days: list[str | None], roots: set[str]
) -> None:
    catalog, places = Catalog(ledger), {(path, item): (str(number), name) for path, item, number, name in drawn}
    ledger.rows.execute("BEGIN")
    try:
        for root in roots:
            catalog.put_root(SourceRoot(root, "x", None))
        for (path, item), (document, name) in places.items():
            message = document if int(document) % 2 else None
            catalog.put_places(path, [Place(path, item, document, message, None, name)])
        rows = [(str(number), day) for number, day in enumerate(days)]  # a document being written has none
        ledger.rows.executemany("INSERT INTO documents (id, date, chunks) VALUES (?, ?, 1)", rows)
        by_collection, by_root, kinds = catalog.by_collection(), catalog.root_counts(), catalog.kinds()
        inside = {root: {path for path, _ in places if Path(path).is_relative_to(root)} for root in roots}
        removed = {root: catalog.count_removed(root, [*map(str.encode, inside[root])]) for root in roots}
    finally:
        ledger.rows.execute("ROLLBACK")

    named, held = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for (path, _), (document, name) in places.items():
        named[name].add(document)
        for root in roots:
            held[root] |= {document} if Path(path).is_relative_to(root) else set()
    odd = {int(document) % 2 for document, _ in places.values()}
    assert kinds == (1 in odd, 0 in odd)
    assert by_collection == {name: len(named[name]) for name in sorted(named)}
    assert [root.path for root, _ in by_root] == sorted(roots)
    for path, counted in ((root.path, counted) for root, counted in by_root):
        own = [dict(rows)[one] for one in held[path] if one in dict(rows)]
        dates = sorted(day for day in own if day)
        found = [counted[name] for name in ("files", "documents", "first", "last", "read")]
        assert found == [len(inside[path]), len(own), *([dates[0], dates[-1]] if dates else [None, None]), None]
        outside = {document for (at, _), (document, _) in places.items() if at not in inside[path]}
        assert removed[path] == (len(held[path] - outside), len(held[path]) if held[path] - outside else 0)
