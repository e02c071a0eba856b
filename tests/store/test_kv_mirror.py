"""KV nodes as encrypted objects: what was written comes back, anything else is a miss, what is gone here goes there."""

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import fsspec
import pytest
from fsspec import AbstractFileSystem
from hypothesis import given
from hypothesis import strategies as st

from store.errors import PkbError
from store.kv_files import BadNode, Header, write
from store.kv_mirror import OVERHEAD, Mirror, MirrorKey, MirrorSource, mirror_error
from store.remote import Remote, RemoteCall, RemoteMiss, masked, open_remote
from tests.effort import PATIENCE_S
from tests.store.kv_kit import Kept, tensors
from tests.store.sharing import SlowFiles, keep_path, keys_of

Nodes = list[tuple[Header, bytes]]


@pytest.fixture(params=["file", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "file":
        yield f"file://{tmp_path}/mirror"
        return
    yield "memory://mirror"
    with suppress(FileNotFoundError):
        fsspec.filesystem("memory").rm("/mirror", recursive=True)


@pytest.fixture
def nodes(tmp_path: Path) -> Nodes:
    return keep_path(tmp_path / "desktop")


def push(folder: Path, url: str) -> tuple[int, int, int]:
    """Mirror a home; returns how many objects were written, removed and unchanged."""
    kept = Kept(folder)
    mirror = Mirror(url, folder / "share", create=True)
    plan = mirror.plan({key: size for key, size, _ in kept.store._index.sizes()}, kept.store._folder.path_of)
    written = mirror.apply(plan, kept.store._folder.path_of, lambda done: None)
    kept.close()
    return written, len(plan.delete), plan.unchanged


def reader(folder: Path, url: str) -> Remote:
    return Remote(MirrorSource(url, folder / "share"))


def find(remote: Remote, nodes: Nodes) -> int:
    """Return how many nodes are found, once the mirror was listed."""
    found = remote.find(keys_of(nodes), PATIENCE_S)
    assert isinstance(remote._source, MirrorSource)
    remote._source._lister.join(PATIENCE_S)
    return len(found or remote.find(keys_of(nodes), PATIENCE_S))


def give_key(folder: Path, name: str) -> Path:
    """Copy the key of the desktop to another machine."""
    target = folder / name / "share" / "mirror.key"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.touch(0o600)
    target.write_bytes((folder / "desktop" / "share" / "mirror.key").read_bytes())
    return folder / name


def objects(tmp_path: Path) -> list[Path]:
    return sorted(path for path in (tmp_path / "mirror").rglob("*") if path.is_file())


def why(remote: Remote, header: Header, size: int) -> str:
    with pytest.raises(RemoteMiss) as caught:
        remote.fetch(header, size, PATIENCE_S)
    return caught.value.reason


def test_what_was_pushed_comes_back_equal_byte_for_byte(tmp_path: Path, nodes: Nodes, url: str) -> None:
    assert push(tmp_path / "desktop", url) == (3, 0, 0)
    remote = reader(give_key(tmp_path, "laptop"), url)
    assert find(remote, nodes) == 3
    for header, data in nodes:
        assert remote.fetch(header, len(data), PATIENCE_S).file.getvalue() == data


def test_a_second_push_writes_nothing(tmp_path: Path, nodes: Nodes, url: str) -> None:
    push(tmp_path / "desktop", url)
    assert push(tmp_path / "desktop", url) == (0, 0, 3)


def test_what_is_gone_here_goes_there_at_the_next_push(tmp_path: Path, nodes: Nodes, url: str) -> None:
    push(tmp_path / "desktop", url)
    kept = Kept(tmp_path / "desktop")
    kept.store.forget([nodes[1][0].key])  # and the one below it
    kept.close()
    assert push(tmp_path / "desktop", url) == (0, 2, 1)
    remote = reader(tmp_path / "desktop", url)
    assert find(remote, nodes) == 1


def test_two_machines_with_one_key_read_each_other_and_remove_only_their_own(tmp_path: Path, url: str) -> None:
    nodes = keep_path(tmp_path / "desktop")
    push(tmp_path / "desktop", url)
    laptop = give_key(tmp_path, "laptop")
    Kept(laptop).close()
    assert push(laptop, url) == (0, 0, 0)
    assert find(reader(laptop, url), nodes) == 3


def test_without_the_key_nothing_is_read(tmp_path: Path, nodes: Nodes, url: str) -> None:
    push(tmp_path / "desktop", url)
    (tmp_path / "laptop").mkdir()
    remote = reader(tmp_path / "laptop", url)
    assert (find(remote, nodes), remote.last_failure) == (0, "unreachable")
    assert not (tmp_path / "laptop" / "share").exists()


def test_another_key_finds_nothing(tmp_path: Path, nodes: Nodes, url: str) -> None:
    push(tmp_path / "desktop", url)
    MirrorKey(tmp_path / "laptop" / "share" / "mirror.key", create=True)
    assert find(reader(tmp_path / "laptop", url), nodes) == 0


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mirror.key"
    MirrorKey(path, create=True)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    with pytest.raises(PkbError, match="others can read"):
        MirrorKey(path, create=False)


def test_names_and_content_of_objects_tell_nothing(tmp_path: Path, nodes: Nodes) -> None:
    push(tmp_path / "desktop", f"file://{tmp_path}/mirror")
    found = objects(tmp_path)
    assert len(found) == 3
    stored = b"".join(path.read_bytes() + str(path.relative_to(tmp_path)).encode() for path in found)
    for header, data in nodes:
        assert header.key.hex().encode() not in stored
        assert b"pkb-kv" not in stored
        assert data[-64:] not in stored
    assert {path.stat().st_size for path in found} == {len(data) + OVERHEAD for _, data in nodes}


@pytest.mark.parametrize("at", [0, 8, 16, 28, 100, -1])
def test_a_flipped_byte_of_an_object_is_a_miss(tmp_path: Path, nodes: Nodes, at: int) -> None:
    url = f"file://{tmp_path}/mirror"
    push(tmp_path / "desktop", url)
    for path in objects(tmp_path):
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)
    remote = reader(tmp_path / "desktop", url)
    assert find(remote, nodes) == 3
    assert why(remote, nodes[0][0], len(nodes[0][1])) == "damaged"


def test_an_object_under_the_name_of_another_is_a_miss(tmp_path: Path) -> None:
    nodes, url = keep_path(tmp_path / "desktop", size=4096), f"file://{tmp_path}/mirror"
    push(tmp_path / "desktop", url)
    found = objects(tmp_path)
    data = [path.read_bytes() for path in found]
    for path, other in zip(found, [*data[1:], data[0]], strict=True):
        path.write_bytes(other)
    remote = reader(tmp_path / "desktop", url)
    assert find(remote, nodes) == 3
    assert {why(reader_of(remote), *sized(node)) for node in nodes} == {"damaged"}


def sized(node: tuple[Header, bytes]) -> tuple[Header, int]:
    return node[0], len(node[1])


def reader_of(remote: Remote) -> Remote:
    """Return the remote as if it had never failed."""
    remote._alone_until = float("-inf")
    return remote


def test_an_object_that_is_gone_is_absent_and_one_cut_short_is_written_again(tmp_path: Path, nodes: Nodes) -> None:
    url = f"file://{tmp_path}/mirror"
    push(tmp_path / "desktop", url)
    remote = reader(tmp_path / "desktop", url)
    assert find(remote, nodes) == 3
    first, second, third = objects(tmp_path)
    first.write_bytes(first.read_bytes()[:-1])
    second.write_bytes(b"")
    third.unlink()
    assert {why(reader_of(remote), *sized(node)) for node in nodes} == {"absent", "damaged"}
    assert push(tmp_path / "desktop", url) == (3, 0, 0)


def test_a_file_that_changed_replaces_its_object_even_if_as_long(tmp_path: Path, url: str) -> None:
    [(header, data), *_] = keep_path(tmp_path / "desktop")
    push(tmp_path / "desktop", url)
    path = tmp_path / "desktop" / "cache" / "kv" / f"{header.key.hex()}.safetensors"
    write(path, header, tensors(4096, (99,)))
    assert path.stat().st_size == len(data)
    assert push(tmp_path / "desktop", url) == (1, 1, 2)
    remote = reader(tmp_path / "desktop", url)
    assert find(remote, [(header, data)]) == 1
    assert remote.fetch(header, len(data), PATIENCE_S).file.getvalue() == path.read_bytes()


def test_objects_of_earlier_names_are_removed(tmp_path: Path, nodes: Nodes) -> None:
    url = f"file://{tmp_path}/mirror"
    push(tmp_path / "desktop", url)
    first = objects(tmp_path)[0]
    first.rename(first.with_name(first.name.partition("-")[0]))
    assert push(tmp_path / "desktop", url) == (1, 1, 2)


def test_no_more_is_read_of_an_object_than_it_may_have(tmp_path: Path, nodes: Nodes) -> None:
    url, call = f"file://{tmp_path}/mirror", RemoteCall()
    push(tmp_path / "desktop", url)
    mirror, (header, data) = Mirror(url, tmp_path / "desktop" / "share"), nodes[0]
    path, size = mirror.listing()[mirror.key.name(header.key)]
    with Path(path).open("ab") as file:
        file.write(bytes(8 << 20))
    with pytest.raises(BadNode, match="mismatch"):
        mirror.read(path, header.key, len(data), call)
    assert call.received == size + 1


def test_a_damaged_node_is_not_pushed(tmp_path: Path, nodes: Nodes, url: str) -> None:
    path = tmp_path / "desktop" / "cache" / "kv" / f"{nodes[0][0].key.hex()}.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert push(tmp_path / "desktop", url)[0] == 2


def test_a_place_that_cannot_be_read_is_a_failure_and_raises_nothing(tmp_path: Path, nodes: Nodes) -> None:
    MirrorKey(tmp_path / "share" / "mirror.key", create=True)
    for url in ("nothing://x", "s3://bucket/x", "file:///proc/nothing/\0x"):
        remote = open_remote(url, tmp_path / "share")
        assert find(remote, nodes) == 0


class CredentialsError(Exception):
    """What a back end raises whose package has errors of its own."""


def refuse(*_: object, **__: object) -> None:
    raise CredentialsError("secret")


@pytest.fixture
def guarded() -> str:
    own = type("Guarded", (AbstractFileSystem,), {"protocol": "guarded", "find": refuse, "open": refuse})
    fsspec.register_implementation("guarded", own, clobber=True)
    return "guarded://me:secret@host/x"


def test_an_error_of_a_back_end_is_one_of_the_system(tmp_path: Path, nodes: Nodes, guarded: str) -> None:
    with pytest.raises(OSError, match="CredentialsError") as caught:
        push(tmp_path / "desktop", guarded)
    told = mirror_error(guarded, caught.value)
    assert told.message == "cannot use guarded://***@host/x as a mirror (kv.remote, or the URL given): CredentialsError"
    remote = reader(tmp_path / "desktop", guarded)
    assert (find(remote, nodes), remote.last_failure) == (0, "unreachable")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of what is left of a half-made FTP
@pytest.mark.parametrize(
    ("url", "told"), [("ftp://", "TypeError"), ("adl://a/b", "not installed"), ("nothing://x", "ValueError")]
)
def test_a_url_that_cannot_be_served_says_why(tmp_path: Path, url: str, told: str) -> None:
    with pytest.raises(PkbError, match=r"kv\.remote") as caught:
        Mirror(url, tmp_path / "share", create=True)
    assert told in caught.value.message


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://bucket/x", "s3://bucket/x"),
        ("s3://KEY:se/cr?t@bucket/x", "s3://***@bucket/x"),
        ("abfs://c@account/x?sig=secret", "abfs://***@account/x?***"),
        ("https://192.168.1.5:8643#desktop", "https://192.168.1.5:8643#desktop"),
    ],
)
def test_a_url_is_shown_without_credentials(url: str, shown: str) -> None:
    assert masked(url) == shown


