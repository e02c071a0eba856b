"""What is said to a language model, one text file a prompt. Knows no model."""

from functools import cache
from importlib.resources import files


@cache
def prompt(name: str) -> str:
    """Give a prompt's text, without the newline that ends its file."""
    return (files(__name__) / f"{name}.txt").read_text("utf-8").removesuffix("\n")
