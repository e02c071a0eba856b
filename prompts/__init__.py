"""The prompts for the language model, one text file each, and lists of words.

Read by path, since importing importlib.resources would slow down exact cache hits, which need the prompts' version.
"""

from functools import cache
from hashlib import blake2b
from pathlib import Path


@cache
def prompt(name: str) -> str:
    """Return a prompt's text, without the newline that ends its file."""
    return Path(__file__).with_name(f"{name}.txt").read_text("utf-8").removesuffix("\n")


def version(*names: str) -> str:
    """Return a hash of some prompts' wording, which is part of the key of every answer written under it."""
    return blake2b("\0".join(prompt(name) for name in names).encode(), digest_size=8).hexdigest()


def word_groups(name: str) -> list[list[str]]:
    """Return the groups of a word list, one per line; lines that start with # are comments."""
    return [line.split() for line in prompt(name).splitlines() if not line.startswith("#")]


@cache
def word_patterns(name: str) -> dict[str, str]:
    """Return the patterns of a word list by kind, one of `kind: pattern` per line; those of one kind are joined."""
    found = dict[str, str]()
    for kind, _, words in (line.partition(": ") for line in prompt(name).splitlines() if not line.startswith("#")):
        found[kind] = f"{found[kind]}|{words}" if kind in found else words
    return found


@cache
def word_sets(name: str) -> dict[str, frozenset[str]]:
    """Return the words of a list by kind, one of `kind: words` per line."""
    return {kind: frozenset(words.replace("|", " ").split()) for kind, words in word_patterns(name).items()}
