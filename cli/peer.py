"""`pkb peer`: this machine's key, and those of the machines that may share its KV cache."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from cli import output
from cli.output import session
from store.errors import PkbError

peer = typer.Typer(help="Add, list and remove machines that share KV caches.", rich_markup_mode=None)

Json = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A name of your choice, such as desktop.")]


@contextmanager
def with_cryptography() -> Iterator[None]:
    """Raise PkbError where the package that makes and checks keys is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "cryptography":
            raise
        from engine.models.runtime import install_command

        raise PkbError("the package cryptography is not installed", install_command("share")) from None


@peer.command("id")
def show_id(as_json: Json = False) -> None:
    """Print the public key of this machine, to be added on the other one.

    Example: pkb peer id
    """
    from store.peers import PeerBook, fingerprint, key_line

    with session() as opened, with_cryptography():
        opened.refuse_unsafe()
        own = PeerBook(opened.home.share).own()
    if as_json:
        output.data({"schema": output.SCHEMA, "key": key_line(own), "fingerprint": fingerprint(own)})
    else:
        print(key_line(own))


@peer.command("add")
def add(
    name: Name,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The line that pkb peer id prints on that machine.")],
    as_json: Json = False,
) -> None:
    """Let a machine read the KV cache of this one, and this one read its.

    Example: pkb peer add desktop pkb1:MIIBBzCBuqADAgECAgEBMAUGAytlcDAbMRkwFwYDVQQDDBA0NWQ
    """
    from store.peers import PeerBook

    with session() as opened, with_cryptography():
        opened.refuse_unsafe()
        added = PeerBook(opened.home.share).add(name, key)
    if as_json:
        output.data({"schema": output.SCHEMA, "name": added.name, "fingerprint": added.fingerprint})
    else:
        print(f"added {added.name}  {added.fingerprint}")


@peer.command("list")
def show(as_json: Json = False) -> None:
    """List the machines that were added.

    Example: pkb peer list
    """
    from store.peers import PeerBook, key_line

    with session() as opened:
        found = PeerBook(opened.home.share).peers()
    if as_json:
        rows = [{"name": one.name, "fingerprint": one.fingerprint, "key": key_line(one.certificate)} for one in found]
        output.data({"schema": output.SCHEMA, "peers": rows})
        return
    for one in found:
        print(f"{one.name:<32}  {one.fingerprint}")
    if not found:
        output.say("pkb: no machine was added; try: pkb peer add NAME KEY")


@peer.command("rm")
def remove(name: Name, as_json: Json = False) -> None:
    """Remove a machine: from now on it is refused.

    Example: pkb peer rm desktop
    """
    from store.peers import PeerBook

    with session() as opened:
        PeerBook(opened.home.share).remove(name)
    if as_json:
        output.data({"schema": output.SCHEMA, "name": name})
    else:
        print(f"removed {name}")
