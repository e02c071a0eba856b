"""The evidence of a question: the passages retrieved for it, with their files and senders.

The sender of a document may not be the named person: that name or a look-alike address may be another's. The later
address gets the warning; if the order is unknown, both do.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from functools import cache, partial
from math import inf
from pathlib import Path
from random import Random
from statistics import fmean, pstdev
from typing import Any

from msgspec import Struct

from engine.models.types import Embedder
from engine.retrieval.retrieve import FOREIGN, JOINED, RankWeights, join, retrieve
from engine.text.dates import spell_date
from engine.text.people import FORTNIGHTS, LOOK_ALIKE, READERS, ROUTES, WAYS, domain_of, ways_of
from engine.text.question import Question
from engine.text.terminal import count, shorten
from engine.text.time_sensitive import phrases, plain_words, word_lists
from engine.text.words import FRONT, words
from engine.types import FIRST_MAIL, SCHEMA, AskOptions, Evidence, Listing, ListOptions, Passage, Source, Trace, Trust
from store.catalog import Catalog, KnownAddress, NamedAddress, Provenance, addresses_of, provenance_of
from store.search import Reader
from store.types import Hit, Place, Scope, Vectors, replace

_DAY = timedelta(days=1)  # addresses first seen closer together came at the same time: many mails are read in one run
_LASTING, _WRITERS = 3, 20  # fortnights in which a known sender has written; people who may have written to them
_PEOPLE = 8  # names and addresses of a mail, one of which may be of older mail
_Addresses = Callable[..., Sequence[KnownAddress]]


class Known(Struct, frozen=True):
    """When a document was first seen (ISO, in UTC), and why its sender may not be who the name says."""

    first_seen: str | None = None
    warnings: tuple[str, ...] = ()
    trust: Trust = Trust.KNOWN
    note: str = ""


def known_of(catalogue: Catalog, documents: Iterable[str], bank: Reader | None = None) -> dict[str, Known]:
    """Return facts about documents; none for those indexed before facts were recorded.

    A name's owner is decided by all visible documents of the catalogue; an address may be introduced in the bank.
    """
    addresses = cache(partial(addresses_of, catalogue.ledger, catalogue.collection))
    found = provenance_of(catalogue.ledger, list(dict.fromkeys(documents)))
    return {name: _known(one, addresses, partial(introduces, catalogue, bank)) for name, one in found.items()}


def _known(one: Provenance, addresses: _Addresses, is_told: Callable[[str, str], bool]) -> Known:
    """Return facts about a document; senders keep their identity under an address that they introduced."""
    senders = [sender for sender in one.people if sender.sends]
    others = [(sender, other) for sender in senders if (other := _clash(sender, addresses(sender.name)))]
    strange = [(sender, other) for sender, other in others if not is_told(other, sender.address)]
    odd = [each for each in one.warnings if not each.startswith(ROUTES) or _is_unusual(each, one, addresses)]
    like = {True: "looks like", False: "the name is that of"}
    clashes = (f"{like[each.name.startswith(LOOK_ALIKE)]} {shorten(other, 60)}" for each, other in strange)
    warnings = tuple(dict.fromkeys([*odd, *clashes]))
    own, known = {each.address or each.name for each in senders}, len(strange) < len(others) or not senders
    # Who wrote over some time, or one who did wrote to them: no stranger can do that alone.
    writers = ((one, *(row.address for row in addresses(f"{READERS}{one}", _WRITERS))) for one in own)
    lasting = (len(addresses(f"{FORTNIGHTS}{one}", _LASTING)) == _LASTING for some in writers for one in some)
    trust = Trust.WARNED if warnings else Trust.KNOWN if known or any(lasting) else Trust.NEW
    named = [each.name for each in one.people[:_PEOPLE] if trust == Trust.NEW and not each.name.startswith(READERS)]
    before = [row for name in named for row in addresses(name) if row.seen <= one.seen - _DAY]
    is_first = before and not any(row.sends and row.address in own for row in before)
    return Known(one.seen.isoformat(), warnings, trust, FIRST_MAIL if is_first else "")


def _is_unusual(route: str, one: Provenance, addresses: _Addresses) -> bool:
    """Return whether mail of a sender came otherwise before, and this by no list that mail went to before."""
    sender = next((each.address for each in one.people if each.sends), "")
    ways, other = addresses(f"{WAYS}{sender}"), route.rpartition(" ")[2].lower()
    own = [way for way in ways if way.address == domain_of(sender)]
    usual = {way.address for way in own or _first(ways, 0.5)}  # a shop has several

    def is_by_list(address: str, known: Sequence[KnownAddress]) -> bool:
        is_its = domain_of(other) == domain_of(address) and address.partition("@")[0] in other
        before = any(row.seen <= one.seen - _DAY for row in known) and not any(row.sends for row in known)
        return before and (other == address or (is_its and route.startswith(ROUTES[0])))

    alike = [each for each in one.people if each.name.startswith(LOOK_ALIKE) and not each.name.startswith(WAYS)]
    rows = {each.address: [row for row in addresses(each.name) if row.address == each.address] for each in alike}
    # Nothing else in the header removes a warning: a forger writes all of that.
    return usual.isdisjoint(ways_of(sender, [route])) and not any(map(is_by_list, rows, rows.values()))


def introduces(catalogue: Catalog, bank: Reader | None, old: str, new: str) -> bool:
    """Return whether mail from one address, with no warning, says that another is its writer's new one."""
    scope = Scope(sender=old, collection=catalogue.collection)
    hits = bank.by_words(words(new), scope, 20) if bank else []
    ends = r"(?<=[.!?])\s+|\s*\n\s*"
    lines = [(hit.chunk, line) for hit in hits for line in re.split(ends, hit.chunk.text.lower())]
    telling = [one.document for one, line in lines if one.role == "body" and new in line and _says_mine(line, new)]
    return any(not one.warnings for one in provenance_of(catalogue.ledger, telling).values())


