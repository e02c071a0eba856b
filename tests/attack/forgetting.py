"""Homes in which something is made of a mail, in this process or another one, while or before the mail is forgotten.

Run `python -m tests.attack.forgetting` for a table: in how many places something of the mail is still found, by attack.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any

from engine.app import Pkb
from engine.forget import ForgetPlan
from engine.idle.predict import Prediction, offer
from engine.idle.refresh import Reasker
from engine.models.load import load
from store import kv_files
from store.answers import AnswerBank
from store.errors import Locked, PkbError
from store.history import latest
from store.jobs import Jobs
from store.kv_files import Node, pack
from store.types import Scope
from tests.attack.lab import Lab, mail
from tests.demo import NANO
from tests.effort import PATIENCE_S
from tests.engine.recovery import Secret, token_files, traces

WORDS = ("Zebulonite", "Brambleweir")
ID = "hidden@choir.example"
TEXT = "The Zebulonite tandem of the harbour museum is green. Its key hangs in locker Brambleweir."
QUESTION = "Which colour has the Zebulonite tandem of the harbour museum?"
LIKE = "Which colour does the Zebulonite tandem of the harbour museum have?"
KEY = "Where does the key of the Zebulonite tandem hang?"
WHERE = "Where is the Zebulonite tandem of the harbour museum?"
OTHER = "Which colour has the canoe of the harbour museum?"
OF_BOARD = ("Quixelwort", "Skarrowby")
MEETING = """Meeting: Skarrowby board
Date: 2024-05-20

