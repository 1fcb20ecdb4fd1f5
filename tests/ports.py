"""Ports for tests that start servers, and how to wait until a server listens."""

import asyncio
import os
import random
import socket
from collections.abc import Iterator

from tests.waiting import until

FIRST = 10_000
EPHEMERAL_FROM = 32_768
"""From here on the system picks the ports of outgoing connections, so that a free port may be taken at any moment."""


def free_port() -> int:
    """A port of the loopback interface on which nobody listens, and which no other test of this run is given."""
    for port in _ports:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no port is free")


def _own_ports() -> Iterator[int]:
    """The ports of this process, each once, in random order: other runs on this machine draw from the same range.

    The workers of a parallel run divide the range among themselves.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    # `random` may be seeded by a plugin, the same in each run.
    ports = list(range(FIRST + worker, EPHEMERAL_FROM, workers))
    random.SystemRandom().shuffle(ports)
    yield from ports


_ports = _own_ports()


async def listening(port: int, process: asyncio.subprocess.Process) -> None:
    """Wait until a process listens on its port; it must not end before."""

    async def connects() -> bool:
        assert process.returncode is None, f"it ended with {process.returncode} and never listened"
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True

    await until(connects)
