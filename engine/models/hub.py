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

from engine.models import lookup
from engine.models.lookup import CONFIG, INDEX, SUPPORT_FILES, TOKENS, WEIGHTS, InstalledModel, hub_cache, repository
from store.errors import Locked, NoModel, PkbError, UsageError

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.hf_api import ModelInfo, RepoSibling


@dataclass(frozen=True, slots=True)
class File:
    """One file of a model as listed by the hub; the digest is SHA-256, or git's SHA-1 for a small file."""

    name: str
    size: int
    digest: str

    def matches(self, stream: io.BytesIO | io.BufferedReader) -> bool:
        """Return whether the content of a stream has this file's digest."""
        if len(self.digest) == 64:
            return file_digest(stream, "sha256").hexdigest() == self.digest
        return file_digest(stream, lambda: sha1(f"blob {self.size}\0".encode())).hexdigest() == self.digest


@dataclass(frozen=True, slots=True)
class DownloadPlan:
    """The files of a model at one commit, and its config.json, which tells whether pkb can use the model."""

    name: str
    revision: str  # as given; empty for the branch main
    commit: str
    files: tuple[File, ...]
    config_text: bytes

    @property
    def bytes(self) -> int:
        """Return the size of all files in bytes."""
        return sum(file.size for file in self.files)

    @property
    def weights(self) -> int:
        """Return the size of the weights in bytes."""
        return sum(file.size for file in self.files if fnmatch(file.name, WEIGHTS))

    @property
    def config(self) -> dict[str, Any]:
        """Read its config.json."""
        found: dict[str, Any] = json.loads(self.config_text)
        return found


def is_needed(name: str) -> bool:
    """Return whether pkb downloads a file of a repository: no code, and nothing in a subfolder."""
    return name in (*SUPPORT_FILES, INDEX) or fnmatch(name, WEIGHTS)


def require_complete(name: str, files: set[str]) -> None:
    """Raise PkbError if a repository lacks weights, config or tokenizer."""
    if not any(fnmatch(file, WEIGHTS) for file in files):
        raise PkbError(f"{name} has no safetensors weights, and pkb loads no other format")
    for needed in (CONFIG, TOKENS):
        if needed not in files:
            raise PkbError(f"{name} has no {needed}, which pkb needs")


def verified_config(name: str, file: File, text: bytes) -> bytes:
    """Return the text of a config.json; PkbError if its digest is wrong or it is not a config."""
    if not file.matches(io.BytesIO(text)):
        raise checksum_error(CONFIG, name)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise PkbError(f"the {CONFIG} of {name} cannot be read")
    return text


def checksum_error(file: str, name: str) -> PkbError:
    """Return the error for a file that does not match the hub's checksum."""
    return PkbError(f"{file} does not match the hub's checksum and was removed", f"pkb model pull {name}")


