"""The `pkb` command: its subcommands, and how every failure ends in one line and the right exit code."""

import gc
import io
import os
import signal
import sys
import threading
import traceback
import warnings
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from cli import output
from store.errors import PkbError, UsageError, as_pkb_error, explain
from store.home import locate

# By panel of the help, each with its module, its function there, and its line of help.
PANELS = {
    "Every day": {
        "ingest": ("ingest", "ingest", "Index mail and transcripts: new, changed and removed files."),
        "ask": ("ask", "ask", "Answer a question from your mail and meetings, with sources."),
        "chat": ("chat", "chat", "Ask several questions in a conversation, with follow-ups."),
        "search": ("inspect", "search", "Show the best matching passages, without answering."),
        "list": ("inspect", "list_documents", "List messages and meetings, newest first."),
        "people": ("inspect", "people", "Show who somebody is: addresses, phone numbers, title, with sources."),
        "show": ("inspect", "show", "Print the indexed text of a file or source, or open its file."),
        "todo": ("inspect", "todo", "List open tasks and unanswered questions, earliest due first."),
        "digest": ("inspect", "digest", "Show what the last days brought, for a look in the morning or a cron mail."),
        "meeting": ("inspect", "meeting", "Show who was at a meeting, what was decided and who does what."),
    },
    "Run": {
        "idle": ("idle", "idle", "Run background jobs that make the next answers faster."),
        "serve": ("serve", "serve", "Run the background server, or a page and an API."),
        "mcp": ("serve", "mcp", "Serve questions and search to agents and editors (MCP)."),
    },
    "Look after": {
        "stats": ("stats", "stats", "Show the time that caches saved, hit rates, latency and sizes."),
        "doctor": ("inspect", "doctor", "Check this machine, or with --data the index and caches."),
        "wrong": ("inspect", "wrong", "Mark the last answer as wrong and drop it from the cache."),
        "forget": ("export", "forget", "Erase messages or a question, with everything derived from them."),
        "me": ("config", "me", "Show or set which addresses are yours."),
        "config": ("config", "config", "Show and change settings."),
        "model": ("model", "model", "Download, select and remove language models."),
    },
    "Expert": {
        "adapter": ("model", "adapter", "Add and use LoRA adapters of the language model."),
        "peer": ("serve", "peer", "Add, list and remove machines that share KV caches."),
        "user": ("serve", "user", "Add, list and remove people who see a part of your archive."),
        "export": ("export", "export", "Write cached questions with answers and sources as JSON, an object a line."),
    },
}
COMMANDS = {name: about for panel in PANELS.values() for name, about in panel.items()}
# Spellings of earlier versions, which this one still takes, and what they are now.
RENAMED = {"watch": ("ingest", "--watch"), "check": ("doctor", "--data"), "open": ("show", "--open")}
_SHORT = {
    "before": ("meeting", "--before"),
    "thread": ("show", "--thread"),
    "count": ("list", "--count"),
    "version": ("--version",),
    "completion": ("--show-completion",),
}
# What a group does without a command.
_ALONE = {"model": "list", "adapter": "list", "peer": "list", "user": "list", "config": "show"}
_RENAMED_FLAGS = {"--no-cache": "--cache=off", "--fresh": "--cache=refresh", "--stale-ok": "--cache=stale"}
_WELCOME = """\
pkb answers questions about your own mail and meetings, on this machine. Start with one of:

  pkb ingest ~/Mail              index a folder; then: pkb ask "when is rehearsal?"
  pkb ingest --find              look for the mail of Thunderbird, Apple Mail and others
  pkb ingest imaps://NAME@SERVER read a mail account

All commands: pkb --help"""


