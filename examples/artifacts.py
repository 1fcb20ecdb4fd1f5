"""A task that gets a file, leaves one, and has a result of any size: `python examples/artifacts.py`."""

import asyncio

from taskyard import Client, Host

host = Host("localhost:50051", "host-3")


@host.action()
async def report(task):
    notes = (await task.read_artifact("notes.txt")).decode()
    await task.put_artifact("report.html", f"<h1>{notes}</h1>".encode())
    return {"rows": ["a row"] * 100_000}


async def main():
    async with Client("localhost:50051", agent_id="my-agent") as client:
        working = asyncio.create_task(host.run())
        task = await client.submit("report", hold=True)
        await client.attach_artifact(task.id, "notes.txt", b"Rows of today")
        await client.resume(task.id)
        print(len((await task.result())["rows"]))
        for artifact in (await task.task()).artifacts:
            print(artifact.name, artifact.media_type, artifact.size_bytes)
        print((await client.read_artifact(task.id, "report.html")).decode())
        host.drain()
        await working


asyncio.run(main())
