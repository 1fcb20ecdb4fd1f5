"""A server that a test starts as a process begins in milliseconds: it is forked from one that has imported it.

Most of what a start costs are imports, and the tests start hundreds. `subprocess` and `asyncio` work as ever; only the
commands `python -m taskyard_server.cli.main ...` are begun by `tests/warm_parent.py`. What concerns the interpreter
itself (its variables, files beyond the three) begins cold, as does `python -m taskyard_server`, as a user starts it.
"""

import ctypes
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

COMMAND = [sys.executable, "-m", "taskyard_server.cli.main"]
OF_THE_INTERPRETER = ("PYTHON", "LD_", "LC_", "LANG", "GRPC_")
PR_SET_CHILD_SUBREAPER = 36
MAX_ANSWER_BYTES = 64


class WarmPopen(subprocess.Popen[Any]):
    """A process of the command line begins by a fork, any other by the way of `subprocess`."""

    _execute_cold = subprocess.Popen._execute_child  # type: ignore[attr-defined]
    _parameters = inspect.signature(_execute_cold)

    def _execute_child(self, *given: Any) -> None:
        how = self._parameters.bind(self, *given).arguments
        if not _is_warm(how):
            self._execute_cold(*given)
            return
        words = [os.fsdecode(word) for word in how["args"][len(COMMAND) :]]
        # A file that is not redirected is that of this process.
        files = [number if how[end] == -1 else how[end] for number, end in enumerate(_ENDS)]
        self.pid = _parent.fork(words, files, how["cwd"], how["env"])
        self._child_created = True
        self._close_pipe_fds(*(how[end] for end in _PIPES))  # type: ignore[attr-defined]


_ENDS = ("p2cread", "c2pwrite", "errwrite")
_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


def _is_warm(how: Mapping[str, Any]) -> bool:
    if not isinstance(how["args"], (list, tuple)) or [*map(os.fsdecode, how["args"][: len(COMMAND)])] != COMMAND:
        return False
    if any(how[odd] for odd in ("preexec_fn", "pass_fds", "shell", "start_new_session")):
        return False
    return how["env"] is None or _of_the_interpreter(how["env"]) == _of_the_interpreter(os.environ)


def _of_the_interpreter(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(OF_THE_INTERPRETER)}


class _Parent:
    """The process that has imported the server, which is started for the first that is to begin."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._of = 0

    def fork(self, words: list[str], files: list[int], folder: Any, environment: Mapping[str, str] | None) -> int:
        """Begin `taskyard` with these words and files, and return the id of its process, a child of this one."""
        request = {
            "words": words,
            "folder": os.path.abspath(os.fsdecode(folder or "")),
            "environment": dict(os.environ if environment is None else environment),
        }
        with self._lock:
            if self._socket is None or self._of != os.getpid():
                self._socket, self._of = self._started(), os.getpid()
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
            try:
                socket.send_fds(self._socket, [json.dumps(request).encode()], files)
                pid = int(self._socket.recv(MAX_ANSWER_BYTES))
                # With this answer its parent has ended, and it has become our child.
                self._socket.recv(MAX_ANSWER_BYTES)
            finally:
                ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0)
        return pid

    def _started(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", "tests.warm_parent", str(theirs.fileno())]
            # It ends with this process, whose end of the socket is closed then.
            subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        return ours


_parent = _Parent()
