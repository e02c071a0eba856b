"""What is said to a language model, one text file a prompt, and lists of English words. Knows no model.

Read by path: importlib.resources takes longer to import than an exact hit may wait for the wording's version.
"""

from functools import cache
from hashlib import blake2b
from pathlib import Path


@cache
def prompt(name: str) -> str:
    """Return a prompt's text, without the newline that ends its file."""
    return Path(__file__).with_name(f"{name}.txt").read_text("utf-8").removesuffix("\n")


def version(*names: str) -> str:
    """Name the wording of some prompts: an answer given under another wording is another answer."""
    return blake2b("\0".join(prompt(name) for name in names).encode(), digest_size=8).hexdigest()


def word_groups(name: str) -> list[list[str]]:
    """Return the groups of a word list, one a line; lines that begin with # are comments."""
    return [line.split() for line in prompt(name).splitlines() if not line.startswith("#")]
