"""What worker processes run in tests: they import it by its name."""

import asyncio
import ctypes
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from opentelemetry import trace

from taskyard import Client, SyncClient
from taskyard.action import Action
from taskyard.current import current_task
from taskyard.hosting.failing import NotRetryable, Retry
from taskyard.hosting.running_task import RunningTask


@dataclass
class Page:
    url: str
    serial: int = 0


@dataclass
class Links:
    pid: int
    serial: int


crawl = Action[Page, Links]("crawl")


def fetch(page: Page, task: RunningTask) -> Links:
    assert task.input is page
    return Links(os.getpid(), page.serial + 1)


def pid(_: RunningTask) -> int:
    return os.getpid()


def entered_and_waits(task: RunningTask) -> int:
    """Say that it runs, then wait until a file is there."""
    task.progress(message=str(os.getpid()))
    while not Path(task.params["file"]).exists():
        time.sleep(0.01)
    return os.getpid()


async def reports(task: RunningTask) -> dict[str, Any]:
    task.tokens_used = 41
    await task.progress(0.5, "half way", {"page": 2})
    task.tokens_used = 42
    current = current_task.get()
    assert current is not None
    return {"checkpoint": task.checkpoint, "parent of what it submits": current.id}


def fails(_: RunningTask) -> None:
    raise KeyError("no such thing")


def wants_another_attempt(_: RunningTask) -> None:
    raise Retry("busy", after=timedelta(seconds=90))


def wants_no_other(_: RunningTask) -> None:
    raise NotRetryable("no such page", code="gone")


DEATHS = {
    "segfault": (lambda: ctypes.string_at(0), "it was killed by SIGSEGV (signal 11)"),
    "kill": (lambda: os.kill(os.getpid(), signal.SIGKILL), "it was killed by SIGKILL (signal 9). So does Linux where"),
    "abort": (os.abort, "it was killed by SIGABRT (signal 6)"),
    "os._exit": (lambda: os._exit(4), "it exited with code 4"),
    "sys.exit": (lambda: sys.exit(3), "the handler called sys.exit(3)"),
    "SIGTERM from elsewhere": (lambda: os.kill(os.getpid(), signal.SIGTERM), "it was killed by SIGTERM (signal 15)"),
}


def dies(task: RunningTask) -> None:
    DEATHS[task.params["how"]][0]()


def comes_back_from_a_fork(_: RunningTask) -> str:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return "parent" if child else "child"


def interrupts(_: RunningTask) -> None:
    raise KeyboardInterrupt


def holds_the_interpreter(task: RunningTask) -> None:
    """A regular expression that takes longer than the universe is old."""
    task.progress(message=str(os.getpid()))
    re.match(r"(a+)+$", "a" * 60 + "b")


def ignores_sigterm(task: RunningTask) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    task.progress(message=str(os.getpid()))
    while True:
        threading.Event().wait()


def cleans_up(task: RunningTask) -> None:
    try:
        task.progress(message=str(os.getpid()))
        threading.Event().wait()
    finally:
        Path(task.params["file"]).write_text(f"cancelled: {task.cancelled}")


async def cleans_up_async(task: RunningTask) -> None:
    try:
        await task.progress(message=str(os.getpid()))
        await asyncio.Event().wait()
    finally:
        await asyncio.to_thread(Path(task.params["file"]).write_text, f"cancelled: {task.cancelled}")


def starts_a_child(task: RunningTask) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    task.progress(message=str(child.pid))
    re.match(r"(a+)+$", "a" * 60 + "b")


def logs(_: RunningTask) -> None:
    logging.getLogger("of.the.handler").info("said in %s", "the worker", extra={"page": 1})
    print("printed in the worker")


@asynccontextmanager
async def resources():
    yield {"opened_by": os.getpid()}


@asynccontextmanager
async def broken_resources():
    raise OSError("no database")
    yield


async def notes_its_process(task: RunningTask, call_next: Any) -> Any:
    return {"in": os.getpid(), "result": await call_next(task)}


def sees_its_state(task: RunningTask) -> dict[str, int]:
    return {"opened_by": task.state.opened_by, "in": os.getpid()}


def trace_id(_: RunningTask) -> str:
    return trace.format_trace_id(trace.get_current_span().get_span_context().trace_id)


def computes(task: RunningTask) -> int:
    """Compute in pure Python for so many seconds of processor time."""
    end, rounds = time.thread_time() + task.params["secs"], 0
    while time.thread_time() < end:
        rounds += sum(range(1_000)) > 0
    return rounds


def address_of(task: RunningTask) -> dict[str, Any]:
    return {"address": task.params["address"], "namespace": task.params["namespace"], "agent_id": "child"}


async def submits_async(task: RunningTask) -> str:
    async with Client(**address_of(task)) as client:
        return (await client.submit("child")).id


def submits(task: RunningTask) -> str:
    with SyncClient(**address_of(task)) as client:
        return client.submit("child").id
