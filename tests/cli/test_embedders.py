"""Another embedder: named in the settings, noticed, and made use of when the vectors are its own."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from cli.app import run
from tests.cli.conftest import Pkb
from tests.demo import DATA, copied, environment
from tests.engine.models.embedders import make_qwen3
from tests.engine.models.shapes import KINDS, make


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two embedders, one and other, and a language model that is none."""
    folder = tmp_path_factory.mktemp("models")
    make_qwen3(folder / "one")
    make_qwen3(folder / "other", seed=8)
    make(folder / "llama", KINDS["llama"])
    return folder


@pytest.fixture(scope="module")
def made_by_one(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the home that tests copy: a few mails whose vectors are those of the first embedder."""
    folder = tmp_path_factory.mktemp("embedded")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (environment(folder) | {"TMPDIR": str(folder)}).items():
            patch.setenv(name, value)
        assert run(["config", "set", "embed.model", str(models / "one")]) == 0
        assert run(["ingest", str(DATA / "mail" / "single")]) in (0, 3)
    return folder


@pytest.fixture
def embedded(
    made_by_one: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Pkb:
    """Return a home of its own with those mails."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # given back afterwards: where a model is loaded, it is changed
    return Pkb(copied(made_by_one, tmp_path / "home"), monkeypatch, capsys)


def choose(pkb: Pkb, name: str) -> None:
    assert pkb("config", "set", "embed.model", name).code == 0


def vectors(pkb: Pkb) -> tuple[int, int]:
    """Return how many chunks there are and how many have vectors of the embedder in use."""
    kept: dict[str, int] = pkb("stats", "--json").row["index"]
    return kept["chunks"], kept["vectors"]


def steps(pkb: Pkb, question: str) -> list[Any]:
    return [step["name"] for step in pkb("ask", question, "--explain", "--json").row["explain"]]


def test_questions_go_by_meaning_with_the_embedder_that_made_the_vectors(embedded: Pkb) -> None:
    chunks, made = vectors(embedded)
    assert chunks == made > 0
    assert "embed" in steps(embedded, "who has the key?")
    assert "have embeddings" not in embedded("ask", "when is the concert?").err


def test_after_a_change_questions_go_by_words_until_the_next_ingest(embedded: Pkb, models: Path) -> None:
    chunks, _ = vectors(embedded)
    choose(embedded, str(models / "other"))
    assert vectors(embedded) == (chunks, 0)
    assert "embed" not in steps(embedded, "who has the key?")
    assert "0% of chunks have embeddings; keyword search covers all" in embedded("ask", "when is the concert?").err
    assert embedded("ingest", "--json").row["without_vector"] == 0
    assert vectors(embedded) == (chunks, chunks)
    assert "embed" in steps(embedded, "what is due in May?")
    assert embedded("doctor", "--data").code == 0


def test_an_ingest_that_leaves_vectors_for_later_counts_those_of_the_former_embedder(
    embedded: Pkb, models: Path
) -> None:
    chunks, _ = vectors(embedded)
    choose(embedded, str(models / "other"))
    assert embedded("ingest", "--vectors", "later", "--json").row["without_vector"] == chunks
    choose(embedded, str(models / "one"))
    assert vectors(embedded) == (chunks, chunks)
    assert "embed" in steps(embedded, "who has the key?")


def test_without_the_embedder_questions_go_by_words_and_ingest_says_why(embedded: Pkb, models: Path) -> None:
    gone = Path(shutil.copytree(models / "other", embedded.folder / "gone"))
    choose(embedded, str(gone))
    shutil.rmtree(gone)
    assert "embed" not in steps(embedded, "who has the key?")
    ran = embedded("ingest")
    assert ran.code == 0
    assert f"the model folder {gone} does not exist" in ran.err
    assert "keyword search only; try: pkb config set embed.model minilm" in ran.err


def test_a_name_that_is_not_here_is_to_be_pulled(embedded: Pkb, tmp_path: Path) -> None:
    choose(embedded, "Qwen/Qwen3-Embedding-0.6B")
    ran = embedded("ingest", env={"HF_HUB_CACHE": str(tmp_path / "hub")})
    assert "try: pkb model pull Qwen/Qwen3-Embedding-0.6B" in ran.err
    (check,) = [row for row in embedded("doctor", "--json").row["checks"] if row["name"] == "embedder"]
    assert (check["state"], check["next"]) == ("note", "pkb model pull Qwen/Qwen3-Embedding-0.6B")


def test_a_model_that_cannot_embed_is_refused_in_a_line(embedded: Pkb, models: Path) -> None:
    choose(embedded, str(models / "llama"))
    ran = embedded("ask", "who has the key?")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "its architecture is llama, not qwen3; try: pkb config set embed.model minilm" in ran.err
