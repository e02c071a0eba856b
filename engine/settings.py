"""The settings of the config file, and the papers' constants with their sections.

Parameters that only measurements vary are in `Experiment`, which no config file sets.
"""

from collections.abc import MutableMapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import asdict

from store.errors import PkbError, UsageError
from store.home import replacing
from store.types import replace

SERVED = "openai:"  # begins the name of a language model that a server runs


def _option(about: str, like: tuple[str, str] | None = None, **limits: Any) -> Meta:
    """Return the metadata of a setting: its meaning in half a line, and the limits of its values.

    `like` is a pattern of texts that need not be empty, and what an error calls them.
    """
    if like:
        limits |= {"pattern": rf"\A(?:{like[0]})?\Z", "examples": [like[1]]}
    return Meta(description=about, **limits)


_BUCKET = (r"s3://[a-z0-9][a-z0-9.-]+(?:/(?!\.+(?:/|$))[\w.-]+)+", "s3://BUCKET/FOLDER, or empty")


class HomeSettings(Struct, frozen=True):
    """Where data may be written."""

    place: Annotated[
        Literal["local", "any"],
        _option("local: not on network disks or in synced folders, which damage SQLite; or any"),
    ] = "local"
    tables: Annotated[str, _option("s3://BUCKET/FOLDER for a new home's search tables; empty: this disk", _BUCKET)] = ""


class MeSettings(Struct, frozen=True):
    """Who the user is."""

    addresses: Annotated[str, _option("your addresses and names, separated by semicolons: see pkb me")] = ""


class PeopleSettings(Struct, frozen=True):
    """Who is the same person, and who is not, where the user knows it better."""

    same: Annotated[str, _option("addresses of one person, joined by commas; semicolons between people")] = ""
    apart: Annotated[str, _option("addresses that no name joins with others, separated by commas: see pkb people")] = ""


class AskSettings(Struct, frozen=True):
    """How questions are answered."""

    k: Annotated[int, _option("sources retrieved for an answer", ge=1, le=50)] = 5
    decline_below: Annotated[float, _option("support (0 to 1) below which no answer is found", ge=0, le=1)] = 0.5


class BankSettings(Struct, frozen=True):
    """The answer cache (PerCache 4.1.1: the QA bank), and the similarity at which another question may hit it."""

    bytes: Annotated[int, _option("size of the answer cache", ge=0)] = 100_000_000
    tau: Annotated[float, _option("least cosine similarity of a paraphrase; 1: none", ge=0, le=1)] = 0.83


_STATES = (r"(?:deleted|spam|drafts)(?: (?:deleted|spam|drafts))*", "some of deleted, spam and drafts, or empty")
_LANGUAGES = (r"\w+(?:\+\w+)*", "names of languages with + between them, or empty")


class IngestSettings(Struct, frozen=True):
    """What may be ingested."""

    file_bytes: Annotated[int, _option("largest transcript in bytes", ge=1)] = 256 << 20
    leave_out: Annotated[
        str, _option("states of mail that is not indexed: deleted, spam, drafts; empty: index all", _STATES)
    ] = "deleted spam drafts"
    attachments: Annotated[Literal["read", "name"], _option("PDF and office files: read text, or name them")] = "read"
    ocr: Annotated[str, _option("tesseract's languages of scanned pages: eng+deu; empty: name these", _LANGUAGES)] = ""
    ca: Annotated[str, _option("PEM file of certificates trusted for mail servers, besides the system's")] = ""


class EmbedSettings(Struct, frozen=True):
    """Which model embeds."""

    model: Annotated[str, _option("minilm, multilingual, or a Qwen3 or E5 model")] = "minilm"


_KEY = (r"env:\w+|file:.+", "env:NAME or file:PATH")


class ModelSettings(Struct, frozen=True):
    """Which language model answers (none: pkb quotes), and how much it may use."""

    name: Annotated[str, _option("language model, or openai:URL#NAME for one that a server runs; empty: quote")] = ""
    revision: Annotated[str, _option("commit of the model; empty for a folder")] = ""
    max_tokens: Annotated[int, _option("longest answer in tokens", ge=1)] = 256
    memory_share: Annotated[float, _option("share of memory for a model; a server may use 15 % more", ge=0, le=1)] = (
        0.75
    )
    context: Annotated[int, _option("context of a model server in tokens; 0: as it says, or 4096", ge=0)] = 0
    key: Annotated[str, _option("API key of a model server: env:NAME or file:PATH", _KEY)] = ""
    plain_http: Annotated[str, _option("host of a model server that may be sent mail text without encryption")] = ""

    @property
    def is_served(self) -> bool:
        """Return whether a model server answers; then no model is loaded and no KV cache stored."""
        return self.name.startswith(SERVED)

    @property
    def is_local(self) -> bool:
        """Return whether a language model of this machine answers."""
        return self.name not in ("", "quote") and not self.is_served


