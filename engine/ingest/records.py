"""JSON, XML and tables into cues: values tell who, when and what was said, whatever a program calls its fields.

Knows no files and no documents.
"""

import csv
import json
import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timezone
from itertools import groupby, pairwise
from math import log
from xml.etree import ElementTree

from msgspec import Struct

from engine.ingest.chunking import weigh
from engine.ingest.dialogue import CLOCK, Cue, is_proper_name, seconds
from engine.ingest.headers import FLOATING, clean, date_line
from engine.ingest.html import html_text
from engine.ingest.types import UnreadableItem
from store.types import replace

_Column = Sequence[object]
_Times = Sequence[float | None]
_Row = tuple[object, object, float | None, float | None]  # what, who, start, end
_UNITS, _RATE = (1, 1e3, 1e6, 1e7, 1e9), 2.5  # counts in a second; words that somebody says in a second
_SPAN = re.compile(r"(?:PT)?(?:(\d{1,4})H)?(?:(\d{1,6})M)?(\d{1,9}(?:\.\d{1,9})?)S", re.IGNORECASE)
_SPEAKS = re.compile(r"speak|author|sender|user|who|role|from|participant", re.IGNORECASE)
NO_SPEECH = "JSON without the segments of a transcript"
_MANY = 1000  # rows of a list of names
_BYTES = re.compile(r"(?:\\u00[c-f][0-9a-f](?:\\u00[89ab][0-9a-f])+)+")  # of UTF-8, each written as a character


class Spoken(Struct, frozen=True):
    """Cues, the moment that their seconds count from, and how likely and how much speech they are."""

    cues: list[Cue]
    start: datetime | None
    unlikely: tuple[int, ...] = ()
    letters: int = 0
    path: str = ""


def spoken(text: str, table: bool = False) -> Spoken:
    """Return one cue per segment, or per run of words of one speaker; raises UnreadableItem for other data."""
    try:
        sign = max("\t;,", key=text.partition("\n")[0].count)
        data = list(csv.DictReader(text.split("\n"), delimiter=sign)) if table else _tree(text)
    except (ValueError, RecursionError, csv.Error, ElementTree.ParseError):
        raise UnreadableItem(NO_SPEECH if text[:1] == "<" else "broken JSON") from None
    lists = _lists(data)
    found = [one for path, items in lists.items() if items and (one := _speech(path, items, len(text), table))]
    most = max((one.letters for one in found), default=0)
    if not found:
        raise UnreadableItem(NO_SPEECH)
    best = min(found, key=lambda one: (5 * one.letters < 4 * most, one.unlikely))
    loose = text[:1] == "<" or (text[:1] == "{" and "\n{" in text)  # feeds, records of any kind
    if loose and any(cue.at is None for cue in best.cues):
        raise UnreadableItem(NO_SPEECH)
    names = _legend({cue.speaker for cue in best.cues if cue.speaker}, lists, best.path)
    return replace(best, cues=[replace(cue, speaker=names.get(cue.speaker or "", cue.speaker)) for cue in best.cues])


def _tree(text: str) -> object:
    """Parse JSON, lines of JSON, or XML; ValueError, RecursionError or ParseError for other texts."""
    if text[:1] == "<":
        if re.search(r"<!(?!--|\[CDATA\[)", text):  # declares entities
            raise ValueError("not plain XML")
        return _element(ElementTree.fromstring(text.encode()))
    written = _BYTES.sub(_as_utf8, text)
    try:
        return json.loads(written)
    except ValueError:
        return [json.loads(line) for line in written.split("\n") if line.strip()]


def _element(one: ElementTree.Element) -> dict[str, object]:
    """Return an element as an object: its attributes, its text, and a list of each kind of elements in it."""
    found: dict[str, object] = {name.rpartition("}")[2]: value for name, value in one.attrib.items()}
    if not len(one) or (one.text or "").strip() or any((inner.tail or "").strip() for inner in one):
        found["text"] = " ".join(filter(None, (said.strip() for said in one.itertext())))
    for inner in one:
        within = found.setdefault(f"<{str(inner.tag).rpartition('}')[2]}>", [])
        within.append(_element(inner)) if isinstance(within, list) else None
    return found


def _as_utf8(match: re.Match[str]) -> str:
    """Return the characters of a run of escapes that are bytes, as the exports of Facebook write them."""
    try:
        return bytes.fromhex(match[0].replace("\\u00", "")).decode()
    except UnicodeDecodeError:
        return match[0]


