"""Handlers of worker processes that put and read artifacts."""

from taskyard import RunningTask


def plainly(task: RunningTask) -> list[object]:
    """Put one from a plain function."""
    put = task.put_artifact("notes.txt", b"from a worker").value
    return [put.media_type, task.read_artifact("notes.txt").value.decode()]


async def awaited(task: RunningTask) -> list[object]:
    """Put one from an async function."""
    put = await task.put_artifact("notes.txt", b"from a worker")
    return [put.media_type, (await task.read_artifact("notes.txt")).decode()]


def large(task: RunningTask) -> str:
    """Return a result that is too large for a payload."""
    return "x" * int(task.params["size"])
