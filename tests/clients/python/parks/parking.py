"""Handlers that park, in a worker process, which imports them from here, or elsewhere; and how one is hosted."""

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from taskyard import Host, RunningTask

RUNS_IN = ("loop", "thread", "process")


@dataclass
class Decision:
    """An answer."""

    go: bool
    amount: int = 1


def noted(folder: str, name: str) -> str:
    """Note in a file that this was called."""
    with open(os.path.join(folder, name), "a") as file:
        file.write("x")
    return name


def plainly(task: RunningTask) -> list[Any]:
    """Take a step, ask, sleep, and note that what is cleaned up is."""
    folder = task.params["folder"]
    try:
        task.emit("begun\n")
        first = task.step("first", noted, folder, "first").value
        said = task.ask("deploy", "Deploy?", type=Decision, default=Decision(go=False)).value
        assert isinstance(said, Decision)
        task.sleep(timedelta(minutes=1))
        return [first, said.go, said.amount]
    finally:
        noted(folder, "finally")
        task.emit("cleaned\n")


async def awaited(task: RunningTask) -> list[Any]:
    """The same of an async function."""
    folder = task.params["folder"]
    try:
        await task.emit("begun\n")
        first = await task.step("first", noted, folder, "first")
        said = await task.ask("deploy", "Deploy?", type=Decision, default=Decision(go=False))
        await task.sleep(timedelta(minutes=1))
        return [first, said.go, said.amount]
    finally:
        noted(folder, "finally")
        await task.emit("cleaned\n")


async def several(task: RunningTask) -> list[Any]:
    """Ask two things beside a step that takes its time."""
    return await asyncio.gather(
        task.ask("a", "A?"), task.step("slow", slow), task.ask("b", "B?", choices=["yes", "no"]), task.sleep(600)
    )


async def slow() -> str:
    """Take some turns of the loop."""
    for _ in range(100):
        await asyncio.sleep(0)
    return "slow"


def swallows(task: RunningTask) -> str:
    """Go on after the task is parked."""
    with suppress(BaseException):
        task.ask("deploy", "Deploy?")
    for call in (
        lambda: task.emit("more\n"),
        lambda: task.progress(0.5),
        lambda: task.step("late", slow),
        lambda: task.ask("other", "Other?"),
        lambda: task.put_artifact("late.txt", b""),
    ):
        try:
            call()
        except Exception:
            raise AssertionError("an exception that handlers swallow") from None
        except BaseException as error:
            noted(task.params["folder"], type(error).__name__)
    return "went on"


async def swallows_async(task: RunningTask) -> str:
    """The same of an async function."""
    with suppress(BaseException):
        await task.ask("deploy", "Deploy?")
    return swallows(task)


def host_of(handler: Any, runs_in: Literal["loop", "thread", "process"]) -> Host:
    """A host of the action `work`."""
    host = Host(host_id="host-1")
    host.action("work", runs_in=runs_in)(handler)
    return host
