"""An agent whose tasks share a limit and come after one another: `python examples/shares.py`, beside the host."""

import asyncio

from taskyard import Client


async def main():
    async with Client("localhost:50051", agent_id="my-agent") as client:
        await client.limits.put("site:*", max_inflight=3, per_second=5, burst=10)
        page = await client.submit("greet", params={"name": "page"}, concurrency_keys=["site:example.org"], hold=True)
        report = await client.submit("greet", params={"name": "report"}, after=[page], unique_key="report")
        again = await client.submit("greet", params={"name": "report"}, after=[page], unique_key="report")
        await client.resume(page.id)
        print(again.existing, await report.result())
        leftovers = await client.cancel_tasks(labels="site=shop", states=["queued", "pending"])
        print((await leftovers.wait()).done)


asyncio.run(main())
