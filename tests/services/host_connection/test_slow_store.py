"""Connect, while a commit takes long (docs/operate/durability.md, Streams)."""

import pytest

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1.task_pb2 import Progress
from tests.services.host_streams import report, serving
from tests.store.gated_store import GatedStore

REPORTS = 50


@pytest.fixture
def store():
    return GatedStore()


@pytest.fixture
async def server(clock, store):
    async with serving(clock, store=store) as server:
        yield server
        store.gate.set()


async def test_heartbeats_are_answered_however_many_reports_wait(server, store):
    stream = await server.connect(credit=1)
    await server.submit()
    task = await stream.task()
    store.gate.clear()
    for number in range(REPORTS):
        await stream.send(reports=pb.Reports(reports=[report(task, progress=Progress(message=str(number)))]))
    ack = await stream.heartbeat(task)
    assert not ack.lost
    store.gate.set()
    for _ in range(REPORTS):
        assert (await stream.receive("report_results")).results
    assert (await server.get(task.task.task_id)).progress.message == str(REPORTS - 1)
    await stream.leave()


async def test_a_message_behind_those_that_wait_may_end_the_stream(server, store, refused):
    stream = await server.connect(credit=1)
    await server.submit()
    task = await stream.task()
    store.gate.clear()
    for _ in range(REPORTS):
        await stream.send(reports=pb.Reports(reports=[report(task, started=True)]))
    await stream.send(hello=pb.Hello(host_id="host", instance="i"))
    await stream.assert_quiet()
    store.gate.set()
    for _ in range(REPORTS):
        assert (await stream.receive("report_results")).results
    error = await refused(stream.read_to_end())
    assert "only once" in error.message
