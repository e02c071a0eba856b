"""`pkb config`: get, set, show and find the settings."""

from dataclasses import asdict
from typing import Annotated

import typer

from cli import output
from cli.output import Json, session
from cli.render import tell
from engine.settings import chosen, find, keys, meanings, save
from engine.text.terminal import count, line, size, valid_text, wrap

_Key = Annotated[str, typer.Argument(metavar="KEY", help="Such as ask.k.", autocompletion=output.completes("setting"))]
_Value = Annotated[str, typer.Argument(metavar="VALUE", help="The new value.")]
config = typer.Typer(help="Show and change settings.", rich_markup_mode=None)


@config.command("get")
def get(key: _Key, as_json: Json = False) -> None:
    """Print one setting.

    Example: pkb config get ask.k
    """
    with session() as opened:
        value = find(opened.settings, key)
    output.result({"key": key, "value": value}, line(str(value)), as_json=as_json)


@config.command("set")
def put(key: _Key, value: _Value, as_json: Json = False) -> None:
    """Change one setting in the config file.

    Example: pkb config set ask.k 8
    """
    with session() as opened:
        if key == "home.tables" and opened.there:
            from store.checksums import refuse_move

            refuse_move(opened.ledger, value)
        kept = save(opened.home.config, key, value)
        output.result({"key": key, "value": kept}, line(f"{key} = {kept}"), as_json=as_json)
        _ = opened.settings  # which says what else cannot be, where something cannot
        if key == "me.addresses" and opened.there:
            opened.lasting_ledger.raise_generation()  # answers to "my mail" are others now
        if key == "kv.bytes" and opened.there:  # what is beyond it goes at once
            from engine.backends import open_store

            store = open_store(opened.home, opened.ledger, opened.settings.kv)
            before = store.index.totals().bytes
            store.collect()
            if gone := before - store.index.totals().bytes:
                output.say(f"pkb: evicted {size(gone)} of KV cache")


@config.command("path")
def path(as_json: Json = False) -> None:
    """Print the path of the config file.

    Example: pkb config path
    """
    with session() as opened:
        where = str(opened.home.config)
    output.result({"path": where}, line(where), as_json=as_json)


@config.command("show")
def show(
    origin: Annotated[bool, typer.Option("--origin", help="Show where each value comes from.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
) -> None:
    """Print all settings.

    Example: pkb config show --origin
    """
    with session() as opened:
        values = keys(opened.settings)  # first: it says what is wrong
        own, told = chosen(opened.home.config), meanings()
        where = {key: str(opened.home.config) if key in own else "default" for key in values}
    if as_json:
        rows = [{"key": key, "value": values[key], "origin": where[key], "meaning": told[key]} for key in values]
        output.data({"settings": rows})
        return
    for key, value in values.items():
        tell(line(f"{key} = {value}" + (f"  ({where[key]})" if origin else "")), indent=" " * 8)
        print(wrap(f"    {told[key]}", output.width(), "    "))


def me(
    addresses: Annotated[list[str] | None, typer.Argument(metavar="ADDRESS", help="Yours, and your name.")] = None,
    as_json: Json = False,
) -> None:
    """Show or set which addresses are yours.

    Example: pkb me ann@example.org "Ann Whitlock"
    """
    if addresses:
        put("me.addresses", "; ".join(map(valid_text, addresses)), as_json)
        return
    with session() as opened:
        own, known, guesses = list(opened.me), bool(opened.settings.me.addresses), opened.guesses
    if as_json:
        output.data({"addresses": own, "confirmed": known, "guesses": list(map(asdict, guesses))})
    elif known:
        print(line(", ".join(own)))
    else:
        for one in guesses:
            sent, came = f"{one.sent:,} sent from folders of sent mail", f"{one.delivered:,} delivered to it"
            print(line(f"{one.address}: in {count(one.mails, 'mail')}, {sent}, {came}"))
        output.say(f"pkb: say which are yours; try: pkb me {' '.join(own or ['YOU@EXAMPLE.ORG'])}")
