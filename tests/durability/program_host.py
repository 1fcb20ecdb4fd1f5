"""The host of `examples/agent_program.py` as a process that kills itself after a number of messages.

What counts is what goes to the server and what comes from it: each message of the stream, each call and each answer.
"""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc

EXAMPLE = Path(__file__).parents[2] / "examples" / "agent_program.py"
ADDRESS = "localhost:50051"


def code_at(address: str) -> str:
    """The example for a server that is elsewhere."""
    code = EXAMPLE.read_text()
    assert code.count(ADDRESS) == 2
    return code.replace(ADDRESS, address)


def run(address: str, last: int, passed: Any, notes: str) -> None:
    """Be the host until message number `last`, for ever if it is 0; `notes` gets what the model has made.

    `passed` is how many messages have passed, and when it was killed.
    """
    points, open_channel = Points(last, passed), grpc.insecure_channel
    grpc.insecure_channel = lambda *given, **more: grpc.intercept_channel(open_channel(*given, **more), points)
    program: dict[str, Any] = {"__name__": "agent_program"}
    exec(compile(code_at(address), EXAMPLE, "exec"), program)
    program["model"] = noted(program["model"], notes)
    asyncio.run(program["host"].run())


def noted(model: Callable[[Any, str], Any], notes: str) -> Callable[[Any, str], Any]:
    """The model, which notes what it has made, in one write, which survives a kill."""
    file = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    @functools.wraps(model)
    async def working(task: Any, prompt: str) -> str:
        said: str = await model(task, prompt)
        os.write(file, f"{said}\n".encode())
        return said

    return working


class Points(
    grpc.UnaryUnaryClientInterceptor,  # type: ignore[type-arg]
    grpc.UnaryStreamClientInterceptor,  # type: ignore[type-arg]
    grpc.StreamStreamClientInterceptor,  # type: ignore[type-arg]
):
    """Counts the messages of all channels, and kills the process at the last one."""

    def __init__(self, last: int, passed: Any) -> None:
        self._last = last
        self._passed = passed
        self._lock = threading.Lock()

    def one(self) -> None:
        """Pass one message on."""
        with self._lock:
            self._passed[0] += 1
            if self._passed[0] == self._last:
                self._passed[1] = time.time()
                os.kill(os.getpid(), signal.SIGKILL)

    def each(self, messages: Iterator[Any]) -> Iterator[Any]:
        """Pass these on, counting each before."""
        for message in messages:
            self.one()
            yield message

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        self.one()
        answer = continuation(details, request)
        self.one()
        return answer

    def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        self.one()
        return Answers(continuation(details, request), self)

    def intercept_stream_stream(self, continuation: Any, details: Any, requests: Iterator[Any]) -> Any:
        return Answers(continuation(details, self.each(requests)), self)


class Answers:
    """A call whose answers are counted."""

    def __init__(self, call: Any, points: Points) -> None:
        self._call = call
        self._points = points

    def __iter__(self) -> Iterator[Any]:
        return self._points.each(self._call)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)
