"""`taskyard up` with a store, as its supervisor sees it: it is started, killed, told to stop, and started again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from tests.environment import without_settings
from tests.ports import free_port

WRITER: Final = "taskyard_server.store.sqlite.writer"
START_SECS: Final = 60.0
EXIT_SECS: Final = 30.0
TAKEN_SECS: Final = 5.0
"""How long a start is repeated while an address is taken, by the gateway of a server that was killed."""


class YardDied(Exception):
    """It ended though nobody told it to; the text is what it said last."""


@dataclass
class Yard:
    """One control plane with its gateway, on the same ports and the same store over all its starts.

    `store` is the URL, by default a file in `folder`, `settings` the content of its configuration file, `environment`
    what its processes get beside that of the test. `python` runs its next start: that of another version is an upgrade.
    """

    folder: Path
    settings: Mapping[str, Any]
    store: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    python: Path = Path(sys.executable)
    ports: dict[str, int] = field(default_factory=lambda: {name: free_port() for name in ("grpc", "rest", "metrics")})
    start_secs: list[float] = field(default_factory=list)
    """How long each start took until it served."""
    _process: asyncio.subprocess.Process | None = None
    _reading: asyncio.Task[None] | None = None
    _children: dict[int, psutil.Process] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        self.store = self.store or f"sqlite:///{self.data / 'yard.db'}"

    @property
    def keeps(self) -> bool:
        """True if it has a history."""
        return self.store != "memory://"

    @property
    def data(self) -> Path:
        """The folder of the store, in which nothing else is."""
        return self.folder / "store"

    @property
    def grpc(self) -> str:
        return f"127.0.0.1:{self.ports['grpc']}"

    @property
    def rest(self) -> str:
        return f"http://127.0.0.1:{self.ports['rest']}"

    @property
    def log(self) -> Path:
        return self.folder / "yard.log"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        """The id of the server's process."""
        assert self._process is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.returncode

    async def start(self) -> None:
        """Start it, and return once it serves REST and gRPC. Raises `YardDied` if it ends before."""
        began = time.monotonic()
        while True:
            await self.begin()
            try:
                await self.ready()
            except YardDied as died:
                # What was killed has let go of its ports when its processes are gone, which takes a moment.
                if "taken" not in str(died) or time.monotonic() - began > TAKEN_SECS:
                    raise
            else:
                break
        self.start_secs.append(time.monotonic() - began)

    async def begin(self, *more: str) -> None:
        """Start the process, with more flags, and do not wait."""
        config = self.folder / "taskyard.json"
        config.write_text(json.dumps(self.settings))
        addresses = [word for name, port in self.ports.items() for word in (f"--{name}", f"127.0.0.1:{port}")]
        flags = ("--config", str(config), "--store", self.store, *addresses, *more)
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(str(self.python), "-m", "taskyard_server.cli.main", "up", *flags),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=without_settings() | dict(self.environment),
            )

    async def ready(self) -> None:
        """Wait until what was begun serves. Raises `YardDied` if it ends before."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        async with asyncio.timeout(START_SECS):
            while line := await process.stdout.readline():
                if b"serves" in line:
                    self._reading = asyncio.create_task(_read_on(process.stdout))
                    self._note_children()
                    return
            await process.wait()
        raise YardDied(f"exit code {process.returncode}: {self.last_lines()}")

    def writer(self) -> psutil.Process | None:
        """The process that writes the store, None if there is none. Found while the server lives: it is its child."""
        self._note_children()
        for child in self._children.values():
            with contextlib.suppress(psutil.Error):
                if child.is_running() and WRITER in " ".join(child.cmdline()):
                    return child
        return None

    async def kill(self, *victims: str) -> None:
        """Kill `server`, `writer`, or both in this order.

        Returns when the server has ended; a server whose writer alone was killed may start another one instead.
        """
        process, writer = self._process, self.writer()
        assert process is not None
        pids = {"server": process.pid} | ({} if writer is None else {"writer": writer.pid})
        for victim in victims:
            with contextlib.suppress(ProcessLookupError, KeyError):
                os.kill(pids[victim], signal.SIGKILL)
        if "server" in victims:
            await self.ended()
        else:
            await self._mended(writer)

    async def kill_while_it_stops(self, secs: float) -> None:
        """Tell it to stop, and kill it after a while if it has not ended by then."""
        assert self._process is not None
        self._note_children()
        self._process.terminate()
        try:
            await self.ended(secs)
        except AssertionError:
            await self.kill("server")

    async def _mended(self, killed: psutil.Process | None) -> None:
        """Wait until the server has another writer, or has ended."""
        async with asyncio.timeout(EXIT_SECS):
            while self.is_running and self.writer() in (None, killed):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        if not self.is_running:
            await self.ended()

    async def terminate(self) -> float:
        """Tell it to stop, wait until it has ended, and return the seconds that this took."""
        assert self._process is not None
        began = time.monotonic()
        self._process.terminate()
        await self.ended()
        return time.monotonic() - began

    async def ended(self, secs: float = EXIT_SECS) -> None:
        """Wait until the server has ended."""
        assert self._process is not None
        try:
            async with asyncio.timeout(secs):
                await self._process.wait()
        except TimeoutError:
            raise AssertionError(f"the server still runs after {secs:g} s: {self.last_lines()}") from None
        if self._reading is not None:
            await self._reading
            self._reading = None

    async def stop(self) -> None:
        """End every process that it has started."""
        if self.is_running:
            await self.kill("writer", "server")
        await self.gone()

    async def gone(self, secs: float = EXIT_SECS) -> None:
        """Wait until the children of servers that ended are gone, too, and kill those that stay."""
        children = list(self._children.values())
        _, left = await asyncio.to_thread(psutil.wait_procs, children, timeout=secs)
        for child in left:
            child.kill()
        self._children.clear()
        assert not left, f"processes outlive their server: {left}"

    async def check_store(self) -> None:
        """Assert that `taskyard store check` finds nothing wrong."""
        command = (sys.executable, "-m", "taskyard_server.cli.main", "store", "check", "--store", self.store)
        checking = await asyncio.create_subprocess_exec(
            *command, env=without_settings(), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        told, _ = await checking.communicate()
        assert checking.returncode == 0, told.decode()

    def last_lines(self, count: int = 20) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])

    def _note_children(self) -> None:
        assert self._process is not None
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self._process.pid).children(recursive=True):
                self._children[child.pid] = child


async def _read_on(stream: asyncio.StreamReader) -> None:
    """Read what nobody needs, so that its writer never waits."""
    while await stream.read(65_536):
        pass