def _legend(speakers: set[str], lists: Mapping[str, Sequence[Mapping[str, object]]], path: str) -> dict[str, str]:
    """Return the names of speakers whom the texts name by a number or key alone, where one is told for each."""
    if not speakers or any(is_proper_name(one) for one in speakers if len(one) > 2):
        return {}
    for items in (items for at, items in lists.items() if items and (at == path or not at.startswith(path))):
        rows = [{name: _text(value) for name, value in item.items() if "[" not in name} for item in items[:_MANY]]
        tables = [{name.rpartition(".")[2]: value for name, value in rows[0].items()}]  # {"S1": "Ann", "S2": "Bob"}
        # [{"id": "S1", "name": "Ann"}, {"id": "S2", "name": "Bob"}]
        if items is not lists[path] and 1 < len(rows) < 2 * len(speakers) + 8:
            pairs = [(key, name) for key in rows[0] for name in rows[0] if key != name]
            found = ({row.get(key, ""): row.get(name, "") for row in rows} for key, name in pairs)
            tables += [one for one in found if len(set(one.values())) == len(rows)]
        for known in tables:
            if all(is_proper_name(known.get(one, "") or "-") for one in speakers):
                return known
    return {}


def _lists(data: object) -> dict[str, list[dict[str, object]]]:
    """Return the objects in each list of some data, by its path, with the fields of the object they are part of."""
    found = defaultdict[str, list[dict[str, object]]](list)
    waiting = deque[tuple[object, str, dict[str, object]]]([(data, "/", {})])
    while waiting:
        value, path, above = waiting.popleft()
        if isinstance(value, list):
            items = [one for one in value if isinstance(one, dict)]
            found[path] += [above | dict(_fields(one)) for one in items]
            waiting.extend((one, path, above) for one in items)
        elif isinstance(value, dict):
            own = above | {f"^{key}": one for key, one in _fields(value, lists=False)}
            waiting.extend((one, f"{path}/{key}", own) for key, one in value.items() if isinstance(one, dict | list))
    return found if any(found.values()) else {"": [dict(_fields(data))] if isinstance(data, dict) else []}


def _fields(
    item: Mapping[str, object], start: str = "", deep: int = 2, lists: bool = True
) -> Iterator[tuple[str, object]]:
    """Yield the values in an object, in objects within it, and in the first one of a list."""
    for key, value in item.items():
        name = f"{start}{key}"
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            yield name, value
        elif isinstance(value, dict) and deep:
            yield from _fields(value, f"{name}.", deep - 1, lists)
        elif isinstance(value, list) and value and deep and lists:
            if any(isinstance(one, str) for one in value):
                # Some programs wrap what is bold or a link.
                wrapped = (map(str, one.values()) if isinstance(one, dict) else [str(one)] for one in value)
                yield name, "".join(max(each, default="", key=len) for each in wrapped)
            elif isinstance(value[0], dict) or len(value) == 2:
                first = value[0] if isinstance(value[0], dict) else {"0": value[0], "1": value[1]}
                yield from _fields(first, f"{name}[].", 0)


def _speech(path: str, items: Sequence[Mapping[str, object]], size: int, table: bool) -> Spoken | None:
    """Return what was said in a list; None without texts, or without the times and speakers of speech."""
    names = dict.fromkeys(name for item in items for name in item)
    columns = {name: [item.get(name) for item in items] for name in names}
    if (what := _what(columns)) is None:
        return None
    said, others = columns[what], {name: one for name, one in columns.items() if name != what}
    rank, who = max(((_named(name, one), name) for name, one in others.items()), default=((), ""))
    times = [one for name, one in others.items() if name[0] != "^"]
    starts, ends, start = _when(times, sum(map(weigh, map(str, said))), bool(rank))
    # Without times, only where nothing more is told, and few fields, or one for who speaks.
    told = rank and (not table or _SPEAKS.search(who))
    more = any(2 * len({v for v in map(str, others[name]) if " " in v}) > len(items) for name in others.keys() - {who})
    sure = bool(told or ends) if starts else told and not (table or more) and (len(columns) < 4 or _SPEAKS.search(who))
    if not (sure if path else 5 * len(_text(said[0])) > 2 * size):
        return None
    nothing = [None] * len(items)
    rows = [*zip(said, others[who] if rank else nothing, starts or nothing, ends or nothing, strict=True)]
    unlikely = (-2 * bool(rank) + ("[]" in who), not starts, path.count("/"), len(items))
    return Spoken(_record_cues(rows), start, unlikely, sum(map(str.isalnum, "".join(map(str, said)))), path)