Ann: The Quixelwort regatta is on Monday.
Ben: I bring the cup of Skarrowby.
"""
BOARD = "When is the Quixelwort regatta?"


def hidden(text: str = TEXT, message_id: str = ID, title: str = "The tandem") -> bytes:
    """Return the mail that is to be forgotten."""
    return mail(text, f"Message-ID: <{message_id}>", title=title)


FILES = {
    "hidden.eml": hidden(),
    "canoe.eml": mail("The canoe of the harbour museum is red.", "Message-ID: <c@choir.example>", title="The canoe"),
    "picnic.eml": mail("The picnic is on Friday at 6pm in the park.", title="Picnic"),
    "board/2024-05-20 board.txt": MEETING.encode(),
}


class Home(Lab):
    """A home with these files, and what must not come back from it."""

    def pkb(self, *, model: bool = False) -> Pkb:
        """Open it, to answer by quotes or by a tiny model."""
        pkb = Pkb(environ={**os.environ, **self.environ})
        if model:
            pkb.session.override("model.name", str(NANO))
        return pkb

    def forget(self, *targets: str) -> None:
        """Forget documents."""
        with self.pkb() as pkb:
            pkb.forget(pkb.plan_forgetting(targets or (ID,), Scope()))

    def left(self, words: Sequence[str] = WORDS) -> list[str]:
        """Return where some words are still found, or the tokens of the first of them."""
        model = load(NANO, name="nano", cache=self.folder / "elsewhere", memory_share=0.9, threads=1)
        tokens = tuple(model.tokens(f" {words[0]}"))
        found = traces(self.folder / "home", Secret(tuple(words), tokens=tokens))
        found.update(token_files(self.folder / "cache", tokens))
        for path in (path for path in self.folder.rglob("*") if path.is_file() and self.mail not in path.parents):
            held = path.read_bytes()
            if any(word.encode() in held for word in words) or pack(tokens) in held:
                found.add(f"bytes of {path.name}")
        return sorted(found)

    @contextmanager
    def elsewhere(self, action: str) -> "Iterator[Callable[[], None]]":
        """Run an action in another process, up to where it is held; yields what lets it go on and waits for its end."""
        command = [sys.executable, "-m", "tests.attack.forgetting", action]
        with self.pkb() as pkb:
            (document,) = pkb.session.catalogue.documents_with_message_id(ID)
        environ = {**os.environ, **self.environ, "PKB_MAIL": str(self.folder), "PKB_DOCUMENT": document}
        with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout
            assert b"held\n" in iter(other.stdout.readline, b""), action

            def go_on() -> None:
                other.communicate(b"\n" * 9, PATIENCE_S)
                assert other.returncode == 0, action

            try:
                yield go_on
            finally:
                other.kill()


def make(folder: Path) -> Home:
    """Make a home that has read the files and embedded them."""
    home = Home(folder)
    for name, raw in FILES.items():
        home.put(name, raw)
    with home.pkb() as pkb:
        pkb.ingest([home.mail])
    return home


# What another process does, held at a point; run by name.


def _hold(*_: Any) -> None:
    """Say that this point is reached, and wait to be told to go on; only the first time."""
    if not _held:
        _held.append(True)
        print("held", flush=True)
        _STDIN.readline()


_held, _STDIN = list[bool](), sys.stdin


def _slow(owner: Any, name: str, *, after: bool = False) -> None:
    """Have a function be slow: held before it, or after it."""
    plain = getattr(owner, name)

    def slow(*given: Any, **named: Any) -> Any:
        if not after:
            _hold()
        done = plain(*given, **named)
        if after:
            _hold()
        return done

    setattr(owner, name, slow)


def _open(*, model: bool = False) -> Pkb:
    pkb = Pkb()
    if model:
        pkb.session.override("model.name", str(NANO))
    return pkb


def quote() -> None:
    """Answer by a quote that takes long."""
    from engine.backends import Extractive

    _slow(Extractive, "generate", after=True)
    with _open() as pkb:
        pkb.ask(QUESTION)


def quote_past_the_cache() -> None:
    """Answer by a quote that takes long, without the answer cache."""
    from engine.backends import Extractive

    _slow(Extractive, "generate", after=True)
    with _open() as pkb:
        pkb.ask(QUESTION, cache="off")


def decline() -> None:
    """Find that nothing answers, which takes long."""
    from engine.backends import Extractive

    _slow(Extractive, "generate", after=True)
    with _open() as pkb:
        pkb.ask("Who sold the Zebulonite tandem in Brambleweir?", since="2024-06-18")


def model() -> None:
    """Write an answer by a model: held while it writes."""
    with _open(model=True) as pkb:
        pkb.ask(QUESTION, on_text=_hold)


def keep() -> None:
    """Store what a model read: held after the answer was shown."""
    with _open(model=True) as pkb:
        made = pkb.answer(QUESTION, pkb.options(Scope()))
        _hold()
        made.keep()


def writing_a_node() -> None:
    """Store what a model read: held while the file of the mail's own node is written."""
    from store.kv_store import KvStore

    plain = KvStore._write

    def write(store: KvStore, node: Node, *parts: Any, evict: bool) -> Node | None:
        if node.document == os.environ["PKB_DOCUMENT"]:
            _slow(kv_files, "verify", after=True)
        return plain(store, node, *parts, evict=evict)

    KvStore._write = write  # type: ignore[assignment, method-assign]
    with _open(model=True) as pkb:
        pkb.ask(QUESTION)


def exact() -> None:
    """Serve a kept answer: held between finding and counting it."""
    from store.answers import AnswerBank

    _slow(AnswerBank, "record_use")
    with _open() as pkb:
        pkb.ask(QUESTION)


def paraphrase() -> None:
    """Serve the answer of another question: held before that is stored."""
    from engine.ask import semantic

    _slow(semantic, "defer_verification")
    with _open() as pkb:
        pkb.ask(LIKE)


def mcp() -> None:
    """Answer an MCP client's question, by a quote that takes long."""
    from engine.backends import Extractive
    from engine.mcp import Tools

    _slow(Extractive, "generate", after=True)
    Tools(os.environ, writes=True, collection=None).ask(QUESTION)


def http() -> None:
    """Stream an answer to an HTTP client that reads slowly."""
    from engine.http.completions import parse, work
    from engine.settings import save

    with _open() as pkb:
        save(pkb.session.home.config, "model.name", str(NANO))
    asked = parse({"messages": [{"role": "user", "content": QUESTION}], "stream": True})
    work(os.environ, asked, _hold, Event())


