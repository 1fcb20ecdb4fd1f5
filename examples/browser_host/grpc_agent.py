"""An agent that signs guest books in Chromium tabs, over gRPC: `.venv/bin/python examples/browser_host/grpc_agent.py`.

`hosts.py` has the tabs. `rest_agent.py` does the same over REST.
"""

import argparse
import asyncio

from taskyard import Client, NewTask


def steps(tab: str, page: str, name: str) -> list[NewTask]:
    """The actions that sign the book of a tab. They are one batch, so that nobody's action comes in between."""
    of_tab = {
        "tab_id": tab,
        "target": f"tab:{tab}",  # one at a time, in this order
        "requires": [f"tab:{tab}"],  # by the host that owns it
        "on_target_failure": "continue",  # a failure leaves the tab to others
    }
    return [
        NewTask("navigate", params={"url": page}, **of_tab),
        NewTask("type", selector="#name", params={"text": name}, **of_tab),
        NewTask("click", selector="#sign", **of_tab),
        NewTask("snapshot", **of_tab),
    ]


async def main() -> None:
    """Sign the book of each tab, and print who stands in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tabs", nargs="*", default=["one", "shared"])
    parser.add_argument("--server", help="the gRPC server, 127.0.0.1:50051 by default")
    parser.add_argument("--page", default="http://127.0.0.1:8765/page.html")
    parser.add_argument("--name", default="Ada Lovelace")
    given = parser.parse_args()
    async with Client(given.server, agent_id="agent-grpc") as client:
        for tab in given.tabs:
            batch = await client.submit_batch(steps(tab, given.page, given.name))
            for task_id in batch.task_ids:
                task = await client.wait(task_id)
                if task.state != "done":
                    raise SystemExit(f"{task.action} in tab {tab}: {task.error}")
            guests = [element["text"] for element in task.result["elements"] if element["tag"] == "li"]
            print(f"{tab}: {', '.join(guests)}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
