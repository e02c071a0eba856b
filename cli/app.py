"""The `pkb` command: its subcommands, and how every failure ends in one line and the right exit code."""

import os
import signal
import sys
import traceback
from types import TracebackType

import typer
from typer.exceptions import TyperException

from cli import out
from cli.ask import ask
from cli.care import check, doctor
from cli.config import config
from cli.ingest import ingest
from cli.look import search, show, stats
from store.errors import PkbError

app = typer.Typer(
    name="pkb",
    help="Ask your own mail and meetings, on your own machine.",
    epilog='Start with: pkb ingest ~/Mail, then: pkb ask "when is rehearsal?"',
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: the decorated one takes as long again to import
)
for command in (ingest, ask, search, show, stats, check, doctor):
    app.command()(command)
app.add_typer(config, name="config")


def main() -> None:
    """Run the command line and leave with its exit code."""
    os.umask(0o077)
    # One BLAS thread, before numpy is imported: work is shared out by batches, and threads of two levels wait for
    # each other (embedding took ten times as long).
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    sys.excepthook = _bug
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(run(sys.argv[1:]))


def run(args: list[str]) -> int:
    """Run one command; gives its exit code."""
    as_json = "--json" in args
    try:
        code = typer.main.get_command(app).main(args=args, prog_name="pkb", standalone_mode=False)
    except PkbError as error:
        out.error(error.code, error.message, error.next_step, as_json=as_json)
        return error.code
    except TyperException as error:
        out.error(2, error.format_message().rstrip("."), f"pkb {_command(args)}--help", as_json=as_json)
        return 2
    except BrokenPipeError:  # the reader has seen enough; the interpreter must not complain when it flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        out.error(1, f"{(error.strerror or 'input or output failed').lower()}:{where}", "pkb doctor", as_json=as_json)
        return 1
    return code if isinstance(code, int) else 0


def _command(args: list[str]) -> str:
    return f"{args[0]} " if args and not args[0].startswith("-") else ""


def _bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Report what should not happen without its message, which could hold mail."""
    last = traceback.extract_tb(trace)[-1:]
    where = f" at {last[0].filename}:{last[0].lineno}" if last else ""
    out.error(1, f"this is a bug in pkb: {kind.__name__}{where}", "pkb doctor", as_json="--json" in sys.argv)
    if os.environ.get("PKB_DEBUG"):
        traceback.print_exception(kind, error, trace)


if __name__ == "__main__":
    main()