@given(st.binary(max_size=200), st.binary(min_size=16, max_size=16))
def test_a_sealed_file_is_opened_again(data: bytes, key: bytes) -> None:
    sealer = _sealer()
    sealed = sealer.seal(key, data)
    assert len(sealed) == len(data) + OVERHEAD
    assert sealer.open(key, sealed) == data
    assert sealer.seal(key, data) != sealed


@given(st.binary(max_size=120), st.booleans())
def test_no_bytes_open_as_a_node(data: bytes, begun: bool) -> None:
    sealer = _sealer()
    with pytest.raises(BadNode):
        sealer.open(b"k" * 16, (sealer.seal(b"k" * 16, b"")[:28] if begun else b"") + data)


@given(st.data())
def test_no_changed_bit_of_an_object_opens(data: st.DataObject) -> None:
    sealer = _sealer()
    sealed = bytearray(sealer.seal(b"k" * 16, b"some tensors"))
    bit = data.draw(st.integers(0, 8 * len(sealed) - 1))
    sealed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(BadNode):
        sealer.open(b"k" * 16, bytes(sealed))


_MADE = list[MirrorKey]()


def _sealer() -> MirrorKey:
    if not _MADE:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            _MADE.append(MirrorKey(Path(folder, "mirror.key"), create=True))
    return _MADE[0]


