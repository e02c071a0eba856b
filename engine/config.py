"""The config file: read, one key of it changed, what is wrong with it told.

Knows TOML and the fields of the settings by their types and limits; not what they mean.
"""

import tomllib
from collections.abc import Mapping, MutableMapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from engine.settings import Settings, find, keys
from store.errors import PkbError, UsageError

RETIRED = frozenset(
    f"{section}.{name}"
    for section, names in {
        "ask": "whole whole_tokens drafts",
        "bank": "semantic max_error refresh_k guard evidence verify check",
        "ingest": "gone_share",
        "kv": "order score",
        "idle": "away_s load stride history cutoff quiet_s",
    }.items()
    for name in names.split()
)  # keys of older versions: in a file they are ignored


def chosen(path: Path) -> set[str]:
    """Return the keys that the config file sets."""
    return {key for key, _ in _leaves(_sections(_text(path), str(path)))}


def retired(path: Path) -> list[str]:
    """Return the keys in the config file that pkb no longer reads."""
    return sorted(chosen(path) & RETIRED)


def save(path: Path, key: str, value: str) -> Any:
    """Write one key to the config file, keeping comments and other faults; gives the value as it was understood."""
    import tomlkit  # slower to import than all of this module

    kept = find(put(Settings(), key, value), key)
    _sections(text := _text(path), str(path))  # what is not TOML must not be written over
    document = tomlkit.parse(text)
    section, name = key.split(".")
    if not isinstance(part := document.setdefault(section, tomlkit.table()), MutableMapping):
        raise UsageError(f"{path}: {section} must be a section", "pkb config path")
    part[name] = kept
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = path.with_suffix(".part")
        partial.touch(0o600)
        partial.write_text(tomlkit.dumps(document), "utf-8")
        partial.replace(path)
    except OSError as error:
        raise PkbError(f"cannot write {path}: {error.strerror}", "pkb config path") from None
    return kept


def load(path: Path) -> Settings:
    """Read the config file, where there is one; UsageError naming the file and the key that cannot be."""
    return parse(_text(path), str(path))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError):
        raise PkbError(f"cannot read {path}", "pkb config path") from None


def parse(text: str, source: str) -> Settings:
    """Read settings from TOML; `source` is named in errors."""
    settings, known = Settings(), keys(Settings())
    for key, value in _leaves(_sections(text, source)):
        if key in RETIRED:
            continue
        if key not in known:
            raise UsageError(f"{source}: no such key: {key}", "pkb config path")
        settings = put(settings, key, value, source)
    return settings


def _sections(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source} is not TOML: {error}", "pkb config path") from None


def put(settings: Settings, key: str, value: Any, source: str = "config") -> Settings:
    """Change one dotted key; UsageError where it is unknown or the value is of another type or negative."""
    known = keys(settings)
    if key in RETIRED:
        raise UsageError(f"{source}: {key} was retired", "pkb config show")
    if key not in known:
        raise UsageError(f"{source}: no such key: {key}", "pkb config show")
    section, name = key.split(".")
    part = getattr(settings, section)
    limits = next(one.metadata for one in fields(part) if one.name == name)
    fits = _typed(value, type(known[key]))
    if fits is None or not _within(fits, limits):
        usual = known[key] if known[key] != "" else "''"
        raise UsageError(f"{source}: {key} must be {_wanted(known[key], limits)}", f"pkb config set {key} {usual}")
    return replace(settings, **{section: replace(part, **{name: fits})})


def _typed(value: Any, wanted: type) -> Any:
    """Bring a value, which may be text from a command line, to a type; None where it is of another."""
    try:
        fits = wanted(value) if isinstance(value, str) or (wanted is float and type(value) is int) else value
    except ValueError:
        return None
    return fits if type(fits) is wanted and fits == fits else None  # nan is not equal to itself


def _within(value: Any, limits: Mapping[str, Any]) -> bool:
    if isinstance(value, str) or "among" in limits:
        return value in limits.get("among", (value,))
    return bool(limits.get("least", 0) <= value <= limits.get("most", value))


def _wanted(value: Any, limits: Mapping[str, Any]) -> str:
    """Say what a key takes."""
    if isinstance(value, str) or "among" in limits:
        return " or ".join(map(str, limits.get("among", ()))) or "text"
    kind, least = "an integer" if isinstance(value, int) else "a number", limits.get("least", 0)
    return f"{kind}, {least} to {limits['most']}" if "most" in limits else f"{kind}, {least} or more"


def _leaves(sections: dict[str, Any]) -> list[tuple[str, Any]]:
    return [
        (f"{section}.{name}", value)
        for section, values in sections.items()
        for name, value in (values.items() if isinstance(values, dict) else [("", values)])
    ]
