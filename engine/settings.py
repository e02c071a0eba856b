"""Every number that a user may change and every constant of the papers, once, with its section.

Knows its own fields and what they may hold; no file, and not who reads them.
"""

from dataclasses import dataclass, field, fields
from typing import Any

from store.errors import UsageError

ON_OFF = ("on", "off")


@dataclass(frozen=True, slots=True)
class AskSettings:
    """How questions are answered."""

    k: int = field(default=5, metadata={"least": 1, "most": 50})  # sources read for an answer
    # Support, 0 to 1, under which pkb says that it found nothing.
    decline_below: float = field(default=0.5, metadata={"most": 1})
    # What a model is shown beside what was found, and about how many tokens of it for each chunk found.
    whole: str = field(default="none", metadata={"among": ("none", "neighbours", "thread")})
    whole_tokens: int = 600
    # Tokens of an answer that are guessed and checked at a time.
    drafts: int = field(default=8, metadata={"most": 64})


@dataclass(frozen=True, slots=True)
class BankSettings:
    """What is kept of answers (PerCache 4.1.1: the QA bank), and which of them another question may be given."""

    bytes: int = 100_000_000
    semantic: str = field(default="on", metadata={"among": ON_OFF})
    tau: float = field(default=0.85, metadata={"most": 1})  # least cosine of two questions (PerCache 5)
    # Of the hits served, at most this share may be wrong, by what the nights find; a higher tau is learnt from that.
    max_error: float = field(default=0.02, metadata={"most": 1})
    refresh_k: int = field(default=5, metadata={"least": 1, "most": 50})  # new chunks among so many (PerCache 4.1.3)
    # What speaks against a hit; each can be left out, to measure what it does.
    guard: str = field(default="on", metadata={"among": ON_OFF})  # the words of the two questions
    evidence: str = field(default="on", metadata={"among": ON_OFF})  # what is retrieved for them
    verify: str = field(default="on", metadata={"among": ON_OFF})  # the answer, quoted once more
    check: str = field(default="on", metadata={"among": ON_OFF})  # one word of the model, where one writes


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """When vanished documents look like an unmounted disk: more than both; and what one item may cost."""

    gone_share: float = field(default=0.2, metadata={"most": 1})
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
    # Of the chunks in a prompt. "reuse" follows what is kept: then answers depend on what was asked before.
    order: str = field(default="document", metadata={"among": ("document", "relevance", "reuse")})
    bytes: int = 4_000_000_000  # of the whole cache folder, at every instant
    score: str = field(default="value", metadata={"among": ("value", "lfu", "recency")})
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
    away_s: float = 300.0  # that nobody must have been at the machine
    load: float = 0.5  # of others, for each core, above which the machine is busy
    stride: int = field(default=5, metadata={"least": 1, "most": 50})  # questions predicted at a time (PerCache 5)
    ahead: int = 120  # chunks prefetched an idle run: the newest so many, and the most retrieved
    history: int = field(default=50, metadata={"least": 1})  # questions looked back to (PerCache 4.1.2)
    # A bank.tau above it lets few hits through: foreseen questions are then read and not answered (PerCache 4.3.2).
    cutoff: float = field(default=0.88, metadata={"most": 1})
    quiet_s: float = 300.0  # after new mail and new questions, before they are summed up and predicted from


RECENCY_WEIGHT = 0.6  # the prefix-caching article, weighted eviction: .6 recency + .4 frequency
FREQUENCY_WEIGHT = 0.4
HALF_LIFE_S = 7 * 86_400.0  # of recency: our own, since the article's recency, as printed, grows with age


@dataclass(frozen=True, slots=True)
class Settings:
    """All of it, by section."""

    ask: AskSettings = field(default_factory=AskSettings)
    bank: BankSettings = field(default_factory=BankSettings)
    ingest: IngestSettings = field(default_factory=IngestSettings)
    embed: EmbedSettings = field(default_factory=EmbedSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    kv: KvSettings = field(default_factory=KvSettings)
    idle: IdleSettings = field(default_factory=IdleSettings)
    serve: ServeSettings = field(default_factory=ServeSettings)


def find(settings: Settings, key: str) -> Any:
    """Give one dotted key; UsageError where there is none."""
    known = keys(settings)
    if key not in known:
        raise UsageError(f"no such key: {key}", "pkb config show")
    return known[key]


def keys(settings: Settings) -> dict[str, Any]:
    """Give every key with its value, dotted, in order."""
    return {
        f"{section.name}.{one.name}": getattr(getattr(settings, section.name), one.name)
        for section in fields(settings)
        for one in fields(getattr(settings, section.name))
    }
