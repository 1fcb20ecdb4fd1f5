"""The namespace of a call, from its metadata, and the log line of a call."""

import asyncio

import pytest
from google.protobuf.struct_pb2 import Value

from taskyard.v1.batch_pb2 import BatchTask, CancelBatchRequest, GetBatchRequest
from taskyard_server.core.hosts import HostProfile
from tests import reporting
from tests.live import live

RED = (("taskyard-namespace", "red"),)
BLUE = (("taskyard-namespace", "blue"),)
DEFAULT = (("taskyard-namespace", "default"),)

# Namespaces


async def test_a_call_without_metadata_is_in_the_namespace_default(api):
    task_id = (await api.submit()).task_id
    assert (await api.get(task_id, metadata=DEFAULT)).task_id == task_id


@pytest.mark.parametrize("name", ["a", "0", "A-b_c.d", "team-7", "x" * 63])
async def test_a_namespace_is_1_to_63_letters_digits_dots_dashes_and_underscores(api, name):
    metadata = (("taskyard-namespace", name),)
    await api.submit(metadata=metadata)
    assert (await api.list_tasks(metadata=metadata)).count == 1
    assert (await api.list_tasks()).count == 0


async def test_a_task_of_another_namespace_is_not_found(api, refused):
    task_id = (await api.submit(metadata=RED)).task_id
    for call in (api.get(task_id), api.cancel(task_id), api.get(task_id, metadata=BLUE), api.wait(task_id)):
        assert (await refused(call)).code == "not_found"
    assert (await api.get(task_id, metadata=RED)).task_id == task_id


async def test_a_batch_of_another_namespace_is_not_found(api, refused):
    batch = await api.submit_batch(BatchTask(action="click"), metadata=RED)
    for call in (
        api.batches.GetBatch(GetBatchRequest(batch_id=batch.batch_id)),
        api.batches.CancelBatch(CancelBatchRequest(batch_id=batch.batch_id)),
    ):
        assert (await refused(call)).code == "not_found"


async def test_listings_hold_the_tasks_of_their_namespace(api):
    red = (await api.submit(metadata=RED)).task_id
    blue = (await api.submit(metadata=BLUE)).task_id
    assert [task.task_id for task in (await api.list_tasks(metadata=RED)).tasks] == [red]
    assert [task.task_id for task in (await api.list_tasks(metadata=BLUE)).tasks] == [blue]


async def test_limits_and_positions_are_counted_per_namespace(start_api, refused):
    api = await start_api(max_queue_size=1)
    assert (await api.submit(metadata=RED)).position == 1
    await refused(api.submit(metadata=RED))
    assert (await api.submit(metadata=BLUE)).position == 1


async def test_stats_are_counted_per_namespace(api):
    await api.submit(metadata=RED)
    await api.submit(metadata=RED, agent_id="bob")
    assert (await api.stats(metadata=RED)).metrics.tasks_submitted == 2
    assert (await api.stats(metadata=RED)).queue.agent_counts == {"ann": 1, "bob": 1}
    assert (await api.stats(metadata=BLUE)).metrics.tasks_submitted == 0
    assert (await api.stats()).queue.total_queued == 0


async def test_a_host_gets_the_tasks_of_its_namespace(api):
    await api.submit(metadata=RED)
    await api.engine.hosts.register("blue", "host", None, HostProfile(), show=live)
    await api.engine.hosts.register("red", "host", None, HostProfile(), show=live)
    assert await api.engine.leases.claim("blue", "host", show=live) == []
    (lease,) = await api.engine.leases.claim("red", "host", show=live)
    await reporting.complete(
        api.engine, "red", "host", lease.task.id, lease.token, Value(bool_value=True).SerializeToString()
    )
    assert (await api.stats(metadata=RED)).metrics.tasks_completed == 1


async def test_concurrent_calls_do_not_mix_their_namespaces(api):
    async def in_namespace(number):
        metadata = (("taskyard-namespace", f"n{number}"),)
        responses = await asyncio.gather(*(api.submit(metadata=metadata) for _ in range(5)))
        listed = await api.list_tasks(metadata=metadata)
        return {response.task_id for response in responses} == {task.task_id for task in listed.tasks}

    assert all(await asyncio.gather(*(in_namespace(number) for number in range(20))))


async def test_reading_a_namespace_does_not_create_it(api, refused):
    """Callers choose the names; only submits and registrations may use memory for them."""
    for number in range(50):
        metadata = (("taskyard-namespace", f"n{number}"),)
        await api.stats(metadata=metadata)
        await api.list_tasks(metadata=metadata)
        await refused(api.get("tsk_1", metadata=metadata))
        await refused(api.cancel("tsk_1", metadata=metadata))
    assert api.engine.admin.totals().namespaces == 0


# Logs

LINE = {"event": "request", "log_level": "info", "namespace": "default", "rest": False}


async def test_each_call_is_one_line_with_its_outcome_and_duration(api, log_lines):
    await api.submit()
    (line,) = [line for line in log_lines if line["event"] == "request"]
    assert 0 < line.pop("ms") < 10_000
    method = "/taskyard.v1.TaskService/SubmitTask"
    assert line == {**LINE, "log_level": "debug", "method": method, "outcome": "ok"}


async def test_a_refused_call_is_one_line_with_its_code(api, refused, log_lines, by_rest):
    await refused(api.get("tsk_1", metadata=by_rest + RED))
    (line,) = log_lines
    del line["ms"]
    method = "/taskyard.v1.TaskService/GetTask"
    assert line == {**LINE, "method": method, "outcome": "not_found", "namespace": "red", "rest": True}


async def test_a_call_with_an_invalid_namespace_is_logged(api, refused, log_lines):
    await refused(api.stats(metadata=(("taskyard-namespace", "a b"),)))
    assert [line["outcome"] for line in log_lines] == ["bad_request"]
