"""New mail near an earlier question makes that question a refresh candidate."""

from pathlib import Path

from store.answers import RefreshCandidates
from store.database import open_ledger
from tests.cli.conftest import Pkb
from tests.cli.test_freshness import QUESTION, write


def hinted(pkb: Pkb) -> list[bytes]:
    ledger = open_ledger(pkb.folder / "home" / "ledger.db", create=False)
    try:
        return [key for key, *_ in RefreshCandidates(ledger).all()]
    finally:
        ledger.close()


def test_new_chunks_mark_the_nearest_questions_for_refresh(fresh: Pkb, tmp_path: Path) -> None:
    folder = tmp_path / "mail"
    for number in range(6):
        write(folder, f"{number}.eml", "The museum", f"The harbour museum shows bicycle number {number} in its hall.")
    fresh("ingest", str(folder))
    fresh("ask", QUESTION)
    write(folder, "7.eml", "Cellar", "The key of the cellar hangs behind the door with the coats.")
    fresh("ingest")
    far = hinted(fresh)
    write(folder, "8.eml", "The tandem", "The tandem of the harbour museum is green.")
    fresh("ingest")
    assert far == []
    assert len(hinted(fresh)) == 1
