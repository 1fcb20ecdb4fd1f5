"""What tasks share and wait for, in a yard: keys with limits, rates by its clock, predecessors, unique keys."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from taskyard import (
    AlreadyExists,
    Conflict,
    KeyUsage,
    Limit,
    NewTask,
    NotFound,
    Stopping,
    SyncClient,
    TaskState,
    WaitKind,
)
from taskyard.testing import Yard
from taskyard.v1.task_pb2 import WaitReason


async def test_a_key_holds_tasks_to_its_limit(yard: Yard) -> None:
    most: dict[str, int] = {}
    running: dict[str, int] = {}

    async def fetch(task: Any) -> None:
        site = task.params["site"]
        running[site] = running.get(site, 0) + 1
        most[site] = max(most.get(site, 0), running[site])
        for _ in range(20):
            await asyncio.sleep(0)
        running[site] -= 1

    assert await yard.client.limits.put("site:*", max_inflight=2) == Limit("site:*", max_inflight=2)
    for number in range(12):
        site = "a" if number % 3 else "b"
        await yard.client.submit("fetch", params={"site": site}, concurrency_keys=[f"site:{site}"])
    yard.host({"fetch": fetch}, slots=10)
    await yard.advance(seconds=1)
    assert most == {"a": 2, "b": 2}
    assert [task.state async for task in yard.client.list()] == [TaskState.DONE] * 12


async def test_a_rate_lets_tasks_begin_by_the_time_of_the_yard(yard: Yard) -> None:
    begun: list[datetime] = []

    async def call(_: Any) -> None:
        begun.append(yard.now)

    await yard.client.limits.put("api", per_second=0.5, burst=2)
    yard.host({"call": call}, slots=10)
    for _ in range(5):
        await yard.client.submit("call", concurrency_keys=["api"])
    start = yard.now
    await yard.advance(seconds=20)
    assert [round((at - start).total_seconds()) for at in begun] == [0, 0, 2, 4, 6]


async def test_limits_are_listed_with_the_keys_in_use_and_deleted(yard: Yard) -> None:
    limits = yard.client.limits
    await limits.put("api", per_second=2.5)
    await limits.put("site:*", max_inflight=0)
    await yard.client.submit("fetch", concurrency_keys=["site:a"])
    assert await limits.list() == [Limit("api", per_second=2.5, burst=2), Limit("site:*", max_inflight=0)]
    assert [key async for key in limits.usage()] == [KeyUsage("site:a", 0, 1, "site:*")]
    assert await limits.delete("api") is None
    with pytest.raises(NotFound):
        await limits.delete("api")


async def test_tasks_come_after_others(yard: Yard) -> None:
    order: list[str] = []
    yard.host({name: lambda task: order.append(task.action) for name in ("fetch", "index", "report")}, slots=4)
    report, index = NewTask("report"), NewTask("index")
    fetched = await yard.client.submit("fetch", not_before=timedelta(minutes=5), deadline=timedelta(hours=1))
    indexed = await yard.client.submit(index, after=[fetched])
    reported = await yard.client.submit(report, after=[indexed.id, fetched])
    assert (indexed.state, reported.state) == (TaskState.PENDING, TaskState.PENDING)
    await yard.advance(minutes=4)
    assert order == []
    await yard.until_ended(reported)
    assert order == ["fetch", "index", "report"]
    assert (await reported.task()).after == (indexed.id, fetched.id)


async def test_tasks_of_a_batch_come_after_others_of_it(yard: Yard) -> None:
    order: list[str] = []
    yard.host({name: lambda task: order.append(task.action) for name in ("one", "two", "both")}, slots=4)
    one, two = NewTask("one"), NewTask("two")
    batch = await yard.client.submit_batch([one, two, NewTask("both", after=[one, two])])
    assert [outcome.state for outcome in batch.outcomes] == ["queued", "queued", "pending"]
    await yard.until_ended(batch.task_ids[2])
    assert sorted(order[:2]) == ["one", "two"]
    assert order[2] == "both"


async def test_what_comes_after_a_failure_is_cancelled_unless_it_only_waits_for_the_end(yard: Yard) -> None:
    def fetch(_: Any) -> None:
        raise ValueError("no such page")

    yard.host({"fetch": fetch, "report": lambda _: None})
    fetched = await yard.client.submit("fetch", not_before=timedelta(seconds=1))
    strict = await yard.client.submit("report", after=[fetched])
    lenient = await yard.client.submit("report", after=[fetched], after_policy="ended")
    assert (await yard.until_ended(lenient)).state == "done"
    ended = await yard.until_ended(strict)
    assert (ended.state, ended.error) == ("cancelled", f"predecessor {fetched.id} failed")


async def test_results_are_handed_to_the_tasks_that_have_them_as_inputs(yard: Yard) -> None:
    def fetch(task: Any) -> dict[str, Any]:
        return {"url": task.params["url"]}

    def report(_: Any, *, one: dict[str, str], two: dict[str, str]) -> list[str]:
        return [one["url"], two["url"]]

    yard.host({"fetch": fetch, "report": report})
    one = NewTask("fetch", {"url": "a"})
    two = await yard.client.submit("fetch", params={"url": "b"})
    batch = await yard.client.submit_batch([one, NewTask("report", inputs={"one": one, "two": two})])
    assert (await yard.until_ended(batch.task_ids[1])).result == ["a", "b"]


async def test_a_unique_key_keeps_a_task_from_being_there_twice(yard: Yard) -> None:
    first = await yard.client.submit("report", unique_key="daily")
    again = await yard.client.submit("report", unique_key="daily")
    assert (again.id, again.existing, first.existing) == (first.id, True, False)
    with pytest.raises(AlreadyExists):
        await yard.client.submit("report", unique_key="daily", on_conflict="reject")
    newer = await yard.client.submit("report", unique_key="daily", on_conflict="replaceQueued")
    assert not newer.existing
    assert (await first.task()).state == "cancelled"
    batch = await yard.client.submit_batch([NewTask("report", unique_key="daily"), NewTask("report")])
    assert [outcome.existing for outcome in batch.outcomes] == [True, False]


async def test_who_leaves_a_task_that_was_there_before_does_not_cancel_it(yard: Yard) -> None:
    first = await yard.client.submit("report", unique_key="daily")
    running = asyncio.create_task(yard.client.run("report", unique_key="daily"))
    # What a client sends is answered in order.
    await yard.client.stats()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with yard.client.map("report", [{}, {}], unique_key="daily"):
        await yard.client.stats()
    assert (await first.task()).state == "queued"


async def test_a_cancel_waits_until_nothing_runs_any_more(yard: Yard) -> None:
    stopped = asyncio.Event()

    async def work(_: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(20):
                await asyncio.sleep(0)
            stopped.set()

    yard.host({"work": work})
    task = await yard.client.submit("work")
    await yard.advance(seconds=1, wait=False)
    assert await task.cancel(wait=timedelta(seconds=10)) is Stopping.RELEASED
    assert stopped.is_set()
    idle = await yard.client.submit("nobody")
    assert await yard.client.cancel(idle.id, wait=1) is Stopping.NOT_RUNNING
    with pytest.raises(Conflict):
        await yard.client.cancel(idle.id, wait=1)
    with pytest.raises(ValueError, match="wait: is from 0 to 60 s, not 61 s"):
        await yard.client.cancel(idle.id, wait=61)


async def test_a_pause_waits_too(yard: Yard) -> None:
    async def work(_: Any) -> None:
        await asyncio.Event().wait()

    yard.host({"work": work})
    task = await yard.client.submit("work")
    await yard.advance(seconds=1, wait=False)
    assert await yard.client.pause(task.id, wait=10) is Stopping.RELEASED
    assert (await task.task()).state == "paused"


async def test_a_target_goes_on_after_a_failure_if_the_task_says_so(yard: Yard) -> None:
    def work(task: Any) -> None:
        if task.params.get("fails"):
            raise ValueError("no")

    yard.host({"work": work})
    await yard.client.submit("work", params={"fails": True}, target="t", on_target_failure="continue")
    second = await yard.client.submit("work", params={}, target="t")
    assert (await yard.until_ended(second)).state == "done"


def test_every_kind_of_wait_of_the_api_has_a_name() -> None:
    names = {name for name, _ in WaitReason.Kind.items() if name.islower()} - {"unspecified"}
    assert {kind.value for kind in WaitKind} == names | {"other"}


async def test_it_is_explained_why_a_task_waits(yard: Yard) -> None:
    first = await yard.client.submit("fetch")
    held = await yard.client.submit("report", after=[first], hold=True)
    found = await held.explain()
    assert (found.task_id, found.state, found.runnable, found.ahead) == (held.id, "pending", False, None)
    reasons = {reason.kind: reason for reason in found.reasons}
    assert {WaitKind.HELD, WaitKind.AFTER, WaitKind.NO_HOST} <= reasons.keys()
    assert reasons[WaitKind.AFTER].task_ids == (first.id,)
    assert str(found).splitlines()[0] == f"{held.id} is pending:"
    with pytest.raises(NotFound):
        await yard.client.explain("tsk_unknown")


async def test_weights_and_shares_of_agents(yard: Yard) -> None:
    agents = yard.client.agents
    assert (await agents.put("team-a/*", 3)).weight == 3
    assert [(each.pattern, each.weight, each.configured) for each in await agents.list()] == [("team-a/*", 3, False)]
    await yard.client.submit("fetch", agent_id="team-a/x")
    await yard.client.submit("fetch", agent_id="bob")
    shares = {each.agent_id: each async for each in yard.client.fairness()}
    assert {name: share.weight for name, share in shares.items()} == {"bob": 1, "team-a/x": 3}
    assert await agents.delete("team-a/*") is None
    assert await agents.list() == []
    assert list(await yard.client.demand()) == []


async def test_stats_tell_what_waits_for_keys_and_others(yard: Yard) -> None:
    await yard.client.limits.put("api", max_inflight=0)
    first = await yard.client.submit("call", concurrency_keys=["api"])
    await yard.client.submit("call", after=[first])
    queue = (await yard.client.stats()).queue
    assert (queue.waiting_for_keys, queue.keys, queue.after_others) == (1, {"api": 1}, 1)


def test_the_blocking_client_has_all_of_it(sync_yard: Any) -> None:
    client: SyncClient = sync_yard.client
    client.limits.put("api", max_inflight=1)
    assert client.limits.list() == [Limit("api", max_inflight=1)]
    first = client.submit("call", concurrency_keys=["api"], unique_key="k")
    assert client.submit("call", unique_key="k").existing
    second = client.submit("call", after=[first], labels={"site": "shop"})
    assert [key.key for key in client.limits.usage()] == ["api"]
    assert client.agents.put("bob", 2).weight == 2
    assert WaitKind.AFTER in {reason.kind for reason in second.explain().reasons}
    assert client.cancel(first.id, wait=1) is Stopping.NOT_RUNNING
    assert [task.state for task in client.list(labels="site=shop")] == ["cancelled"]
    assert [share.agent_id for share in client.fairness()] == []
