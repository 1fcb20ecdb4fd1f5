"""Handlers that use artifacts in a worker process, which imports them from here, or in a thread."""

from typing import Any

from taskyard import NotFound, RunningTask


def puts(task: RunningTask) -> list[Any]:
    """Put bytes and a file, and read both."""
    first = task.put_artifact("page.html", b"<p>" * task.params["count"]).value
    second = task.put_artifact("file", task.params["file"], "text/x-own").value
    read = task.read_artifact("page.html").value, task.read_artifact("file").value
    return [first.media_type, first.size_bytes, second.media_type, len(read[0]), read[1].decode()]


async def puts_async(task: RunningTask) -> list[Any]:
    """The same of an async function."""
    first = await task.put_artifact("page.html", b"<p>" * task.params["count"])
    second = await task.put_artifact("file", task.params["file"], "text/x-own")
    read = await task.read_artifact("page.html"), await task.read_artifact("file")
    return [first.media_type, first.size_bytes, second.media_type, len(read[0]), read[1].decode()]


def reads(task: RunningTask) -> int:
    """Read what is there, and return its size."""
    return len(task.read_artifact("data").value)


def fails(task: RunningTask) -> list[str]:
    """Say how it fails to put and to read what is not there."""
    said = []
    for call in (lambda: task.read_artifact("none"), lambda: task.put_artifact("x", "/no/such/file")):
        try:
            call()
        except (NotFound, OSError) as error:
            said.append(f"{type(error).__name__}: {error}")
    return said


def doubles(task: RunningTask) -> str:
    """Return twice what was given."""
    text: str = task.params["text"]
    return text * 2


def hands_on(task: RunningTask, *, a: str = "", b: str = "", c: str = "") -> Any:
    """Return a text as long as the task says, and put one as an artifact; else the lengths of what is handed to it."""
    if "size" in task.params:
        task.put_artifact("data", b"x" * task.params["size"])
        return "x" * task.params["size"]
    read = [len(task.read_artifact("data", of=name).value) for name in task.inputs]
    return [[len(a), len(b), len(c)], [len(each.value) for each in task.inputs.values()], read]


async def hands_on_async(task: RunningTask, *, a: str = "", b: str = "", c: str = "") -> Any:
    """The same of an async function."""
    if "size" in task.params:
        await task.put_artifact("data", b"x" * task.params["size"])
        return "x" * task.params["size"]
    read = [len(await task.read_artifact("data", of=name)) for name in task.inputs]
    return [[len(a), len(b), len(c)], [len(each.value) for each in task.inputs.values()], read]