def _says_mine(sentence: str, address: str) -> bool:
    """Return whether a sentence says that an address is its writer's now, and has no word that may say otherwise."""
    told = plain_words(sentence.replace(address, " "))
    lists = (parts for parts in word_lists("changes").values() if "mine" in parts)
    known = (({word for (word,) in parts["mine"]}, {word for (word,) in parts["i"]}) for parts in lists)
    is_mine = any({*told} <= mine | i and not i.isdisjoint(told) for mine, i in known)
    return is_mine and "?" not in sentence and any(phrases("changes", "new").find(told))


def _clash(sender: NamedAddress, known: Sequence[KnownAddress]) -> str | None:
    """Return the address whose name or looks a sender has; None if they are their own."""
    for sends in (True, False):
        pool = [one for one in known if one.sends is sends and one.address]
        first = [one.address for one in _first(pool)]
        # The organisation that has a sender's name and domain is no other.
        domain = domain_of(sender.address)
        is_organisation = domain.partition(".")[0] in sender.name.split()
        others = [one for one in first if one != sender.address and not (is_organisation and domain_of(one) == domain)]
        if others and first != [sender.address]:
            return others[0]
    return None


def _first(pool: Sequence[KnownAddress], least: float = 1.0) -> list[KnownAddress]:
    """Return the addresses that were seen first; of those, the ones of most documents, or of at least a share of it."""
    earliest = min((one.seen for one in pool), default=None)
    early = [one for one in pool if earliest is not None and one.seen < earliest + _DAY]
    most = max((one.documents for one in early), default=0)
    return [one for one in early if one.documents >= least * most]


# Scores depend on the whole index: in steps most new mail leaves them as they are, and the answers made from them.
_STEPS = 10  # of a score, between 0 and the best
_NEAREST = 50  # as many as the most sources of a question


