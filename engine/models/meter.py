"""Counts what a model reads and writes, and reckons its floating-point operations. Pure; it knows numbers alone."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """What a model's work is reckoned by: numbers in its layers and in its head, layers, and width of attention.

    The width is that of all query heads together.
    """

    parameters: int
    head_parameters: int
    layers: int
    width: int


@dataclass(slots=True)
class Meter:
    """What was done so far: tokens read in segments, tokens written, tokens guessed wrongly, and whom they attended to.

    `pairs` are of tokens and those that attention compares them with: all in front, and of their own step.
    """

    read: int = 0
    written: int = 0
    wrong: int = 0
    pairs: int = 0

    def count(self, tokens: int, before: int, *, written: bool) -> None:
        """Count tokens that are read at a time behind others, in a segment or to find what follows them."""
        if written:
            self.written += tokens
        else:
            self.read += tokens
        self.pairs += tokens * (before + tokens)

    def take_back(self, tokens: int) -> None:
        """Count so many of those that were written as guessed wrongly."""
        self.written -= tokens
        self.wrong += tokens


def flops(size: Size, meter: Meter) -> float:
    """Give the floating-point operations of what was counted.

    2 for each parameter and token (a product and a sum), and 4 for each layer, unit of width and pair of tokens: 2 for
    queries with keys and 2 for weights with values (Hoffmann et al. 2022, appendix F, without softmax and norms). The
    head is reckoned for tokens that were written or guessed; of what is only read nobody asks for the next token.
    """
    written = meter.written + meter.wrong
    products = size.parameters * (meter.read + written) + size.head_parameters * written
    return 2.0 * products + 4.0 * size.layers * size.width * meter.pairs
