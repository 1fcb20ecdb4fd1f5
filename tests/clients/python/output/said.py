"""Handlers that say something in a worker process, which imports them from here."""

import os
import subprocess
import sys

from taskyard import RunningTask


def says(task: RunningTask) -> None:
    """Say each kind of data, and log."""
    task.emit("text")
    task.emit(b"\xff", channel="raw")
    task.emit({"done": 1}, channel="steps")
    task.log.info("half of %d", 2)


def writes(task: RunningTask) -> None:
    """Write to both file descriptors, itself and by a process that it starts."""
    print("from Python:", task.params["text"])
    sys.stderr.write("a line without an end")
    subprocess.run(["sh", "-c", "echo from a shell; printf '\\377' >&2"], check=True)


def writes_and_dies(_: RunningTask) -> None:
    """Write, and leave nothing to clean up."""
    os.write(1, b"last words")
    os._exit(3)


def floods(task: RunningTask) -> None:
    """Say more than any window has room for."""
    for number in range(task.params["count"]):
        task.emit(f"{number:08d}" + "x" * 60_000)


def leaves_a_process(task: RunningTask) -> int:
    """Leave a process behind that writes without end."""
    child = subprocess.Popen(["sh", "-c", "while echo left behind; do :; done"])
    task.emit("begun")
    return child.pid


def floods_and_dies(_: RunningTask) -> None:
    """Fill the pipe to the host, and leave nothing to clean up."""
    os.write(1, b"x" * 60_000)
    os._exit(3)


def tries(task: RunningTask) -> str:
    """Write, and say how emit fails."""
    print("written")
    try:
        task.emit("x")
    except Exception as error:
        return type(error).__name__
    return "said"
