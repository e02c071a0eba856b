"""Fetches a model from the hub into its local cache: what there is, then only what is missing, each file verified.

The only module that knows the hub's library, and the only one that uses the network. The address of the hub is the
library's own, or HF_ENDPOINT.
"""

import errno
import io
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

from engine.models.blobs import Growing, Shelf, verify
from engine.models.place import CONFIG, Local, hub_cache, repository
from engine.models.plan import File, Plan, demand_whole, verified_config, wanted
from store.errors import NoModel, PkbError, UsageError

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.hf_api import ModelInfo, RepoSibling

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

    def plan(self, name: str, revision: str) -> Plan:
        """Ask what a model consists of, and fetch its config.json; NoModel where the hub has none of that name."""
        with self._explained(name, revision):
            info = self._info(name, revision)
            commit = info.sha or ""
            if not re.fullmatch("[0-9a-f]{40}", commit):
                raise PkbError(f"the hub reports no commit of {name} to pin")
            files = tuple(_file(one) for one in info.siblings or () if wanted(one.rfilename))
            demand_whole(name, {file.name for file in files})
            config = next(file for file in files if file.name == CONFIG)
            text = io.BytesIO()
            self._get(name, commit, config, text)
        return Plan(name, revision, commit, files, verified_config(name, config, text.getvalue()))

    def missing(self, plan: Plan) -> int:
        """Count the bytes of a plan that are not here yet."""
        shelf = self._shelf(plan)
        return sum(file.size - shelf.held(plan, file) for file in plan.files)

    def free(self) -> int:
        """Count the bytes that are free where the cache is, or would be."""
        there = next(folder for folder in (self._cache, *self._cache.parents) if folder.exists())
        return shutil.disk_usage(there).free

    def pull(self, plan: Plan, tick: Callable[[int], None]) -> Local:
        """Fetch what is missing and verify all of it, then let it be found; `tick` is told how many bytes are here."""
        done = 0
        with self._explained(plan.name, plan.revision):
            for file in sorted(plan.files, key=lambda file: file.size):
                self._complete(plan, file, done, tick)
                done += file.size
                tick(done)
            return self._shelf(plan).publish(plan)

    def _complete(self, plan: Plan, file: File, before: int, tick: Callable[[int], None]) -> None:
        """Have one file whole and verified; what an earlier attempt got of it is kept, and what is wrong is removed."""
        shelf = self._shelf(plan)
        if here := shelf.copy(plan, file):
            verify(here, file, plan.name)
            return
        shelf.make()
        with Growing(shelf.partial(file), before, tick) as growing:
            if growing.tell() > file.size or file.name == CONFIG:
                growing.seek(0)
                growing.truncate()
            if file.name == CONFIG:
                growing.write(plan.config_text)
            else:
                self._get(plan.name, plan.commit, file, growing)
            verify(shelf.partial(file), file, plan.name)
            shelf.keep(file)

    def _get(self, name: str, commit: str, file: File, into: io.BytesIO | Growing) -> None:
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

    def _shelf(self, plan: Plan) -> Shelf:
        return Shelf(repository(plan.name, self._environ))

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
    """Say why the hub refused, by its own codes."""
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
