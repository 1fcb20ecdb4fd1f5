"""Becomes one of the processes of a parent: `python -m taskyard_server.processes PARENT END`.

It imports little before it is sure to end with its parent, since the rest takes seconds on a busy machine.
"""

import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> None:
    """Let the kernel end this process when its parent ends, however that does. Elsewhere the channel tells it."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the parent has gone")


if __name__ == "__main__":
    end_with(int(sys.argv[1]))
    from taskyard_server.lean_imports import lean_imports

    with lean_imports():
        from taskyard_server.processes.child import main

    main(int(sys.argv[2]))