_PEER = (r"https://[^\s#/@]+:\d+#[a-z0-9-]+", "https://HOST:PORT#PEER")


class KvSettings(Struct, frozen=True):
    """The KV cache on disk (PerCache 4.1.1: the tree of tensors), and its limits."""

    reuse: Annotated[Literal["prefix", "blocks", "off"], _option("KV reuse: prefix, blocks (anywhere), off")] = "prefix"
    bytes: Annotated[int, _option("size of the KV cache folder", ge=0)] = 4_000_000_000
    daily_bytes: Annotated[int, _option("bytes of KV written per day", ge=0)] = 20_000_000_000
    bits: Annotated[Literal[0, 8], _option("bits of a stored key or value; 0: as computed, 8: quantized")] = 0
    remote: Annotated[str, _option("peer to ask for KV: https://HOST:PORT#PEER", _PEER)] = ""
    remote_bits: Annotated[Literal[0, 5], _option("bits of a number of KV from there; 0: as stored, 5: rounded")] = 0


_ADAPTER = (r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", "a name that pkb adapter list shows, or empty")
_ADAPTERS = (rf"\s*{_ADAPTER[0]}=[^=;]+(?:;\s*{_ADAPTER[0]}=[^=;]+)*", "NAME=COLLECTION; NAME=COLLECTION")


class AdapterSettings(Struct, frozen=True):
    """Which LoRA adapter the language model has on for each task."""

    answer: Annotated[str, _option("adapter that answers questions; empty: none", _ADAPTER)] = ""
    predict: Annotated[str, _option("adapter that predicts questions; empty: none", _ADAPTER)] = ""
    collections: Annotated[
        str, _option("adapters for questions limited to a collection: NAME=COLLECTION; NAME=COLLECTION", _ADAPTERS)
    ] = ""


class ServeSettings(Struct, frozen=True):
    """The background server, which keeps the model and the tables in memory between questions."""

    daemon: Annotated[
        Literal["auto", "on", "off"], _option("background server: auto (exits when idle), on (stays) or off")
    ] = "auto"
    idle_minutes: Annotated[float, _option("idle minutes after which the background server exits", ge=0)] = 15.0
    hosts: Annotated[str, _option("names by which clients may reach pkb serve --http, separated by spaces")] = ""


class IdleSettings(Struct, frozen=True):
    """Idle jobs (PerCache 4.1.2, 4.3), and when they run: free means mains power, no load, nobody there."""

    when: Annotated[Literal["free", "always"], _option("free: on mains power, no load, nobody there; always")] = "free"
    ahead: Annotated[int, _option("chunks prefetched per idle run, new or often retrieved; 0: none", ge=0)] = 120


class PredictSettings(Struct, frozen=True):
    """Questions that idle runs answer before they are asked."""

    standing: Annotated[str, _option("questions answered in each new meeting before you ask; or empty")] = (
        "What was it about? What was decided? Who does what by when? What is still open? Who was there? When was it?"
    )


class Experiment(Struct, frozen=True):
    """Parameters that only measurements vary: tests/bench sets them, a config file cannot."""

    # The semantic tier, and what may refuse a hit in it.
    semantic: bool = True
    guard: bool = True  # the words of the two questions
    verify: bool = True  # the answer, quoted once more from its evidence
    # Of the hits served, at most this share may be wrong, by what idle runs find; a higher tau is learnt from that.
    max_error: float = 0.02
    refresh_k: int = 5  # an answer is stale when a new chunk is among the 5 nearest (PerCache 4.1.3)
    drafts: int = 8  # tokens of an answer that are guessed and checked at a time
    score: str = "value"  # what the KV cache evicts by: value, lfu
    stride: int = 5  # questions predicted at a time (PerCache 5)
    history: int = 50  # questions looked back to (PerCache 4.1.2)
    # If significantly fewer predicted answers are used, questions are prefilled but not answered (PerCache 4.3.2).
    cutoff: float = 0.05
    quiet_s: float = 300.0  # without new mail and questions, before questions are predicted
    # A disk may be unmounted when more documents vanish at once than this many, and than this share of all.
    gone_count: int = 50
    gone_share: float = 0.2


HALF_LIFE_S = 7 * 86_400.0  # of a KV node's worth: our own
# EPIC's link tokens, at the beginning of a block: with 16, blocks change the next token's distribution half as much.
LINKS = 16


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """All settings by section; `experiment` is not read from the config file."""

    home: HomeSettings = HomeSettings()
    me: MeSettings = MeSettings()
    people: PeopleSettings = PeopleSettings()
    ask: AskSettings = AskSettings()
    bank: BankSettings = BankSettings()
    ingest: IngestSettings = IngestSettings()
    embed: EmbedSettings = EmbedSettings()
    model: ModelSettings = ModelSettings()
    adapter: AdapterSettings = AdapterSettings()
    kv: KvSettings = KvSettings()
    idle: IdleSettings = IdleSettings()
    predict: PredictSettings = PredictSettings()
    serve: ServeSettings = ServeSettings()
    experiment: Experiment = Experiment()


def meanings() -> dict[str, str]:
    """Return the meaning of each dotted key, in half a line."""
    return {key: str(_kind(key).__metadata__[0].description) for key in keys(Settings())}


def _kind(key: str) -> Any:
    section, name = key.split(".")
    return get_type_hints(type(getattr(Settings(), section)), include_extras=True)[name]


def find(settings: Settings, key: str, source: str = "") -> Any:
    """Return the value of a dotted key; UsageError if there is no such key, which begins with `source`."""
    known = keys(settings)
    if key not in known:
        raise UsageError(f"{source}no such key: {key}", "pkb config show")
    return known[key]


def keys(settings: Settings) -> dict[str, Any]:
    """Return every dotted key that a config file may set, with its value, in order."""
    parts = {section: asdict(part) for section, part in asdict(settings).items() if section != "experiment"}
    return {f"{section}.{name}": value for section, part in parts.items() for name, value in part.items()}


def chosen(path: Path) -> set[str]:
    """Return the keys that the config file sets."""
    return set(_values(path))


def unknown(path: Path) -> list[str]:
    """Return the keys of the config file that pkb ignores because it does not know them."""
    return sorted(chosen(path) - keys(Settings()).keys())


def save(path: Path, key: str, value: str) -> Any:
    """Write one key to the config file and return the parsed value; comments and other keys stay as they are."""
    import tomlkit  # slower to import than all of this module

    parsed = find(put(Settings(), key, value), key)
    _values(path)  # never overwrite a file that is not TOML
    document = tomlkit.parse(_text(path))
    section, name = key.split(".")
    if not isinstance(part := document.setdefault(section, tomlkit.table()), MutableMapping):
        raise UsageError(f"{path}: {section} must be a section", "pkb config path")
    part[name] = parsed
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(tomlkit.dumps(document).encode())
    return parsed


def load(path: Path) -> Settings:
    """Read the config file if there is one, without unknown keys; UsageError naming the file and the wrong key."""
    settings, known = Settings(), keys(Settings())
    for key, value in _values(path).items():
        if key in known:
            settings = put(settings, key, value, str(path))
    return settings


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError):
        raise PkbError(f"cannot read {path}", "pkb config path") from None