def gather(
    bank: Reader, catalogue: Catalog, embedder: Embedder | None, question: Question, options: AskOptions, trace: Trace
) -> Evidence:
    """Embed a question, where an embedder is given and the bank has vectors, and retrieve for it.

    Nothing is found if the passages have no word of the question, and its vector is no nearer than by chance.
    """
    if embedder is None or not bank.totals().embedded:
        return find(bank, catalogue, None, question, options, trace)
    with trace.step("embed"):
        vector = embedder.embed_question(question.text)
    found = find(bank, catalogue, vector, question, options, trace, embedder)
    asked = {*question.content, *question.day_words}
    held = {word for one in found.passages for hit in one.hits for word in hit.tokens.split(" ")}
    slips = (get_close_matches(word, held, 1, _CLOSE) for word in asked if len(word) >= _LEAST_CLOSE)
    there = not asked.isdisjoint(held) or any(slips)
    return found if there or _beats_chance(bank, embedder, question, options.scope, found) else Evidence((), (), 0.0)


_CLOSE, _LEAST_CLOSE = 0.8, 5  # of two words that are one mistyped: the share of letters that agree; the letters
_SHUFFLES, _DEVIATIONS, _SLACK = 8, 3, 1e-4


def _beats_chance(bank: Reader, embedder: Embedder, question: Question, scope: Scope, found: Evidence) -> bool:
    """Return whether the embedder knows a word of a question, or the vectors of its shuffled letters are less near."""
    written = [word for word in plain_words(question.text) if not set(question.content).isdisjoint(words(word))]
    if not found.nearest or any(len(word) > 2 and embedder.knows(word) for word in written):
        return bool(found.nearest)
    shuffle, cosines = Random(question.text), list[float]()
    for _ in range(_SHUFFLES):
        text = question.text.casefold()
        for word in written:
            text = text.replace(word, "".join(shuffle.sample(word, len(word))), 1)
        vector = embedder.embed_question(text)
        cosines += [float(hit.vector @ vector) for hit in bank.by_vector(vector, scope, 1) if hit.vector is not None]
    return found.nearest[0] - _SLACK > fmean(cosines or [1.0]) + _DEVIATIONS * pstdev(cosines or [1.0])


def find(
    bank: Reader,
    catalogue: Catalog,
    vector: Vectors | None,
    question: Question,
    options: AskOptions,
    trace: Trace,
    embedder: Embedder | None = None,
) -> Evidence:
    """Retrieve for a question and its vector; a document whose last file vanished a moment ago is left out."""
    knows_it = question.foreign and embedder and not embedder.fingerprint.startswith("minilm:")
    weights = FOREIGN if knows_it else RankWeights()
    with trace.step("retrieve") as step:
        ranked, covered = retrieve(bank, vector, question, options.scope, weights), bank.totals().covered
        passages = _graded(placed(catalogue.within(options.scope), join(ranked, options.k), bank))
        step.note = f"{len(ranked)} candidates, {len(passages)} sources, {covered:.0%} of chunks have vectors"
    # Of these passages, not of all that was found: a document may have lost its last file.
    chunks = tuple(chunk.id for passage in passages for chunk in passage.chunks)
    if vector is None:
        return Evidence(passages, chunks, 0.0)
    cosines = (float(hit.vector @ vector) for hit in ranked if hit.vector is not None)
    return Evidence(passages, chunks, covered, tuple(sorted(cosines, reverse=True)[:_NEAREST]))


