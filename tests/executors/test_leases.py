"""The leases of the executor are renewed, can be lost, and are released when it stops (docs/rules.md, Tab executor)."""

import asyncio

from taskyard_server.core.errors import LeaseLost
from taskyard_server.core.reports import ReportKind
from tests.live import live
from tests.waiting import until


async def test_leases_are_renewed_while_their_requests_run(start_server, instance, soon, monkeypatch):
    monkeypatch.setattr("taskyard_server.executors.tab_executor.LEASE_SECS", 3.0)
    server = await start_server(instance)
    instance.hold()
    task = await server.submit()
    await soon(instance.arrived.get())
    lease = task.lease
    first_end = lease.expires_at
    await until(lambda: lease.expires_at != first_end)
    assert task.lease is lease
    assert lease.expires_at > first_end
    instance.release()
    await server.ended(task)
    assert task.deliveries == 1


async def test_a_result_that_arrives_after_the_lease_is_lost_is_dropped(server, monkeypatch, soon):
    """A request cannot always be ended in time; then its report is refused and changes nothing."""
    refused = asyncio.Event()
    report = server.engine.leases.report

    async def report_late(namespace, host_id, reports, patient):
        if reports[0].kind is ReportKind.COMPLETED:
            cancelling = asyncio.ensure_future(server.engine.tasks.cancel(namespace, reports[0].task_id, show=live))
            # The cancellation is in this turn of the event loop, so that the executor is told of it later.
            await asyncio.sleep(0)
            assert cancelling.done() is not server.engine.is_kept
        answer = report(namespace, host_id, reports, patient)
        if isinstance(answer.value[0], LeaseLost):
            refused.set()
        return await answer

    monkeypatch.setattr(server.engine.leases, "report", report_late)
    task = await server.run()
    await soon(refused.wait())
    assert (task.state, task.result, task.error) == ("cancelled", None, None)
    assert (await server.engine.admin.stats("default")).counters.late_reports == 1
    monkeypatch.undo()
    assert (await server.run()).state == "done"


async def test_a_task_that_runs_when_the_executor_stops_is_queued_again(server, instance, soon):
    instance.hold()
    task = await server.submit()
    request = await soon(instance.arrived.get())
    await server.stop()
    await soon(request.gone.wait())
    assert task.state == "queued"
    assert (await server.engine.admin.stats("default")).inflight == 0


async def test_a_fault_of_the_executor_fails_the_task_without_showing_internals(start_server):
    class Broken:
        async def resolve(self, _tab_id):
            raise RuntimeError("password=hunter2")

    server = await start_server(Broken())
    task = await server.run()
    assert (task.state, task.error) == ("failed", "executor error")