def test_a_header_is_not_in_clear(tmp_path: Path, nodes: Nodes) -> None:
    sealed = _sealer().seal(nodes[0][0].key, nodes[0][1])
    assert json.dumps(nodes[0][0].key.hex()).encode() not in sealed


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[str]:
    """Return the URL of a mirror that was pushed to, and is slow from then on."""
    fsspec.register_implementation("slow", SlowFiles, clobber=True)
    SlowFiles.go_on.set()
    push(tmp_path / "desktop", f"slow://{tmp_path}/mirror")
    SlowFiles.stop()
    yield f"slow://{tmp_path}/mirror"
    SlowFiles.go_on.set()


def test_a_list_that_was_begun_before_is_there_when_it_is_needed(tmp_path: Path, nodes: Nodes, slow: str) -> None:
    remote = reader(tmp_path / "desktop", slow)
    remote.prepare()
    assert SlowFiles.begun.wait(PATIENCE_S)
    SlowFiles.go_on.set()
    assert isinstance(remote._source, MirrorSource)
    remote._source._lister.join(PATIENCE_S)
    assert (len(remote.find(keys_of(nodes))), remote.last_miss) == (3, "")


def test_a_list_that_is_late_is_no_answer_and_no_failure(tmp_path: Path, nodes: Nodes, slow: str) -> None:
    remote, begun = reader(tmp_path / "desktop", slow), time.monotonic()
    assert (remote.find(keys_of(nodes), PATIENCE_S), remote.last_miss) == ((), "unlisted")
    assert time.monotonic() - begun < PATIENCE_S / 10
    assert (remote.is_available, remote.traffic.failures) == (True, 0)
    SlowFiles.go_on.set()
    assert find(remote, nodes) == 3


