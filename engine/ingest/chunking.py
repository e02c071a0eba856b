"""Chunking: a document into chunks of about 100 words, each with a header that says who, when and what.

Chunks end at paragraphs and speaker turns, else at sentences, else at words. `embed` fills in their vectors, newest
first, and commits as it goes. Knows no tokenizers, and the embedder by its protocol. `Cluster` has files parsed and
chunks embedded by processes of Ray, and writes nothing.
"""

import os
import pickle
import re
import shutil
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from functools import cached_property, partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain, groupby, islice, pairwise
from pathlib import Path
from queue import Queue
from secrets import token_hex
from tempfile import TemporaryFile, mkdtemp
from threading import Thread
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from engine.ingest.quotes import passage_digests
from engine.ingest.types import Bug, Files, ParseLimits, Read, content_id, isolate, people_of
from engine.text.people import chunk_header, index_words, name_forms, origin_line
from engine.text.terminal import line, shorten
from store.catalog import BUG
from store.errors import Locked, PkbError, UsageError
from store.locks import Locks
from store.types import Chunk, Document, DocumentPassage, ParsedItem, PreparedDocument, Row, Vectors, replace, turns

if TYPE_CHECKING:
    from engine.models.types import Embedder
    from store.documents import VectorStore

TARGET, MOST = 100, 150  # words
LETTERS = 32  # letters of one long token (URL, base64) that count as a word

# Scripts written without spaces: Thai to Khmer, kana, Han.
UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_UNSPACED = re.compile(f"[{UNSPACED}]")
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’»)\]]*+\s++(?![a-z])|(?<=[。！？｡])[」』）”]*+(?![。！？｡])")
_LINE, _BLANK = re.compile(r"\n"), re.compile(r"\s++")


class Piece(Struct, frozen=True):
    """A part of one passage that goes into one chunk whole; `weight` is its length in words."""

    text: str
    weight: int
    first: int
    last: int
    speaker: str | None = None


def chunk(document: Document, passages: Sequence[DocumentPassage]) -> list[Chunk]:
    """Return the chunks of a document's passages, in order; a document without passages is one chunk of its title."""
    chunks, speakers = list[Chunk](), frozenset(document.recipients if document.kind == "transcript" else ())
    for _, group in groupby(passages, key=lambda one: (one.role, one.written, one.author)):
        run = list(group)
        for pieces in _pack([piece for passage in run for piece in _pieces(passage, speakers)]):
            chunks.append(_chunk(document, len(chunks), run[0], pieces))
    title = shorten(document.title, 1000)
    if not chunks and title:
        return [_chunk(document, 0, DocumentPassage(title, 1, 1), [Piece(title, weigh(title), 1, 1)])]
    return chunks