def find_after(
    bank: Reader, catalogue: Catalog, vector: Vectors | None, question: Question, options: AskOptions, trace: Trace
) -> Evidence:
    """Retrieve for a follow-up: first, of the document of the answer before, what was quoted and what fits best."""
    before, catalogue = options.after, catalogue.within(options.scope)
    found = find(bank, catalogue, vector, question, options, trace)
    places = catalogue.places_in(before.path) if before else []
    own = [one.document for one in places if before and before.message_id in (None, one.message_id)]
    if before is None or not own:
        return found
    with trace.step("retrieve") as step:
        hits = sorted(bank.chunks_of(own, options.scope), key=lambda hit: hit.chunk.position)
        there = [hit for hit in hits if before.quote and before.quote in hit.chunk.text][:1]
        scope = replace(options.scope, document=there[0].chunk.document if there else own[0])
        ranked = retrieve(bank, vector, question, scope, RankWeights())
        # With the best score, so that they are searched for the answer first.
        ordered = {hit.chunk.id: hit.scored(1.0) for hit in (*there, *ranked, *hits)}
        leading = tuple(placed(catalogue, join(list(ordered.values()), 2), bank))
        step.note = f"{len(leading)} sources of the answer before"
    held = {chunk.id for one in leading for chunk in one.chunks}
    others = [one for one in found.passages if not held & {chunk.id for chunk in one.chunks}]
    passages = (*leading, *others[: options.k - len(leading)])
    chunks = tuple(chunk.id for one in passages for chunk in one.chunks)
    return replace(found, passages=passages, chunks=chunks, leading=len(leading), said=before.quote, typed=before.typed)


def find_whole(
    bank: Reader, catalogue: Catalog, documents: Sequence[str], options: AskOptions, trace: Trace
) -> Evidence:
    """Return the whole text of documents, in order, without text that one of them quotes from another."""
    catalogue = catalogue.within(options.scope)
    with trace.step("retrieve") as step:
        order = {document: number for number, document in enumerate(documents)}
        hits = [hit for hit in bank.chunks_of(documents, options.scope) if len(order) == 1 or hit.chunk.role != "quote"]
        hits.sort(key=lambda hit: (order[hit.chunk.document], hit.chunk.position))
        passages = tuple(placed(catalogue, map(Passage, _joined([hit.scored(1.0) for hit in hits])), bank))
        step.note = f"all {len(passages)} passages of {count(len(documents), 'document')}"
    return Evidence(passages, tuple(chunk.id for one in passages for chunk in one.chunks), 1.0)


def reread(bank: Reader, catalogue: Catalog, chunks: Sequence[str], scores: Sequence[float]) -> Evidence:
    """Read evidence again, by the ids of its chunks and the scores of its passages; empty if it is not all there."""
    # How chunks were joined is not kept: who needs it exactly as it was compares fingerprints.
    stored = {hit.chunk.id: hit for hit in bank.chunks(chunks)}
    joined = _joined([stored[id] for id in chunks if id in stored])
    if len(stored) < len(chunks) or len(joined) != len(scores):
        return Evidence((), (), 0.0)
    scored = (Passage(tuple(hit.scored(it) for hit in hits)) for hits, it in zip(joined, scores, strict=True))
    return Evidence(_graded(placed(catalogue, scored, bank)), tuple(chunks), 0.0)


def _joined(hits: Sequence[Hit]) -> list[tuple[Hit, ...]]:
    """Split the hits of passages, in order, into those of each: as many neighbours as may be joined."""
    found = list[tuple[Hit, ...]]()
    for hit in hits:
        before = found[-1][-1].chunk if found and len(found[-1]) < JOINED else None
        if before and (before.document, before.position + 1) == (hit.chunk.document, hit.chunk.position):
            found[-1] += (hit,)
        else:
            found.append((hit,))
    return found


def placed(catalogue: Catalog, passages: Iterable[Passage], bank: Reader | None = None) -> list[Passage]:
    """Return passages with their places, without those whose document is in no file any more."""
    found = list(passages)
    known = known_of(catalogue, [hit.chunk.document for one in found for hit in one.all_hits], bank)
    return [one for passage in found if (one := _placed(catalogue, passage, known))]


