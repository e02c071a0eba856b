"""Names and addresses of people: folded so that look-alikes are equal, and what is odd about them in a header.

Knows no mail and no store: a person is a name, an address, or both, as in `Ann Whitlock <ann@choir.example>`.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import date

from engine.text.terminal import shorten

# Letters of other scripts, and digits in addresses, that look like Latin ones.
_ALIKE = (
    *("aаαɑᴀ", "bвьʙ", "cсϲᴄ", "dԁɗᴅ", "eеєεᴇ", "gɡɢց", "hһнʜ", "iіιıɪӏ", "jјϳᴊ", "kкκᴋ", "lʟ", "mмᴍ", "nпηɴո"),
    *("oоοօσᴏ", "pрρᴘ", "qԛգ", "rгʀᴦ", "sѕꜱ", "tтτᴛ", "uυսᴜ", "vνѵᴠ", "wԝωᴡ", "xхχ", "yуүγʏ", "zᴢ"),
)
_LOOK_ALIKES = {ord(other): group[0] for group in _ALIKE for other in group[1:]}
_ADDRESS_ALIKES = str.maketrans("01i", "oll")
_MARKS = re.compile(r"[^\w@\s-]|_")
_ADDRESS = re.compile(r"[^\s<>()\"',;:]+@[^\s<>()\"',;:]+")
# "Ann Whitlock via Lists", "Ann Whitlock (Choir)", "Ben on behalf of Ann Whitlock": whose name it is used as.
_BEHALF = re.compile(r".*\b(?:on behalf of|im auftrag von|de la part de)\s+", re.IGNORECASE)
_VIA = re.compile(r"\s+(?:via|über|durch|through|\()(?:\s.*|\S.*)?$", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]{2,}")
_TITLES = re.compile(
    r"(?:(?:dr|prof|professor|mr|mrs|ms|miss|sir|dame|herr|frau|mme|sig|sra?|ing|dipl|rev|hon)\b\.?\s*)+(?=\w)",
    re.IGNORECASE,
)
# Alphabets with letters that look like Latin ones; others, such as Chinese, may stand in one word with Latin letters.
_SCRIPTS = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "GOTHIC", "DESERET", "CANADIAN", "GEORGIAN")
# Before a folded address, which no folded name begins with; before an address whose mail came by some ways, whose mail
# was sent in some fortnights, and that some addresses wrote to.
LOOK_ALIKE, WAYS, FORTNIGHTS, READERS = "@", "@ ", "@ sent ", "@ to "
ROUTES = ("sent by ", "replies go to ")  # begin warnings that are none where mail of an address always comes so
_LEAST_LABEL = 3  # letters: below a country's domain, a shorter label is a kind of company, as in co.uk


def person(name: str, address: str) -> str:
    """Return a name with its address; the name has no angle brackets, so that no name reads as an address."""
    name = name.replace("<", "(").replace(">", ")")
    if name and address and name.casefold() != address.casefold():
        return f"{name} <{address}>"
    return address or name


def name_and_address(shown: str) -> tuple[str, str]:
    """Return the two parts of a person as `person` writes it; either may be empty."""
    name, bracket, address = shown.rpartition(" <")
    if bracket and address.endswith(">"):
        return name, address[:-1]
    return ("", shown) if is_address(shown) else (shown, "")


def is_address(text: str) -> bool:
    """Return whether a text is one address, without a name."""
    return _ADDRESS.fullmatch(text.strip()) is not None


def folded_name(name: str) -> str:
    """Return a name in the form in which names that look the same are equal; empty if it has no letter."""
    plain = _folded(_VIA.sub("", _BEHALF.sub("", _visible(name).strip())))
    last, comma, first = plain.partition(",")
    ordered = f"{first} {last}" if comma and "," not in first else plain
    return _TITLES.sub("", " ".join(_MARKS.sub(" ", ordered).split()), count=1)


def folded_address(address: str) -> str:
    """Return an address in the form in which addresses that look the same are equal."""
    local, at, domain = _visible(address).partition("@")
    if "xn--" in domain.lower():
        domain = _decoded(domain)
    return _folded(f"{local}{at}{domain}").translate(_ADDRESS_ALIKES).replace("rn", "m").replace("vv", "w")


def _visible(text: str) -> str:
    """Return a text in NFKC without what is not seen: zero-width characters and variation selectors."""
    seen = (c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) != "Cf")
    return "".join(c for c in seen if not "\ufe00" <= c <= "\ufe0f" and c not in "\u034f\u115f\u1160\u3164\uffa0")


def _folded(text: str) -> str:
    bare = (c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    return "".join(bare).translate(_LOOK_ALIKES)


def _decoded(domain: str) -> str:
    try:
        return domain.encode("ascii").decode("idna")
    except UnicodeError:
        return domain


def domain_of(address: str) -> str:
    """Return the domain of an address in lower case, without subdomains: choir.example, choir.co.uk."""
    labels = address.lower().rpartition("@")[2].split(".")
    is_kind = len(labels) > 2 and len(labels[-1]) == 2 and len(labels[-2]) <= _LEAST_LABEL
    return ".".join(labels[-3 if is_kind else -2 :])


def odd_name(name: str, address: str) -> str | None:
    """Return what is odd about a display name by itself, in words; None if nothing is."""
    seen = _visible(name)
    others = [one for one in _ADDRESS.findall(seen) if folded_address(one) != folded_address(address)]
    if others:
        return f"the name reads {shorten(others[0], 60)}"
    if any(_is_mixed(word) for word in _WORD.findall(seen)):
        return "the name mixes alphabets"
    hidden = sum(unicodedata.category(c) == "Cf" and c not in "\u200c\u200d\u00ad" for c in name)
    return "the name has invisible characters" if hidden or _splits_latin(name) else None


def _is_mixed(word: str) -> bool:
    """Return whether a word has Latin letters and letters of another script that look like some."""
    latin = any("a" <= c <= "z" for c in word.casefold())
    others = (c for c in word if not c.isascii())
    return latin and any(
        ord(c.casefold()[:1]) in _LOOK_ALIKES or unicodedata.name(c, "").startswith(_SCRIPTS) for c in others
    )


def _splits_latin(name: str) -> bool:
    """Return whether a joiner, which some scripts need, stands between Latin letters."""
    return re.search("[A-Za-z][\u200c\u200d\u00ad]|[\u200c\u200d\u00ad][A-Za-z]", name) is not None


def header_warnings(senders: Sequence[tuple[str, str]], sent_by: Sequence[str], replies: Sequence[str]) -> list[str]:
    """Return what is odd about the header of a message with these names and addresses in its From fields, in words."""
    name, address = senders[0] if senders else ("", "")
    found = [odd_name(name, address)]
    found += [f"also from {shorten(other or shown, 60)}" for shown, other in senders[1:2]]
    found += [f"sent by {_ended(one)}" for one in sent_by if one.lower() != address.lower()][:1]
    found += [f"replies go to {_ended(one)}" for one in replies if domain_of(one) != domain_of(address)][:1]
    found += ["the address has several @"] * (address.count("@") > 1)
    found += ["the address has look-alike letters"] * (not address.isascii() and folded_address(address).isascii())
    return [one for one in found if one]


def _ended(address: str) -> str:
    """Return an address, of a long one only the domain: what is in front of it is often another for each mail."""
    return shorten(address if len(address) <= 60 else f"…{address[address.rfind('@') :]}", 60)


def ways_of(own: str, warnings: Sequence[str]) -> list[str]:
    """Return how a mail came, by its warnings: by other domains, or addresses of one's own; else by that domain."""
    others = [one.rpartition(" ")[2].lower() for one in warnings if one.startswith(ROUTES)]
    return [one if domain_of(one) == domain_of(own) else domain_of(one) for one in others] or [domain_of(own)]


def traces(people: Sequence[str], warnings: Sequence[str], sent: date | None) -> Iterator[tuple[str, str]]:
    """Yield what a mail tells of its sender, who is the first of its people: ways, fortnight and readers."""
    names = ((address.lower() or folded_name(name), address) for name, address in map(name_and_address, people))
    (sender, address), *readers = names
    yield from ((f"{WAYS}{sender}", way) for way in ways_of(sender, warnings) if address)
    if sender and sent:
        yield f"{FORTNIGHTS}{sender}", str(sent.toordinal() // 14)
    yield from (
        (f"{READERS}{one}", sender) for one, _ in readers if sender and one not in ("", sender) and not warnings
    )
