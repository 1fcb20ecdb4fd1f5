"""Ports for tests that start servers, and how to wait for who shall listen there."""

import asyncio
import socket
from random import SystemRandom

GIVEN_OUT_FROM = 32_768
"""From here on systems give ports to whoever asks for any, such as each connection that is made."""
FIRST = 10_000


def free_port() -> int:
    """A port of the loopback interface that nobody listens on now, nor is given by chance before it is used."""
    while True:
        port = SystemRandom().randrange(FIRST, GIVEN_OUT_FROM)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


async def listening(port: int, process: asyncio.subprocess.Process, secs: float = 60.0) -> None:
    """Wait until a process listens on its port; it must not end before."""
    async with asyncio.timeout(secs):
        while True:
            assert process.returncode is None, f"it ended with {process.returncode} and never listened"
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return
