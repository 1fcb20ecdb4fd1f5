"""The processes of `taskyard host run --processes`: started, told of signals, and started again when they die."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

from .process import CANNOT_START, REFUSED, HostOrders

FIRST_DELAY_SECS: Final = 0.5
MAX_DELAY_SECS: Final = 30.0
STEADY_SECS: Final = 60.0
"""A process that lived this long is started again without a longer delay than at first."""
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class HostFleet:
    """Several processes that each run the same host, under ids that end with their numbers.

    They are spawned in sessions of their own, so that a Ctrl-C reaches them by this process alone. `say` writes a line
    for people.
    """

    def __init__(self, orders: HostOrders, count: int, say: Callable[[str], object]) -> None:
        self._orders = orders
        self._count = count
        self._say = say
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._stopping = asyncio.Event()
        self._has_failed = False

    async def run(self) -> bool:
        """Run until all have ended in order. Returns whether they have."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._pass_on, number)
        try:
            # A mistake in the program is to be said once.
            first = asyncio.Event()
            supervised = [asyncio.create_task(self._supervise(1, first))]
            await first.wait()
            if not self._has_failed:
                supervised += [asyncio.create_task(self._supervise(number)) for number in range(2, self._count + 1)]
            await asyncio.gather(*supervised)
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)
            self._signal(signal.SIGKILL)
        return not self._has_failed

    async def _supervise(self, number: int, told: asyncio.Event | None = None) -> None:
        """Run a process, and again whenever it dies. `told` is set once it has begun or failed to."""
        loop, delay, was_loaded = asyncio.get_running_loop(), FIRST_DELAY_SECS, False
        while not self._stopping.is_set():
            began = loop.time()
            is_loaded, code = await self._run_once(number, told)
            was_loaded = was_loaded or is_loaded
            is_final = code == REFUSED or (code == CANNOT_START and not was_loaded)
            if code and (is_final or (self._stopping.is_set() and is_loaded)):
                self._has_failed = True
            if told is not None:
                told.set()
            if is_final:
                self._pass_on(signal.SIGTERM)
            if code == 0 or self._stopping.is_set():
                return
            delay = FIRST_DELAY_SECS if loop.time() - began > STEADY_SECS else delay
            self._say(f"taskyard: host process {number} {_how(code)}; it is started again in {delay:g} s")
            try:
                async with asyncio.timeout(delay):
                    await self._stopping.wait()
            except TimeoutError:
                delay = min(MAX_DELAY_SECS, 2 * delay)

    async def _run_once(self, number: int, told: asyncio.Event | None) -> tuple[bool, int]:
        """Run a process to its end. Returns whether its host was loaded, and its exit code."""
        loaded, tell = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "taskyard_server.cli.host.process", self._orders.to_text(number), str(tell)),
                stdin=asyncio.subprocess.PIPE,
                pass_fds=(tell,),
                start_new_session=True,
            )
        finally:
            os.close(tell)
        self._processes[number] = process
        if self._stopping.is_set():
            _signal(process, signal.SIGTERM)
        is_loaded = await _is_told(loaded)
        if is_loaded and told is not None:
            told.set()
        code = await process.wait()
        del self._processes[number]
        return is_loaded, code

    def _pass_on(self, number: int) -> None:
        self._stopping.set()
        self._signal(number)

    def _signal(self, number: int) -> None:
        for process in self._processes.values():
            _signal(process, number)


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    # Its own method would ask first whether it has ended, and then asyncio is not told how.
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, number)


async def _is_told(descriptor: int) -> bool:
    """Wait until a process says by a pipe that it has begun, or ends. Returns whether it has begun."""
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(descriptor, "rb"))
    try:
        return bool(await reader.read(1))
    finally:
        transport.close()


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
