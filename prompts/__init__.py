"""What is said to a language model, one text file a prompt. Knows no model."""

from functools import cache
from hashlib import blake2b
from importlib.resources import files


@cache
def prompt(name: str) -> str:
    """Give a prompt's text, without the newline that ends its file."""
    return (files(__name__) / f"{name}.txt").read_text("utf-8").removesuffix("\n")


def version(*names: str) -> str:
    """Name the wording of some prompts: an answer given under another wording is another answer."""
    return blake2b("\0".join(prompt(name) for name in names).encode(), digest_size=8).hexdigest()