def _record_cues(rows: Sequence[_Row]) -> list[Cue]:
    """Return a cue per row, or per run of words of one speaker; a word without a speaker is the last one's."""
    words = 5 * len(rows) >= 4 * sum(len(str(row[0]).split()) for row in rows)
    cues, last, runs = list[Cue](), "", list[tuple[object, str, _Row]]()
    for place, row in enumerate(rows):
        last = _text(row[1]) or (last if words else "")
        runs.append((last if words else place, last, row))
    blank = "" if any(str(row[0]) != str(row[0]).strip() for row in rows) else " "  # some write the blanks, too
    for _, group in groupby(runs, key=lambda one: one[0]):
        run = [(str(row[0] or ""), speaker, row) for _, speaker, row in group]
        said = clean("".join(blank * bool(re.search(r"\w", word)) + word for word, _, _ in run))
        said = html_text(said) if "</" in said else said
        at = next((row[2] for *_, row in run if row[2] is not None), None)
        until = next((row[3] for *_, row in run[::-1] if row[3] is not None), None)
        cues += [Cue(said, 1, 1, run[0][1] or None, at, until)] if said else []
    return cues


def _what(columns: Mapping[str, _Column]) -> str | None:
    """Return the column with the most text; on a tie, the one with punctuation and capitals."""
    sizes, kinds, signs = dict[str, int](), dict[str, int](), dict[str, int]()
    for name, column in columns.items():
        texts = [one for one in column if isinstance(one, str) and (" " in one or not one.isascii() or len(one) < 25)]
        kinds[name] = len(set(texts))
        varied = kinds[name] > min(0.3 * len(texts), 30) and 2 * sum(map(bool, map(_time, texts))) < len(texts)
        if name[0] != "^" and varied and any(map(str.isalpha, "".join(texts[:50]))):
            sizes[name], signs[name] = sum(map(weigh, texts)), len(re.findall(r"[^\w\s]|[A-Z]", " ".join(texts)))
    long = [name for name in sizes if 5 * sizes[name] > 4 * max(sizes.values())]
    most = max((kinds[name] for name in long), default=0)
    return max(long, key=lambda name: (5 * kinds[name] > 4 * most, signs[name]), default=None)


def _named(name: str, column: _Column) -> tuple[float, ...]:
    """Return how likely the values of a column are speakers: few that recur, best names; () if they are not."""
    values = [text for value in column if isinstance(value, str | int) and (text := str(value).strip())]
    kinds = list(dict.fromkeys(values))
    sentences = any(re.search(r"[.?!]$|(?:\S+\s+){6}", kind) for kind in kinds)
    if not values or sentences or len(kinds) > max(0.6 * len(values), 4):
        return ()
    numbers = all(map(str.isdecimal, kinds))
    full = sum(is_proper_name(kind) and " " in kind for kind in kinds) / len(kinds)
    numbered = sum(re.fullmatch(r"(?:[^\W\d]\D*)?\d+|[A-Z]", kind) is not None for kind in kinds) / len(kinds)
    rises = values == sorted(values, key=int) and not re.search(r"speaker", name, re.IGNORECASE) if numbers else False
    counts = numbers and (len(kinds) < 2 or rises or len(max(kinds, key=len)) > 3)
    alone = len(kinds) == 1 and (name[0] == "^" or max(full, numbered) < 1)
    if counts or alone or (not numbers and any(map(_time, kinds))):
        return ()
    capital = sum(kind[0].isupper() for kind in kinds) / len(kinds)
    return "[]" not in name, 3 * len(values) > len(column), full, len(kinds) > 1, capital, numbered