def resident() -> None:
    """Answer a question in the resident process, whose client reads slowly."""
    from engine.serve.process import request
    from engine.serve.server import QueuedRequest, RequestQueue
    from engine.types import AskOptions

    with _open(model=True) as pkb:
        asked = request(pkb.session, QUESTION, AskOptions(), streams=True)
    answered = Event()

    def send(kind: str, _: Any) -> None:
        _hold()
        if kind != "piece":
            answered.set()

    queue = RequestQueue(os.environ, lambda: None)
    queue.add(QueuedRequest({"kind": "ask", "request": asked}, send))
    queue.start()
    answered.wait(PATIENCE_S)
    queue.end()
    queue.join()


def chat() -> None:
    """Chat: a question, and after the hold a follow-up to it."""
    from cli.app import run

    lines = iter([f"{WHERE}\n", "And when?\n", "/wrong\n", "When was it painted?\n", "/answer\n"])

    class Typed:
        @property
        def buffer(self) -> Iterator[bytes]:
            for number, line in enumerate(lines):
                if number == 1:
                    _hold()
                yield line.encode()

        def isatty(self) -> bool:
            return False

    sys.stdin = Typed()
    run(["chat", "--json", "--no-daemon"])


def wrong() -> None:
    """Reject the last answer: held before that is noted."""
    from engine.ask import semantic

    _slow(semantic, "reject_answer")
    with _open() as pkb, suppress(PkbError):
        pkb.reject()


def refresh() -> None:
    """Answer again at idle, which takes long."""
    from engine.backends import Extractive

    _slow(Extractive, "generate", after=True)
    with _open() as pkb:
        pkb.idle(budget_s=30)


def embed() -> None:
    """Embed new mail: held before the vectors are computed."""
    from engine.models.minilm import MiniLM

    _slow(MiniLM, "embed")
    with _open() as pkb:
        list(pkb.embed())


def session() -> None:
    """Keep a home open: held between a question, and mail, idle jobs and another question."""
    with _open() as pkb:
        pkb.ask(QUESTION)
        pkb.search(WORDS[0])
        _hold()
        Path(os.environ["PKB_MAIL"], "mail", "new.eml").write_bytes(mail("The unicycle is blue.", title="Unicycle"))
        pkb.ingest()
        pkb.idle(budget_s=30)
        pkb.ask(OTHER)
        assert pkb.ask(OTHER).tier == "exact"


# Attacks: what is done to a home, with the mail forgotten at the end of it.


def _asked(home: Home, *questions: str, model: bool = False) -> None:
    with home.pkb(model=model) as pkb:
        for question in questions:
            pkb.ask(question)


def meanwhile(action: str, *before: str, model: bool = False) -> Callable[[Home], None]:
    """Return an attack: another process is held in an action while this one forgets."""

    def attack(home: Home) -> None:
        _asked(home, *before, model=model)
        with home.elsewhere(action) as go_on:
            home.forget()
            go_on()

    return attack


def embedding(home: Home) -> None:
    """Have new mail embedded while it is forgotten."""
    home.put("late.eml", hidden("The Zebulonite unicycle is in Brambleweir.", "late@choir.example", "Unicycle"))
    with home.pkb() as pkb:
        pkb.ingest([home.mail], embed=False)
    with home.elsewhere("embed") as go_on:
        home.forget(ID, "late@choir.example")
        go_on()


def node(home: Home) -> None:
    """Forget while the file of a node is written: refused until that has ended, or done."""
    with home.elsewhere("writing_a_node") as go_on:
        with suppress(PkbError):
            home.forget()
        go_on()
    with home.pkb() as pkb:
        pkb.forget(ForgetPlan())


def at_idle(home: Home) -> None:
    """Forget while idle jobs run: refused, and done when they have ended."""
    _asked(home, QUESTION)
    home.put("new.eml", mail("The unicycle of the harbour museum is blue.", title="The unicycle"))
    with home.pkb() as pkb:
        pkb.ingest([home.mail])
    with home.elsewhere("refresh") as go_on:
        with suppress(Locked):
            home.forget()
        go_on()
    home.forget()


def http_follow_up(home: Home) -> None:
    """Ask a follow-up over HTTP, whose client still has the conversation from before."""
    from engine.http.completions import parse, work

    with home.pkb() as pkb:
        said = pkb.ask(WHERE).text or ""
    home.forget()
    turns = [{"role": "user", "content": WHERE}, {"role": "assistant", "content": said}]
    asked = parse({"messages": [*turns, {"role": "user", "content": "And when?"}]})
    work({**os.environ, **home.environ}, asked, lambda _: None, Event())


