"""Random sentences from templates such as `[we|you] meet in {p}`; knows nothing of what the slots mean."""

import re
from collections.abc import Mapping
from random import Random

_INNERMOST = re.compile(r"\[([^\[\]]*)\]")
_SLOT = re.compile(r"\{(\w+)\}")
_LOOSE = re.compile(r" (?=[,.?!;:](?:\s|$))")
_OWNED = re.compile(r"\b(?:[Tt]he|[Oo]ur|[Yy]our|[Mm]y|[Tt]he next) (?=[A-Z]\w+'s )")


def chosen(rng: Random, template: str) -> str:
    """Pick one way through the alternatives; slots stay."""
    while found := _INNERMOST.search(template):
        template = template[: found.start()] + rng.choice(found[1].split("|")) + template[found.end() :]
    return _LOOSE.sub("", " ".join(template.split()))


def slots(text: str) -> frozenset[str]:
    """Return the names of the slots in a text."""
    return frozenset(_SLOT.findall(text))


def filled(text: str, values: Mapping[str, str]) -> str:
    """Put the values into the slots and begin with a capital letter."""
    whole = _OWNED.sub("", _SLOT.sub(lambda found: values[found[1]], text))
    return whole[:1].upper() + whole[1:]
