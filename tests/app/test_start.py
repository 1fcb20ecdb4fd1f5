"""How the process starts, and the one line with which it fails to (docs/rules.md, Settings)."""

import socket

import grpc
import pytest

from taskyard.v1 import admin_pb2, stats_pb2, task_pb2

SERVICES = ("Task", "Batch", "Stats", "RuntimeHost", "Lease", "Target", "Schedule", "Admin")


@pytest.fixture
def taken():
    """A port of 127.0.0.1 that is taken, though its listener would share it."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def test_a_taken_grpc_port_is_one_line_and_exit_code_1(refused, taken):
    refusal = refused(None, "--grpc", f"127.0.0.1:{taken}")
    assert refusal.exit_code == 1
    assert refusal.errors == [f"cannot listen on 127.0.0.1:{taken}: the port is taken or the address is not ours"]
    assert refusal.others == []


def test_a_taken_metrics_port_is_one_line_and_exit_code_1(refused, taken):
    refusal = refused(None, "--metrics", f"127.0.0.1:{taken}")
    assert refusal.exit_code == 1
    assert refusal.errors == [f"cannot listen on 127.0.0.1:{taken} for metrics: address already in use"]
    assert refusal.others == []


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ('{"scheduler": {"maxQueuSize": 1}}', "scheduler.maxQueuSize: unknown key"),
        ('{"scheduler"', ""),
    ],
    ids=["unknown key", "broken file"],
)
def test_a_broken_file_is_one_line_and_exit_code_1(refused, tmp_path, config, error):
    refusal = refused(config)
    assert refusal.exit_code == 1
    (line,) = refusal.errors
    assert line.startswith(error or f"{tmp_path}/taskyard.json: ")
    assert refusal.others == []


def test_a_missing_file_is_one_line_and_exit_code_1(refused, tmp_path):
    refusal = refused(None, "--config", str(tmp_path / "gone.json"))
    assert refusal.exit_code == 1
    assert refusal.errors == [f"{tmp_path}/gone.json: no such file or directory"]
    assert refusal.others == []


def test_a_wrong_flag_is_one_line_and_exit_code_1(refused):
    refusal = refused(None, "--grpc", "50051")
    assert refusal.exit_code == 1
    (line,) = refusal.errors
    assert line.startswith("grpc: ")
    assert refusal.others == []


def test_a_wrong_variable_is_one_line_and_exit_code_1(refused):
    refusal = refused(None, SHUTDOWN_GRACE_PERIOD_SECONDS="soon")
    assert refusal.exit_code == 1
    (line,) = refusal.errors
    assert "soon" in line
    assert refusal.others == []


def test_an_unknown_variable_is_one_line_and_exit_code_1(refused):
    refusal = refused(None, TASKYARD_SCHEDULER__MAX_QUEU_SIZE="5")
    assert refusal.exit_code == 1
    assert refusal.errors == [
        "TASKYARD_SCHEDULER__MAX_QUEU_SIZE: unknown variable, did you mean TASKYARD_SCHEDULER__MAX_QUEUE_SIZE?"
    ]
    assert refusal.others == []


async def test_a_server_that_has_started_is_healthy_runs_tasks_and_shows_its_figures(up):
    server = await up()
    health = [await server.health(name) for name in ("", *[f"taskyard.v1.{service}Service" for service in SERVICES])]
    assert set(health) == {"SERVING"}
    task_id = await server.submit()
    answer = await server.tasks.WaitTask(task_pb2.WaitTaskRequest(task_id=task_id))
    assert answer.task.state == task_pb2.Task.done
    assert answer.task.result.struct_value["success"] is True
    metrics = await server.metrics()
    assert "taskyard_tasks_completed_total 1.0" in metrics
    assert "taskyard_run_time_seconds_count 1.0" in metrics
    assert "taskyard_queue_wait_seconds_count 1.0" in metrics
    assert 'taskyard_action_ended_total{action="click",namespace="default",outcome="done"} 1.0' in metrics
    assert 'taskyard_namespace_queued{namespace="default"} 0.0' in metrics
    with pytest.raises(grpc.RpcError):
        await server.get("tsk_0")
    assert 'taskyard_calls_refused_total{code="not_found"} 1.0' in await server.metrics()
    assert server.noise == []


async def test_ended_tasks_are_posted_to_their_callback(up, hook):
    server = await up({"webhooks": {"allowPrivate": True}})
    done, failed = await server.submit(callback_url=hook.url), await server.submit("fail", callback_url=hook.url)
    await server.logged("webhook_delivered", 2)
    assert {post["taskId"]: post["state"] for post in hook.posts} == {done: "done", failed: "failed"}
    assert 'taskyard_webhooks_total{outcome="delivered"} 2.0' in await server.metrics()
    assert (await server.stats.GetStats(stats_pb2.GetStatsRequest())).metrics.webhooks_delivered == 2


async def test_callbacks_to_this_machine_are_refused_unless_allowed(up, hook):
    server = await up()
    task_id = await server.submit(callback_url=hook.url)
    (failed,) = await server.logged("webhook_failed")
    assert (failed["task_id"], failed["tries"]) == (task_id, 1)
    assert (await server.stats.GetStats(stats_pb2.GetStatsRequest())).metrics.webhooks_failed == 1
    assert hook.posts == []


async def test_a_disabled_scheduler_serves_administration_but_no_tasks(up):
    server = await up({"scheduler": {"enabled": False}})
    for call in (
        server.tasks.GetTask(task_pb2.GetTaskRequest(task_id="tsk_1")),
        server.tasks.SubmitTask(task_pb2.SubmitTaskRequest(agent_id="ann", action="click")),
        server.stats.GetStats(stats_pb2.GetStatsRequest()),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    answer = await server.admin.GetConfig(admin_pb2.GetConfigRequest())
    assert answer.config["scheduler"]["enabled"] is False
