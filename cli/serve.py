"""`pkb serve`, `mcp`, `user` and `peer`: the resident process, tools for agents, other people, and other machines."""

import gc
import os
import shutil
import sys
import threading
import time
from contextlib import closing, suppress
from datetime import datetime
from typing import Annotated, Any, NoReturn

import typer

from cli import output
from cli.output import Collection, Json, session
from engine.serve.client import reach_or_start
from engine.session import Session
from engine.text.terminal import count, line, size
from store.errors import Locked, NoStore, PkbError, UsageError

_TRIES, _PAUSE_S = 5, 0.1  # to remove a home in which a question is still being answered
_TIMEOUT_S = 30.0  # for a process to come up, or to answer its last questions


def serve(
    status: Annotated[bool, typer.Option("--status", help="Show whether it is running, and its memory use.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Stop it.")] = False,
    foreground: Annotated[bool, typer.Option("--foreground", help="Run in the foreground until interrupted.")] = False,
    http: Annotated[bool, typer.Option("--http", help="Serve the page and an OpenAI-compatible API.")] = False,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port of --http, else 8642.")] = None,
    host: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Address of --http, else 127.0.0.1.")] = None,
    no_tls: Annotated[bool, typer.Option("--no-tls", help="Serve --host without TLS, as behind a proxy.")] = False,
    record: Annotated[bool, typer.Option("--record", help="Record the questions of all of its clients.")] = False,
    new_token: Annotated[bool, typer.Option("--new-token", help="Replace the token of --http.")] = False,
    share: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve the KV cache to your other machines until interrupted."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print its status as JSON.")] = False,
    lock: Annotated[int | None, typer.Option(hidden=True, help="The descriptor that holds its lock.")] = None,
) -> None:
    """Run the background server, or a page and an API.

    Example: pkb serve --http
    """
    if http + (share is not None) + (status or stop or foreground) > 1:
        given = "--http, --share, and --status, --stop or --foreground of the background server"
        raise UsageError(f"{given} exclude each other", "pkb serve --http")
    if not http and (port is not None or host is not None or no_tls or new_token or record):
        given = "--host, --port, --no-tls, --record and --new-token"
        raise UsageError(f"{given} are for --http", "pkb serve --http --port 8080")
    if http:
        _http(host, port, tls=not no_tls, renew=new_token, record=record, as_json=as_json)
        return
    if share is not None:
        _share(share, as_json=as_json)
        return
    with session() as opened:
        if not stop and not status:
            opened.refuse_unsafe()
        if foreground or lock is not None:
            _serve(opened, lock)
        stopped = _stop(opened) if stop else None
        if not stop and not status:
            if not opened.there:
                raise NoStore
            if (link := reach_or_start(opened, _TIMEOUT_S)) is None:
                raise PkbError("the background server does not start", "pkb serve --foreground")
            link.close()
        row = _state(opened) | {"stopped": stopped}
    if as_json:
        output.data(row)
    else:
        _show(row)


def _http(host: str | None, port: int | None, *, tls: bool, renew: bool, record: bool, as_json: bool) -> None:
    from engine.http.routes import LOOPBACK, PORT, HttpAddress, serve

    def ready(endpoint: HttpAddress) -> None:
        if as_json:
            shown = {"page": endpoint.page, "api": f"{endpoint.root}/v1", "token": endpoint.token}
            output.data({**shown, "certificate": endpoint.certificate and str(endpoint.certificate)})
        else:
            print(f"page  {endpoint.page}\nAPI   {endpoint.root}/v1, key {endpoint.token}", flush=True)
            if endpoint.is_open:
                pin = f"its certificate: {endpoint.certificate}" if endpoint.certificate else "without TLS"
                output.say(f"pkb: other machines can connect, {pin}")
            output.say("pkb: anyone with the token can read your messages; Ctrl-C ends it")

    with session() as opened:
        opened.refuse_unsafe()
        names = opened.settings.serve.hosts.split()
    port = PORT if port is None else port
    serve(os.environ, host or LOOPBACK, port, ready, names=names, tls=tls, renew=renew, record=record)


def _share(listen: str, *, as_json: bool) -> None:
    from engine.kv.sharing import SharingServer, parse_listen
    from store.peers import PeerBook

    address = parse_listen(listen)
    with session() as opened:
        opened.refuse_unsafe()
        opened.ledger.close()  # migrated, if need be; from now on it is only read
        names = [peer.name for peer in PeerBook(opened.home.share).peers()]
        server = SharingServer(opened.home, address)
        if as_json:
            output.data({"address": str(server.address), "peers": names})
        else:
            print(line(f"sharing the KV cache at {server.address} with {', '.join(names) or 'nobody'}"), flush=True)
            output.say("pkb: Ctrl-C ends it" if names else "pkb: nobody may connect yet; try: pkb peer add NAME KEY")
        with server:
            server.serve_forever()


