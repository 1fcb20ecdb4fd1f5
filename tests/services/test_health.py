"""HealthService, and what gRPC's own health service is told: whether the server takes tasks (docs/rules.md, Health)."""

import asyncio
from types import SimpleNamespace

import grpc
import pytest
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc

from taskyard.v1 import health_pb2_grpc as own_grpc
from taskyard.v1.health_pb2 import GetHealthRequest, GetReadinessRequest
from taskyard_server.app import readiness
from taskyard_server.app.readiness import Readiness
from taskyard_server.interceptors.calls import CallInterceptor
from taskyard_server.services.health import HealthService

TASKS = "taskyard.v1.TaskService"


class Watched:
    """A server whose store and trust tests set."""

    def __init__(self):
        self.committer = SimpleNamespace(failed=asyncio.get_running_loop().create_future(), is_stuck=False)
        self.is_trusted = True
        self.readiness = Readiness(SimpleNamespace(committer=self.committer), lambda: self.is_trusted)


@pytest.fixture
async def watched():
    return Watched()


@pytest.fixture
async def ask(watched, refused):
    """Asks the three: the health, the readiness, and that of a service by gRPC's own. `ok`, or why not."""
    server = grpc.aio.server(interceptors=(CallInterceptor(),))
    own_grpc.add_HealthServiceServicer_to_server(HealthService(lambda: watched.readiness.obstacle), server)
    health_pb2_grpc.add_HealthServicer_to_server(watched.readiness.by_grpc, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        own, general = own_grpc.HealthServiceStub(channel), health_pb2_grpc.HealthStub(channel)

        async def ask(service=TASKS):
            assert (await own.GetHealth(GetHealthRequest())).status == "ok"
            status = (await general.Check(health_pb2.HealthCheckRequest(service=service))).status
            if watched.readiness.obstacle is None:
                ready = (await own.GetReadiness(GetReadinessRequest())).status
            else:
                refusal = await refused(own.GetReadiness(GetReadinessRequest()))
                assert refusal.code == "unavailable"
                ready = refusal.message
            return ready, health_pb2.HealthCheckResponse.ServingStatus.Name(status)

        yield ask
    await server.stop(None)


async def test_a_server_that_has_not_started_is_not_ready(watched):
    assert watched.readiness.obstacle == "the server is starting"


async def test_one_that_has_started_is(watched, ask):
    await watched.readiness.begin([TASKS])
    assert await ask() == ("ok", "SERVING")


async def test_one_that_ends_is_not_any_more_whatever_comes(watched, ask):
    await watched.readiness.begin([TASKS])
    await watched.readiness.end()
    watched.committer.is_stuck = True
    await watched.readiness.look()
    assert await ask() == ("the server is shutting down", "NOT_SERVING")


@pytest.mark.parametrize(
    ("break_it", "why"),
    [
        (lambda watched: setattr(watched.committer, "is_stuck", True), "the store does not answer"),
        (lambda watched: watched.committer.failed.set_result(None), "the store has failed"),
        (
            lambda watched: setattr(watched, "is_trusted", False),
            "this replica cannot renew its place among those that share the store",
        ),
    ],
)
async def test_what_keeps_it_from_serving_is_said(watched, ask, break_it, why):
    await watched.readiness.begin([TASKS])
    break_it(watched)
    with structlog.testing.capture_logs() as lines:
        await watched.readiness.look()
        await watched.readiness.look()
    assert await ask() == (why, "NOT_SERVING")
    assert lines == [{"event": "not_ready", "log_level": "warning", "why": why}]


async def test_probes_are_not_logged(watched, ask):
    watched.committer.is_stuck = True
    with structlog.testing.capture_logs() as lines:
        await ask("")
    assert lines == []


async def test_it_is_ready_again_once_the_store_answers(watched, ask):
    await watched.readiness.begin([TASKS])
    watched.committer.is_stuck = True
    await watched.readiness.look()
    watched.committer.is_stuck = False
    with structlog.testing.capture_logs() as lines:
        await watched.readiness.look()
    assert await ask() == ("ok", "SERVING")
    assert [line["event"] for line in lines] == ["ready_again"]


async def test_without_a_store_there_is_nothing_to_fail():
    alone = Readiness(None)
    await alone.begin([])
    assert alone.obstacle is None


# Asked from other threads


async def test_probes_answer_from_other_threads(watched):
    probes = watched.readiness.probes()
    await watched.readiness.begin([TASKS])
    watched.committer.is_stuck = True
    answers = [await asyncio.to_thread(probes[path]) for path in ("/healthz", "/readyz")]
    assert answers == [None, "the store does not answer"]


def test_a_loop_that_is_busy_for_too_long_is_not_well(monkeypatch):
    monkeypatch.setattr(readiness, "PROBE_SECS", 0.01)

    async def begun():
        return Readiness(None).probes()

    with asyncio.Runner() as runner:
        probes = runner.run(begun())
        # It does not answer while nobody runs it.
        assert [probe() for probe in probes.values()] == ["the event loop does not answer"] * 2
    assert [probe() for probe in probes.values()] == ["the server is shutting down"] * 2
