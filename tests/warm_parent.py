"""A process that has imported the server, and forks one for each request: `python -m tests.warm_parent FD`.

It reads requests from its socket, one a message, as JSON with three files beside it, and answers each with the id of
the process. That one's own parent has ended, so that it belongs to the test that asked (`tests/warm_starts.py`).
"""

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import random
import signal
import socket
import sys
import time

from taskyard_server import cli
from taskyard_server.app import app
from taskyard_server.cli.main import main

MAX_REQUEST_BYTES = 1 << 20


def serve(requests: socket.socket) -> None:
    """Fork for each request until there are no more."""
    while True:
        message, files, *_ = socket.recv_fds(requests, MAX_REQUEST_BYTES, 3)
        if not message:
            return
        if (middle := os.fork()) == 0:
            if (child := os.fork()) == 0:
                requests.close()
                begin(files, **json.loads(message))
            requests.send(str(child).encode())
            os._exit(0)
        for file in files:
            os.close(file)
        os.waitpid(middle, 0)
        # Only now is it nobody's child but the one of the test.
        requests.send(b"end")


def begin(files: list[int], words: list[str], folder: str, environment: dict[str, str]) -> None:
    """Be `taskyard` with these words, as a new process would be."""
    code = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(environment)
        time.tzset()
        random.seed()
        os.chdir(folder)
        sys.path[0] = folder
        sys.argv = ["taskyard", *words]
        gc.enable()
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    # Ctrl-C is for the tests, which end this one by closing its socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert app
    for module in pkgutil.walk_packages(cli.__path__, "taskyard_server.cli."):
        importlib.import_module(module.name)
    gc.collect()
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))