def _stop(opened: Session) -> int | None:
    if not opened.there:
        return None
    from engine.serve.process import stop

    pid: int | None = _state(opened)["pid"]
    if not stop(opened.home, _TIMEOUT_S):
        raise Locked("the background server is still answering a question", "pkb serve --stop")
    return pid


def _state(opened: Session) -> dict[str, Any]:
    from engine.serve.process import Broken, connect, identity

    said: dict[str, Any] = {}
    current = False
    if link := connect(opened.home):
        with suppress(Broken), closing(link):
            link.send("status", {})
            said = next(link.answers())
            current = link.hello.get("identity") == identity(opened.home, opened.environ)
    since = datetime.fromtimestamp(said["since"]).astimezone().isoformat() if said else None
    about = {name: said.get(name) for name in ("pid", "version")}
    held = {name: said.get(name) for name in ("jobs", "answered", "model", "memory")}
    return {"running": bool(said), **about, "current": current, "since": since, **held}


def _show(row: dict[str, Any]) -> None:
    if row["stopped"]:
        print(f"stopped process {row['stopped']}")
    elif not row["running"]:
        print("the background server is not running")
    if not row["running"]:
        return
    print(f"server     process {row['pid']} since {row['since'][:16].replace('T', ' ')}, {size(row['memory'])}")
    print(f"answered   {count(row['answered'], 'question')}, {row['jobs']} in progress")
    print(f"model      {line(row['model'] or 'none in memory')}")
    if not row["current"]:
        print("           outdated version or settings: the next question restarts it")


def _serve(opened: Session, descriptor: int | None) -> NoReturn:
    """Serve in the foreground, or with a descriptor of the lock detached from the process that started this one."""
    from engine.serve.process import identity, listen, lock_of
    from engine.serve.server import Server
    from store.locks import Lease

    lease = Lease(lock_of(opened.home), -1 if descriptor is None else descriptor)
    if descriptor is not None:
        os.setsid()
        os.closerange(descriptor + 1, os.sysconf("SC_OPEN_MAX"))
        os.set_inheritable(descriptor, False)
    elif not opened.there:
        raise NoStore
    elif not lease.acquire():
        raise Locked("the background server is already running", "pkb serve --stop")
    os.chdir("/")
    # A bug ends the process; clients then answer for themselves, and the message could hold mail.
    threading.excepthook = lambda bug: sys.excepthook(bug.exc_type, bug.exc_value or bug.exc_type(), bug.exc_traceback)
    chosen = opened.settings.serve
    idle_s = None if chosen.daemon == "on" else chosen.idle_minutes * 60
    own = identity(opened.home, opened.environ)
    if (found := listen(opened.home.data)) is None:
        raise PkbError("no folder for a socket that only this user can open", "pkb doctor")
    listener, path = found
    try:
        sound = Server(listener, lease, opened.environ, own, idle_s).run()
    finally:
        if not lease.lost:  # else it may be that of a successor
            path.unlink(missing_ok=True)
            with suppress(OSError):  # not empty
                path.parent.rmdir()
        lease.release()
    sys.stdout.flush()
    os._exit(0 if sound else 1)  # at a usual exit MLX aborts, where another thread than the main one has used it


def mcp(
    allow_write: Annotated[
        bool, typer.Option("--allow-write", help="Record the client's questions, and add the tools wrong and ingest.")
    ] = False,
    collection: Collection = None,
) -> None:
    """Serve questions and search to agents and editors (MCP).

    Example: pkb mcp --in office
    """
    gc.disable()  # thousands of classes are made, and none is garbage: a tenth of the time
    try:
        from engine.mcp import run
    finally:
        gc.enable()
    if sys.stdin.isatty():
        output.say("pkb: waiting for an MCP client on standard input; Ctrl-C ends it")
    run(writes=allow_write, collection=collection)


peer = typer.Typer(help="Add, list and remove machines that share KV caches.", rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name of your choice, such as desktop.")]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The line that pkb peer id prints on that machine.")]


@peer.command("id")
def show_id(as_json: Json = False) -> None:
    """Print the public key of this machine, to add on the other one.

    Example: pkb peer id
    """
    from store.peers import KnownPeer, PeerBook, key_line

    with session() as opened:
        opened.refuse_unsafe()
        own = KnownPeer("", PeerBook(opened.home.share).own())
    line = key_line(own.certificate)
    output.result({"key": line, "fingerprint": own.fingerprint}, line, as_json=as_json)


