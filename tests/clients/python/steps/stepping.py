"""Handlers that take steps in a worker process, which imports them from here, or in a thread; and how one is run."""

import os
from datetime import timedelta
from typing import Any

from taskyard import Host, RetryPolicy, RunningTask

CHUNKS = 500
AGAIN = RetryPolicy(3, timedelta(milliseconds=1))


def worked(folder: str, name: str, result: Any = None) -> Any:
    """Note in a file that this was called, and return the result."""
    with open(os.path.join(folder, name), "a") as file:
        file.write("x")
    return result


async def worked_async(folder: str, name: str, result: Any = None) -> Any:
    """The same of an async function."""
    return worked(folder, name, result)


def plainly(task: RunningTask) -> list[Any]:
    """Take two steps, and fail between them at the first attempt."""
    folder = task.params["folder"]
    first = task.step("first", worked, folder, "first", {"a": [1, None]}).value
    if task.attempt == 1:
        raise RuntimeError("again")
    second = task.step("second", worked, folder, "second", result="x" * task.params.get("size", 1)).value
    return [first, len(second)]


async def awaited(task: RunningTask) -> list[Any]:
    """The same of an async function, with an async and a plain step."""
    folder = task.params["folder"]
    first = await task.step("first", worked_async, folder, "first", {"a": [1, None]})
    if task.attempt == 1:
        raise RuntimeError("again")
    second = await task.step("second", worked, folder, "second", result="x" * task.params.get("size", 1))
    return [first, len(second)]


def large(task: RunningTask) -> int:
    """Take a step whose result is as long as the task says, and fail after it at the first attempt."""
    text = task.step("long", worked, task.params["folder"], "long", "x" * task.params["size"]).value
    if task.attempt == 1:
        raise RuntimeError("again")
    return len(text)


def talks(task: RunningTask) -> None:
    """Take a step that says much."""

    def said() -> None:
        for _ in range(CHUNKS):
            task.emit("x" * 1_000)

    task.step("talk", said)


async def talks_async(task: RunningTask) -> None:
    """The same of an async function."""

    async def said() -> None:
        for _ in range(CHUNKS):
            await task.emit("x" * 1_000)

    await task.step("talk", said)


def dies(task: RunningTask) -> str:
    """Take a step, and have the worker process die after it at the first attempt."""
    done: str = task.step("first", worked, task.params["folder"], "first", "done").value
    if task.attempt == 1:
        os._exit(1)
    return done


async def run(yard, handler, codec=None, **params):
    """The result of a task of this handler, which may fail twice."""
    host = Host(host_id="host-1", codec=codec)
    host.action("work")(handler)
    yard.host(host)
    task = await yard.client.submit("work", params=params, retry_policy=AGAIN)
    await yard.until_ended(task)
    return await task.result()
