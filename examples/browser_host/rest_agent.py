"""An agent that signs guest books in Chromium tabs, over REST: `.venv/bin/python examples/browser_host/rest_agent.py`.

`hosts.py` has the tabs. `grpc_agent.py` does the same over gRPC.
"""

import argparse
from typing import Any

import httpx


def steps(tab: str, page: str, name: str) -> list[dict[str, Any]]:
    """The actions that sign the book of a tab. They are one batch, so that nobody's action comes in between."""
    of_tab = {
        "tabId": tab,
        "target": f"tab:{tab}",  # one at a time, in this order
        "requires": [f"tab:{tab}"],  # by the host that owns it
        "onTargetFailure": "continue",  # a failure leaves the tab to others
    }
    return [
        {"action": "navigate", "params": {"url": page}, **of_tab},
        {"action": "type", "selector": "#name", "params": {"text": name}, **of_tab},
        {"action": "click", "selector": "#sign", **of_tab},
        {"action": "snapshot", **of_tab},
    ]


def main() -> None:
    """Sign the book of each tab, and print who stands in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tabs", nargs="*", default=["two", "shared"])
    parser.add_argument("--server", default="http://127.0.0.1:9867", help="the gateway (%(default)s)")
    parser.add_argument("--page", default="http://127.0.0.1:8765/page.html")
    parser.add_argument("--name", default="Grace Hopper")
    given = parser.parse_args()
    with httpx.Client(base_url=given.server, timeout=60, trust_env=False) as client:
        for tab in given.tabs:
            body = {"agentId": "agent-rest", "tasks": steps(tab, given.page, given.name)}
            batch = client.post("/tasks/batch", json=body).raise_for_status().json()
            for each in batch["tasks"]:
                task = ended(client, each["taskId"])
                if task["state"] != "done":
                    raise SystemExit(f"{task['action']} in tab {tab}: {task['error']}")
            guests = [element["text"] for element in task["result"]["elements"] if element["tag"] == "li"]
            print(f"{tab}: {', '.join(guests)}", flush=True)


def ended(client: httpx.Client, task_id: str) -> dict[str, Any]:
    """A task once it has ended. One call waits for a while only."""
    while True:
        answer = client.get(f"/tasks/{task_id}:wait").raise_for_status().json()
        if answer["ended"]:
            return answer["task"]


if __name__ == "__main__":
    main()
