"""An agent program: twenty parts at once, words as they come, a budget, a person in the middle.

Run `python examples/agent_program.py`, kill it whenever you like, and run it again: it goes on where it was.
"""

import asyncio

from taskyard import Client, Host

PART_TOKENS = 100
host = Host("localhost:50051", "host-7", slots=4)


async def model(task, prompt: str) -> str:
    """Stand for a language model: make a text of a prompt, say it word by word, and count the tokens."""
    words = f"This is what is known of {prompt}.".split()
    for word in words:
        await task.emit(f"{word} ")
        task.tokens_used = (task.tokens_used or 0) + 1
    await task.emit("\n")
    return " ".join(words)


@host.action()
async def study(task):
    count = task.params["parts"]
    outline = await task.step("outline", model, task, task.params["topic"])
    parts = []
    for number in range(count):
        prompt = f"part {number} of: {outline}"
        parts.append(await task.child(f"part-{number}", "part", params={"prompt": prompt}, token_limit=PART_TOKENS))
    await task.join(parts)
    report = await task.child("report", "report", inputs={part.name: part for part in parts})
    text = await report.result()
    await task.step("summary", model, task, f"{count} parts in {len(text):,} characters")
    if await task.ask("publish", "Publish the report?", choices=["yes", "no"]) == "no":
        return "not published"
    return f"published {len(text):,} characters"


@host.action()
async def part(task):
    return await model(task, task.params["prompt"])


@host.action()
async def report(task):
    """Make more of the parts than fits a message: it becomes an artifact, and whoever asks for the result gets it."""
    return "".join(each.value.ljust(100_000, ".") for each in task.inputs.values())


async def main():
    async with Client("localhost:50051", agent_id="my-agent") as client:
        working = asyncio.create_task(host.run())
        params = {"topic": "tides", "parts": 20}
        task = await client.submit("study", params=params, token_limit=500, unique_key="tides")
        print(f"To answer it: taskyard answer {task.id} publish yes", flush=True)
        async for chunk in task.output():
            print(chunk.data, end="", flush=True)
        print(await task.result())
        host.drain()
        await working


if __name__ == "__main__":
    asyncio.run(main())