WRITES: dict[str, Callable[[Home], None]] = {
    "a quote in another process": meanwhile("quote"),
    "a quote past the cache": meanwhile("quote_past_the_cache"),
    "a question that is declined": meanwhile("decline"),
    "a model that writes": meanwhile("model"),
    "a model's KV, stored after the answer": meanwhile("keep"),
    "a node whose file is being written": node,
    "an exact hit": meanwhile("exact", QUESTION),
    "a paraphrase hit": meanwhile("paraphrase", QUESTION),
    "an MCP client": meanwhile("mcp"),
    "a stream that is read over HTTP": meanwhile("http"),
    "the resident process": meanwhile("resident"),
    "a chat and its follow-up": meanwhile("chat"),
    "a follow-up over HTTP": http_follow_up,
    "an answer marked as wrong meanwhile": meanwhile("wrong", QUESTION),
    "an idle run": at_idle,
    "new mail that is being embedded": embedding,
    "a home that stays open": meanwhile("session"),
}


def _again(home: Home, name: str, raw: bytes) -> None:
    """Write another version of a file, and read it."""
    home.put(name, raw)
    with home.pkb() as pkb:
        pkb.ingest([home.mail])


def paraphrase_and_wrong(home: Home) -> None:
    """Have a paraphrase served, and its answer taken back."""
    _asked(home, QUESTION, LIKE)
    with home.pkb() as pkb:
        pkb.reject()
    home.forget()


def rejected_and_edited(home: Home) -> None:
    """Take back an answer, then change the mail."""
    _asked(home, QUESTION)
    with home.pkb() as pkb:
        pkb.reject()
    _again(home, "hidden.eml", hidden("The tricycle of the harbour museum was sold."))
    home.forget()


def edited_mail(home: Home) -> None:
    """Change the mail that was asked about; its Message-ID stays."""
    _asked(home, QUESTION, KEY)
    _again(home, "hidden.eml", hidden("The tricycle of the harbour museum was sold."))
    home.forget()


def edited_throughout(home: Home) -> None:
    """Change everything about the mail but the name of its file."""
    _asked(home, QUESTION, KEY)
    _again(home, "hidden.eml", hidden("Nothing to see here.", "other@choir.example", "A note"))
    home.forget("other@choir.example")


def edited_twice(home: Home) -> None:
    """Change the mail twice, to another Message-ID and to another place."""
    _asked(home, QUESTION)
    _again(home, "hidden.eml", hidden("The tricycle was sold.", "second@choir.example"))
    (home.mail / "hidden.eml").rename(home.mail / "moved.eml")
    _again(home, "moved.eml", hidden("The tricycle was sold to Ann.", "second@choir.example"))
    home.forget(str(home.mail / "moved.eml"))


def moved_and_edited(home: Home) -> None:
    """Move the file of a meeting, then change its words, title and day."""
    _asked(home, BOARD)
    (home.mail / "later").mkdir()
    (home.mail / "board/2024-05-20 board.txt").rename(home.mail / "later/2024-06-01 minutes.txt")
    with home.pkb() as pkb:
        pkb.ingest([home.mail], prune=True)
    text = "Meeting: minutes\nDate: 2024-06-01\n\nAnn: Nothing was decided.\nBen: I bring the cup.\n"
    _again(home, "later/2024-06-01 minutes.txt", text.encode())
    home.forget(str(home.mail / "later/2024-06-01 minutes.txt"))


def edited_meeting(home: Home) -> None:
    """Change the file of a meeting that was asked about."""
    _asked(home, BOARD)
    text = "Meeting: board\nDate: 2024-05-20\n\nAnn: The fair is on Tuesday.\nBen: I bring the cup.\n"
    _again(home, "board/2024-05-20 board.txt", text.encode())
    home.forget(str(home.mail / "board/2024-05-20 board.txt"))


def replaced(home: Home) -> None:
    """Delete the file, and put another version there later."""
    _asked(home, QUESTION)
    (home.mail / "hidden.eml").unlink()
    with home.pkb() as pkb:
        pkb.ingest([home.mail], prune=True)
    _again(home, "hidden.eml", hidden("The tricycle was sold."))
    home.forget()


