"""Rebuilds tokenizer.json and tokenizer_config.json from the header of a GGUF file.

Byte-level BPE splits text by a pattern that the header names; the other kind, SentencePiece's, merges by score.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.models.gguf import GgufHeader

NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4  # types of tokens; bytes are 6
BLANK = "\u2581"  # SentencePiece's sign for a blank
LONGEST_PIECE = 512  # characters

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
ENDING = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
LLAMA3_PATTERN = rf"{CONTRACTIONS}|{WORD}|\p{{N}}{{1,3}}|{ENDING}"
QWEN2 = rf"{CONTRACTIONS}|{WORD}|\p{{N}}|{ENDING}"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*%s"
CASED_ENDING = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = CASED % ("", "") + rf"|\p{{N}}|{CASED_ENDING}"
GPT4O = CASED % (f"{CONTRACTIONS}?", f"{CONTRACTIONS}?") + rf"|\p{{N}}{{1,3}}|{CASED_ENDING}"


@dataclass(frozen=True, slots=True)
class Splitting:
    """How a byte-level BPE splits text: by patterns one after the other, and by GPT-2's own if `is_gpt2`.

    With `whole`, a piece that is a token stays one, whatever its merges; `bos` is the default for adding BOS.
    """

    patterns: tuple[str, ...]
    is_gpt2: bool = False
    whole: bool = False
    bos: bool = False


_GPT2, _DIGITS = Splitting((), is_gpt2=True), Splitting((r"\p{N}",), is_gpt2=True)
_LLAMA3, _LLAMA3_MERGED = Splitting((LLAMA3_PATTERN,), whole=True, bos=True), Splitting((LLAMA3_PATTERN,))
SPLITTINGS: Mapping[str, Splitting] = {
    "gpt-2": _GPT2, "phi-2": _GPT2, "olmo": _GPT2,
    "smollm": _DIGITS, "starcoder": _DIGITS, "refact": _DIGITS, "command-r": _DIGITS,
    "llama-bpe": _LLAMA3, "llama3": _LLAMA3, "llama-v3": _LLAMA3, "falcon3": _LLAMA3, "pixtral": _LLAMA3,
    "dbrx": _LLAMA3_MERGED, "smaug-bpe": _LLAMA3_MERGED,
    "qwen2": Splitting((QWEN2,)), "deepseek-r1-qwen": Splitting((QWEN2,)),
    "tekken": Splitting((TEKKEN,), whole=True, bos=True), "gpt-4o": Splitting((GPT4O,)),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokens of a header and their types."""

    tokens: Sequence[str]
    types: Sequence[int]

    def of(self, *types: int) -> Iterable[tuple[int, str]]:
        """Yield the id and text of each token of some types."""
        return ((id, text) for id, text in enumerate(self.tokens) if self.types[id] in types)


def tokenizer(header: GgufHeader) -> dict[str, Any]:
    """Return tokenizer.json; PkbError if the header's tokenizer is of a kind that pkb cannot rebuild."""
    found = _vocabulary(header)
    match header.of("tokenizer.ggml.model", str):
        case "gpt2":
            parts = _byte_level(header, found)
        case "llama":
            parts = _scored(header, found)
        case other:
            raise header.refusal(f"pkb cannot rebuild its tokenizer, which is of the kind {other}")
    return {
        "version": "1.0", "truncation": None, "padding": None, "post_processor": None,
        "added_tokens": [_added(header, found, id, text) for id, text in found.of(UNKNOWN, CONTROL, USER_DEFINED)],
        **parts,
    }  # fmt: skip


def tokenizer_config(header: GgufHeader) -> dict[str, Any]:
    """Return tokenizer_config.json: chat template, special tokens, and whether BOS begins a text."""
    tokens = _vocabulary(header).tokens
    found: dict[str, Any] = {"add_bos_token": _adds_bos(header)}
    for key, name in (("bos", "bos"), ("eos", "eos"), ("unknown", "unk"), ("padding", "pad")):
        if (id := special(header, key)) is not None:
            found[f"{name}_token"] = tokens[id]
    if isinstance(template := header.fields.get("tokenizer.chat_template"), str):
        found["chat_template"] = template
    return found


def special(header: GgufHeader, name: str) -> int | None:
    """Return the id of a special token, None if the header names none."""
    id = header.fields.get(f"tokenizer.ggml.{name}_token_id")
    count = len(header.fields.get("tokenizer.ggml.tokens", ()))
    return id if isinstance(id, int) and 0 <= id < count else None


