"""What a client may write out or say again without harm (lease.proto and task.proto, Retry)."""

import pytest

from taskyard.v1 import lease_pb2, runtime_host_pb2
from taskyard.v1.task_pb2 import Progress, Task
from taskyard_server.core.errors import BadRequest
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission, TaskState
from taskyard_server.engine.memory.engine import MemoryEngine
from taskyard_server.interceptors import calls
from taskyard_server.services.hosts import RuntimeHostService
from taskyard_server.services.leases import LeaseService


@pytest.fixture
async def engine():
    calls._current.set(calls.Call())
    engine = MemoryEngine(Limits())
    await engine.hosts.register("default", "host", None, HostProfile())
    yield engine
    await engine.admin.close()


@pytest.fixture
async def lease(engine):
    await engine.tasks.submit("default", Submission("ann", "click"))
    (lease,) = await engine.leases.claim("default", "host")
    return lease


def about(message, lease, **fields):
    return message(host_id="host", task_id=lease.task.id, fencing_token=lease.token, **fields)


async def test_a_release_may_be_said_again(engine, lease):
    leases = LeaseService(engine, 1000)
    for _ in range(2):
        answer = await leases.ReleaseTask(about(lease_pb2.ReleaseTaskRequest, lease), None)
        assert answer.state == Task.STATE_QUEUED
    assert (await engine.admin.stats("default")).counters.late_reports == 0


async def test_after_a_cancellation_a_release_says_that_the_host_has_stopped(engine, lease):
    await engine.tasks.cancel("default", lease.task.id)
    answer = await LeaseService(engine, 1000).ReleaseTask(about(lease_pb2.ReleaseTaskRequest, lease), None)
    assert answer.state == Task.STATE_CANCELLED
    assert (await engine.admin.stats("default")).counters.late_reports == 0


async def test_a_report_without_progress_leaves_it_as_before(engine, lease):
    leases = LeaseService(engine, 1000)
    told = Progress(fraction=0.5, message="half")
    await leases.ReportProgress(about(lease_pb2.ReportProgressRequest, lease, progress=told), None)
    await leases.ReportProgress(about(lease_pb2.ReportProgressRequest, lease), None)
    assert Progress.FromString(lease.task.progress).message == "half"
    assert lease.task.state is TaskState.RUNNING


@pytest.mark.parametrize("fraction", [-0.1, 1.5, float("nan")])
async def test_a_fraction_is_from_0_to_1(engine, lease, fraction):
    with pytest.raises(BadRequest, match=r"progress\.fraction"):
        await LeaseService(engine, 1000).ReportProgress(
            about(lease_pb2.ReportProgressRequest, lease, progress=Progress(fraction=fraction)), None
        )
    assert lease.task.progress is None


async def test_a_host_cannot_call_itself_dead(engine):
    request = runtime_host_pb2.HeartbeatHostRequest(host_id="host", status="dead")
    answer = await RuntimeHostService(engine, 1000).HeartbeatHost(request, None)
    assert answer.host.status == runtime_host_pb2.RuntimeHost.STATUS_IDLE


async def test_figures_of_a_machine_are_finite(engine):
    request = runtime_host_pb2.HeartbeatHostRequest(host_id="host")
    request.machine.cpu_percent = float("nan")
    with pytest.raises(BadRequest, match="machine"):
        await RuntimeHostService(engine, 1000).HeartbeatHost(request, None)


async def test_a_default_that_is_written_out_is_the_same_submission(api):
    first = await api.submit(idempotency_key="k", requires=["a", "b"])
    second = await api.submit(idempotency_key="k", requires=["b", "a"], priority=0, tab_id="")
    assert first.task_id == second.task_id