def weigh(text: str) -> int:
    """Return the number of words; two letters of an unspaced script, or 32 letters of a long token, are one."""
    words = text.split()
    if text.isascii() and len(max(words, key=len, default="")) <= LETTERS:
        return len(words)
    return sum(max(1, len(word) // LETTERS, (len(_UNSPACED.findall(word)) + 1) // 2) for word in words)


def _chunk(document: Document, position: int, part: DocumentPassage, pieces: Sequence[Piece]) -> Chunk:
    # An empty line ends a turn that no other speaker's follows.
    ends = ["\n\n" if one.speaker and not after.speaker else "\n" for one, after in pairwise(pieces)]
    text = "".join(piece.text + end for piece, end in zip(pieces, [*ends, ""], strict=True))
    header, origin = chunk_header(document, part), origin_line(document, part)
    first, last = min(piece.first for piece in pieces), max(piece.last for piece in pieces)
    # An answer from the same words of another day is another answer.
    chunk_id = content_id(document.id, str(position), header, origin, text, str(part.written or document.date))
    about = (part.role, part.written, part.author, origin)
    return Chunk(chunk_id, document.id, position, header, text, first, last, *about)


def _pack(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Group the pieces into chunks: a chunk takes the next piece if that brings its weight closer to TARGET."""
    packs, weight = list[list[Piece]](), MOST
    for piece in pieces:
        both = weight + piece.weight
        if both <= MOST and abs(both - TARGET) <= abs(weight - TARGET):
            packs[-1].append(piece)
            weight = both
        else:
            packs.append([piece])
            weight = piece.weight
    if len(packs) > 1 and weight < TARGET // 2:
        before = sum(piece.weight for piece in packs[-2])
        if before + weight <= MOST:
            packs[-2:] = [packs[-2] + packs[-1]]
    return packs


def _pieces(passage: DocumentPassage, speakers: Collection[str]) -> Iterator[Piece]:
    text, speaker = passage.text, passage.speaker
    name = f"{speaker}: " if speaker else ""
    # Else the text was joined, and the line of a part is unknown.
    same_lines = text.count("\n") == passage.last - passage.first
    line, counted = passage.first, 0
    for start, end in _spans(text, max(1, MOST - weigh(name))):
        line, counted = line + text.count("\n", counted, start), start
        last = line + text.count("\n", start, end)
        said, first = text[start:end], int(bool(speaker))
        if speakers:  # no line ends its turn or begins another: "Ann: yes" may be what Bob writes
            lines = [line for line in said.split("\n") if line.strip() or not speaker]
            kept = [f" {one}" if any(turn.speaker for turn in turns(one, speakers)) else one for one in lines[first:]]
            said = "\n".join([*lines[:first], *kept])
        shown = name + said
        first, last = (line, last) if same_lines else (passage.first, passage.last)
        yield Piece(shown, weigh(shown), first, last, speaker)


def _spans(text: str, most: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the parts of a passage: the whole passage, or sentences up to the target weight."""
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    goal = min(TARGET, most)
    units = _units(text, start, end, goal) if weigh(text) > most else iter([(start, end, start < end)])
    weight, tail = 0, start
    for first, last, heavy in units:
        if weight and (weight + heavy > most or abs(weight + heavy - goal) > abs(weight - goal)):
            yield start, tail
            start, weight = first, 0
        weight, tail = weight + heavy, last
    if weight:
        yield start, tail


def _units(
    text: str, start: int, end: int, goal: int, borders: Sequence[re.Pattern[str]] = (_SENTENCE_END, _LINE, _BLANK)
) -> Iterator[tuple[int, int, int]]:
    """Yield (start, end, weight) of sentences; those above the goal are cut into lines, words, then letters."""
    part = text[start:end]
    weight = weigh(part)
    if weight <= goal:
        if weight:
            yield start, start + len(part.rstrip()), weight
    elif borders:
        stops = [stop.end() for stop in borders[0].finditer(text, start, end)]
        for first, last in zip([start, *stops], [*stops, end], strict=True):
            yield from _units(text, first, last, goal, borders[1:])
    else:
        step = goal * (2 if _UNSPACED.search(part) else LETTERS)
        for at in range(start, end, step):
            yield at, min(at + step, end), weigh(text[at : min(at + step, end)])


def chunks_of(document: Document, passages: Sequence[DocumentPassage]) -> tuple[tuple[Chunk, ...], tuple[str, ...]]:
    """Return the chunks of a document's passages, and the words that each is indexed under."""
    chunks = tuple(chunk(document, passages))
    words = (index_words(one, document.sender, document.recipients, document.date) for one in chunks)
    return chunks, tuple(map(" ".join, words))


def prepare(document: Document, *, chunked: bool = False) -> PreparedDocument:
    """Return what is computed of a document alone, its `own` chunks among it if they are wanted."""
    digests, names = tuple(passage_digests(document)), name_forms([document.sender, *document.recipients])
    own = chunks_of(document, [one for one in document.passages if not one.is_repeated]) if chunked else None
    return PreparedDocument(digests, names, people_of(document), own)


# Embedding.

_BATCH, _SENT_TO_CLUSTER = 128, 256  # chunks at once; of these batches, as a worker loads the model for all it is given
_COMMIT_S = 30.0  # a killed run repeats as much, and each commit adds files to the tables
OnVectors = Callable[[Sequence[str], "Vectors"], None]  # receives chunk ids and their new vectors after each commit
_TIMEOUT_S = 0.2  # how long to wait for readers before dropping tables of former embedders is left to the next run


def embed(
    store: "VectorStore",
    embedder: "Embedder",
    locks: Locks,
    on_vectors: OnVectors = lambda _ids, _vectors: None,
    cluster: "Cluster | None" = None,
) -> Iterator[tuple[int, int]]:
    """Embed what is missing; yields how much is done and left after each batch, nothing if another process embeds.

    What is done is committed every so often, and at the end. Questions find it once the index is updated.
    """
    with locks.sole("embedder") as locked:
        if not locked:
            return
        with locks.writer():
            store.use(embedder.fingerprint)
        if store.former:
            with suppress(Locked), locks.exclusive(_TIMEOUT_S):  # else next time
                store.drop_former()
        done, made, begun = 0, dict[str, Vectors](), time.monotonic()
        try:
            while rows := _wanted(store, locks, _BATCH * (_SENT_TO_CLUSTER if cluster else 1), made):
                groups = [rows[at : at + _BATCH] for at in range(0, len(rows), _BATCH)]
                texts = [[f"{row['header']}\n{row['text']}" for row in some] for some in groups]
                found = cluster.embed_all(embedder, texts) if cluster else map(embedder.embed, texts)
                for some, vectors in zip(groups, found, strict=True):
                    made |= zip((row["id"] for row in some), vectors, strict=True)
                    done, left = done + len(some), max(store.missing - len(made), 0)
                    while made and (not left or time.monotonic() - begun > _COMMIT_S):
                        with suppress(Locked):  # an ingest of another process may take long
                            _commit(store, locks, made, on_vectors)
                            begun = time.monotonic()
                    yield done, left
        finally:
            with suppress(Locked):  # interrupted
                _commit(store, locks, made, on_vectors)


def _wanted(store: "VectorStore", locks: Locks, most: int, made: Collection[str]) -> list[Row]:
    with locks.reader():  # whose tables no compaction takes away
        return store.wanted(most, made)


def _commit(store: "VectorStore", locks: Locks, made: dict[str, Vectors], on_vectors: OnVectors) -> None:
    """Store what was made, and empty it; Locked."""
    if made:
        import numpy as np  # lazy: processes that read files need none

        with locks.writer():
            ids, vectors = [*made], np.stack([*made.values()])
            made.clear()  # whatever interrupts the rest: no vector is to be stored twice
            store.put(ids, vectors, shows=False)
        on_vectors(ids, vectors)


# Processes that read files ahead. Scanning and commits, and with them the order, stay in the one that starts them.

_TASK_FILES, _TASK_BYTES = 200, 8 << 20  # that a task reads, unless a file is larger
_SENT = 1 << 20  # characters of documents that are sent at once
_AHEAD = 48  # of what is sent at once, in the memory of all processes: about as much as a batch of commits takes
_PROCESSES = 4  # at most: one that commits keeps no more busy
_MANY, _OPENING = 16 << 20, 4 << 10  # bytes that are worth processes; that are read while a file is opened
_READER = "from engine.ingest.chunking import read_tasks; read_tasks()"
_CRASHED = f"{BUG} a process crashed; please report it"


def read_ahead(files: Files, limits: ParseLimits) -> Generator[Read, None, None]:
    """Yield what `files.read_all` yields; many files are read by a process for each processor, up to four."""
    tasks = [*_tasks(files)]
    processors = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    if processors == 1 or sum(state.size + _OPENING for _, state in files) < _MANY:
        yield from _read(files, limits)
        return
    count = min(processors, len(tasks), _PROCESSES)
    with ExitStack() as stack:
        made = (_share(tasks[at::count], limits, _AHEAD // count) for at in range(count))
        shares = [stack.enter_context(closing(one)) for one in made]
        for one in shares:
            next(one)  # starts its process
        for number in range(len(tasks)):
            yield from iter(partial(next, shares[number % count]), None)


def _read(files: Files, limits: ParseLimits) -> Generator[Read, None, None]:
    from engine.ingest.files import read_all  # lazy: an unchanged folder needs no parser

    return read_all(files, limits)


def _share(tasks: Sequence[Files], limits: ParseLimits, ahead: int) -> Generator[Read | None, None, None]:
    """Yield None once a process reads, then what the files of tasks hold, and None after each task.

    Where a process ends, another one reads on with care: it sends each value before it looks for the next. A file on
    which two of these end costs itself alone. Where none starts, files are read here.
    """
    left, careful, suspect = deque(tasks), 0, b""  # so many tasks are to be read with care
    known, told = 0, False  # values of the next file that were yielded; whether the first None was
    while left:
        at, sent, skipped = -1, 0, known  # the file of the next task, what came of it, and what is not to be yielded
        some = [*islice(left, careful or None)]
        due, ended = len(some), None
        try:
            with closing(_values(some, limits, 0 if careful else ahead)) as values:
                next(values)  # starts the process
                if not told:
                    told = True
                    yield None
                for one in values:
                    if isinstance(one, Exception):
                        ended = one
                        break
                    if one is None:
                        left.popleft()
                        at, sent, skipped, due = -1, 0, 0, due - 1
                        yield None
                        continue
                    at, sent = (at, sent + 1) if isinstance(one, ParsedItem) else (at + 1, 1)
                    skipped = skipped if at < 1 else 0  # what was skipped is of a file that has changed since
                    if skipped:
                        skipped -= 1
                    else:
                        yield one
        except ChildProcessError:
            if not told:
                yield None
            for task in left:
                yield from islice(_read(task, limits), known, None)
                yield None
                known = 0
            return
        if ended:
            raise ended
        if not due:
            careful = known = 0
            continue
        rest, known = left[0][max(at, 0) :], known if skipped else sent
        if rest[0][0] == suspect:
            yield from [rest[0][1]][known:]
            yield ParsedItem(max(0, known - 1), None, problem=_CRASHED)
            rest, known, suspect = rest[1:], 0, b""
        elif careful:
            suspect = rest[0][0]
        left[0], careful = rest, ahead + 2  # what it had ready is lost, too
        if not rest:
            left.popleft()
            yield None


def _values(tasks: Iterable[Files], limits: ParseLimits, ahead: int) -> Generator[Read | Exception | None, None, None]:
    """Yield None, and then what a process reads, as far as it comes; ChildProcessError if none starts."""
    from subprocess import DEVNULL, PIPE, Popen  # slow to load

    with TemporaryFile() as asked:
        pickle.dump((limits, ahead), asked)
        for task in (*tasks, None):
            pickle.dump(task, asked)
        asked.seek(0)
        # -P: a folder named engine in the working directory must not shadow ours
        words = [sys.executable, "-P", "-c", _READER]
        try:
            child = Popen(words, stdin=asked, stdout=PIPE, stderr=DEVNULL, start_new_session=True)
        except OSError:
            raise ChildProcessError from None
    assert child.stdout is not None
    try:
        yield None
        if not child.stdout.readline():
            raise ChildProcessError
        with suppress(EOFError, pickle.UnpicklingError):
            while True:
                yield from pickle.load(child.stdout)
    finally:
        child.kill()
        child.communicate()


def read_tasks() -> None:
    """Read files for the process that started this one, ahead of it; with nothing ahead, send each value at once."""
    from engine.ingest.files import with_attachments

    asked, out = open(0, "rb"), open(1, "wb")  # noqa: SIM115
    limits, ahead = pickle.load(asked)
    waiting = Queue[bytes](ahead or 1)

    def send() -> None:
        try:
            for found in iter(waiting.get, b""):
                out.write(found)
                out.flush()
                waiting.task_done()
        except OSError:  # who asked has ended
            os._exit(1)

    (sender := Thread(target=send, daemon=True)).start()
    waiting.put(b"\n")
    try:
        with with_attachments(limits) as reading:
            for task in iter(partial(pickle.load, asked), None):
                for found in chain(_sent(_read(task, reading), _SENT if ahead else 1), [[None]]):
                    waiting.put(pickle.dumps(found))
                    if not ahead:
                        waiting.join()
    except (MemoryError, OSError) as error:  # which end a run that reads by itself, too
        waiting.put(pickle.dumps([error]))
    waiting.put(b"")
    sender.join()


def _sent(found: Iterable[Read], most: int) -> Iterator[list[Read]]:
    """Yield what was read, documents prepared, some together."""
    some, size = list[Read](), 0
    for one in found:
        if isinstance(one, ParsedItem) and (document := one.document):
            with suppress(Bug):  # which the process that commits says
                one = replace(one, prepared=isolate(partial(prepare, document, chunked=True)))
            size += len(document.text)
        some.append(one)
        size += 1
        if size >= most:
            yield some
            some, size = [], 0
    yield some


# A cluster of Ray that parses files and embeds chunks. Scanning and commits, and with them the order, stay here.

_IN_FLIGHT, _STORE = 128 << 20, 512 << 20  # bytes of results that wait; of the object store of a local cluster
_REACHED_S = 5
_TEMPORARY = "pkb-ray-"  # with the id of the process; in /tmp, as paths of sockets must be short
Batch = Mapping[str, Sequence[bytes]]  # of Ray Data: a column of pickled values


class Cluster:
    """Parses and embeds on a cluster of Ray: `ray`, one on this machine alone, or that of ray://HOST:PORT.

    It is started, or connected to, with the first work. Raise UsageError without Ray, PkbError if nothing answers.
    """

    def __init__(self, engine: str) -> None:
        self._address, self._folder = engine.removeprefix("ray").removeprefix("://"), ""
        host, _, port = self._address.rpartition(":")
        if engine != "ray" and not (engine.startswith("ray://") and host and port.isdecimal()):
            raise UsageError(f"--engine takes ray or ray://HOST:PORT, not {line(engine)}", "pkb ingest --engine ray")
        if find_spec("ray") is None:
            from engine.models.runtime import install_command

            raise UsageError("--engine needs Ray, which is not installed", install_command("ray"))
        if self._address:
            from socket import create_connection  # slow to load

            try:
                create_connection((host, int(port)), _REACHED_S).close()
            except (OSError, OverflowError):
                step = f"ray status --address={line(self._address)}"
                raise PkbError(f"no cluster answers at {line(engine)}", step) from None

    def read_all(self, files: Files, limits: ParseLimits) -> Generator[Read, None, None]:
        """Yield what `files.read_all` yields; a file on which workers crash costs itself alone."""
        at, sent = -1, 0  # the file whose items come, and how much came of it
        how = {"limits": limits, "made_by": version("pkb")}
        crashes = (self._ray.exceptions.WorkerCrashedError, self._ray.exceptions.OutOfMemoryError)
        try:
            for some in self._map([*_tasks(files)], _read_task, fn_kwargs=how, max_retries=1):
                for one in some:
                    at, sent = (at, sent + 1) if isinstance(one, ParsedItem) else (at + 1, 1)
                    yield one
        except crashes:
            if len(files) == 1:
                yield from [files[0][1]][sent:]
                yield ParsedItem(max(0, sent - 1), None, problem=_CRASHED)
                return
            rest = files[max(0, at) :]
            half = min((len(rest) + 1) // 2, _TASK_FILES)
            parts = (self.read_all(part, limits) for part in (rest[:half], rest[half:]) if part)
            yield from islice(chain.from_iterable(parts), sent, None)

    def embed_all(self, embedder: "Embedder", texts: Sequence[Sequence[str]]) -> Iterator[Vectors]:
        """Yield the vectors of each group of texts, in order."""
        workers = max(1, min(len(texts), int(self._ray.cluster_resources().get("CPU", 1))))
        yield from self._map(texts, _EmbedTask, fn_constructor_kwargs={"embedder": embedder}, concurrency=workers)

    def close(self) -> None:
        """Leave the cluster; one on this machine ends with all that it wrote."""
        if ("_ray" in vars(self) or self._folder) and "ray" in sys.modules:
            sys.modules["ray"].shutdown()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _map(self, values: Sequence[Any], work: Callable[..., Any], **how: Any) -> Iterator[Any]:
        """Yield the results of tasks, a value each, in order; what waits to be yielded is limited."""
        ray = self._ray
        sent = ray.data.from_items([{"sent": pickle.dumps(one)} for one in values], override_num_blocks=len(values))
        try:
            for batch in sent.map_batches(work, batch_size=None, **how).iter_batches(batch_size=None):
                yield from map(pickle.loads, batch["found"])
        except ray.exceptions.RayTaskError as error:  # whose message may hold mail
            if isinstance(error.cause, PkbError):
                raise PkbError(error.cause.message, error.cause.next_step) from None
            step = f"install pkb {version('pkb')} with its models on every machine of the cluster"
            raise PkbError(f"a worker failed: {type(error.cause).__name__}", step) from None

    @cached_property
    def _ray(self) -> Any:
        """Connect to the cluster, or start one on this machine; return Ray."""
        how: dict[str, Any] = {"address": self._address or "local", "log_to_driver": False}
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # its log goes to the terminal
        if not self._address:
            _remove_former()
            self._folder = mkdtemp(prefix=f"{_TEMPORARY}{os.getpid()}-", dir="/tmp")
            # Its processes listen on all addresses, and answer who knows the token.
            os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token_hex(16), "RAY_USAGE_STATS_ENABLED": "0"}
            os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")  # on a busy machine
            # A folder in the private one: Ray lets everybody read its own.
            how |= {"_temp_dir": f"{self._folder}/ray", "include_dashboard": False, "object_store_memory": _STORE}
            # Ray takes 127.0.0.1 for the address of the network; on a Mac it uses no other.
            how |= {"_node_ip_address": "127.0.0.2"} if sys.platform == "linux" else {}
        import ray
        import ray.data
        from ray.util.annotations import RayDeprecationWarning

        warnings.simplefilter("ignore", RayDeprecationWarning)  # of max_retries, which has no other place yet
        try:
            ray.init(**how)
        except Exception as error:
            if isinstance(error, MemoryError):
                raise
            step = f"ray start --address={line(self._address)} --num-cpus=0" if self._address else "pkb ingest"
            raise PkbError(f"Ray did not start: {type(error).__name__}", step) from None
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = context.print_on_execution_start = context.enable_auto_log_stats = False
        context.execution_options.preserve_order = True
        context.execution_options.resource_limits = ray.data.ExecutionResources(object_store_memory=_IN_FLIGHT)
        return ray


def _remove_former() -> None:
    """Remove the folders of clusters whose process was killed."""
    for old in Path("/tmp").glob(f"{_TEMPORARY}*-*"):
        try:
            os.kill(int(old.name.split("-")[2]), 0)
        except ProcessLookupError:
            shutil.rmtree(old, ignore_errors=True)
        except (PermissionError, ValueError, OverflowError):
            continue  # another user's, or not ours


def _tasks(files: Files) -> Iterator[Files]:
    """Yield the files of each task."""
    first = size = 0
    for at, (_, state) in enumerate(files):
        if at > first and (at - first == _TASK_FILES or size + state.size > _TASK_BYTES):
            yield files[first:at]
            first, size = at, 0
        size += state.size
    yield files[first:]


def _read_task(batch: Batch, *, limits: ParseLimits, made_by: str) -> Iterator[dict[str, list[bytes]]]:
    """Read files on a worker, which must be as this process: have the same pkb, and see the same files."""
    if (here := version("pkb")) != made_by:
        raise PkbError(f"a worker has pkb {here}, not {made_by}", "install the same pkb on every machine")
    if not Path(limits.root).exists():
        step = "mount it at the same path on every machine of the cluster"
        raise PkbError(f"a worker does not see {line(limits.root)}", step)
    for value in batch["sent"]:
        for found in _sent(_read(pickle.loads(value), limits), _SENT):
            yield {"found": [pickle.dumps(found)]}


class _EmbedTask:
    """Embeds groups of texts on a worker, which loads the model once."""

    def __init__(self, embedder: "Embedder") -> None:
        self._embedder = embedder

    def __call__(self, batch: Batch) -> dict[str, list[bytes]]:
        return {"found": [pickle.dumps(self._embedder.embed(pickle.loads(value))) for value in batch["sent"]]}
