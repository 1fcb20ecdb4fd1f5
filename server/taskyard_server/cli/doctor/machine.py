"""The machine: its clock, what it lets a process have, and the versions of what runs there."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import sqlite3
import struct
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final

import psutil

from taskyard_server.app.listening import connections_within
from taskyard_server.core import scheduler

from .examined import Examined
from .findings import Finding, Findings, failure, ok, warning

FEW_FILES: Final = 4_096
FULL: Final = 0.8
NEEDED_TASKS: Final = 48
"""Processes and threads of a server with Envoy and its writer; idle it has 18."""
TIMEX: Final = "=I4xqqqqi"
"""The beginning of `struct timex`: modes, offset, freq, maxerror, esterror, status."""
TIMEX_BYTES: Final = 512
STA_UNSYNC: Final = 0x40
CGROUPS: Final = Path("/sys/fs/cgroup")


def clock(_: Examined) -> Findings:
    """Ask the kernel whether something keeps the clock right. The checks of the store and the server compare it."""
    found = _clock_status()
    if found is None:
        yield ok("clock", "the system does not say whether it is synchronised")
    elif found[0] & STA_UNSYNC:
        todo = "start chronyd or systemd-timesyncd; in a container or a virtual machine, see to that of its host"
        yield warning("clock", "nothing synchronises the clock of this machine", todo)
    else:
        yield ok("clock", f"synchronised, right within {found[1] / 1_000:.0f} ms")


def _clock_status() -> tuple[int, int] | None:
    """The status bits of the kernel's clock, and its largest error in microseconds; None if it does not say."""
    try:
        adjtimex = ctypes.CDLL(None).adjtimex
    except (OSError, AttributeError):
        return None
    timex = ctypes.create_string_buffer(TIMEX_BYTES)
    # All zeros: it is asked, and not set.
    if adjtimex(timex) < 0:
        return None
    _, _, _, most_us, _, status = struct.unpack_from(TIMEX, timex)
    return status, most_us


def limits(on: Examined) -> Findings:
    """Look at open files and processes: of the server that runs, or else of this user."""
    whose, used, most = "a server that is started from here", 0, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if on.server:
        try:
            process = psutil.Process(on.server)
            used, most = process.num_fds(), process.rlimit(resource.RLIMIT_NOFILE)[1]
            whose = f"the running server, which has {used} open"
        except (psutil.Error, OSError):
            pass  # it is another user's
    yield open_files(whose, used, most)
    left = _tasks_left()
    if left is None:
        yield ok("processes", "no limit is in the way")
    elif left < NEEDED_TASKS:
        seen = f"{max(0, left)} more processes and threads are allowed, and a server needs some {NEEDED_TASKS}"
        yield failure("processes", seen, "raise ulimit -u (TasksMax= of a unit, --pids-limit of a container)")
    else:
        yield ok("processes", f"{left} more are allowed")


def open_files(whose: str, used: int, most: int) -> Finding:
    """The finding about a process with `used` open files, which may have `most`."""
    if most == resource.RLIM_INFINITY:
        return ok("open files", f"no limit for {whose}")
    words = f"at most {most} for {whose}: room for {connections_within(most)} callers at once"
    if used > FULL * most or most < FEW_FILES:
        todo = "raise ulimit -Hn (LimitNOFILE= of a unit, --ulimit nofile= of a container); further callers are refused"
        return warning("open files", words, todo)
    return ok("open files", words)


def _tasks_left() -> int | None:
    """How many processes and threads may still be started; None where nothing limits them."""
    lefts = []
    most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if most != resource.RLIM_INFINITY and os.geteuid():
        lefts.append(most - _tasks_of(os.geteuid()))
    for line in _lines("/proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "pids"):
            folder = CGROUPS / controllers / path.lstrip("/")
            folder = folder if folder.exists() else CGROUPS / controllers
            found = [*_lines(folder / "pids.max"), *_lines(folder / "pids.current")]
            if len(found) == 2 and found[0].isdecimal():
                lefts.append(int(found[0]) - int(found[1]))
    return min(lefts, default=None)


def _tasks_of(user: int) -> int:
    count = 0
    for process in psutil.process_iter(["uids", "num_threads"]):
        uids, threads = process.info["uids"], process.info["num_threads"]
        count += (threads or 1) if uids is not None and uids.real == user else 0
    return count


def _lines(path: str | Path) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def versions(_: Examined) -> Findings:
    """Name the versions of this program and of what it stands on."""
    parts = [f"Python {platform.python_version()}", f"SQLite {sqlite3.sqlite_version}"]
    parts += [f"{name} {version(name)}" for name in ("grpcio", "protobuf")]
    yield ok("versions", f"taskyard {version('taskyard')} with {', '.join(parts)}, {sys.platform} {platform.machine()}")
    yield core(str(scheduler.__file__))


def core(file: str) -> Finding:
    """The finding about the core, of which this is a file."""
    if file.endswith(".py"):
        todo = "install the wheel of this platform, or run `make compile`, where three times as much is wanted"
        return warning("core", "runs as it is written, at a third of the speed of its compiled form", todo)
    return ok("core", "compiled")
