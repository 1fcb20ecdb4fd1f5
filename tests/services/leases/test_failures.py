"""What a report of a failure may tell, and what an attempt that runs for too long is told (docs/rules.md, Retries)."""

from contextlib import nullcontext

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1.task_pb2 import Payload, RetryPolicy

CHARS = 8_000


async def fail(api, lease, **fields):
    return await api.report("FailTask", lease, error="broken", **fields)


async def test_code_and_traceback_are_shown_with_the_task(api):
    task_id = await api.submit()
    await fail(api, await api.claim(), code="gone", traceback="in crawl")
    task = await api.get(task_id)
    assert (task.error, task.code, task.traceback) == ("broken", "gone", "in crawl")


async def test_of_a_long_traceback_the_end_is_kept(api):
    task_id = await api.submit()
    await fail(api, await api.claim(), traceback="ü" * CHARS + "the end")
    assert (await api.get(task_id)).traceback == "ü" * (CHARS - 7) + "the end"


async def test_an_empty_traceback_is_none(api):
    task_id = await api.submit()
    await fail(api, await api.claim(), traceback="", code="")
    task = await api.get(task_id)
    assert not task.HasField("traceback")
    assert not task.HasField("code")


async def test_the_next_attempt_comes_when_the_host_asks_for_it(api):
    task_id = await api.submit(retry_policy=RetryPolicy(max_attempts=2, first_delay_ms=1))
    await fail(api, await api.claim(), retry_after_ms=90_000)
    await api.advance(89.5)
    assert await api.state(task_id) == "pending"
    for _ in range(3):
        await api.advance(0.5)
    again = await api.claim()
    assert again.task_id == task_id
    assert [attempt.number for attempt in again.task.attempts] == [1, 2]


@pytest.mark.parametrize(("ms", "state"), [(86_400_000, "pending"), (86_400_001, "running")])
async def test_it_is_a_day_away_at_most(api, ms, state):
    task_id = await api.submit(deadline=Timestamp(seconds=int(api.clock.now) + 1_000_000))
    lease = await api.claim()
    await api.report("StartTask", lease)
    with nullcontext() if state == "pending" else pytest.raises(grpc.aio.AioRpcError, match="retry_after_ms: must be"):
        await fail(api, lease, retry_after_ms=ms)
    assert await api.state(task_id) == state


async def test_an_output_is_shown_with_the_task(api):
    task_id = await api.submit()
    output = Payload(data=b"[9007199254740993]")
    await api.report("CompleteTask", await api.claim(), output=output)
    assert (await api.get(task_id)).output == output


@pytest.mark.parametrize("output", [Payload(data=b"{"), Payload(data=b"1", encoding="x" * 65)])
async def test_an_output_that_is_wrong_is_refused_and_the_task_goes_on(api, output):
    task_id = await api.submit()
    lease = await api.claim()
    with pytest.raises(grpc.aio.AioRpcError, match=r"output\.(data|encoding): must be"):
        await api.report("CompleteTask", lease, output=output)
    assert await api.state(task_id) == "assigned"


async def test_an_attempt_that_ran_for_too_long_has_lost_its_lease(api):
    task_id = await api.submit(run_timeout_ms=1_500)
    lease = await api.claim()
    await api.report("StartTask", lease)
    for _ in range(3):
        await api.advance(1)
    task = await api.get(task_id)
    assert (task.run_timeout_ms, task.error, task.code) == (1_500, "run timeout of 1500 ms exceeded", "timed_out")
    with pytest.raises(grpc.aio.AioRpcError, match="lease lost"):
        await api.report("CompleteTask", lease)
