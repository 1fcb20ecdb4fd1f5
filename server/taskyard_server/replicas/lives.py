"""How the others learn at once that a replica was killed, where they share its machine.

Each life of a replica has an id, its instance, and binds a socket of that name in Linux' abstract namespace. The kernel
frees it with the process, however that ends, and not while the process is only stopped. So the name says for sure,
within one machine and one network namespace of it, whose mark the instance ends with. Machines that were copied while
they ran have the same mark: therefore the address of the replica must refuse connections as well.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from taskyard_server.store.shared_port import Replica

CONNECT_SECS: Final = 0.5


class Lives(Protocol):
    """The lives of this replica, one after the other, and the ends of others'."""

    def begin(self) -> str:
        """The instance of a new life, which no other one has. The life before it has ended."""

    async def has_ended(self, replica: Replica, me: Replica) -> bool:
        """True if it is certain for this replica that the process of another one has ended."""

    def end(self) -> None:
        """This replica lives no more."""


class ProcessLives:
    """The lives of processes. Off Linux nothing is ever certain."""

    def __init__(self) -> None:
        self._mark = machine_mark()
        self._name: socket.socket | None = None

    def begin(self) -> str:
        """See `Lives`."""
        self.end()
        instance = token_hex(8)
        if not self._mark:
            return instance
        name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            name.bind(_address(f"{instance}-{self._mark}"))
        except OSError:
            name.close()
            return instance
        self._name = name
        return f"{instance}-{self._mark}"

    async def has_ended(self, replica: Replica, me: Replica) -> bool:
        """See `Lives`."""
        if not self._mark or not replica.instance.endswith(f"-{self._mark}") or replica.address is None:
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
            if asking.connect_ex(_address(replica.instance)) != errno.ECONNREFUSED:
                return False
        # Who listens there now is no copy of the machine.
        return replica.address == me.address or await _refuses(replica.address)

    def end(self) -> None:
        """See `Lives`."""
        if self._name is not None:
            self._name.close()
            self._name = None


def machine_mark() -> str:
    """The same for all processes that see one another's abstract sockets, and for no others; empty off Linux."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        network = os.readlink("/proc/self/ns/net")
    except OSError:
        return ""
    return sha256(f"{boot} {network}".encode()).hexdigest()[:12]


def _address(instance: str) -> str:
    return f"\0taskyard-replica-{instance}"


async def _refuses(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(CONNECT_SECS):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except ConnectionRefusedError:
        return True
    except (OSError, ValueError, TimeoutError):
        return False
    writer.close()
    return False
