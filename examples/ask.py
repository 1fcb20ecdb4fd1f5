"""A task that asks a person in the middle, and holds no slot until somebody answers: `python examples/ask.py`."""

import asyncio

from taskyard import Client, Host

host = Host("localhost:50051", "host-6")


def build(version: str) -> str:
    print("builds", version)
    return f"shop-{version}"


@host.action()
async def release(task):
    image = await task.step("build", build, task.params["version"])
    if await task.ask("deploy", f"Deploy {image}?", choices=["yes", "no"]) == "no":
        return "not deployed"
    await task.sleep(1, name="settle")
    return f"deployed {image}"


async def main():
    async with Client("localhost:50051", agent_id="my-agent") as client:
        working = asyncio.create_task(host.run())
        task = await client.submit("release", params={"version": "1.4"})
        async for event in task.events():
            if event.task.state == "parked":
                for asked in await task.questions():
                    print(asked.question.text, asked.question.choices)
                    await task.answer(asked.question_id, "yes")
        print(await task.result())
        for step in await task.steps():
            print(step.kind, step.name, step.result)
        host.drain()
        await working


asyncio.run(main())