class LazyGroup(TyperGroup):
    """The group of all commands: the module of each is imported when it is used, and none for the help."""

    def __init__(self, **about: Any) -> None:
        super().__init__(**about | {"commands": dict.fromkeys(COMMANDS)})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command; None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, function, _ = COMMANDS[cmd_name]
        found, alone = getattr(import_module(f"cli.{module}"), function), typer.Typer(rich_markup_mode=None)
        alone.add_typer(found, name=cmd_name) if isinstance(found, typer.Typer) else alone.command(cmd_name)(found)
        return typer.main.get_group(alone).commands[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names of the commands with what each does, by panel: those for experts alone, or the others."""
        for panel in list(PANELS)[-1:] if ctx.obj else list(PANELS)[:-1]:
            with formatter.section(panel):
                formatter.write_dl([(name, said) for name, (_, _, said) in PANELS[panel].items()])


app = typer.Typer(
    cls=LazyGroup,
    name="pkb",
    epilog='Start with: pkb ingest ~/Mail, then: pkb ask "when is rehearsal?" More commands: pkb help expert',
    rich_markup_mode=None,  # plain help: the decorated one takes as long again to import
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"pkb {version('pkb')}")
        raise typer.Exit


@app.callback()
def pkb(
    version: Annotated[
        bool, typer.Option("-V", "--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Ask questions about your own mail and meetings, on your own machine."""


# Read by libraries: nothing may leave this machine.
THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
_QUIET = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK")

_COMPLETE = "_PKB_COMPLETE"  # set by the completion script of a shell
_signals = list[int]()  # that came


def main() -> None:
    """Run the command line and leave with its exit code."""
    os.umask(0o077)
    # One BLAS thread for numpy, before it is imported: embedding is shared out by batches, and threads of two levels
    # wait for each other (it took ten times as long). Language models have a BLAS of their own, with more.
    if asked := os.environ.get("OPENBLAS_NUM_THREADS"):
        os.environ.setdefault("PKB_THREADS", asked)
    for name in THREADS:
        os.environ.setdefault(name, "1")
    os.environ.update(dict.fromkeys(_QUIET, "1"))
    # To LanceDB a missing folder of temporary files looks like damaged tables; without the name there is the usual one.
    if not Path(os.environ.get("TMPDIR", "/")).is_dir():
        del os.environ["TMPDIR"]
    # A closed stream becomes the null device: the next file that is opened would be taken for it.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a letter that the terminal lacks must not end the program
            stream.reconfigure(errors="backslashreplace")
    if sys.argv[1:2] in (["idle"], ["watch"]) or "--watch" in sys.argv:  # questions and other commands go first
        os.nice(10)
    sys.excepthook = _bug
    # A signal can stop LanceDB before it starts a coroutine; the warning about that is harmless.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    signal.signal(signal.SIGTERM, _end)
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:  # not ignored, as in the background
        signal.signal(signal.SIGINT, _end)
    code = _ended(sys.argv[1:])
    # Dataclasses run `exec` on import. Python remembers an interrupt that comes during one until the next `exec`: with
    # `-m`, it would exit by SIGINT instead of with this code.
    exec("")
    gc.freeze()  # or Python looks for garbage once more: a sixth of what a warm search takes
    sys.exit(code)


def _end(number: int, _frame: object) -> None:
    _signals.append(number)
    raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)


def _ended(args: list[str]) -> int:
    """Run one command to its end; what would interrupt it after that comes too late to be of consequence."""
    try:
        try:
            return run(args)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
    except KeyboardInterrupt:
        return 130


def run(args: list[str]) -> int:
    """Run one command; returns its exit code."""
    try:
        code = _run(args, as_json="--json" in args)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        output.close_output(sys.stdout)
        return 0
    except OSError as error:
        output.close_output(sys.stdout)
        output.error(1, f"cannot write to standard output: {(error.strerror or '').lower()}", None, as_json=False)
        return 1
    return code


