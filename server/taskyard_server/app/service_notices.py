"""Notices to who supervises the process, such as systemd: it serves, it reads its settings again, it ends (sd_notify).

A supervisor that wants them names a socket in `NOTIFY_SOCKET`. Without one, or where nobody listens, none is sent.
"""

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
RELOADING: Final = "RELOADING=1\nMONOTONIC_USEC={usec}"


def notify(notice: str) -> None:
    """Send one notice."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.connect(address)
        sender.send(notice.encode())


@contextlib.contextmanager
def reloading() -> Iterator[None]:
    """Say that what goes on meanwhile is a reload, and that the server serves again, be it with an error."""
    notify(RELOADING.format(usec=time.monotonic_ns() // 1000))
    try:
        yield
    finally:
        notify(READY)