@peer.command("add")
def add(name: Name, key: Key, as_json: Json = False) -> None:
    """Let a machine read the KV cache of this one, and this one read its.

    Example: pkb peer add desktop pkb1:MIIBBzCBuqADAgECAgEBMAUGAytlcDAbMRkwFwYDVQQDDBA0NWQ
    """
    from store.peers import PeerBook

    with session() as opened:
        opened.refuse_unsafe()
        added = PeerBook(opened.home.share).add(name, key)
    row = {"name": added.name, "fingerprint": added.fingerprint}
    output.result(row, f"added {added.name}  {added.fingerprint}", as_json=as_json)


@peer.command("list")
def show(as_json: Json = False) -> None:
    """List the machines that were added.

    Example: pkb peer list
    """
    from store.peers import PeerBook, key_line

    with session() as opened:
        found = PeerBook(opened.home.share).peers()
    rows = [{"name": one.name, "fingerprint": one.fingerprint, "key": key_line(one.certificate)} for one in found]
    said = "\n".join(f"{one.name:<32}  {one.fingerprint}" for one in found) or None
    output.result({"peers": rows}, said, as_json=as_json)
    if not (found or as_json):
        output.say("pkb: no machine was added; try: pkb peer add NAME KEY")


@peer.command("rm")
def remove(name: Name, as_json: Json = False) -> None:
    """Remove a machine: from now on it is refused.

    Example: pkb peer rm desktop
    """
    from store.peers import PeerBook

    with session() as opened:
        PeerBook(opened.home.share).remove(name)
    output.result({"name": name}, f"removed {name}", as_json=as_json)


user = typer.Typer(help="Add, list and remove people who see a part of your archive.", rich_markup_mode=None)

UserName = Annotated[str, typer.Argument(metavar="NAME", help="A name of your choice, such as ann.")]


@user.command("add")
def add_user(
    name: UserName,
    collections: Annotated[
        list[str], typer.Option("--in", metavar="COLLECTION", help="A collection that they see; repeat it for more.")
    ],
    me: Annotated[
        str | None, typer.Option("--me", metavar="ADDRESSES", help="Their addresses, between semicolons.")
    ] = None,
    new_token: Annotated[bool, typer.Option("--new-token", help="Replace the token of somebody who has one.")] = False,
    as_json: Json = False,
) -> None:
    """Let somebody see collections by a token, printed once; or change which.

    Example: pkb user add ann --in Choir --in Family
    """
    from store.readers import User, UserBook

    seen = tuple(dict.fromkeys(collections))
    with session() as opened:
        opened.refuse_unsafe()
        opened.refuse_reader()
        known = opened.catalogue.by_collection()
        if lacking := [one for one in seen if one not in known]:
            raise UsageError(f"no collection {line(lacking[0])}, only {', '.join(known) or 'none'}", "pkb stats")
        book = UserBook(opened.home)
        addresses = next((one.addresses for one in book.users() if one.name == name), "") if me is None else me
        with opened.locks.reader():
            token = book.put(User(name, seen, addresses), renew=new_token)
    said = line(f"{name} sees {', '.join(seen)}") + f"\ntoken {token}" * bool(token)
    output.result({"name": name, "collections": seen, "addresses": addresses, "token": token}, said, as_json=as_json)


@user.command("list")
def list_users(as_json: Json = False) -> None:
    """List the people who see a part of your archive.

    Example: pkb user list
    """
    from store.readers import UserBook

    with session() as opened:
        found = UserBook(opened.home).users()
    rows = [{name: getattr(one, name) for name in ("name", "collections", "addresses")} for one in found]
    said = (line(f"{one.name:<16}  {', '.join(one.collections)}") for one in found)
    output.result({"users": rows}, "\n".join(said) or None, as_json=as_json)
    if not (found or as_json):
        output.say("pkb: nobody was added; try: pkb user add NAME --in COLLECTION")


@user.command("rm")
def remove_user(name: UserName, as_json: Json = False) -> None:
    """Remove somebody with their questions and answers, and refuse their token.

    Example: pkb user rm ann
    """
    from engine.serve.process import stop
    from store.readers import UserBook

    with session() as opened:
        home = UserBook(opened.home).remove(name)
    if not stop(home, _TIMEOUT_S):
        raise Locked(f"the background server of {name} is still answering", f"pkb user rm {name}")
    for _ in range(_TRIES):  # a question that is being answered may write once more
        shutil.rmtree(home.data, ignore_errors=True)
        time.sleep(_PAUSE_S)
    output.result({"name": name}, f"removed {name}", as_json=as_json)
