"""Every number that a user may change and every constant of the papers, once, with its section.

Knows its own fields and what they may hold; no file, and not who reads them. What only measurements change is in
`Experiment`, which no config file sets.
"""

from dataclasses import dataclass, field, fields
from typing import Any

from store.errors import UsageError


@dataclass(frozen=True, slots=True)
class AskSettings:
    """How questions are answered."""

    k: int = field(default=5, metadata={"least": 1, "most": 50})  # sources read for an answer
    # Support, 0 to 1, under which pkb says that it found nothing.
    decline_below: float = field(default=0.5, metadata={"most": 1})


@dataclass(frozen=True, slots=True)
class BankSettings:
    """What is kept of answers (PerCache 4.1.1: the QA bank), and which of them another question may be given."""

    bytes: int = 100_000_000
    tau: float = field(default=0.85, metadata={"most": 1})  # least cosine of two questions (PerCache 5)


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """How many vanished documents look like an unmounted disk, and what one item may cost."""

    gone_count: int = 50
    message_bytes: int = field(default=64 << 20, metadata={"least": 1})
    file_bytes: int = field(default=256 << 20, metadata={"least": 1})


@dataclass(frozen=True, slots=True)
class EmbedSettings:
    """Which embedder, and how many batches it computes at a time."""

    model: str = "minilm"  # or a Qwen3 of the hub's local cache, or a folder of one
    workers: int = field(default=0, metadata={"most": 256})  # 0: one for each core


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Which language model answers (none: pkb quotes), and what it may take."""

    name: str = ""  # of the hub's local cache, or a folder
    revision: str = ""  # the commit that was pulled; empty for a folder
    max_tokens: int = field(default=256, metadata={"least": 1})  # of one answer
    memory_share: float = field(default=0.75, metadata={"most": 1})  # of this machine's memory, for MLX


@dataclass(frozen=True, slots=True)
class KvSettings:
    """What is kept of what the model has read (PerCache 4.1.1: the tree of tensors), and what of it goes first."""

    reuse: str = field(default="prefix", metadata={"among": ("prefix", "blocks", "off")})
    bytes: int = 4_000_000_000  # of the whole cache folder, at every instant
    daily_bytes: int = 20_000_000_000  # written on one day, to spare the disk
    # That a number of the keys and values is kept in; 0: as it was computed, which changes no answer.
    bits: int = field(default=0, metadata={"among": (0, 8)})


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """The resident process that keeps what questions need in memory."""

    # auto: the first question starts it, and it leaves when idle; on: it stays until it is told to stop.
    daemon: str = field(default="auto", metadata={"among": ("auto", "on", "off")})
    idle_minutes: float = 15.0  # without a question, until it leaves
    memory_share: float = field(default=0.85, metadata={"most": 1})  # of this machine's memory; above it, it leaves


@dataclass(frozen=True, slots=True)
class IdleSettings:
    """What is done while nobody asks (PerCache 4.1.2, 4.3), and when: free means on mains, not busy, nobody there."""

    when: str = field(default="free", metadata={"among": ("free", "always")})
    ahead: int = 120  # chunks prefetched an idle run: the newest so many, and the most retrieved


@dataclass(frozen=True, slots=True)
class Experiment:
    """What measurements vary and users do not: tests/bench fills it in, and a config file cannot."""

    # The semantic tier, and what may refuse a hit in it.
    semantic: bool = True
    guard: bool = True  # the words of the two questions
    evidence: bool = True  # the passages retrieved for them
    verify: bool = True  # the answer, quoted once more
    check: bool = True  # one word of the model, where one writes
    # Of the hits served, at most this share may be wrong, by what idle runs find; a higher tau is learnt from that.
    max_error: float = 0.02
    refresh_k: int = 5  # an answer is stale when a new chunk is among so many nearest (PerCache 4.1.3)
    drafts: int = 8  # tokens of an answer that are guessed and checked at a time
    score: str = "value"  # what the KV cache evicts by: value, lfu, recency
    stride: int = 5  # questions predicted at a time (PerCache 5)
    history: int = 50  # questions looked back to (PerCache 4.1.2)
    # With a tau above it few hits get through: predicted questions are prefilled and not answered (PerCache 4.3.2).
    cutoff: float = 0.88
    quiet_s: float = 300.0  # without new mail and questions, before chunks are summarized and questions predicted
    away_s: float = 300.0  # without a person at the machine, before it counts as idle
    load: float = 0.5  # of other processes, for each core, above which the machine is busy
    gone_share: float = 0.2  # of all documents, that must vanish, too, to look like an unmounted disk


RECENCY_WEIGHT = 0.6  # the prefix-caching article, weighted eviction: .6 recency + .4 frequency
FREQUENCY_WEIGHT = 0.4
HALF_LIFE_S = 7 * 86_400.0  # of recency: our own, since the article's recency, as printed, grows with age


@dataclass(frozen=True, slots=True)
class Settings:
    """All of it, by section; `experiment` is no section of a config file."""

    ask: AskSettings = field(default_factory=AskSettings)
    bank: BankSettings = field(default_factory=BankSettings)
    ingest: IngestSettings = field(default_factory=IngestSettings)
    embed: EmbedSettings = field(default_factory=EmbedSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    kv: KvSettings = field(default_factory=KvSettings)
    idle: IdleSettings = field(default_factory=IdleSettings)
    serve: ServeSettings = field(default_factory=ServeSettings)
    experiment: Experiment = field(default_factory=Experiment)


def find(settings: Settings, key: str) -> Any:
    """Give one dotted key; UsageError where there is none."""
    known = keys(settings)
    if key not in known:
        raise UsageError(f"no such key: {key}", "pkb config show")
    return known[key]


def keys(settings: Settings) -> dict[str, Any]:
    """Return every key that a config file may set with its value, dotted, in order."""
    return {
        f"{section.name}.{one.name}": getattr(getattr(settings, section.name), one.name)
        for section in fields(settings)
        if section.name != "experiment"
        for one in fields(getattr(settings, section.name))
    }