class PartialDownload(io.FileIO):
    """A locked file that a download is appended to; `tick` is called with its size plus `before`, in bytes."""

    def __init__(self, path: Path, before: int, tick: Callable[[int], None]) -> None:
        super().__init__(path, "ab")
        self._before, self._tick = before, tick
        try:
            fcntl.flock(self, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise Locked("another pkb is downloading this model", "try again when it is done") from None

    def write(self, data: Any, /) -> int:
        """Write all of the data: on a disk that is nearly full, one call writes only a part."""
        rest = memoryview(data)
        size = len(rest)
        while rest:
            rest = rest[super().write(rest) :]
        self._tick(self._before + self.tell())
        return size


class HubCache:
    """One repository's folder in the hub's cache."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def downloaded(self, plan: DownloadPlan, file: File) -> int:
        """Return how many bytes of a file are downloaded, complete or partial."""
        path = self.complete(plan, file) or self.partial(file)
        return min(path.stat().st_size, file.size) if path.is_file() else 0

    def complete(self, plan: DownloadPlan, file: File) -> Path | None:
        """Return the path of a complete file, None if there is none; without symlinks, only the snapshot has it."""
        paths = (self._snapshot(plan) / file.name, self._blob(file))
        return next((path for path in paths if path.is_file()), None)

    def partial(self, file: File) -> Path:
        """Return the path of a partial download."""
        return self._blob(file).with_name(f"{file.digest}.incomplete")

    def create(self) -> None:
        """Create the folder of downloads."""
        (self._folder / "blobs").mkdir(parents=True, exist_ok=True)

    def commit(self, file: File) -> None:
        """Mark a partial download as complete."""
        self.partial(file).replace(self._blob(file))

    def publish(self, plan: DownloadPlan) -> InstalledModel:
        """Make a model visible whose files are all downloaded and verified."""
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
        """Delete all revisions; returns the bytes freed."""
        freed = sum(
            path.lstat().st_size for path in self._folder.rglob("*") if path.is_file() and not path.is_symlink()
        )
        shutil.rmtree(self._folder)
        shutil.rmtree(self._folder.parent / ".locks" / self._folder.name, ignore_errors=True)
        return freed

    def _snapshot(self, plan: DownloadPlan) -> Path:
        return self._folder / "snapshots" / plan.commit

    def _blob(self, file: File) -> Path:
        return self._folder / "blobs" / file.digest


def verify(path: Path, file: File, name: str) -> None:
    """Raise PkbError if a file has the wrong digest, and remove it together with its link target."""
    with path.open("rb") as stream:
        matches = file.matches(stream)
    if not matches:
        for link_or_target in {path, path.resolve()}:
            link_or_target.unlink(missing_ok=True)
        raise checksum_error(file.name, name)


def _link(blob: Path, pointer: Path) -> None:
    if pointer.is_file():
        return
    pointer.unlink(missing_ok=True)  # a dangling link
    try:
        with suppress(FileExistsError):  # another program was quicker
            pointer.symlink_to(Path("..", "..", "blobs", blob.name))
    except OSError:  # a disk without links
        shutil.copyfile(blob, pointer)


_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_LIBRARY = {  # plain HTTP to one host; no telemetry, no log messages
    "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1", "HF_HUB_VERBOSITY": "critical",
}  # fmt: skip
_MAX_HTTP = 50_000_000_000  # bytes of one file; the library downloads no larger ones over plain HTTP


class Hub:
    """A client of the hub; creating one turns off offline mode. `environ` names the hub's address and cache."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        for name in _OFFLINE:
            os.environ.pop(name, None)
        os.environ.update(_LIBRARY)  # read once, when the library is first imported
        self._environ, self._cache = environ, hub_cache(environ)
        self._endpoint = environ.get("HF_ENDPOINT", "").rstrip("/") or None

    def plan(self, name: str, revision: str) -> DownloadPlan:
        """List a model's files and download its config.json; NoModel if the hub has no such model."""
        with self._explained(name, revision):
            info = self._info(name, revision)
            commit = info.sha or ""
            if not re.fullmatch("[0-9a-f]{40}", commit):
                raise PkbError(f"the hub reports no commit of {name} to pin")
            files = tuple(_file(one) for one in info.siblings or () if is_needed(one.rfilename))
            require_complete(name, {file.name for file in files})
            config = next(file for file in files if file.name == CONFIG)
            text = io.BytesIO()
            self._get(name, commit, config, text)
        return DownloadPlan(name, revision, commit, files, verified_config(name, config, text.getvalue()))

    def missing(self, plan: DownloadPlan) -> int:
        """Return how many bytes of a plan are still to be downloaded."""
        cached = self._cached(plan)
        return sum(file.size - cached.downloaded(plan, file) for file in plan.files)

    def free(self) -> int:
        """Return the free bytes on the disk of the cache."""
        return lookup.free(self._environ)

    def pull(self, plan: DownloadPlan, tick: Callable[[int], None]) -> InstalledModel:
        """Download missing files, verify all, and publish the model; `tick` is called with the bytes done."""
        done = 0
        with self._explained(plan.name, plan.revision):
            for file in sorted(plan.files, key=lambda file: file.size):
                self._complete(plan, file, done, tick)
                done += file.size
                tick(done)
            return self._cached(plan).publish(plan)

    def _complete(self, plan: DownloadPlan, file: File, before: int, tick: Callable[[int], None]) -> None:
        """Download and verify one file; resume a partial download, and remove a file with a wrong digest."""
        cached = self._cached(plan)
        if path := cached.complete(plan, file):
            verify(path, file, plan.name)
            return
        cached.create()
        with PartialDownload(cached.partial(file), before, tick) as partial:
            if partial.tell() > file.size or file.name == CONFIG:
                partial.seek(0)
                partial.truncate()
            if file.name == CONFIG:
                partial.write(plan.config_text)
            else:
                self._get(plan.name, plan.commit, file, partial)
            verify(cached.partial(file), file, plan.name)
            cached.commit(file)

    def _get(self, name: str, commit: str, file: File, into: io.BytesIO | PartialDownload) -> None:
        from huggingface_hub import get_token, hf_hub_url
        from huggingface_hub.file_download import http_get

        if file.size > _MAX_HTTP:
            raise PkbError(
                f"{file.name} of {name} is larger than {_MAX_HTTP // 10**9} GB, the most the hub serves over HTTP"
            )
        url = hf_hub_url(name, file.name, revision=commit, endpoint=self._endpoint)
        # A compressed transfer could not be resumed.
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
        except (
            TypeError,
            KeyError,
            json.JSONDecodeError,
            UnicodeDecodeError,
        ):  # such as the login page of a public network
            raise PkbError("the response is not from the hub", "try again on another network") from None

    def _cached(self, plan: DownloadPlan) -> HubCache:
        return HubCache(repository(plan.name, self._environ))

    @contextmanager
    def _explained(self, name: str, revision: str) -> Iterator[None]:
        """Turn errors of the library and the disk into a PkbError with a next step."""
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError

        # The library has changed its HTTP client before, but its own error has always extended the client's.
        client_error: type[Exception] = HfHubHTTPError.__bases__[0]
        again = f"pkb model pull {name}" + (f"@{revision}" if revision else "")
        try:
            yield
        except HfHubHTTPError as error:
            raise _refusal(error, name, revision, again) from None
        except client_error as error:
            where = f"the hub at {self._endpoint}" if self._endpoint else "the hub"
            raise PkbError(f"cannot reach {where} ({error or type(error).__name__})", again) from None
        except HFValidationError:
            raise UsageError(f"{name} is not a valid name on the hub", "pkb model pull ORG/NAME") from None
        except OSError as error:
            if error.errno == errno.ENOSPC:
                message = f"no space left in {self._cache}; the partial download of {name} is kept"
                raise PkbError(message, f"free some disk space, then run: {again}") from None
            if error.errno is None:  # raised by the library for a file of another length than listed
                raise PkbError(f"a file of {name} does not have the length that the hub lists", again) from None
            raise


def _file(listed: "RepoSibling") -> File:
    digest = listed.lfs.sha256 if listed.lfs else listed.blob_id
    if listed.size is None or not re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", digest or ""):
        raise PkbError(f"the hub reports no size and checksum of {listed.rfilename} to verify")
    return File(listed.rfilename, listed.size, digest or "")


def _refusal(error: "HfHubHTTPError", name: str, revision: str, again: str) -> PkbError:
    """Return the error for a response that the hub refused."""
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
