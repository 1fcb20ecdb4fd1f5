"""Makes the small store of a release, which later versions must read.

`python -m tests.store.make_released_yard tests/store/yards/v0.3.0.db` made that of 0.3.0. It has a bit of everything:
tasks that wait, run, are paused, held, retried, ended; a target with a stopping lease; hosts, schedules with a trigger,
agents, a webhook's task, two namespaces. The namespace `added` has what came with 0.3.0.
"""

import asyncio
import sys

from taskyard_server.cadence import parse_cron, parse_interval
from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.core.queue.keys import KeyLimit
from taskyard_server.core.reports import Report, ReportKind
from taskyard_server.core.schedules.schedule import ScheduleSpec
from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.core.streams import Hello
from taskyard_server.core.task import Submission
from taskyard_server.core.task_options import AfterPolicy, IdempotencyKey, OnTargetFailure, TaskExtras, TaskOptions
from taskyard_server.engine.engine import Engine
from taskyard_server.store.sqlite.store import SqliteStore
from tests.live import live

NS = "default"
ADDED = "added"
FAR = 86_400.0 * 365 * 50


async def make(path: str) -> None:
    """Make the store."""
    engine = Engine(Limits(), store=SqliteStore(path, ballast_bytes=0))
    await engine.open()
    until = engine.now() + FAR

    async def submit(action: str, namespace: str = NS, **options):
        submission = Submission(
            "ann", action, "tab", "e1", b"params", 3, until, TaskOptions(**options) if options else TaskOptions()
        )
        return await engine.tasks.submit(namespace, submission, show=live)

    await submit("waits", labels=(("a", "b"),), requires=frozenset({"gpu"}), project="p")
    await submit("held", hold=True, key=IdempotencyKey("key", b"print"))
    await submit("later", not_before=until - 1)
    await submit("elsewhere", namespace="other")
    await engine.hosts.register(NS, "unary", "Unary", HostProfile(actions=frozenset({"runs", "paused"})), show=live)
    await submit("runs", token_limit=100, traceparent="00-" + "1" * 32 + "-" + "2" * 16 + "-01")
    await submit("paused")
    runs, paused = await engine.leases.claim(NS, "unary", 2, 60, show=list)
    await report(engine, "unary", runs, ReportKind.STARTED)
    await report(engine, "unary", runs, ReportKind.PROGRESS, b"half")
    await engine.tasks.pause(NS, paused.task.id, show=live)
    await stopping_and_retried(engine, submit)
    spec = ScheduleSpec(parse_interval("1h"), "UTC", Submission("ann", "scheduled"))
    await engine.schedules.create(NS, "hourly", spec, show=live)
    await engine.schedules.create(NS, "nightly", spec._replace(cadence=parse_cron("0 3 * * *", "UTC")), show=live)
    await engine.schedules.trigger(NS, "hourly", "key", None, show=live)
    await added(engine, submit)
    await engine.admin.close(built_in_only=True)
    await engine.release()


async def added(engine: Engine, submit) -> None:
    """Fields of tasks, rules by pattern and limits of a namespace that 0.2.0 had not."""
    await engine.namespaces.create(ADDED, {"max_inflight": 7})
    await engine.rules.put_limit(ADDED, "site:*", KeyLimit(3, 5.0, 10))
    await engine.rules.put_weight(ADDED, "ann", 4)
    typed = await submit("typed", ADDED, run_timeout_secs=30.0, parent_id="tsk_parent", input=b"input")
    keyed = TaskExtras(("site:a", "site:b"), unique_key="daily", on_target_failure=OnTargetFailure.CONTINUE)
    await submit("keyed", ADDED, target="door", extras=keyed)
    await submit("element", ADDED, extras=TaskExtras(selector="#btn"))
    await submit("after", ADDED, extras=TaskExtras(after=(typed.id,), after_policy=AfterPolicy.ENDED))
    await engine.hosts.register(ADDED, "h", "h", HostProfile(actions=frozenset({"fails"})), show=live)
    await submit("fails", ADDED, retry=RetryPolicy(max_attempts=3, first_delay_secs=FAR / 100, max_delay_secs=FAR / 50))
    (lease,) = await engine.leases.claim(ADDED, "h", 1, 60, show=list)
    failed = Report(ReportKind.FAILED, lease.task.id, lease.token, None, error="no", code="e1", traceback="in crawl")
    await engine.leases.report(ADDED, "h", [failed])


async def stopping_and_retried(engine: Engine, submit) -> None:
    """A target whose lease was cancelled while its host works, an attempt that is retried, and tasks that ended."""
    hello = Hello("streams", "one", HostProfile(actions=frozenset({"serial", "retried", "done", "failed"})), slots=4)
    session, _ = await engine.hosts.connect(NS, hello, lambda: None, show=live)
    await engine.hosts.give_credit(session, 4)
    serial = await submit("serial", target="lock")
    await submit("retried", retry=RetryPolicy(max_attempts=3, first_delay_secs=FAR / 100, max_delay_secs=FAR / 50))
    await submit("done", batch_id=None, callback_url="http://127.0.0.1:9/hook")
    await submit("failed")
    await engine.tasks.list_tasks(NS, TaskFilter(), 0, 1)
    leases = session.next_leases(4)
    assert len(leases) == 4
    for lease in leases:
        session.mark_sent(lease)
        await report(engine, "streams", lease, ReportKind.STARTED)
    by_action = {lease.task.action: lease for lease in leases}
    await report(engine, "streams", by_action["retried"], ReportKind.FAILED, error="try again")
    await report(engine, "streams", by_action["done"], ReportKind.COMPLETED, b"result")
    await report(engine, "streams", by_action["failed"], ReportKind.FAILED, error="no", code="e1")
    await engine.tasks.cancel(NS, serial.id, show=live)
    await submit("serial", target="lock")


async def report(engine: Engine, host: str, lease, kind: ReportKind, payload=None, **fields) -> None:
    await engine.leases.report(NS, host, [Report(kind, lease.task.id, lease.token, payload, **fields)])


if __name__ == "__main__":
    asyncio.run(make(sys.argv[1]))