def test_the_next_process_uses_the_last_list_until_it_has_its_own(tmp_path: Path, nodes: Nodes, slow: str) -> None:
    SlowFiles.go_on.set()
    assert find(reader(tmp_path / "desktop", slow), nodes) == 3
    SlowFiles.go_on.clear()
    remote = reader(tmp_path / "desktop", slow)
    assert len(remote.find(keys_of(nodes), PATIENCE_S)) == 3
    assert isinstance(remote._source, MirrorSource)
    assert not remote._source._is_listed
    header, data = nodes[0]
    assert remote.fetch(header, len(data), PATIENCE_S).file.getvalue() == data


def test_the_last_list_is_private_and_tells_nothing(tmp_path: Path, nodes: Nodes, slow: str) -> None:
    SlowFiles.go_on.set()
    find(reader(tmp_path / "desktop", slow), nodes)
    (noted,) = (tmp_path / "desktop" / "share").glob("listed-*")
    assert noted.stat().st_mode & 0o777 == 0o600
    text = noted.read_text()
    assert (len(text.splitlines()), "mirror" in text) == (3, False)
    assert not [header for header in keys_of(nodes) if header.hex() in text]


@pytest.mark.parametrize("text", ["", "x", "12 ../../../etc/passwd\n", "\xff", f"9 {'a' * 16}/{'b' * 32}-{'c' * 16}\n"])
def test_a_last_list_that_is_damaged_or_another_names_nothing(
    tmp_path: Path, nodes: Nodes, slow: str, text: str
) -> None:
    SlowFiles.go_on.set()
    find(reader(tmp_path / "desktop", slow), nodes)
    (noted,) = (tmp_path / "desktop" / "share").glob("listed-*")
    noted.write_text(text, "latin-1")
    SlowFiles.go_on.clear()
    remote = reader(tmp_path / "desktop", slow)
    assert (remote.find(keys_of(nodes), PATIENCE_S), remote.last_miss) == ((), "unlisted")
    SlowFiles.go_on.set()
    assert find(remote, nodes) == 3


def test_what_only_the_last_list_has_is_a_miss(tmp_path: Path, nodes: Nodes, slow: str) -> None:
    SlowFiles.go_on.set()
    find(reader(tmp_path / "desktop", slow), nodes)
    SlowFiles.go_on.clear()
    for path in objects(tmp_path):
        path.unlink()
    remote = reader(tmp_path / "desktop", slow)
    assert len(remote.find(keys_of(nodes), PATIENCE_S)) == 3
    assert why(remote, *sized(nodes[0])) == "absent"
    assert remote.is_available
