"""Programs that type checkers must accept, with the types that they must find."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypedDict, assert_type

from taskyard import (
    Action,
    Client,
    Explanation,
    Limit,
    NewTask,
    Operation,
    OperationHandle,
    Outcome,
    RetryPolicy,
    Stopping,
    SyncClient,
    SyncOperationHandle,
    SyncTaskHandle,
    TaskFailed,
    TaskHandle,
    TaskState,
    as_completed,
    task_of,
)


@dataclass
class Page:
    """An input."""

    host: str


class Links(TypedDict):
    """An output."""

    found: list[str]


crawl = Action[Page, Links](
    "crawl",
    retry=RetryPolicy(max_attempts=3, first_delay=timedelta(seconds=1)),
    run_timeout=timedelta(seconds=30),
    deadline=lambda page: timedelta(minutes=len(page.host)),
    target=lambda page: f"site/{page.host}",
    labels={"kind": "crawl"},
    concurrency_keys=lambda page: [f"site:{page.host}"],
    unique_key=lambda page: page.host,
    on_conflict="replaceQueued",
)
count = Action[list[int], int]("count")
ping = Action[None, str]("ping")


async def pages() -> AsyncIterator[Page]:
    """Inputs that are made on the way."""
    yield Page("a")


async def agent() -> None:
    """An agent with asyncio."""
    async with Client(agent_id="ann") as client:
        assert_type(await client.run(crawl, Page("a")), Links)
        assert_type(await client.run(count, [1, 2], priority=3, retry=RetryPolicy(2)), int)
        assert_type(await client.run(ping, None, deadline=timedelta(seconds=5), cancel_on_exit=False), str)
        assert_type(await client.submit(crawl, Page("a"), when_full="wait"), TaskHandle[Links])
        assert_type(await client.submit("crawl", params={"host": "a"}), TaskHandle[Any])
        await client.submit(NewTask("crawl"), labels={"a": "b"})
        handle = client.handle("tsk_1", crawl)
        assert_type(handle, TaskHandle[Links])
        assert_type(await handle.result(timeout=3), Links)
        assert_type(handle.id, str)
        async with client.map(crawl, [Page("a")], max_outstanding=10, on_failure="cancel_rest") as outcomes:
            async for outcome in outcomes:
                assert_type(outcome, Outcome[Page, Links])
                assert_type(outcome.input.host, str)
                assert_type(outcome.result, Links)
        async with client.map(crawl, pages(), inputs={"page": handle, "other": "tsk_2"}) as streamed:
            async for each in streamed:
                assert_type(each.output, Links | None)
        async with client.map("crawl", [{"host": "a"}]) as plain:
            async for one in plain:
                assert_type(one.input, Mapping[str, Any])
        async for ended in as_completed([handle]):
            assert_type(ended, TaskHandle[Links])
        await client.submit_batch(
            [
                first := task_of(crawl, Page("a")),
                NewTask("other", after=[first, "tsk_2"], inputs={"page": first, "old": handle}),
            ]
        )
        await client.submit("report", after=[handle, await handle.task()], after_policy="ended", unique_while="queued")
        assert_type(await client.cancel("tsk_1"), TaskState)
        assert_type(await client.cancel("tsk_1", wait=timedelta(seconds=5)), Stopping)
        assert_type(await handle.cancel(wait=5), Stopping)
        assert_type(await client.pause("tsk_1", wait=5), Stopping)
        assert_type(await handle.explain(), Explanation)
        assert_type(await client.limits.put("site:*", max_inflight=3), Limit)
        assert_type(await client.cancel_tasks(labels="site=shop", states=["queued"]), OperationHandle)
        async for task in client.list(labels="site=shop", newest_first=True):
            assert_type(task.after_policy, Literal["success", "ended"] | None)
        await client.schedules.put("nightly", task_of(crawl, Page("a")), cron="0 3 * * *")


def blocking_agent() -> None:
    """The same without asyncio."""
    with SyncClient(agent_id="ann") as client:
        assert_type(client.run(crawl, Page("a")), Links)
        assert_type(client.submit(count, [1]), SyncTaskHandle[int])
        first = client.submit(count, [1])
        assert_type(client.submit(count, [1], inputs={"page": first, "other": first.task()}).result(), int)
        assert_type(client.handle("tsk_1", crawl), SyncTaskHandle[Links])
        assert_type(client.cancel("tsk_1"), TaskState)
        assert_type(client.cancel("tsk_1", wait=5), Stopping)
        assert_type(client.explain("tsk_1"), Explanation)
        assert_type(client.cancel_tasks(labels="site=shop"), SyncOperationHandle)
        assert_type(client.cancel_tasks(all=True).wait(), Operation)
        assert_type(client.limits.list(), list[Limit])
        with client.map(crawl, [Page("a")]) as outcomes:
            for outcome in outcomes:
                assert_type(outcome.result, Links)
        for ended in client.as_completed([client.submit(count, [1])]):
            assert_type(ended.result(), int)
        try:
            client.run("crawl", params={"host": "a"})
        except TaskFailed as error:
            assert_type((error.code, error.message, error.attempts), tuple[str | None, str, int])
