"""ExplainTask, notices and GetDemand as callers get them (docs/rules.md, Why a task waits, Demand)."""

import grpc

from taskyard.v1 import stats_pb2, task_pb2
from taskyard_server.conversion.payload import message_to_json
from taskyard_server.core.figures.demand import Pool
from taskyard_server.core.hosts import HostProfile
from tests.live import live

KIND = task_pb2.WaitReason.Kind


def explain(api, task_id):
    return api.tasks.ExplainTask(task_pb2.ExplainTaskRequest(task_id=task_id))


async def register(api, **profile):
    return await api.engine.hosts.register("default", "host", None, HostProfile(**profile), show=live)


async def test_every_reason_is_told_with_its_figures(start_api, clock):
    api = await start_api(clock=clock, max_per_agent_inflight=1)
    await api.submit()
    await api.claim()
    held = await api.submit(hold=True, not_before=None, target="site", requires=["gpu"])
    answer = await explain(api, held.task_id)
    assert [KIND.Name(reason.kind) for reason in answer.reasons] == ["held", "agent_limit", "no_host"]
    limit, host = answer.reasons[1:]
    assert (limit.name, limit.used, limit.limit) == ("ann", 1, 1)
    assert (host.name, list(host.missing)) == ("host", ["capability gpu"])
    assert not answer.runnable
    assert not answer.HasField("ahead")


async def test_a_task_that_waits_for_a_host_is_told_how_many_come_first(api):
    for _ in range(3):
        last = await api.submit()
    answer = await explain(api, last.task_id)
    assert message_to_json(answer) == {
        "taskId": last.task_id,
        "state": "queued",
        "runnable": False,
        "reasons": [{"kind": "no_host", "message": "no host is live", "missing": ["action click"]}],
        "ahead": 2,
    }


async def test_what_has_ended_waits_for_nothing_and_what_never_was_is_not_found(api, refused):
    submitted = await api.submit()
    await api.cancel(submitted.task_id)
    answer = await explain(api, submitted.task_id)
    assert message_to_json(answer) == {"taskId": submitted.task_id, "state": "cancelled", "runnable": False}
    assert (await refused(explain(api, "tsk_nope"))).status is grpc.StatusCode.NOT_FOUND


async def test_a_notice_is_shown_wherever_the_task_is_until_a_host_comes(start_api, clock, log_lines):
    api = await start_api(clock=clock, no_host_notice_secs=5, default_deadline_secs=1000)
    submitted = await api.submit(action="crawl")
    api.engine.admin.look_for_hosts()
    assert not (await api.get(submitted.task_id)).HasField("notice")
    clock.now += 5
    api.engine.admin.look_for_hosts()
    api.engine.admin.look_for_hosts()
    notice = "no live host offers the action crawl"
    assert (await api.get(submitted.task_id)).notice == notice
    assert [task.notice for task in (await api.list_tasks()).tasks] == [notice]
    queue = (await api.stats()).queue
    assert message_to_json(queue.noticed) == {"waiting": 1, "notices": {notice: 1}}
    assert [line["notice"] for line in log_lines if line["event"] == "tasks_without_host"] == [notice]
    await register(api)
    assert not (await api.get(submitted.task_id)).HasField("notice")
    assert not (await api.stats()).queue.HasField("noticed")


async def test_each_pool_shows_its_demand_by_name(api):
    api.pools += [Pool("crawlers", actions=frozenset({"crawl"})), Pool("everybody")]
    await api.submit(action="crawl")
    await api.submit(action="index")
    await register(api, actions=frozenset({"index"}))
    await api.engine.leases.claim("default", "host", 1, show=live)
    answer = await api.stats_stub.GetDemand(stats_pb2.GetDemandRequest())
    crawlers, everybody = answer.pools
    assert (crawlers.pool, crawlers.runnable, crawlers.inflight, crawlers.hosts) == ("crawlers", 1, 0, 0)
    assert (everybody.pool, everybody.runnable, everybody.inflight, everybody.hosts) == ("everybody", 1, 1, 1)
    assert crawlers.HasField("oldest_secs")


async def test_a_namespace_that_is_not_there_has_no_demand(api):
    api.pools += [Pool("everybody")]
    answer = await api.stats_stub.GetDemand(
        stats_pb2.GetDemandRequest(), metadata=[("taskyard-namespace", "elsewhere")]
    )
    assert message_to_json(answer.pools[0], zeros=True) == {
        "pool": "everybody",
        "runnable": 0,
        "inflight": 0,
        "freeCredit": 0,
        "hosts": 0,
    }