def _values(path: Path) -> dict[str, Any]:
    """Return the values of a file by dotted key; one outside of a section has a key that ends with the dot."""
    if not (text := _text(path)):
        return {}
    import tomllib  # takes 2 ms, and most homes have no config file

    try:
        sections = {name: one if isinstance(one, dict) else {"": one} for name, one in tomllib.loads(text).items()}
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}", "pkb config path") from None
    except (ValueError, RecursionError):  # a number of too many digits, lists in too many lists
        raise UsageError(f"{path} is not TOML that can be read", "pkb config path") from None
    return {f"{section}.{name}": value for section, part in sections.items() for name, value in part.items()}


def put(settings: Settings, key: str, value: Any, source: str = "config") -> Settings:
    """Return the settings with one dotted key changed; UsageError if the key is unknown or the value is not valid."""
    current = find(settings, key, f"{source}: ")
    section, name = key.split(".")
    try:
        parsed = convert(value, _kind(key), strict=False)
    except ValidationError:
        step = f"pkb config set {key} {repr('') if current == '' else current}"
        raise UsageError(f"{source}: {key} must be {_expected(key)}", step) from None
    return replace(settings, **{section: replace(getattr(settings, section), **{name: parsed})})


def _expected(key: str) -> str:
    kind, limits = _kind(key).__origin__, _kind(key).__metadata__[0]
    if kind is str:
        return limits.examples[0] if limits.examples else "text"
    if among := get_args(kind):
        return " or ".join(map(str, among))
    number = "an integer" if kind is int else "a number"
    return f"{number}, {limits.ge} or more" if limits.le is None else f"{number}, {limits.ge} to {limits.le}"
