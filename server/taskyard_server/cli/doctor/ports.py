"""The ports: free, or taken, and by whom."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Collection
from typing import Any, Final

import psutil

from taskyard_server.settings.config import Settings

from .examined import Examined
from .findings import Finding, Findings, failure, ok, reason_of, warning

TAKEN: Final = "taken"


def ports(on: Examined) -> Findings:
    """Look at each address that the server listens at, as its settings say."""
    named: dict[str, str] = {}
    own = on.processes()
    elsewhere = addresses_of(own)
    for name, address in listeners(on.settings):
        check = f"port {name}"
        if address in named:
            yield failure(check, f"{address} is that of {named[address]} too", f"give {name} a port of its own")
            continue
        named[address] = name
        problem = _problem(address)
        if problem is None:
            if elsewhere:
                todo = "it was started with other settings or flags: give this the same, or start it again"
                seen = f"{address} is free: the running server, process {on.server}, listens at {', '.join(elsewhere)}"
                yield warning(check, seen, todo)
            else:
                yield ok(check, f"{address} is free")
        elif problem == TAKEN:
            yield _taken(check, name, address, on, own)
        else:
            yield failure(check, f"{address}: {problem}", f"set {name} to an address of this machine that it may use")


def listeners(settings: Settings) -> list[tuple[str, str]]:
    """The settings that name addresses to listen at, with those addresses."""
    found = [("grpc", settings.grpc)]
    if settings.gateway:
        found.append(("rest", settings.rest))
    found.append(("metrics", settings.metrics))
    if (address := settings.replicas.listens_on) is not None:
        found.append(("replicas.listen" if settings.replicas.listen else "replicas.advertise", address))
    return found


def _taken(check: str, name: str, address: str, on: Examined, own: dict[int, str]) -> Finding:
    pid = _listener(address)
    if pid in own:
        return ok(check, f"{address} is served by {own[pid]}, process {pid} of the running server")
    if on.runs and (pid is None or not own):
        return ok(check, f"{address} is served, it seems by the running server")
    who = "by a program that cannot be seen from here (as root it can)" if pid is None else f"by {_named(pid)}"
    return failure(check, f"{address} is taken {who}", f"stop that one, or set {name} to another port")


def _problem(address: str) -> str | None:
    """The reason for which nobody can listen there now, `TAKEN` for one who does; None if one can."""
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return "the name is not known"
    problems = [_bind(family, where) for family, _, _, _, where in found]
    # A name may have addresses of both kinds, of which one will do.
    return TAKEN if TAKEN in problems else None if None in problems else problems[0]


def _bind(family: int, where: tuple[Any, ...]) -> str | None:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As servers do. It never listens, so that it is in nobody's way.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        return TAKEN if error.errno == errno.EADDRINUSE else reason_of(error)
    return None


def _listener(address: str) -> int | None:
    """The process that listens at the port; None if it cannot be seen from here."""
    port = int(address.rpartition(":")[2])
    return next((pid for _, found, pid in _listening() if found == port and pid), None)


def addresses_of(processes: Collection[int]) -> list[str]:
    """Where these processes listen, as far as can be seen from here."""
    found = {(host.removeprefix("::ffff:"), port) for host, port, pid in _listening() if pid in processes}
    return sorted(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in found)


def _listening() -> list[tuple[str, int, int | None]]:
    try:
        found = psutil.net_connections("tcp")
    except (psutil.Error, OSError):
        return []
    return [(each.laddr.ip, each.laddr.port, each.pid) for each in found
            if each.status == psutil.CONN_LISTEN and each.laddr]  # fmt: skip


def _named(pid: int) -> str:
    try:
        return f"{psutil.Process(pid).name()}, process {pid}{' (this one)' if pid == os.getpid() else ''}"
    except psutil.Error:
        return f"process {pid}"