def _run(args: list[str], *, as_json: bool) -> int:
    try:
        return _invoke(current(args))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        raise
    except Exception as error:
        sys.stdout.flush()  # where this fails too, it is what failed
        if isinstance(error, TyperException):
            message = " ".join(error.format_message().rstrip(".").split())
            context = getattr(error, "ctx", None)
            command = context.command_path if context else " ".join(["pkb", *args[:1]])
            known: PkbError = UsageError(message[:1].lower() + message[1:], f"{command} --help")
        elif isinstance(error, PkbError) or explain(error):
            known = as_pkb_error(error)
        else:
            raise
        output.error(known.code, known.message, known.next_step, as_json=as_json)
        return known.code


def current(args: list[str]) -> list[str]:
    """Return arguments in this version's spelling; a question alone is asked."""
    first = next(iter(args), "")
    if args == [first] and first in _ALONE:
        return [first, _ALONE[first]]
    if first in _SHORT:
        return [*_SHORT[first], *args[1:]]
    if first == "help" and args[-1] in _SHORT:
        return [first, _SHORT[args[-1]][0]]
    if first not in COMMANDS and first not in RENAMED and (len(first.split()) > 1 or first.endswith("?")):
        first, args = "ask", ["ask", *args]
    now = [*RENAMED.get(first, args[:1]), *args[1:]]
    ends = now.index("--") if "--" in now else len(now)
    if first in ("ask", "chat"):
        now[:ends] = [_RENAMED_FLAGS.get(one, one) for one in now[:ends]]
    if now != args:
        changed = [(old, new) for old, new in _RENAMED_FLAGS.items() if old in args[:ends]]
        old, new = changed[0] if changed else (first, " ".join(RENAMED[first]))
        output.say(f"pkb: {old} is now: {new}")
    return now


def _invoke(args: list[str]) -> int:
    """Run a command without typer's own handling of errors, which differs from ours."""
    command = typer.main.get_command(app)
    if instruction := os.environ.get(_COMPLETE):  # a shell asks, on behalf of somebody who pressed Tab
        from typer.completion import shell_complete

        return shell_complete(command, {}, "pkb", _COMPLETE, instruction)
    if not args and not locate(os.environ).ledger.exists():
        print(_WELCOME)
        return 0
    if "--install-completion" in args:
        _link_manual()
    expert = args == ["help", "expert"]
    words = args if args and args[0] != "help" else [*args[1:], "--help"][expert:]
    try:
        with command.make_context("pkb", list(words), obj=expert) as context:
            command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    except Exception as error:
        cause = error.__context__  # a signal in `Condition.wait` leaves the lock released, which is the error
        while cause:
            if isinstance(cause, KeyboardInterrupt | SystemExit):
                return 130 if isinstance(cause, KeyboardInterrupt) else 143
            cause = cause.__context__
        if _signals and "user-defined function raised" in str(error):  # by it: SQLite drops the exception
            return 128 + _signals[-1]
        raise
    return 0


def _link_manual() -> None:
    """Have `man` find the page of an own environment: `uv tool install` links programs alone."""
    page, link = Path(sys.prefix, "share", "man", "man1", "pkb.1"), Path.home() / ".local/share/man/man1/pkb.1"
    if page.is_file() and not link.exists():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)  # of an environment that is gone
        link.symlink_to(page)


def _bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Report a bug without its message, which could hold mail."""
    last = traceback.extract_tb(trace)[-1:]
    where = f" at {last[0].filename}:{last[0].lineno}" if last else ""
    with suppress(BrokenPipeError):
        output.error(1, f"this is a bug in pkb: {kind.__name__}{where}", "pkb doctor", as_json="--json" in sys.argv)
    if os.environ.get("PKB_DEBUG"):
        traceback.print_exception(kind, error, trace)


if __name__ == "__main__":
    main()


def handle_signals() -> None:
    """Have a signal sent again that comes while Python removes an object: it ignores errors raised then."""
    usual = sys.unraisablehook

    def again(lost: "sys.UnraisableHookArgs") -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt | SystemExit):
            number = signal.SIGINT if issubclass(lost.exc_type, KeyboardInterrupt) else signal.SIGTERM
            threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
        else:
            usual(lost)

    sys.unraisablehook = again
