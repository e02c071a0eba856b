"""Masks in the place of addresses, phone numbers, other numbers and known names. Knows no records and no files.

A mask says nothing of what it stands for but its kind and how early it came: [address-2] is the second address.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from engine.text.people import name_and_address

_IN_ADDRESS = r"[^\s<>()\[\]\"',;:@]"
_LETTER = r"[^\W\d_]"
_ADDRESS = re.compile(rf"(?P<address>(?<!{_IN_ADDRESS}){_IN_ADDRESS}+@{_IN_ADDRESS}*[\w-])")
_OTHER = re.compile(
    # Seven digits or more, with the signs that people write between them; no date.
    r"(?P<phone>(?<!\w)\+?(?!\d{4}-\d\d-\d\d)\(?\d(?:[ ()./-]{0,3}\d){6,}(?!\w))"
    r"|(?P<number>(?<!\w)\w*\d\w*(?:[.,:-]\w*\d\w*)*)"  # codes with letters, too
    rf"|(?P<person>(?<!\w){_LETTER}++(?!\w)(?:[ ]{_LETTER}++(?!\w))*)"
)
_WORD = re.compile(rf"{_LETTER}+")
_SHORTEST = 3  # letters of a part of a name that is masked by itself
Span = tuple[int, int]


@dataclass(slots=True)
class Redactor:
    """The masks of one file: the same text always gets the same one; mutable, as it numbers them as they come."""

    home: str  # the user's home folder, which is written ~
    _masks: dict[tuple[str, str], str] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)  # masks by kind
    _names: dict[str, str] = field(default_factory=dict)  # folded words of names

    def learn(self, person: str) -> None:
        """Take a name, with or without an address, for one that is masked in texts, too."""
        name, _ = name_and_address(person)
        for word in _WORD.findall(name):
            if len(word) >= _SHORTEST:
                self._names.setdefault(word.casefold(), self._mask("person", name))

    def person(self, shown: str) -> str:
        """Return a person with name and address masked."""
        name, address = name_and_address(shown)
        masked = [self._mask("person", name)] if name.strip() else []
        if address:
            mask = self._mask("address", address)
            masked.append(f"<{mask}>" if masked else mask)
        return " ".join(masked)

    def message_id(self, name: str) -> str:
        """Return the mask of a Message-ID."""
        return self._mask("message", name)

    def path(self, path: str) -> str:
        """Return a path with its parts masked as texts are."""
        inside = path.startswith(f"{self.home}/")
        return self.text(f"~{path[len(self.home) :]}" if inside else path)

    def text(self, text: str) -> str:
        """Return a text with masks."""
        return self.spanned(text, None)[0]

    def spanned(self, text: str, span: Span | None) -> tuple[str, Span | None]:
        """Return a text with masks, and where a part of it stands now; of a part that a mask covers, the mask."""
        out, end, length, moved = list[str](), 0, 0, list[tuple[Span, Span]]()
        for found in _sensitive(text):
            mask = self._masked(found)
            if mask != found[0]:
                out += [text[end : found.start()], mask]
                begin = length + found.start() - end
                end, length = found.end(), begin + len(mask)
                moved.append((found.span(), (begin, length)))
        out.append(text[end:])
        return "".join(out), _moved(span, moved) if span else None

    def _masked(self, found: re.Match[str]) -> str:
        kind = found.lastgroup or ""
        if kind == "person":
            words = [self._name(word) for word in found[0].split(" ")]
            return " ".join(word for at, word in enumerate(words) if at == 0 or word[0] != "[" or word != words[at - 1])
        digits = "".join(filter(str.isdigit, found[0]))
        return self._mask(kind, digits if kind == "phone" else found[0])

    def _name(self, word: str) -> str:
        """Return the mask of a word that is written as a name and is one; else the word."""
        return word if word.islower() else self._names.get(word.casefold(), word)

    def _mask(self, kind: str, text: str) -> str:
        key = (kind, " ".join(text.casefold().split()))
        if key not in self._masks:
            self._counts[kind] += 1
            self._masks[key] = f"[{kind}-{self._counts[kind]}]"
        return self._masks[key]


def _sensitive(text: str) -> Iterator[re.Match[str]]:
    """Yield what may be masked, in order; addresses are found first, as a number would hide where one begins."""
    end = 0
    for address in _ADDRESS.finditer(text):
        yield from _OTHER.finditer(text, end, address.start())
        yield address
        end = address.end()
    yield from _OTHER.finditer(text, end)


def _moved(span: Span, moved: Sequence[tuple[Span, Span]]) -> Span:
    first, last = span
    return _place(first, moved, 0), _place(last, moved, 1)


def _place(at: int, moved: Sequence[tuple[Span, Span]], side: int) -> int:
    """Return where an offset is now; inside of what was replaced, the mask's beginning (side 0) or end (side 1)."""
    shift = 0
    for (begin, end), mask in moved:
        if begin < at < end or (begin, end)[side] == at:
            return mask[side]
        if end <= at:
            shift = mask[1] - end
    return at + shift
