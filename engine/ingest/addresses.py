"""Addresses of a mail header, read in one pass however broken they are; knows nothing of other fields."""

import re
from dataclasses import dataclass, replace

from engine.ingest.headers import clean, decode_words

MOST = 1000  # addresses of one field
LONGEST = 256_000  # characters of one field
_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*+"?'  # quoted: commas inside do not part addresses
    r"|<[^<>]*+>?"
    r"|\([^()]*+\)?"
    r"|=\?[^?\s]{1,60}\?[bBqQ]\?[^?]*+\?="
    r"|[,;:]"
    r"|[^\"<(=,;:]++"
    r"|.",
    re.DOTALL,
)
_STRUCTURED = re.compile(r"[\"<>():;=]")
_BACKSLASH = re.compile(r"\\(.)")
_EXCHANGE_NAME = re.compile(r"\s*(?:<|</O=|@ENRON\b).*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Address:
    """A display name and an address, either may be ""."""

    name: str
    address: str
    parted: bool = False  # by a comma from what follows

    def __str__(self) -> str:
        if self.name and self.address and self.name.casefold() != self.address.casefold():
            return f"{self.name} <{self.address}>"
        return self.address or self.name


def parse_addresses(value: str) -> list[Address]:
    """Read the addresses of a To-like field; groups are flattened, comments serve as names."""
    if not _STRUCTURED.search(value):
        plain = value.isascii() and value.isprintable()
        parts = (part.strip() if plain else clean(part) for part in value[:LONGEST].split(",")[:MOST])
        return [_bare(part) for part in parts if part]
    found: list[Address] = []
    words: list[str] = []
    tokens = _TOKEN.findall(value[:LONGEST])
    semicolons = ";" in tokens and ":" not in tokens  # as Outlook parts names that have commas
    addressed = False  # whether the words since the last separator hold an address
    for token in tokens:
        if token == ":" and not addressed:
            words.clear()  # the name of a group
        elif token == "," and semicolons and not addressed:
            words.append(", ")
        elif token in (",", ";"):
            _finish(words, found, joins=token == ",")
            addressed = False
        else:
            words.append(token)
            addressed = addressed or "@" in token
        if len(found) >= MOST:
            return found
    _finish(words, found, joins=False)
    return found


def named(address: Address, display: str) -> Address:
    """Give an address without a name the display name that an exporting program kept elsewhere."""
    if address.name:
        return address
    name = clean(_EXCHANGE_NAME.sub("", display) if "<" in display or "@" in display else display).strip("\"' ")
    return Address(name[:100], address.address) if name and "@" not in name else address


def display_names(value: str, count: int) -> list[str]:
    """Part a list of display names that does not quote its commas; empty unless `count` of them come out."""
    value = value[:LONGEST]
    parts = re.split(r"(?<=>),\s*", value) if ">" in value else value.split(",")
    return parts if len(parts) == count else []


def _bare(text: str) -> Address:
    text = text.strip("'")
    return Address("", text[:320]) if "@" in text and " " not in text else Address(text[:200], "")


def _finish(words: list[str], found: list[Address], joins: bool) -> None:
    """Make the words since the last separator an address."""
    one = _address(words)
    words.clear()
    # "Doe, Jane <jane@example.org>" without the quotes it should have
    if one.name and one.address and found and found[-1].parted and not found[-1].address:
        one = Address(f"{found.pop().name}, {one.name}", one.address)
    if one.name or one.address:
        found.append(replace(one, parted=joins))


def _address(words: list[str]) -> Address:
    angled = [word for word in words if word.startswith("<")]
    plain = "".join(_unquoted(word) for word in words if word[0] not in "<(")
    if angled:
        address, name = angled[-1].strip("<> "), plain
    else:
        address, name = plain, " ".join(word.strip("()") for word in words if word.startswith("("))
        if "<" in plain and not name:  # behind a quote that was never closed
            name, _, address = plain.partition("<")
            address = address.strip("<> ")
    address = clean(address).replace(" ", "").strip("'")
    if not angled and "@" not in address:
        address, name = "", f"{plain} {name}"
    return Address(clean(decode_words(name)).strip("' ,")[:200], address[:320])


def _unquoted(word: str) -> str:
    return _BACKSLASH.sub(r"\1", word[1:].removesuffix('"')) if word.startswith('"') else word
