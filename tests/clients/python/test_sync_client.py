"""The blocking client: the same calls, from any thread."""

import asyncio
import inspect
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from taskyard import (
    Client,
    ClientClosed,
    Namespaces,
    NewTask,
    NotFound,
    Schedules,
    SyncClient,
    SyncNamespaces,
    SyncSchedules,
    TaskState,
    TriggerState,
    Unavailable,
)
from tests.ports import free_port


async def in_thread(call, *args, **kwargs):
    """Run blocking code in a thread, so that the server of the test can answer it."""
    return await asyncio.to_thread(call, *args, **kwargs)


@pytest.fixture
async def sync_client(server):
    client = await in_thread(SyncClient, server.address, agent_id="ann")
    yield client
    await in_thread(client.close)


@pytest.mark.parametrize(
    ("blocking", "kind"), [(SyncClient, Client), (SyncSchedules, Schedules), (SyncNamespaces, Namespaces)]
)
def test_it_has_every_method_of_the_client_with_the_same_signature(blocking, kind):
    for name in [name for name in vars(kind) if not name.startswith("_")]:
        assert inspect.signature(getattr(blocking, name)) == inspect.signature(getattr(kind, name)) or name == "close"


def test_its_constructor_has_the_same_parameters():
    parameters = [inspect.signature(kind.__init__).parameters for kind in (Client, SyncClient)]
    assert list(parameters[0].values()) == list(parameters[1].values())


async def test_calls_block_until_they_are_done(sync_client):
    def work():
        submitted = sync_client.submit("click", params={"x": 1})
        assert sync_client.get(submitted.id).params == {"x": 1}
        batch = sync_client.submit_batch([NewTask("type"), NewTask("scroll")])
        assert sync_client.get_batch(batch.id).states == {TaskState.QUEUED: 2}
        assert [task.action for task in sync_client.list(page_size=2)] == ["click", "type", "scroll"]
        held = sync_client.submit("click", target="t", hold=True).id
        assert [target.task_id for target in sync_client.targets()] == [held]
        assert sync_client.cancel(held, reason="wrong site") is TaskState.CANCELLED
        assert sync_client.get(held).reason == "wrong site"
        assert sync_client.stats().queue.total_queued == 3
        assert sync_client.cancel_batch(batch.id, reason="no batch") == 2
        assert sync_client.cancel(submitted.id) is TaskState.CANCELLED
        assert sync_client.wait(submitted.id).state is TaskState.CANCELLED

    await in_thread(work)


async def test_calls_about_schedules_block_until_they_are_done(sync_client):
    def work():
        schedules = sync_client.schedules
        made = schedules.create("note", cron="0 9 * * *")
        assert schedules.update(made.id, display_name="x").display_name == "x"
        assert schedules.pause(made.id).paused
        assert not schedules.resume(made.id).paused
        assert [schedule.id for schedule in schedules.list()] == [made.id]
        trigger = schedules.trigger(made.id)
        assert sync_client.cancel(trigger.task_id) is TaskState.CANCELLED
        assert schedules.get_trigger(trigger.id).state is TriggerState.FAILED
        assert [each.id for each in schedules.triggers(made.id, page_size=1)] == [trigger.id]
        assert len(schedules.preview(made.id, 3)) == 3
        schedules.delete(made.id)
        with pytest.raises(NotFound):
            schedules.get(made.id)

    await in_thread(work)


async def test_errors_are_those_of_the_client(sync_client):
    def work():
        with pytest.raises(NotFound):
            sync_client.get("tsk_0")
        task_id = sync_client.submit("click").id
        with pytest.raises(TimeoutError):
            sync_client.wait(task_id, timeout=0)

    await in_thread(work)


async def test_submits_of_several_threads_share_a_stream_and_make_each_task_once(server, sync_client):
    def work(name):
        return [sync_client.submit(f"{name}-{number}").id for number in range(50)]

    with ThreadPoolExecutor(8) as pool:
        loop = asyncio.get_running_loop()
        made = await asyncio.gather(*(loop.run_in_executor(pool, work, name) for name in range(8)))
    assert len({task_id for each in made for task_id in each}) == 400
    assert await server.made() == 400
    # The tasks of each thread are in its order.
    actions = await in_thread(lambda: [task.action for task in sync_client.list()])
    for name in range(8):
        assert [each for each in actions if each.startswith(f"{name}-")] == [f"{name}-{n}" for n in range(50)]
    assert server.service.streams == 1


async def test_an_iterator_can_be_closed_early(sync_client):
    def work():
        for _ in range(3):
            sync_client.submit("click")
        tasks = sync_client.list(page_size=1)
        first = next(tasks)
        tasks.close()
        return first.action

    assert await in_thread(work) == "click"


@pytest.mark.parametrize("call", ["list(page_size=1)", "watch(include_current=True)"])
async def test_an_open_iterator_does_not_keep_a_process_from_exiting(server, sync_client, call):
    for _ in range(2):
        await in_thread(sync_client.submit, "click")
    program = f"import taskyard; items = taskyard.SyncClient({server.address!r}).{call}; next(items); print('read')"
    ended = await in_thread(subprocess.run, [sys.executable, "-c", program], capture_output=True, text=True, timeout=20)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "read\n", "")


async def test_closing_waits_for_submits_of_other_threads(server):
    client = await in_thread(SyncClient, server.address, agent_id="ann")
    submitting = asyncio.create_task(in_thread(client.submit, "click"))
    await server.service.arrived.wait()
    await in_thread(client.close)
    assert (await submitting).position == 1


async def test_a_pending_call_raises_client_closed_when_the_client_closes(server):
    client = await in_thread(SyncClient, server.address, agent_id="ann")
    task_id = (await in_thread(client.submit, "click")).task_id
    waiting = asyncio.create_task(in_thread(client.wait, task_id))
    await in_thread(client.get, task_id)
    await in_thread(client.close)
    with pytest.raises(ClientClosed):
        await waiting


async def test_a_closed_client_refuses_calls_and_has_no_thread(server):
    def work():
        with SyncClient(server.address, agent_id="ann") as client:
            client.submit("click")
        client.close()
        for call in (client.stats, client.watch, lambda: next(client.list()), lambda: next(client.schedules.list())):
            with pytest.raises(ClientClosed):
                call()

    await in_thread(work)
    assert not [thread for thread in threading.enumerate() if thread.name == "taskyard-client"]


def test_malformed_arguments_are_refused_at_once():
    with pytest.raises(ValueError, match="could not convert"):
        SyncClient("127.0.0.1:1", timeout="soon")
    assert not [thread for thread in threading.enumerate() if thread.name == "taskyard-client"]


def test_calls_without_a_server_raise_unavailable():
    with SyncClient(f"127.0.0.1:{free_port()}", agent_id="ann", patience=0.1) as client, pytest.raises(Unavailable):
        client.submit("click")
