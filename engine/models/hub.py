"""Downloads a model from the Hugging Face hub into its local cache: only missing files, each verified.

The only module that imports huggingface_hub, and the only one that uses the network. HF_ENDPOINT overrides the address.
"""

import errno
import fcntl
import io
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from hashlib import file_digest, sha1
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.models.lookup import CONFIG, INDEX, SPEAKING, TOKENS, WEIGHTS, InstalledModel, hub_cache, repository
from store.errors import Locked, NoModel, PkbError, UsageError

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.hf_api import ModelInfo, RepoSibling


@dataclass(frozen=True, slots=True)
class File:
    """One file of a model as the hub announces it; the digest is SHA-256, or for a small file git's SHA-1."""

    name: str
    size: int
    digest: str

    def is_in(self, stream: io.BytesIO | io.BufferedReader) -> bool:
        """Return whether a stream holds this file and nothing else."""
        if len(self.digest) == 64:
            return file_digest(stream, "sha256").hexdigest() == self.digest
        return file_digest(stream, lambda: sha1(f"blob {self.size}\0".encode())).hexdigest() == self.digest


@dataclass(frozen=True, slots=True)
class DownloadPlan:
    """What a model consists of at one commit, and its config.json, which says whether the rest is worth fetching."""

    name: str
    revision: str  # as asked for; empty for the branch main
    commit: str
    files: tuple[File, ...]
    config_text: bytes

    @property
    def bytes(self) -> int:
        """Return the size of all files."""
        return sum(file.size for file in self.files)

    @property
    def weights(self) -> int:
        """Return the size of the weights."""
        return sum(file.size for file in self.files if fnmatch(file.name, WEIGHTS))

    @property
    def config(self) -> dict[str, Any]:
        """Read its config.json."""
        found: dict[str, Any] = json.loads(self.config_text)
        return found


def wanted(name: str) -> bool:
    """Return whether a model needs a file here: nothing that could be run, and nothing of a subfolder."""
    return name in (*SPEAKING, INDEX) or fnmatch(name, WEIGHTS)


def require_complete(name: str, files: set[str]) -> None:
    """Raise PkbError where a repository lacks what a model needs here."""
    if not any(fnmatch(file, WEIGHTS) for file in files):
        raise PkbError(f"{name} has no safetensors weights, and pkb loads no other format")
    for needed in (CONFIG, TOKENS):
        if needed not in files:
            raise PkbError(f"{name} has no {needed}, which pkb needs")


def verified_config(name: str, file: File, text: bytes) -> bytes:
    """Return a config.json that is what was announced; PkbError where it is not, or is no config."""
    if not file.is_in(io.BytesIO(text)):
        raise wrong(CONFIG, name)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise PkbError(f"the {CONFIG} of {name} cannot be read")
    return text


def wrong(file: str, name: str) -> PkbError:
    """Return the error of a file that is not the one that was announced."""
    return PkbError(f"{file} does not match the hub's checksum and was removed", f"pkb model pull {name}")


