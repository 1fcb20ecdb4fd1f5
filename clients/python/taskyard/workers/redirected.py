"""File descriptors 1 and 2 of a worker lead to its host while a handler runs whose output is captured.

What the handler starts inherits them, and code in C writes to them as well.
"""

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from io import TextIOWrapper

Ends = tuple[int, int]
"""The file descriptors of the pipes for standard output and standard error."""


@contextlib.contextmanager
def redirected(ends: Ends) -> Iterator[None]:
    """Lead both to pipes for a while.

    Args:
        ends: The pipes.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # Readers want to see what is said when it is said.
            stream.reconfigure(line_buffering=True)
    _flush()
    before = os.dup(1), os.dup(2)
    try:
        for end, number in zip(ends, (1, 2), strict=True):
            os.dup2(end, number)
        yield
    finally:
        _flush()
        for each, number in zip(before, (1, 2), strict=True):
            os.dup2(each, number)
            os.close(each)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        # A handler may have put anything in their places.
        with contextlib.suppress(Exception):
            stream.flush()
    with contextlib.suppress(Exception):
        ctypes.CDLL(None).fflush(None)
