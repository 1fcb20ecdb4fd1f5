"""`taskyard top`: the figures of a namespace, live: its queue and rates, agents, hosts, and what holds tasks back.

One thread asks the server, the other one draws and reads keys, so that a server which is slow or away holds up neither.
"""

import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Final

import typer
from rich.console import Group
from rich.live import Live

from taskyard_server.cli.connection import Connection, with_connection
from taskyard_server.cli.console import out
from taskyard_server.cli.failure import Failure
from taskyard_server.cli.output_form import print_data, with_output
from taskyard_server.conversion.payload import message_to_json

from .figures import Reader, TopFigures
from .keys import KeyReader
from .state import State, Wish, pressed
from .view import page, screen

LOOK_SECS: Final = 0.5
"""How often the screen is drawn again without anything new: its size may have changed, and the clock goes on."""
PAGE_COLUMNS: Final = 120


@with_output
@with_connection
def top(
    connection: Connection,
    interval: Annotated[float, typer.Option(min=0.5, max=3600, help="Seconds between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one picture, as anything but a terminal gets.")] = False,
    as_json: bool = False,
) -> None:
    """Show the queue, rates, agents and hosts live, and what holds tasks back, until q or Ctrl-C."""
    reader, state = Reader(connection), State(connection.credentials.namespace)
    with connection.opened() as channel:
        first = reader.read(channel, state.namespace)
    if as_json:
        print_data(_as_data(first))
    elif once or not out.is_terminal or out.is_dumb_terminal:
        width = min(out.size.width, PAGE_COLUMNS)
        for line in page(first, state, width, address=_address(connection), now=datetime.now().astimezone()):
            out.print(line, soft_wrap=True)
    else:
        # However it ends, the terminal must be as it was.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.default_int_handler)
        try:
            _run(connection, reader, state, first, interval)
        except KeyboardInterrupt:
            return


class Poller(threading.Thread):
    """Reads figures again and again, and calls `on_news` after each try. `latest` is never taken back by a failure.

    `problem` says since when, in seconds of `time.monotonic`, and why there are no newer ones; None while there are.
    """

    def __init__(self, connection: Connection, reader: Reader, first: TopFigures, interval_secs: float) -> None:
        super().__init__(daemon=True)
        self.latest = first
        self.problem: tuple[float, str] | None = None
        self.namespace = first.namespace
        self.is_paused = False
        self.on_news: Callable[[], None] = lambda: None
        self._connection = connection
        self._reader = reader
        self._interval_secs = interval_secs
        self._wanted = threading.Event()
        self._is_over = False

    def run(self) -> None:
        """Read until it is over. A connection that broke is made anew."""
        while not self._is_over:
            try:
                with self._connection.opened() as channel:
                    while self._wait():
                        self.latest = self._reader.read(channel, self.namespace)
                        self.problem = None
                        self.on_news()
            except Failure as failure:
                since = time.monotonic() if self.problem is None else self.problem[0]
                self.problem = since, str(failure)
                self.on_news()

    def read_now(self) -> None:
        """Wait no longer for the next look."""
        self._wanted.set()

    def end(self) -> None:
        """Read nothing more."""
        self._is_over = True
        self._wanted.set()

    def _wait(self) -> bool:
        """Wait until it is time for the next look; False once it is over."""
        while True:
            is_wanted = self._wanted.wait(self._interval_secs)
            self._wanted.clear()
            if self._is_over or is_wanted or not self.is_paused:
                return not self._is_over


def _run(connection: Connection, reader: Reader, state: State, first: TopFigures, interval_secs: float) -> None:
    poller = Poller(connection, reader, first, interval_secs)
    address = _address(connection)
    with KeyReader(sys.stdin) as keys, Live(console=out, screen=True, auto_refresh=False, transient=True) as live:
        poller.on_news = keys.wake
        poller.start()
        try:
            while True:
                now = datetime.now().astimezone()
                width, height = out.size
                problem = _problem_text(poller)
                lines = screen(poller.latest, state, width, height, address=address, now=now, problem=problem)
                live.update(Group(*lines), refresh=True)
                for key in keys.wait(LOOK_SECS):
                    state, wish = pressed(state, key, poller.latest.names)
                    if wish is Wish.QUIT:
                        return
                    poller.namespace, poller.is_paused = state.namespace, state.is_paused
                    if wish is Wish.READ:
                        poller.read_now()
        finally:
            poller.end()


def _problem_text(poller: Poller) -> str:
    problem = poller.problem
    if problem is None:
        return ""
    since, text = problem
    return f"no figures for {time.monotonic() - since:.0f} s: {text}"


def _address(connection: Connection) -> str:
    return ", ".join(connection.credentials.addresses)


def _as_data(figures: TopFigures) -> dict[str, Any]:
    """One picture as data, in the words of REST."""

    def listed(messages: Any) -> Any:
        return None if messages is None else [message_to_json(each, zeros=True) for each in messages]

    return {
        "namespace": figures.namespace,
        "stats": message_to_json(figures.stats, zeros=True),
        "samples": listed(figures.samples),
        "agents": listed(figures.agents),
        "hosts": listed(figures.hosts),
    }