def past_the_cache(home: Home) -> None:
    """Ask past the cache, then change the mail."""
    with home.pkb() as pkb:
        pkb.ask(QUESTION, cache="off")
    _again(home, "hidden.eml", hidden("The tricycle was sold."))
    home.forget()


def predicted(home: Home) -> None:
    """Have questions predicted from the one that was asked, and not answered yet."""
    _asked(home, WHERE)
    with home.pkb() as pkb:
        one = pkb.session
        found = [Prediction(question, "history/form") for question in latest(one.ledger, 9)]
        offer(Reasker(one.ledger, one.backend, one.settings, one.now), found)
        assert Jobs(one.ledger).pending("populate")
    home.forget()


def predicted_and_evicted(home: Home) -> None:
    """Ask a question that was answered ahead, and have its answer evicted."""
    ahead = "When is the Zebulonite tandem of the harbour museum?"
    with home.pkb() as pkb:
        reasker = Reasker(pkb.session.ledger, pkb.session.backend, pkb.session.settings, pkb.session.now)
        reasker.prepare(ahead, pkb.options(Scope()), "", decode=True)
        assert pkb.ask(ahead).tier == "exact"
        pkb.session.override("bank.bytes", 1)
    _asked(home, OTHER)
    with home.pkb() as pkb:
        AnswerBank(pkb.session.ledger).drop(pkb.session.ledger.rows.execute("SELECT key FROM history").fetchone()[0])
    home.forget()


def evicted(home: Home) -> None:
    """Have a paraphrase served, its answers evicted, and their mail changed."""
    _asked(home, QUESTION, LIKE)
    with home.pkb() as pkb:
        for key, _ in list(AnswerBank(pkb.session.ledger).answered()):
            AnswerBank(pkb.session.ledger).drop(key)
    _again(home, "hidden.eml", hidden("The tricycle was sold."))
    home.forget()


def unverified(home: Home) -> None:
    """Have a paraphrase served, and the mail changed before it is verified."""
    _asked(home, QUESTION, LIKE)
    _again(home, "hidden.eml", hidden("The tricycle was sold."))
    home.forget()


def verified_and_changed(home: Home) -> None:
    """Have a paraphrase verified, its mail changed, and both answered again."""
    _asked(home, QUESTION, LIKE)
    with home.pkb() as pkb:
        pkb.idle(budget_s=60)
    _again(home, "hidden.eml", hidden("The tricycle was sold."))
    _asked(home, QUESTION, LIKE)
    home.forget()


def stale(home: Home) -> None:
    """Serve a stale answer, then drop it."""
    _asked(home, QUESTION)
    _again(home, "new.eml", mail("The unicycle of the harbour museum is blue.", title="The unicycle"))
    with home.pkb() as pkb:
        pkb.ask(QUESTION, cache="stale")
        pkb.reject()
    home.forget()


HISTORY: dict[str, Callable[[Home], None]] = {
    " ".join(one.__name__.split("_")): one
    for one in (
        paraphrase_and_wrong, rejected_and_edited, edited_mail, edited_throughout, edited_twice, moved_and_edited,
        edited_meeting, replaced, past_the_cache, predicted, predicted_and_evicted, evicted, unverified,
        verified_and_changed, stale,
    )
}  # fmt: skip
ATTACKS = {**WRITES, **HISTORY}


def attack(folder: Path, name: str) -> list[str]:
    """Run an attack on a new home; return where something is still found."""
    home = make(folder)
    ATTACKS[name](home)
    return home.left(OF_BOARD if "meeting" in name or "moved" in name else WORDS)


def main() -> None:
    """Print the places where something is found, by attack."""
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(ATTACKS):
            try:
                found = attack(Path(folder, str(number)), name)
            except (AssertionError, PkbError, OSError) as error:
                found = [f"{type(error).__name__}: {error}"]
            print(f"{len(found):3}  {name}: {', '.join(found) or '-'}", flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]]() if len(sys.argv) > 1 else main()
    sys.stdout.flush()
    os._exit(0)  # as the background server ends: at a usual exit MLX aborts, where another thread has used it
