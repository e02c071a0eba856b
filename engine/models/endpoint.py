"""Where a model server is: its address, whether others can read what is sent there, and the key it may need.

Pure but for reading the key; opens no connection.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from engine.settings import SERVED, ModelSettings
from store.errors import PkbError, UsageError

EXAMPLE = "pkb model use openai:http://127.0.0.1:11434#llama3.2:3b"
_HOST = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?", re.ASCII)
_PATH = re.compile(r"(/[\w.~%+-]+)*/?", re.ASCII)
_VERSION = re.compile(r"/v\d\w*(/|\Z)", re.ASCII)
_KEY = re.compile(r"[\x21-\x7e]+")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is served: a base URL in parts, and the model's name there, empty for the only one."""

    scheme: str
    host: str
    port: int
    path: str  # ends in the version of the protocol, such as /v1
    name: str = ""

    @property
    def place(self) -> str:
        """Return host and port, as people write them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def root(self) -> str:
        """Return the path above the version, below which servers have calls of their own."""
        return self.path.rpartition("/")[0]

    @property
    def is_loopback(self) -> bool:
        """Return whether the host is this machine, by its name or number."""
        return self.host == "localhost" or (_is_number(self.host) and ip_address(self.host).is_loopback)

    @property
    def is_private(self) -> bool:
        """Return whether nobody on a network can read what is sent."""
        return self.scheme == "https" or self.is_loopback

    def __str__(self) -> str:
        """Return the setting that selects it."""
        usual = self.port == _PORTS[self.scheme]
        place = self.place.removesuffix(f":{self.port}") if usual else self.place
        return f"{SERVED}{self.scheme}://{place}{self.path}" + (f"#{self.name}" if self.name else "")


def _is_number(host: str) -> bool:
    with suppress(ValueError):
        ip_address(host)
        return True
    return False


def parse_endpoint(text: str) -> Endpoint:
    """Read `openai:URL#NAME`; /v1 is added where the URL names no version. UsageError for anything else."""
    url, _, name = text.removeprefix(SERVED).partition("#")
    try:
        parts, port = urlsplit(url), urlsplit(url).port
    except ValueError:
        raise UsageError("the address of the model server is no URL", EXAMPLE) from None
    host, path = parts.hostname or "", parts.path
    is_host = _is_number(host) or _HOST.fullmatch(host)
    if parts.scheme not in _PORTS or not is_host or not _PATH.fullmatch(path) or port == 0:
        raise UsageError("the address of a model server is like openai:http://127.0.0.1:11434#NAME", EXAMPLE)
    if parts.username is not None or parts.query or "?" in url:
        raise UsageError("the address of a model server has no password or query", "pkb config set model.key env:NAME")
    if name != name.strip() or not name.isprintable():
        raise UsageError("the name of the served model has blanks around it, or control characters", EXAMPLE)
    path = path.rstrip("/").removesuffix("/chat/completions").removesuffix("/models")
    path = path if _VERSION.search(path) else f"{path}/v1"
    host = "127.0.0.1" if host == "0.0.0.0" else host  # what servers print that listen everywhere
    return Endpoint(parts.scheme, host, port or _PORTS[parts.scheme], path, name)


def endpoint_of(settings: ModelSettings) -> Endpoint:
    """Return the configured endpoint; UsageError where it is none, or mail text would travel in clear unasked."""
    found = parse_endpoint(settings.name)
    if not found.is_private and settings.plain_http.strip().lower() != found.host:
        raise UsageError(
            f"{found.place} is reached without encryption, and others could read the mail text sent there; use https",
            f"pkb config set model.plain_http {found.host}",
        )
    return found


def exposure(endpoint: Endpoint) -> str:
    """Return the warning that is due where others can read what is sent; empty where they cannot."""
    return "" if endpoint.is_private else f"mail text travels to {endpoint.host} unencrypted"


def api_key(named: str, environ: Mapping[str, str]) -> str | None:
    """Return the key that a setting names, `env:NAME` or `file:PATH`; None if it names none. PkbError without a key."""
    kind, _, place = named.partition(":")
    if not named:
        return None
    try:
        found = environ.get(place, "") if kind == "env" else _private_text(Path(place).expanduser())
    except (OSError, UnicodeDecodeError, RuntimeError):
        raise PkbError(f"cannot read the API key in {place}", "pkb config get model.key") from None
    if not _KEY.fullmatch(found.strip()):
        raise PkbError(f"there is no API key in {place}", "pkb config get model.key")
    return found.strip()


def _private_text(path: Path) -> str:
    if path.stat().st_mode & 0o077:
        raise PkbError(f"others can read the API key in {path}", f"chmod 600 {path}")
    return path.read_text("ascii")
