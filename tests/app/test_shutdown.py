"""Drain and shutdown of the real process (docs/rules.md, Drain and shutdown); with a store: test_restart.py."""

import asyncio
import json
import signal
import time

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from taskyard.v1 import admin_pb2, stats_pb2, task_pb2
from tests.waiting import LIMIT_SECS

ENDLESS_MS = 600_000
ALLOW_PRIVATE = {"webhooks": {"allowPrivate": True}}
STOP_SECS = 8
"""Enough for a stop that waits for no task, and much less than any grace period."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_a_running_task_finish_and_ends_the_process_with_0(up, number):
    server = await up()
    await server.start_task(600)
    server.signal(number)
    (draining,) = await server.logged("draining")
    assert draining["inflight"] == 1
    assert await server.exited() == 0
    assert server.events("draining", "task_done", "task_paused", "stopped") == ["draining", "task_done", "stopped"]


async def test_a_signal_ends_an_idle_process_at_once_with_0(up):
    server = await up()
    server.signal(signal.SIGTERM)
    assert await server.exited(STOP_SECS) == 0
    assert server.events("draining", "stopped") == ["draining", "stopped"]
    assert server.noise == []


async def test_a_draining_server_is_not_healthy_but_answers_reads(up):
    server = await up()
    assert await server.health() == "SERVING"
    assert [await server.probe(path) for path in ("/healthz", "/readyz")] == [200, 200]
    task_id = await server.start_task(ENDLESS_MS)
    server.signal(signal.SIGTERM)
    await server.logged("draining")
    services = ("", "taskyard.v1.TaskService", "taskyard.v1.AdminService")
    assert [await server.health(service) for service in services] == ["NOT_SERVING"] * 3
    assert [await server.probe(path) for path in ("/healthz", "/readyz")] == [200, 503]
    assert (await server.get(task_id)).state == task_pb2.Task.running
    assert (await server.stats.GetStats(stats_pb2.GetStatsRequest())).queue.total_inflight == 1
    assert "taskyard_tasks_inflight 1.0" in await server.metrics()


async def test_a_draining_server_refuses_submits_as_unavailable(up):
    server = await up()
    await server.start_task(ENDLESS_MS)
    server.signal(signal.SIGTERM)
    await server.logged("draining")
    request = task_pb2.SubmitTaskRequest(agent_id="ann", action="click", tab_id="t1")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await server.tasks.SubmitTask(request, metadata=(("x-taskyard-rest", "1"),))
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    trailers = dict(tuple(refused.value.trailing_metadata()))
    assert trailers["x-http-status"] == "503"
    body = json.loads(trailers["x-error-json"])
    assert (body["code"], body["retryable"]) == ("unavailable", True)
    info, retry = status_pb2.Status.FromString(trailers["grpc-status-details-bin"]).details
    reason = error_details_pb2.ErrorInfo()
    assert info.Unpack(reason)
    assert reason.reason == "UNAVAILABLE"
    assert retry.Is(error_details_pb2.RetryInfo.DESCRIPTOR)


@pytest.mark.memory_store
async def test_a_draining_server_starts_no_queued_task_and_cancels_it(up):
    server = await up({"scheduler": {"workerCount": 1}})
    running = await server.start_task(600)
    queued = [await server.submit() for _ in range(2)]
    server.signal(signal.SIGTERM)
    assert await server.exited() == 0
    cancelled = await server.logged("task_cancelled", 2)
    assert [(line["task_id"], line["error"]) for line in cancelled] == [
        (task_id, "scheduler shutdown") for task_id in queued
    ]
    assert [line["task_id"] for line in await server.logged("task_assigned")] == [running]


async def test_a_task_that_runs_after_the_grace_period_is_paused(up):
    server = await up(SHUTDOWN_GRACE_PERIOD_SECONDS="1")
    task_id = await server.start_task(ENDLESS_MS)
    server.signal(signal.SIGTERM)
    (draining,) = await server.logged("draining")
    began = time.monotonic()
    assert draining["grace_secs"] == 1.0
    (paused,) = await server.logged("task_paused")
    assert time.monotonic() - began > 0.8
    assert (paused["task_id"], paused["error"]) == (task_id, "Job was interrupted by user")
    assert await server.exited(STOP_SECS) == 0
    assert server.events("task_paused", "task_done", "task_failed", "stopped") == ["task_paused", "stopped"]


async def test_a_task_that_ends_during_the_drain_is_posted(up, hook):
    server = await up(ALLOW_PRIVATE)
    task_id = await server.start_task(600, callback_url=hook.url)
    server.signal(signal.SIGTERM)
    assert await server.exited() == 0
    assert server.events("draining", "task_done", "stopped") == ["draining", "task_done", "stopped"]
    assert [(post["taskId"], post["state"], post["result"]["success"]) for post in hook.posts] == [
        (task_id, "done", True)
    ]


@pytest.mark.memory_store
async def test_tasks_that_end_with_the_server_are_posted_before_it_stops(up, hook):
    server = await up({"scheduler": {"workerCount": 1}, **ALLOW_PRIVATE})
    await server.start_task(600)
    queued = [await server.submit(callback_url=hook.url) for _ in range(2)]
    server.signal(signal.SIGTERM)
    assert await server.exited() == 0
    assert {post["taskId"]: (post["state"], post["error"]) for post in hook.posts} == dict.fromkeys(
        queued, ("cancelled", "scheduler shutdown")
    )
    assert len(await server.logged("webhook_delivered", 2)) == 2


async def test_a_delivery_that_is_under_way_at_the_stop_is_finished(up, hook):
    server = await up(ALLOW_PRIVATE)
    hook.opened.clear()
    task_id = await server.start_task(300, callback_url=hook.url)
    server.signal(signal.SIGTERM)
    await server.logged("task_done")
    await hook.came.wait()
    hook.opened.set()
    assert await server.exited() == 0
    (delivered,) = await server.logged("webhook_delivered")
    assert delivered["task_id"] == task_id
    assert server.events("webhook_delivered", "stopped") == ["webhook_delivered", "stopped"]


async def test_a_paused_task_is_not_posted(up, hook):
    server = await up({**ALLOW_PRIVATE, "shutdownGracePeriodSeconds": 0})
    await server.start_task(ENDLESS_MS, callback_url=hook.url)
    server.signal(signal.SIGTERM)
    assert await server.exited(STOP_SECS) == 0
    assert len(await server.logged("task_paused")) == 1
    assert hook.posts == []


async def test_a_second_signal_ends_the_server_at_once(up):
    server = await up()
    await server.start_task(ENDLESS_MS)
    server.signal(signal.SIGTERM)
    (draining,) = await server.logged("draining")
    assert draining["grace_secs"] == 300.0
    server.signal(signal.SIGTERM)
    await server.exited(STOP_SECS)
    assert len(await server.logged("task_paused")) == 1


@pytest.mark.memory_store
async def test_a_call_that_waits_for_a_task_is_answered_when_the_server_stops(up):
    server = await up({"scheduler": {"workerCount": 1}})
    await server.start_task(500)
    queued = await server.submit()
    waiting = asyncio.ensure_future(server.tasks.WaitTask(task_pb2.WaitTaskRequest(task_id=queued, timeout_ms=60_000)))
    await server.get(queued)
    server.signal(signal.SIGTERM)
    answer = await asyncio.wait_for(waiting, LIMIT_SECS)
    assert answer.ended
    assert (answer.task.state, answer.task.error) == (task_pb2.Task.cancelled, "scheduler shutdown")
    assert await server.exited(STOP_SECS) == 0


# Drain by call


async def test_a_drain_call_answers_at_once_and_ends_the_process_after_the_last_task(up):
    server = await up()
    await server.start_task(600)
    before = time.time()
    answer = await server.admin.DrainServer(admin_pb2.DrainServerRequest(grace_period_secs=60))
    assert (answer.draining, answer.inflight) == (True, 1)
    assert before + 59 < answer.deadline.ToNanoseconds() / 1e9 < time.time() + 61
    assert server.events("task_done") == []
    assert await server.exited() == 0
    assert server.events("draining", "task_done", "stopped") == ["draining", "task_done", "stopped"]


async def test_a_drain_call_without_a_grace_period_takes_the_configured_one(up):
    server = await up({"shutdownGracePeriodSeconds": 120})
    await server.start_task(ENDLESS_MS)
    before = time.time()
    answer = await server.admin.DrainServer(admin_pb2.DrainServerRequest())
    assert before + 119 < answer.deadline.ToNanoseconds() / 1e9 < time.time() + 121


async def test_a_drain_call_without_grace_pauses_running_tasks(up):
    server = await up()
    task_id = await server.start_task(ENDLESS_MS)
    await server.admin.DrainServer(admin_pb2.DrainServerRequest(grace_period_secs=0))
    assert await server.exited(STOP_SECS) == 0
    (paused,) = await server.logged("task_paused")
    assert (paused["task_id"], paused["error"]) == (task_id, "Job was interrupted by user")


async def test_a_repeated_drain_call_can_lengthen_the_grace_period(up):
    server = await up()
    await server.start_task(1_500)
    await server.admin.DrainServer(admin_pb2.DrainServerRequest(grace_period_secs=1))
    await server.admin.DrainServer(admin_pb2.DrainServerRequest(grace_period_secs=60))
    assert await server.exited() == 0
    assert server.events("task_done", "task_paused") == ["task_done"]


async def test_open_streams_of_submissions_do_not_delay_the_end(up):
    server = await up()
    streams = [server.tasks.SubmitTasks() for _ in range(3)]
    request = task_pb2.SubmitTaskRequest(agent_id="ann", action="train")
    for stream in streams[:2]:
        await stream.write(task_pb2.SubmitTasksRequest(tasks=[request]))
        assert (await stream.read()).outcomes[0].accepted.task_id
    server.signal(signal.SIGTERM)
    await server.logged("draining")
    for stream in streams:
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await stream.read()
        assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
        assert ended.value.details() == "the server shuts down"
    assert await server.exited(STOP_SECS) == 0