def cited(catalog: Catalog, text: str, highlight: int, hits: Iterable[Hit]) -> Evidence:
    """Return an answer with documents as its sources, as evidence; its first letters are highlighted."""
    kept = placed(catalog, [Passage((hit.scored(1.0),)) for hit in hits])
    return Evidence(tuple(kept), tuple(it.id for one in kept for it in one.chunks), 1.0, fact=text, told=highlight)


_CLOCK = r"(?:\d{1,3}:)?\d{1,2}:\d{2}(?![\d:])"
_CAPTION = re.compile(rf"\s*({_CLOCK})(?:[.,]\d+)?(?:\s*-->\s*|,){_CLOCK}")
_IN_FRONT = re.compile(rf"\s*(?:[^\W\d_][^\d\[(:]{{0,40}}[\[(]|[\[(]?)({_CLOCK})(?:[.,]\d+)?[\])]?(?=[\s:-]|$)")
_NAMED_ABOVE = re.compile(rf"\s*[^\W\d_][^\d:]{{0,40}}\s({_CLOCK})\s*$")
_ABOVE, _BEGINS = 3, 8  # lines from a time down to what is said then; words by which that is found


def timed(source: Source) -> Source:
    """Return a source in a recording's file with the lines of its quote, and when that is said.

    The same source if the file has no times there, or not these words any more.
    """
    path = Path(source.path)
    if not source.own_lines or not path.is_file():
        return source
    first, last = source.lines
    lines = path.read_text("utf-8", "replace").split("\n")[:last]
    bare = (re.sub(r"<[^<>]*>", " ", FRONT.sub("", line, count=1)) for line in lines[first - 1 :])
    said = [(number, one) for number, line in enumerate(bare, first) for one in plain_words(line)]
    found, wanted = [one for _, one in said], plain_words(source.quote)
    begins = wanted[:_BEGINS]
    start = next((at for at in range(len(found)) if begins and found[at : at + len(begins)] == begins), None)
    if start is None:
        return source
    number, end = said[start][0], said[min(start + len(wanted), len(said)) - 1][0]
    above = lines[max(number - 1 - _ABOVE, 0) : number][::-1]
    near = [*map(_CAPTION.match, above), *map(_IN_FRONT.match, above), *map(_NAMED_ABOVE.match, above[1:])]
    clock = next((one[1] for one in near if one), None)
    *hours, minutes, seconds = map(int, clock.split(":")) if clock else (0, 0)
    hour = f"{hours[0]}:" if any(hours) else ""
    shown = f"{hour}{minutes:0{2 if hour else 1}}:{seconds:02}"
    return replace(source, lines=(number, end), at=shown) if clock else source


def day_of(hit: Hit) -> str:
    """Return the day of a document in words."""
    return spell_date(hit.date, weekday=True) if hit.date else "no date"


def title_of(hit: Hit) -> str:
    """Return the title of a document on one line."""
    return " ".join(hit.title.split())[:80] or "no subject"