def _when(columns: Sequence[_Column], words: float, named: bool) -> tuple[_Times, _Times, datetime | None]:
    """Return the seconds at which texts start and end, and the moment that they count from: columns that ascend."""
    ascending, start, lengths = defaultdict[str, list[_Times]](list), None, list[_Times]()
    for column in columns:
        times = list(map(_time, column))
        if all(time and time[0] != "moment" for time in times):
            lengths.append([time[1] for time in times if time])
        known = [time for time in times if time]
        falls = sum(one[1] > other[1] for one, other in pairwise(known))
        moves = bool(known) and (known[0][1] < known[-1][1] or len(known) == 1)
        if moves and 3 * len(known) >= len(times) and 20 * falls <= len(known):
            ascending[known[0][0]].append([time[1] if time else None for time in times])
            if known[0][0] == "moment" and start is None:
                start = datetime.fromtimestamp(known[0][1], known[0][2])
    for kind in ("clock", "number", "moment"):
        found = ascending[kind]
        pairs = [(one, other) for one in found for other in found if _encloses(one, other)]
        pairs = pairs or [
            (one, [None if at is None else at + (lasts or 0) for at, lasts in zip(one, other, strict=True)])
            for one in found
            for other in lengths
            if one != other and _lasts(one, other)
        ]
        if not pairs and kind == "number":  # no count of the texts, and no share
            found = [one for one in found if 1 < max(filter(None, one), default=0) not in (len(one) - 1, len(one))]
            found = [one for one in found if not start and (named or any(isinstance(time, float) for time in one))]
        if pairs or found:
            starts, ends = pairs[0] if pairs else (found[0], [])
            unit = _unit(starts, ends, words) if kind == "number" else 1
            zero = start.timestamp() if start and kind == "moment" else 0
            return [_since(one, zero, unit) for one in starts], [_since(one, zero, unit) for one in ends], start
    return [], [], start


def _since(time: float | None, zero: float, unit: float) -> float | None:
    at = -1 if time is None else round((time - zero) / unit, 3)
    return at if 0 <= at < 1e9 else None


def _lasts(starts: _Times, lengths: _Times) -> bool:
    """Return whether some numbers are how long texts last that start one behind the other; captions may overlap."""
    known, whole = list(filter(None, starts)), sum(filter(None, lengths))
    return len(known) > 1 and all(lengths) and 0.3 < whole / (known[-1] - known[0]) < 3


def _encloses(starts: _Times, ends: _Times) -> bool:
    """Return whether some times are the ends of spans that begin at others, one behind the other."""
    spans = [(one, end) for one, end in zip(starts, ends, strict=True) if one is not None and end is not None]
    apart = sum(end <= after for (_, end), (after, _) in pairwise(spans)) + 1
    longer = sum(one < end for one, end in spans)
    return 5 * min(apart, longer) >= 4 * len(spans) > 0 and all(one <= end for one, end in spans)


def _unit(starts: _Times, ends: _Times, words: float) -> float:
    """Return how many counts make a second, so that people speak as fast as they do."""
    known = [time for time in starts if time is not None]
    spans = [end - one for one, end in zip(starts, ends, strict=False) if one is not None and end is not None]
    rate = words / (sum(spans) or known[-1] - known[0] or words or 1)
    return 1 if 0.02 < rate < 100 or not rate else min(_UNITS, key=lambda unit: abs(log(rate * unit / _RATE)))


def _time(value: object) -> tuple[str, float, timezone] | None:
    """Return a value as a time: a clock's or a span's seconds, a moment, or a number in a unit that is not known."""
    text = str(value).strip() if isinstance(value, str | int | float) else ""
    if not text[:1].isdecimal() and text[:2] not in ("PT", "pt"):
        written = date_line(text) if 12 < len(text) < 60 and text[-1:].isalnum() else None
        return ("moment", written.timestamp(), UTC if written.tzinfo is UTC else FLOATING) if written else None
    if re.fullmatch(r"\d{1,19}(?:\.\d{1,20})?(?:e[+-]?\d{1,2})?", text):
        number = float(text)
        unit = next((unit for unit in (1, 1e3, 1e6, 1e9) if 9e8 * unit <= number < 4e9 * unit), 0)  # since 1970
        if unit:
            return "moment", number / unit, UTC
        return "number", value if isinstance(value, float) else int(number), UTC
    if re.fullmatch(rf"{CLOCK}(?::\d\d)?", text):
        return "clock", seconds(text if text.count(":") < 3 else text.rpartition(":")[0]), UTC
    if match := _SPAN.fullmatch(text):
        return "clock", int(match[1] or 0) * 3600 + int(match[2] or 0) * 60 + float(match[3]), UTC
    try:
        moment = datetime.fromisoformat(text) if re.match(r"\d{4}-\d\d-\d\d", text) else None
    except ValueError:
        return None
    if moment is None or not 1970 < moment.year < 9999:
        return None
    return "moment", moment.replace(tzinfo=moment.tzinfo or UTC).timestamp(), UTC if moment.tzinfo else FLOATING


def _text(value: object) -> str:
    number = isinstance(value, int) and not isinstance(value, bool)  # speakers are numbered in some files
    return str(value) if number else clean(value) if isinstance(value, str) else ""
