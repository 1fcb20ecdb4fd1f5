"""A runtime host: run `.venv/bin/python examples/host.py` beside `make up`. Ctrl-C lets it finish its tasks."""

import asyncio

from taskyard import Host, RunningTask

host = Host("localhost:50051", "host-1", slots=10)


@host.action("greet")
async def greet(task: RunningTask) -> dict[str, str]:
    await task.progress(0.5, "looking up the name")
    return {"greeting": f"Hello, {task.params['name']}!"}


if __name__ == "__main__":
    asyncio.run(host.run(handle_signals=True))
