"""What is small and alone does not wait for the whole of what is large.

See docs/develop/design.md, A turn of the event loop.
"""

import asyncio
from collections.abc import AsyncIterator

from taskyard.v1 import task_pb2 as pb
from taskyard_server.conversion.submissions import no_default_retry
from taskyard_server.conversion.submit_requests import TaskRequest, TasksRequest
from taskyard_server.conversion.task_encoding import encode_event
from taskyard_server.core.errors import Unavailable
from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.engine.answers import Answer
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.fair_yield import SLICE
from taskyard_server.interceptors.callers import Call, set_current_call
from taskyard_server.services.submission_streams import SubmissionStreams
from taskyard_server.services.task_watches import TaskWatches
from tests.engines import running_engine, settled
from tests.services.written import Written
from tests.waiting import until

MAX_PAYLOAD_BYTES = 10_000
MANY = 50


def task(action: str) -> pb.SubmitTaskRequest:
    return pb.SubmitTaskRequest(agent_id="ann", action=action)


async def message_of(action: str) -> AsyncIterator[TasksRequest]:
    """A stream of one message of many tasks."""
    yield TasksRequest(pb.SubmitTasksRequest(tasks=[task(action) for _ in range(MANY)]).SerializeToString())


async def submit_many(engine: Engine, action: str) -> None:
    set_current_call(Call())
    streams = SubmissionStreams(engine, MAX_PAYLOAD_BYTES, no_default_retry)
    await streams.serve(message_of(action), Written())  # type: ignore[arg-type]


async def submit_one(engine: Engine, action: str) -> None:
    request = TaskRequest(task(action).SerializeToString())
    submission = request.submission(None, MAX_PAYLOAD_BYTES, no_default_retry)
    await engine.tasks.submit("default", submission, show=lambda submitted: submitted.id)


async def actions(engine: Engine) -> list[str]:
    """The actions of all tasks, in the order of submission."""
    page = await engine.tasks.list_tasks("default", TaskFilter(), 0, 1_000)
    return [each.action for each in page.tasks]


async def test_a_lone_task_waits_for_one_slice_of_the_messages_before_it():
    async with running_engine() as engine:
        engine.fair_yield.small_came()
        large = [asyncio.create_task(submit_many(engine, f"large-{number}")) for number in range(4)]
        while not engine.admin.totals().queued:  # noqa: ASYNC110 - in the turn in which it is so
            await asyncio.sleep(0)
        engine.fair_yield.call_comes()
        await asyncio.sleep(0)
        engine.fair_yield.call_came()
        await submit_one(engine, "lone")
        await asyncio.wait(large)
        assert "lone" in (await actions(engine))[: SLICE + 1]


async def test_large_messages_of_several_callers_go_on_side_by_side():
    async with running_engine() as engine:
        engine.fair_yield.small_came()
        await asyncio.gather(submit_many(engine, "a"), submit_many(engine, "b"))
        assert await actions(engine) == ["a"] * SLICE + ["b"] * SLICE + ["a"] * SLICE + ["b"] * SLICE


async def test_a_message_is_one_step_while_nothing_small_comes():
    async with running_engine() as engine:
        await asyncio.gather(submit_many(engine, "a"), submit_many(engine, "b"))
        assert await actions(engine) == ["a"] * MANY + ["b"] * MANY


async def test_a_message_is_answered_once_all_of_its_slices_are_kept(monkeypatch):
    async with running_engine() as engine:
        submit_each, kept = engine.tasks.submit_each, asyncio.get_running_loop().create_future()
        slices = iter([kept, None])

        def submit_a_slice(*arguments, **named):
            # The second one has nothing to be kept, as where the store takes nothing more.
            return Answer(submit_each(*arguments, **named).value, next(slices))

        monkeypatch.setattr(engine.tasks, "submit_each", submit_a_slice)
        engine.fair_yield.small_came()
        set_current_call(Call())
        written = Written()
        streams = SubmissionStreams(engine, MAX_PAYLOAD_BYTES, no_default_retry)
        serving = asyncio.create_task(streams.serve(message_of("large"), written))
        await until(lambda: actions(engine), lambda found: len(found) == MANY)
        await settled(engine)
        assert not written.messages
        kept.set_result(None)
        await serving
        assert len(pb.SubmitTasksResponse.FromString(written.messages[0]).outcomes) == MANY


async def test_an_event_for_very_many_watchers_is_sent_to_some_of_them_a_pass():
    async with running_engine() as engine:
        logs = engine.event_logs(encode_event)
        engine.subscribe(logs)
        watches = TaskWatches(engine, logs)
        calls = [Written() for _ in range(MANY)]
        open_calls = [
            asyncio.create_task(watches.watch(Call(), pb.WatchTasksRequest(), call))  # type: ignore[arg-type]
            for call in calls
        ]
        await settled(engine)
        engine.fair_yield.small_came()
        await submit_one(engine, "lone")
        counts = set()
        while min(len(call.messages) for call in calls) < 2:
            await asyncio.sleep(0)
            counts.add(sum(len(call.messages) - 1 for call in calls))
        assert len(counts) > MANY // SLICE
        logs.close()
        await asyncio.wait(open_calls)
        assert all(isinstance(call.exception(), Unavailable) for call in open_calls)
