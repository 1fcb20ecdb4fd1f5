"""One trace leads from a trigger to its task, its lease, the process that does the work, and the webhook.

The server, the host of the SDK, the child process and HTTP are real (docs/rules.md, Traces).
"""

import asyncio
import json
import subprocess
import sys

from taskyard import Client, Host
from tests.waiting import LIMIT_SECS

PRINTS_ITS_TRACE = "import os; print(os.environ['TRACEPARENT'], os.environ['TASKYARD_TRACE_ID'])"


async def test_one_trace_runs_from_the_trigger_to_the_webhook(up, hook, tmp_path):
    log = tmp_path / "taskyard.log"
    server = await up({"webhooks": {"allowPrivate": True}}, "--log-file", str(log))
    address = f"127.0.0.1:{server.grpc_port}"
    host = Host(address, "host")

    @host.action("report")
    async def report(task):
        child = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", PRINTS_ITS_TRACE], env=task.environment(), capture_output=True
        )
        return [task.traceparent, *child.stdout.decode().split()]

    working = asyncio.create_task(host.run())
    async with Client(address, agent_id="ann") as client:
        schedule = await client.schedules.create("report", interval="1s", callback_url=hook.url)
        await asyncio.wait_for(hook.came.wait(), LIMIT_SECS)
        await client.schedules.pause(schedule.id)
        triggers = [trigger async for trigger in client.schedules.triggers(schedule.id)]
        (trigger,) = [trigger for trigger in triggers if trigger.task_id == hook.posts[0]["taskId"]]
        task = await client.get(trigger.task_id)
    working.cancel()
    traceparent = trigger.traceparent
    trace_id = traceparent.split("-")[1]
    assert task.traceparent == traceparent
    assert task.result == [traceparent, traceparent, trace_id]
    assert f"\r\ntraceparent: {traceparent}\r\n" in hook.heads[0]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    traced = [line["event"].split("_") for line in lines if line.get("trace_id") == trace_id]
    assert [event for kind, event in traced if kind == "trigger"] == ["due", "claimed", "completed"]
    assert [event for kind, event in traced if kind == "task"] == ["queued", "assigned", "running", "done"]
    documented = {"timestamp", "level", "event", "trigger_id", "schedule_id", "trace_id"}
    assert all(documented <= set(line) for line in lines if line["event"].startswith("trigger_"))
