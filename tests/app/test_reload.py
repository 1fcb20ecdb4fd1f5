"""The running process reloads its configuration on SIGHUP, by its watcher, and by call."""

import asyncio
import json
import signal

import grpc
import pytest

from taskyard.v1 import admin_pb2, stats_pb2, task_pb2


async def limits(server):
    config = (await server.stats.GetStats(stats_pb2.GetStatsRequest())).config
    return config.max_queue_size, config.max_inflight


def rewrite(tmp_path, **scheduler):
    (tmp_path / "taskyard.json").write_text(json.dumps({"scheduler": scheduler}))


async def test_sighup_reloads_the_file_and_logs_what_changed(up, tmp_path):
    server = await up({"scheduler": {"maxQueueSize": 7}})
    assert await limits(server) == (7, 20)
    rewrite(tmp_path, maxQueueSize=8, maxInflight=0)
    server.signal(signal.SIGHUP)
    (line,) = await server.logged("config_reloaded")
    assert line["changed"] == {"scheduler.maxQueueSize": {"old": 7, "new": 8}}
    assert await limits(server) == (8, 20)


async def test_sighup_with_a_broken_file_is_logged_and_changes_nothing(up, tmp_path):
    server = await up({"scheduler": {"maxQueueSize": 7}})
    rewrite(tmp_path, maxQueueSize=-8)
    server.signal(signal.SIGHUP)
    (line,) = await server.logged("config_reload_failed")
    assert line["error"].startswith("scheduler.maxQueueSize: ")
    assert await limits(server) == (7, 20)
    answer = await server.admin.GetConfig(admin_pb2.GetConfigRequest())
    assert answer.error == line["error"]


async def test_sighup_without_a_file_leaves_the_server_as_it_is(up):
    server = await up()
    server.signal(signal.SIGHUP)
    assert await limits(server) == (1000, 20)
    server.signal(signal.SIGTERM)
    assert await server.exited() == 0


async def test_the_watcher_reloads_a_changed_file(up, tmp_path):
    server = await up({"scheduler": {"watcherIntervalSec": 0.05, "maxQueueSize": 7}})
    rewrite(tmp_path, watcherIntervalSec=0.05, maxQueueSize=8)
    await server.logged("config_reloaded")
    assert await limits(server) == (8, 20)


async def test_lower_limits_drop_no_admitted_task(up, tmp_path):
    server = await up({"scheduler": {"workerCount": 1}})
    running = await server.start_task(1_000)
    queued = [await server.submit() for _ in range(4)]
    rewrite(tmp_path, maxQueueSize=1, maxPerAgent=1, maxInflight=1, maxPerAgentInflight=1)
    answer = await server.admin.ReloadConfig(admin_pb2.ReloadConfigRequest())
    assert list(answer.changed) == [
        "scheduler.maxInflight",
        "scheduler.maxPerAgent",
        "scheduler.maxPerAgentInflight",
        "scheduler.maxQueueSize",
    ]
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await server.submit()
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    waits = [
        server.tasks.WaitTask(task_pb2.WaitTaskRequest(task_id=task_id, timeout_ms=10_000))
        for task_id in (running, *queued)
    ]
    assert {answer.task.state for answer in await asyncio.gather(*waits)} == {task_pb2.Task.done}


async def test_higher_limits_let_waiting_tasks_run(up, tmp_path):
    server = await up({"scheduler": {"maxInflight": 1}})
    await server.start_task(600_000)
    waiting = await server.submit()
    assert (await server.get(waiting)).state == task_pb2.Task.queued
    rewrite(tmp_path, maxInflight=2)
    server.signal(signal.SIGHUP)
    answer = await server.tasks.WaitTask(task_pb2.WaitTaskRequest(task_id=waiting, timeout_ms=10_000))
    assert answer.task.state == task_pb2.Task.done


async def test_flags_and_environment_still_override_the_file_after_a_reload(up, tmp_path):
    server = await up({"scheduler": {"maxQueueSize": 7}}, TASKYARD_SCHEDULER__MAX_INFLIGHT="3")
    assert await limits(server) == (7, 3)
    rewrite(tmp_path, maxQueueSize=8, maxInflight=9)
    answer = await server.admin.ReloadConfig(admin_pb2.ReloadConfigRequest())
    assert list(answer.changed) == ["scheduler.maxQueueSize"]
    assert await limits(server) == (8, 3)
    config = await server.admin.GetConfig(admin_pb2.GetConfigRequest())
    assert config.sources["grpc"] == "flag"
    assert config.sources["scheduler.maxInflight"] == "environment"
    assert config.sources["scheduler.maxQueueSize"] == "file"
    assert config.sources["scheduler.maxPerAgent"] == "default"
