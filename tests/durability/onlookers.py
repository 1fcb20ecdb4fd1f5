"""Who looks at a yard: watchers that go on by cursors, readers of single tasks, and a receiver of webhooks."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import grpc

from taskyard.errors import error_from_rpc
from taskyard.v1.task_pb2 import GetTaskRequest, TaskEvent, WatchEnd, WatchTasksRequest

from .doors import UNKNOWN, Doors, plain
from .history import ALWAYS, Delivery, Json, Outcome, Reading, Recorder

AGAIN_SECS: Final = 0.2


def name_of_end(task: dict[str, Json]) -> str:
    """The id of the webhook that tells how a task ended."""
    return f"{task['taskId']}-{task.get('run', 1)}-{task['state']}"


class Watcher:
    """One watch over all breaks: with its last cursor it misses nothing.

    `cursors_expired` counts how often the server knew a cursor no more, `resumed` how often the watch went on. `ready`
    is set once it has begun. `ends` are the ends that it was shown, under the names that webhooks give them.
    """

    def __init__(self, doors: Doors, recorder: Recorder, states: str = "") -> None:
        self.cursors_expired = 0
        self.resumed = 0
        self.ready = asyncio.Event()
        self.ends: set[str] = set()
        self._doors = doors
        self._recorder = recorder
        self._states = states
        self._cursor = ""

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            request = WatchTasksRequest(state=self._states)
            if self._cursor:
                request.cursor = self._cursor
            else:
                request.include_current = True
            stream = self._doors.tasks.WatchTasks(request, metadata=self._doors.metadata)
            try:
                await self._follow(stream)
            except grpc.aio.AioRpcError as error:
                code = error_from_rpc(error).code
                if code == "cursor_expired":
                    self._expire()
                elif code not in UNKNOWN:
                    raise
            finally:
                stream.cancel()
            await asyncio.sleep(AGAIN_SECS)

    async def _follow(self, stream: Any) -> None:
        goes_on = bool(self._cursor)
        while (message := await stream.read()) is not grpc.aio.EOF:
            self.resumed += goes_on
            goes_on = False
            for event in message.events:
                if event.kind != TaskEvent.evicted:
                    task = plain(event.task)
                    self.ends.add(name_of_end(task))
                    via = "current" if event.kind == TaskEvent.current else "watch"
                    self._recorder.add(Reading, ALWAYS, via=via, task_id=task["taskId"], task=task)
            if message.cursor:
                self._cursor = message.cursor
                self.ready.set()
            if message.HasField("end"):
                if message.end.reason == WatchEnd.cursor_expired:
                    self._expire()
                return

    def _expire(self) -> None:
        self.cursors_expired += 1
        self._cursor = ""


class Reader:
    """Asks for tasks that somebody was told of, by gRPC and by REST in turn."""

    def __init__(self, doors: Doors, recorder: Recorder, choose: Callable[[], str | None], pause_secs: float) -> None:
        self._doors = doors
        self._recorder = recorder
        self._choose = choose
        self._pause_secs = pause_secs

    async def run(self) -> None:
        """Read until cancelled."""
        by_rest = False
        while True:
            await asyncio.sleep(self._pause_secs)
            task_id = self._choose()
            if task_id is None:
                continue
            by_rest = not by_rest
            begun = time.monotonic()
            task = await (self._by_rest(task_id) if by_rest else self._by_grpc(task_id))
            if task is not Outcome.UNKNOWN:
                if task is not None:
                    task.pop("params", None)
                self._recorder.add(Reading, begun, via="get", task_id=task_id, task=task)

    async def _by_grpc(self, task_id: str) -> Any:
        answer = await self._doors.call(self._doors.tasks.GetTask, GetTaskRequest(task_id=task_id))
        if answer.outcome is Outcome.ACKNOWLEDGED:
            return answer.body
        return None if answer.code == "not_found" else Outcome.UNKNOWN

    async def _by_rest(self, task_id: str) -> Any:
        answer = await self._doors.get(f"/tasks/{task_id}")
        if answer.outcome is Outcome.ACKNOWLEDGED:
            return answer.body
        return None if answer.code == "404" else Outcome.UNKNOWN


class Receiver:
    """An HTTP server that is always there and takes every webhook. `told` has the ids that came in."""

    def __init__(self, recorder: Recorder) -> None:
        self.told: set[str] = set()
        self._recorder = recorder
        self._server: asyncio.Server

    async def open(self) -> str:
        """Listen; the URL to post to."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/ended"

    async def close(self) -> None:
        """Stop listening."""
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                begun = time.monotonic()
                head = await reader.readuntil(b"\r\n\r\n")
                headers = dict(line.split(": ", 1) for line in head.decode().lower().split("\r\n")[1:] if line)
                body = await reader.readexactly(int(headers["content-length"]))
                webhook_id, task = headers["webhook-id"], json.loads(body)
                task.pop("params", None)
                self._recorder.add(Delivery, begun, webhook_id=webhook_id, task=task)
                self.told.add(webhook_id)
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
                await writer.drain()
        writer.close()