def _vocabulary(header: GgufHeader) -> Vocabulary:
    tokens = header.of("tokenizer.ggml.tokens", list)
    types = header.of("tokenizer.ggml.token_type", list, [NORMAL] * len(tokens))
    if not tokens or not all(isinstance(text, str) for text in tokens) or len(types) != len(tokens):
        raise header.refusal("its list of tokens is damaged")
    return Vocabulary(tokens, types)


def _adds_bos(header: GgufHeader) -> bool:
    named = header.fields.get("tokenizer.ggml.add_bos_token")
    if isinstance(named, bool):
        return named
    return header.fields.get("tokenizer.ggml.model") == "llama" or _splitting(header).bos


def _added(header: GgufHeader, found: Vocabulary, id: int, text: str) -> dict[str, Any]:
    is_special = found.types[id] != USER_DEFINED
    # Phi 3's control tokens take the blanks behind them, save those that begin a text.
    strips = header.architecture == "phi3" and _is_scored(header) and text not in ("<s>", "<unk>", "<|endoftext|>")
    return {
        "id": id, "content": text, "single_word": False, "lstrip": False, "rstrip": strips and is_special,
        "normalized": False, "special": is_special,
    }  # fmt: skip


def _is_scored(header: GgufHeader) -> bool:
    return header.fields.get("tokenizer.ggml.model") == "llama"


def _splitting(header: GgufHeader) -> Splitting:
    name = header.of("tokenizer.ggml.pre", str, "")
    if (found := SPLITTINGS.get(name)) is None:
        raise header.refusal(f"pkb does not know how its tokenizer splits text ({name or 'it names no pattern'})")
    return found


def _byte_level(header: GgufHeader, found: Vocabulary) -> dict[str, Any]:
    splitting = _splitting(header)
    steps: list[dict[str, Any]] = [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        for pattern in splitting.patterns
    ]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": splitting.is_gpt2}
    return {
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*steps, level]},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": _bpe(found, _merges(header, found), ignore_merges=splitting.whole),
    }


def _bpe(found: Vocabulary, merges: list[tuple[str, str]], **more: Any) -> dict[str, Any]:
    return {
        "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
        "vocab": {text: id for id, text in enumerate(found.tokens)}, "merges": merges, **more,
    }  # fmt: skip


def _merges(header: GgufHeader, found: Vocabulary) -> list[tuple[str, str]]:
    """Return the merges whose parts and result are tokens; PkbError if the list is damaged."""
    known, merges = frozenset(found.tokens), list[tuple[str, str]]()
    for line in header.of("tokenizer.ggml.merges", list):
        left, blank, right = line.partition(" ") if isinstance(line, str) else ("", "", "")
        if not blank or not {left, right, left + right} <= known:
            raise header.refusal("its list of merges is damaged")
        merges.append((left, right))
    return merges


def _scored(header: GgufHeader, found: Vocabulary) -> dict[str, Any]:
    prefixed = header.of("tokenizer.ggml.add_space_prefix", bool, True)
    steps: list[dict[str, Any]] = [{"type": "Prepend", "prepend": BLANK}] if prefixed else []
    back: list[dict[str, Any]] = [{"type": "Replace", "pattern": {"String": BLANK}, "content": " "}]
    back += [{"type": "ByteFallback"}, {"type": "Fuse"}]
    if prefixed:
        back.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    unknown = special(header, "unknown")
    named = next(iter(found.of(UNKNOWN)), (0, found.tokens[0]))[1] if unknown is None else found.tokens[unknown]
    return {
        "normalizer": {
            "type": "Sequence",
            "normalizers": [*steps, {"type": "Replace", "pattern": {"String": " "}, "content": BLANK}],
        },
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": back},
        "model": _bpe(found, _by_score(header, found), unk_token=named, fuse_unk=True, byte_fallback=True),
    }


def _by_score(header: GgufHeader, found: Vocabulary) -> list[tuple[str, str]]:
    """Return every pair of tokens that together are a token, the highest score first; PkbError without scores."""
    scores = header.of("tokenizer.ggml.scores", list)
    if len(scores) != len(found.tokens) or not all(isinstance(score, float) for score in scores):
        raise header.refusal("its list of scores is damaged")
    normal = {text: id for id, text in found.of(NORMAL)}
    ranked = sorted((id for text, id in normal.items() if 1 < len(text) <= LONGEST_PIECE), key=lambda id: -scores[id])
    return [pair for id in ranked for pair in _halves(found.tokens[id], normal)]


def _halves(text: str, known: Mapping[str, int]) -> Iterable[tuple[str, str]]:
    cuts = ((text[:at], text[at:]) for at in range(1, len(text)))
    return ((left, right) for left, right in cuts if left in known and right in known)