def _graded(passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """Return passages whose scores are shares of the best one's, in steps."""
    best = max((passage.score for passage in passages), default=0.0)
    steps = (max(0, round(_STEPS * one.score / best)) / _STEPS if best > 0 else 0.0 for one in passages)
    pairs = zip(passages, steps, strict=True)
    return tuple(replace(one, hits=tuple(hit.scored(step) for hit in one.hits)) for one, step in pairs)


def _placed(catalogue: Catalog, passage: Passage, known: Mapping[str, Known]) -> Passage | None:
    """Return a passage with its places, then those of its copies; None if it has none."""
    passage = _of_most_trusted(passage, known)
    hit, lines, places = passage.hits[0], passage.lines, catalogue.places(passage.document)
    if not places:
        return None
    standing = [(place, hit, lines) for place in places]
    for copy in passage.copies:
        standing += [(one, copy, Passage((copy,)).lines) for one in catalogue.places(copy.chunk.document)[:1]]
    beside = enumerate(standing[:4])  # one, and three beside it
    sources = (_source(*one, passage.score, known, copy=bool(number)) for number, one in beside)
    own = known.get(passage.document, Known())
    return replace(passage, sources=tuple(sources), trust=own.trust, note=own.note)


def _of_most_trusted(passage: Passage, known: Mapping[str, Known]) -> Passage:
    """Return a passage as that of the copy whose sender is trusted most, and of those nobody knows, who wrote first."""
    ranked = [(hit, known[hit.chunk.document]) for hit in passage.all_hits if hit.chunk.document in known]
    if len(passage.hits) > 1 or len(ranked) < 2 or ranked[0][1].trust == Trust.KNOWN:
        return passage

    def order(one: tuple[Hit, Known]) -> tuple[int, str, float]:
        return -one[1].trust, str(one[1].first_seen)[:10], one[0].date.timestamp() if one[0].date else inf

    best, _ = min(ranked, key=order)
    others = tuple(hit for hit in passage.all_hits if hit is not best)
    return replace(passage, hits=(best.scored(passage.score),), copies=others)


def _source(
    place: Place, hit: Hit, lines: tuple[int, int], score: float, known: Mapping[str, Known], *, copy: bool
) -> Source:
    """Name one place; its lines are the file's if that has the text as it is, else the decoded text's."""
    before, own = place.lines_before or 0, place.lines_before is not None
    about = (place.path, place.message_id, hit.title, hit.date.isoformat() if hit.date else None)
    of_document, claimed = known.get(hit.chunk.document, Known()), hit.claimed or hit.date
    return Source(
        *about,
        lines=(lines[0] + before, lines[1] + before),
        score=round(score, 6),
        quote="",
        own_lines=own,
        copy=copy,
        sender="" if hit.is_meeting else hit.sender,
        recipients=hit.recipients,
        role=hit.chunk.role,
        author=hit.chunk.author if hit.is_quoted else "",
        place=hit.chunk.place,
        date_claimed=claimed.isoformat() if claimed else None,
        first_seen=of_document.first_seen,
        warnings=of_document.warnings,
    )


def shown(reader: Reader, catalogue: Catalog, places: Sequence[Place]) -> list[dict[str, Any]]:
    """Return the documents at these places, in order, as plain values."""
    kept = reader.documents([place.document for place in places])
    known, found = known_of(catalogue, list(kept), reader), list[dict[str, Any]]()
    for place in (one for one in places if one.document in kept):
        row, first = kept[place.document], (place.lines_before or 0) + 1
        lines = {"lines": [first, first + row["text"].count("\n")], "text": row["text"]}
        found.append(_about(row, place, known.get(place.document)) | lines | {"turns": None})
    return found


def listed(reader: Reader, catalogue: Catalog, options: ListOptions, of: Sequence[str] | None = None) -> Listing:
    """Return documents by date, and how many there are; only `of` these, if any are given."""
    ids, total = reader.by_date(options.scope, options.title, options.limit, oldest=options.oldest, of=of)
    catalogue = catalogue.within(options.scope)
    known, rows = known_of(catalogue, ids, reader), reader.documents(ids, texts=False)
    there = ((id, places) for id in ids if id in rows and (places := catalogue.places(id)))
    found = [_about(rows[id], places[0], known.get(id)) | {"copies": len(places) - 1} for id, places in there]
    return Listing(total, found)


def _about(row: dict[str, Any], place: Place, known: Known | None) -> dict[str, Any]:
    claimed = row["claimed"] or (row["date"] and row["date"].isoformat())
    return {
        "schema": SCHEMA,
        "path": place.path,
        "item": place.item,
        **{name: row[name] for name in ("message_id", "kind", "title", "sender")},
        "recipients": [name for name in row["recipients"].split("\n") if name],
        "date": row["date"].isoformat() if row["date"] else None,
        "date_claimed": claimed,
        "first_seen": known.first_seen if known else None,
        "warnings": list(known.warnings) if known else [],
        "collection": place.collection,
    }