class PartialDownload(io.FileIO):
    """A file that one process appends to; it tells how long it is by now, `before` included."""

    def __init__(self, path: Path, before: int, tick: Callable[[int], None]) -> None:
        super().__init__(path, "ab")
        self._before, self._tick = before, tick
        try:
            fcntl.flock(self, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise Locked("another pkb is downloading this model", "try again when it is done") from None

    def write(self, data: Any, /) -> int:
        """Write all of it: a disk that fills up takes a part first, and refuses the next."""
        whole = rest = memoryview(data)
        while rest:
            rest = rest[super().write(rest) :]
        self._tick(self._before + self.tell())
        return len(whole)


class HubCache:
    """One repository's folder in the hub's cache."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def held(self, plan: DownloadPlan, file: File) -> int:
        """Count the bytes of a file that are here, whole or in part."""
        copy = self.copy(plan, file) or self.partial(file)
        return min(copy.stat().st_size, file.size) if copy.is_file() else 0

    def copy(self, plan: DownloadPlan, file: File) -> Path | None:
        """Return the path of a complete file, None if none; on a disk without links only the snapshot has it."""
        places = (self._snapshot(plan) / file.name, self._blob(file))
        return next((path for path in places if path.is_file()), None)

    def partial(self, file: File) -> Path:
        """Return where a file grows, in a folder that is there."""
        return self._blob(file).with_name(f"{file.digest}.incomplete")

    def make(self) -> None:
        """Make the folder in which files grow."""
        (self._folder / "blobs").mkdir(parents=True, exist_ok=True)

    def keep(self, file: File) -> None:
        """Take a file that has grown for whole."""
        self.partial(file).replace(self._blob(file))

    def publish(self, plan: DownloadPlan) -> InstalledModel:
        """Let a model be found whose files are all here and verified."""
        snapshot = self._snapshot(plan)
        snapshot.mkdir(parents=True, exist_ok=True)
        for file in plan.files:
            _link(self._blob(file), snapshot / file.name)
        if plan.revision != plan.commit:  # a branch or a tag: other programs ask where it points
            reference = self._folder / "refs" / (plan.revision or "main")
            reference.parent.mkdir(parents=True, exist_ok=True)
            reference.write_text(plan.commit)
        return InstalledModel(plan.name, snapshot, plan.commit)

    def remove(self) -> int:
        """Delete all revisions; returns the bytes that they took."""
        taken = sum(
            path.lstat().st_size for path in self._folder.rglob("*") if path.is_file() and not path.is_symlink()
        )
        shutil.rmtree(self._folder)
        shutil.rmtree(self._folder.parent / ".locks" / self._folder.name, ignore_errors=True)
        return taken

    def _snapshot(self, plan: DownloadPlan) -> Path:
        return self._folder / "snapshots" / plan.commit

    def _blob(self, file: File) -> Path:
        return self._folder / "blobs" / file.digest


def verify(path: Path, file: File, name: str) -> None:
    """Raise PkbError where a file is not the one that was announced, and remove it with what it is a link to."""
    with path.open("rb") as stream:
        right = file.is_in(stream)
    if not right:
        for place in {path, path.resolve()}:
            place.unlink(missing_ok=True)
        raise wrong(file.name, name)


def _link(blob: Path, pointer: Path) -> None:
    if pointer.is_file():
        return
    pointer.unlink(missing_ok=True)  # a link to what is gone
    try:
        with suppress(FileExistsError):  # another program was quicker
            pointer.symlink_to(Path("..", "..", "blobs", blob.name))
    except OSError:  # a disk without links
        shutil.copyfile(blob, pointer)


_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_LIBRARY = {  # plain HTTP to one place, and nothing said on the side, there or here
    "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1", "HF_HUB_VERBOSITY": "critical",
}  # fmt: skip
_LARGEST = 50_000_000_000  # bytes of one file; the library fetches none above it by plain HTTP


class Hub:
    """The hub, for a process that may use the network from here on; `environ` says where it and its cache are."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        for name in _OFFLINE:
            os.environ.pop(name, None)
        os.environ.update(_LIBRARY)  # read once, when the library is first imported
        self._environ, self._cache = environ, hub_cache(environ)
        self._endpoint = environ.get("HF_ENDPOINT", "").rstrip("/") or None

    def plan(self, name: str, revision: str) -> DownloadPlan:
        """Ask what a model consists of, and fetch its config.json; NoModel where the hub has none of that name."""
        with self._explained(name, revision):
            info = self._info(name, revision)
            commit = info.sha or ""
            if not re.fullmatch("[0-9a-f]{40}", commit):
                raise PkbError(f"the hub reports no commit of {name} to pin")
            files = tuple(_file(one) for one in info.siblings or () if wanted(one.rfilename))
            require_complete(name, {file.name for file in files})
            config = next(file for file in files if file.name == CONFIG)
            text = io.BytesIO()
            self._get(name, commit, config, text)
        return DownloadPlan(name, revision, commit, files, verified_config(name, config, text.getvalue()))

    def missing(self, plan: DownloadPlan) -> int:
        """Count the bytes of a plan that are not here yet."""
        cached = self._cached(plan)
        return sum(file.size - cached.held(plan, file) for file in plan.files)

    def free(self) -> int:
        """Count the bytes that are free where the cache is, or would be."""
        there = next(folder for folder in (self._cache, *self._cache.parents) if folder.exists())
        return shutil.disk_usage(there).free

    def pull(self, plan: DownloadPlan, tick: Callable[[int], None]) -> InstalledModel:
        """Fetch what is missing and verify all of it, then let it be found; `tick` is told how many bytes are here."""
        done = 0
        with self._explained(plan.name, plan.revision):
            for file in sorted(plan.files, key=lambda file: file.size):
                self._complete(plan, file, done, tick)
                done += file.size
                tick(done)
            return self._cached(plan).publish(plan)

    def _complete(self, plan: DownloadPlan, file: File, before: int, tick: Callable[[int], None]) -> None:
        """Have one file whole and verified; what an earlier attempt got of it is kept, and what is wrong is removed."""
        cached = self._cached(plan)
        if here := cached.copy(plan, file):
            verify(here, file, plan.name)
            return
        cached.make()
        with PartialDownload(cached.partial(file), before, tick) as growing:
            if growing.tell() > file.size or file.name == CONFIG:
                growing.seek(0)
                growing.truncate()
            if file.name == CONFIG:
                growing.write(plan.config_text)
            else:
                self._get(plan.name, plan.commit, file, growing)
            verify(cached.partial(file), file, plan.name)
            cached.keep(file)

    def _get(self, name: str, commit: str, file: File, into: io.BytesIO | PartialDownload) -> None:
        from huggingface_hub import get_token, hf_hub_url
        from huggingface_hub.file_download import http_get

        if file.size > _LARGEST:
            raise PkbError(
                f"{file.name} of {name} is larger than {_LARGEST // 10**9} GB, the most the hub serves over HTTP"
            )
        url = hf_hub_url(name, file.name, revision=commit, endpoint=self._endpoint)
        # Compressed on the way, a file could not be asked for from its middle on.
        headers = {"user-agent": f"pkb/{version('pkb')}", "accept-encoding": "identity"}
        if token := get_token():
            headers["authorization"] = f"Bearer {token}"
        http_get(url, into, resume_size=into.tell(), headers=headers, expected_size=file.size)

    def _info(self, name: str, revision: str) -> "ModelInfo":
        from huggingface_hub import HfApi, constants

        library = HfApi(endpoint=self._endpoint, library_name="pkb", library_version=version("pkb"))
        try:
            return library.model_info(
                name, revision=revision or None, files_metadata=True, timeout=constants.HF_HUB_ETAG_TIMEOUT
            )
        except (TypeError, KeyError, json.JSONDecodeError, UnicodeDecodeError):  # the page of a hotel's network, say
            raise PkbError("the response is not from the hub", "try again on another network") from None

    def _cached(self, plan: DownloadPlan) -> HubCache:
        return HubCache(repository(plan.name, self._environ))

    @contextmanager
    def _explained(self, name: str, revision: str) -> Iterator[None]:
        """Turn what the library and the disk raise into one line that says what helps."""
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError

        # The library has changed its HTTP client before; its own error extends that of the client.
        client: type[Exception] = HfHubHTTPError.__bases__[0]
        again = f"pkb model pull {name}" + (f"@{revision}" if revision else "")
        try:
            yield
        except HfHubHTTPError as error:
            raise _refusal(error, name, revision, again) from None
        except client as error:
            where = f"the hub at {self._endpoint}" if self._endpoint else "the hub"
            raise PkbError(f"cannot reach {where} ({error or type(error).__name__})", again) from None
        except HFValidationError:
            raise UsageError(f"{name} is not a valid name on the hub", "pkb model pull ORG/NAME") from None
        except OSError as error:
            if error.errno == errno.ENOSPC:
                message = f"no space left in {self._cache}; the partial download of {name} is kept"
                raise PkbError(message, f"free some disk space, then: {again}") from None
            if error.errno is None:  # the library's word for a file of another length than was announced
                raise PkbError(f"a file of {name} is not as long as the hub announced", again) from None
            raise


def _file(announced: "RepoSibling") -> File:
    digest = announced.lfs.sha256 if announced.lfs else announced.blob_id
    if announced.size is None or not re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", digest or ""):
        raise PkbError(f"the hub reports no size and checksum of {announced.rfilename} to verify")
    return File(announced.rfilename, announced.size, digest or "")


def _refusal(error: "HfHubHTTPError", name: str, revision: str, again: str) -> PkbError:
    """Return why the hub refused, by its own codes."""
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    status, page = error.response.status_code, f"https://huggingface.co/{name}"
    match error:
        case GatedRepoError():
            return PkbError(f"{name} is gated: request access at {page}, and set HF_TOKEN", again)
        case RevisionNotFoundError():
            return NoModel(f"{name} has no revision {revision}", f"pkb model pull {name}")
        case RepositoryNotFoundError():
            return NoModel(f"{name} is not on the hub: check the spelling; if it is private, set HF_TOKEN", again)
    if status in (401, 403):
        return PkbError(f"the hub refuses {name} ({status}): request access at {page}, and set HF_TOKEN", again)
    if status == 404:
        return NoModel(f"{name} is not on the hub: check the spelling", "pkb model pull ORG/NAME")
    return PkbError(f"the hub answered {status}, which may be temporary; the partial download is kept", again)
