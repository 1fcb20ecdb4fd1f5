"""`taskyard host run`: runs the host of a program, in this process or in several that are started again."""

import asyncio
import sys
from collections.abc import Mapping
from typing import Annotated, Final

import typer

from taskyard.hosting.options import REST, Slots
from taskyard_server.cli.failure import Misuse

from .fleet import HostFleet
from .process import HostOrders, load_host, run_host

app = typer.Typer(help="Run the host of a program.", no_args_is_help=True)

MOST_PROCESSES: Final = 256


@app.callback()
def host() -> None:
    """Run the host of a program."""


@app.command()
def run(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:HOST",
            help="The module and the name of its Host, or of a function that makes one. Modules are looked for in "
            "the working directory, too.",
        ),
    ],
    processes: Annotated[
        int | None,
        typer.Option(
            help="Run it in this many processes, which are started again when they die. Their hosts have ids that end "
            "with /1, /2 and so on.",
            min=1,
            max=MOST_PROCESSES,
            show_default="in this one",
        ),
    ] = None,
    slots: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|auto|ACTION=NUMBER,...",
            help="How many tasks each process runs at once: in all, one for each core, or by action, with * for all "
            "others.",
            show_default="as the program says",
        ),
    ] = None,
    drain_grace: Annotated[
        float | None,
        typer.Option(
            metavar="SECS",
            help="Seconds for which running tasks may go on once it is told to stop.",
            min=0,
            show_default="as the program says",
        ),
    ] = None,
) -> None:
    """Run the host of a program until a signal drains it. A second signal ends it at once."""
    orders = HostOrders(target, None, None if slots is None else parse_slots(slots), drain_grace)
    if processes is None:
        run_host(load_host(orders))
        return
    if not asyncio.run(HostFleet(orders, processes, _say).run()):
        raise typer.Exit(1)


def parse_slots(text: str) -> Slots:
    """Read `--slots`. Raises `Failure`."""
    if text == "auto":
        return "auto"
    if "=" not in text:
        return _number(text)
    slots: dict[str, int] = {}
    for part in text.split(","):
        action, _, number = part.strip().rpartition("=")
        if not action or action in slots:
            raise Misuse(f"--slots: must be as in crawl=8,render=2 or {REST}=4, each action once, is {text!r}")
        slots[action] = _number(number)
    named: Mapping[str, int] = slots
    return named


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise Misuse(f"--slots: must be a number from 1, auto, or numbers by action as in crawl=8, is {text!r}")
    return int(text)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
