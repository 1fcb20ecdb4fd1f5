"""One process of `taskyard host run`: it loads the host of a program and runs it.

As a process of its own (`python -m taskyard_server.cli.host.process ORDERS`) it says by a byte that the host is loaded,
drains when its parent is gone, and ends with a code that says whether to start it again.
"""

import asyncio
import dataclasses
import importlib
import json
import logging
import os
import sys
import threading
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from taskyard import Host, TaskyardError
from taskyard.hosting.options import Slots, checked_slots
from taskyard_server.cli.failure import Failure

CANNOT_START: Final = 78
"""The exit code where the host cannot be loaded."""
REFUSED: Final = 77
"""The exit code where the host does not fit the orders, or the server refuses it for good."""


@dataclass(frozen=True, slots=True)
class HostOrders:
    """Which host is run, and what is otherwise than its program says."""

    target: str
    number: int | None
    slots: Slots | None
    drain_grace: float | None

    def to_text(self, number: int) -> str:
        """For the command line of the process of this number."""
        slots = dict(self.slots) if isinstance(self.slots, Mapping) else self.slots
        return json.dumps([self.target, number, slots, self.drain_grace])


def load_host(orders: HostOrders) -> Host:
    """Import the host, and change what the orders say. Raises `Failure`, of one line."""
    module_name, _, name = orders.target.partition(":")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise Failure(f"{module_name!r} cannot be imported: {_in_one_line(error)}") from None
    for part in (name or "host").split("."):
        if not hasattr(found, part):
            raise Failure(f"{orders.target}: there is no {part!r} in {module_name}; write MODULE:HOST")
        found = getattr(found, part)
    if callable(found) and not isinstance(found, Host):
        try:
            found = found()
        except Exception as error:
            raise Failure(f"{orders.target}: {_in_one_line(error)}") from None
    if not isinstance(found, Host):
        raise Failure(f"{orders.target}: must be a Host or a function that makes one, is {type(found).__name__}")
    options = found._options
    if orders.number is not None:
        options = dataclasses.replace(options, host_id=f"{options.host_id}/{orders.number}")
    if orders.slots is not None:
        options = dataclasses.replace(options, slots=checked_slots(orders.slots))
    if orders.drain_grace is not None:
        options = dataclasses.replace(options, drain_grace_secs=orders.drain_grace)
    found._options = options
    return found


def run_host(host: Host) -> None:
    """Run a host until a signal drains it. Raises `Failure` if it cannot run or is refused."""
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        asyncio.run(host.run(handle_signals=True))
    except (TaskyardError, ValueError, TypeError) as error:
        raise HostFailure(f"host {host._options.host_id}: {error}", REFUSED) from error
    except RuntimeError as error:
        raise HostFailure(f"host {host._options.host_id}: {error}", 1) from error


class HostFailure(Failure):
    """A host that cannot run. `process_code` is what its process of a fleet ends with."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.process_code = exit_code


def _in_one_line(error: BaseException) -> str:
    """An exception, and where in the program it was raised."""
    text = " ".join(str(error).split())
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "importlib" not in frame.filename and frame.filename != __file__
    ]
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return (f"{type(error).__name__}: {text}" if text else type(error).__name__) + where


def _drain_without_parent(host: Host) -> None:
    """Drain once the pipe from the parent ends, which happens when the parent dies, however it does."""
    while os.read(0, 4096):
        pass
    host.drain()


def main() -> None:
    """The process. Its standard input is a pipe from the parent, the last argument a descriptor to say that it runs."""
    target, number, slots, drain_grace = json.loads(sys.argv[1])
    try:
        host = load_host(HostOrders(target, number, slots, drain_grace))
        os.write(int(sys.argv[2]), b"1")
        os.close(int(sys.argv[2]))
        threading.Thread(target=_drain_without_parent, args=(host,), daemon=True).start()
        run_host(host)
    except Failure as failure:
        print(f"taskyard: {failure}", file=sys.stderr, flush=True)
        sys.exit(failure.process_code if isinstance(failure, HostFailure) else CANNOT_START)


if __name__ == "__main__":
    main()
