"""A server that answers what `taskyard top` asks for, and a terminal in which that runs."""

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from concurrent import futures
from contextlib import contextmanager

import grpc

from taskyard.v1 import namespace_pb2, runtime_host_pb2, sample_pb2, stats_pb2
from taskyard.v1.namespace_pb2_grpc import NamespaceServiceServicer, add_NamespaceServiceServicer_to_server
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceServicer, add_RuntimeHostServiceServicer_to_server
from taskyard.v1.stats_pb2_grpc import StatsServiceServicer, add_StatsServiceServicer_to_server
from tests.cli.top import top_figures
from tests.waiting import until_in_thread

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Answers(StatsServiceServicer, RuntimeHostServiceServicer, NamespaceServiceServicer):
    """Answers figures; `queued` is told, and `denied` are the calls that are refused.

    `asked` are the namespaces that stats were asked of.
    """

    def __init__(self):
        self.queued = 12
        self.submitted = 100
        self.denied = set()
        self.asked = []

    def _enter(self, name, context):
        if name in self.denied:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "not for you")

    def GetStats(self, request, context):  # noqa: N802
        del request
        self._enter("GetStats", context)
        self.asked.append(dict(context.invocation_metadata())["taskyard-namespace"])
        answer = top_figures.stats(total_queued=self.queued)
        answer.metrics.tasks_submitted = self.submitted
        return answer

    def ListSamples(self, request, context):  # noqa: N802
        self._enter("ListSamples", context)
        samples = top_figures.figures().samples
        return sample_pb2.ListSamplesResponse(
            samples=[each for each in samples if each.at.seconds > request.after.seconds], interval_secs=10
        )

    def GetFairness(self, request, context):  # noqa: N802
        self._enter("GetFairness", context)
        if not request.page_token:
            return stats_pb2.GetFairnessResponse(agents=[top_figures.share("ann", 6, 0.75)], next_page_token="1")
        return stats_pb2.GetFairnessResponse(agents=[top_figures.share("bob", 2, 0.25)])

    def ListHosts(self, request, context):  # noqa: N802
        del request
        self._enter("ListHosts", context)
        return runtime_host_pb2.ListHostsResponse(hosts=top_figures.figures().hosts)

    def ListNamespaces(self, request, context):  # noqa: N802
        del request
        self._enter("ListNamespaces", context)
        return namespace_pb2.ListNamespacesResponse(
            namespaces=[namespace_pb2.Namespace(name=name) for name in ("acme", "default")]
        )


@contextmanager
def serving(answers, address="127.0.0.1:0"):
    """Serve them until the end of the block; the address."""
    server = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
    add_StatsServiceServicer_to_server(answers, server)
    add_RuntimeHostServiceServicer_to_server(answers, server)
    add_NamespaceServiceServicer_to_server(answers, server)
    port = server.add_insecure_port(address)
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


class Terminal:
    """A terminal of 90 columns and 30 lines in which `taskyard top` runs."""

    def __init__(self, address, *words):
        self._fd, inside = pty.openpty()
        self.resize(90, 30)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "taskyard_server", "top", "--server", address, "--interval", "0.5", *words],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            env={name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
            | {"TERM": "xterm"},
            start_new_session=True,
        )
        os.close(inside)
        self.text = ""

    def resize(self, columns, lines):
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys):
        os.write(self._fd, keys.encode())

    @property
    def screen(self):
        """The newest picture that is complete."""
        pictures = COLOURS.sub("", self.text).split("\x1b[H")
        complete = [each for each in pictures if " q  quit" in each]
        return complete[-1] if complete else ""

    def shows(self, words):
        """Wait until the screen shows these words, and return it."""
        return until_in_thread(self._read, lambda screen: words in screen)

    def ended(self):
        """Wait until it has ended, and return its exit code."""
        # What nobody reads would keep it.
        until_in_thread(lambda: (self._read(), self.process.poll())[1], lambda code: code is not None)
        return self.process.returncode

    def is_as_before(self):
        """True if the terminal shows what is typed again, line by line."""
        local = termios.tcgetattr(self._fd)[3]
        return bool(local & termios.ECHO and local & termios.ICANON)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self._fd)

    def _read(self):
        """Read what is there; the newest picture."""
        ready, _, _ = select.select([self._fd], [], [], 0)
        if ready:
            # Once nobody has it open any more that is an error.
            with contextlib.suppress(OSError):
                self.text += os.read(self._fd, 65_536).decode(errors="replace")
        return self.screen
