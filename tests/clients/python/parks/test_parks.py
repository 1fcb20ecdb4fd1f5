"""Handlers that ask, sleep and join: they hold no slot meanwhile, and begin again with what came (docs/rules.md)."""

import asyncio
import logging
import threading
from datetime import timedelta

import pytest

from taskyard import BadRequest, Conflict, NotFound, Retry, StepKind, TaskFailed, TaskState, WaitFor
from taskyard.testing import Yard
from tests.clients.python.parks import parking
from tests.waiting import LIMIT_SECS

EVERYWHERE = [
    (parking.awaited, "loop"),
    (parking.plainly, "thread"),
    (parking.plainly, "process"),
    (parking.awaited, "process"),
]


@pytest.fixture
async def yard_with_store(tmp_path):
    """A yard that survives its restarts."""
    async with Yard(store=tmp_path / "yard.db") as yard:
        yield yard


async def parked(yard, handler, runs_in="loop", **fields):
    """A task of this handler, once it is parked."""
    yard.host(parking.host_of(handler, runs_in))
    task = await yard.client.submit("work", **fields)
    await yard.advance()
    assert (await task.task()).state is TaskState.PARKED, (await task.task()).error
    return task


async def output_of(task):
    return [chunk.data async for chunk in task.output(follow=False)]


def waits_of(task):
    return [(wait.kind, wait.name) for wait in task.park.waits]


@pytest.mark.parametrize(("handler", "runs_in"), EVERYWHERE)
async def test_a_task_waits_without_a_slot_and_goes_on_with_the_answer(yard, tmp_path, handler, runs_in):
    task = await parked(yard, handler, runs_in, params={"folder": str(tmp_path)})
    (question,) = await task.questions()
    assert (question.question_id, question.question.text) == ("deploy", "Deploy?")
    assert question.question.default == {"go": False, "amount": 1}
    with pytest.raises(BadRequest, match="go"):
        await task.answer("deploy", {"amount": 2})
    assert await output_of(task) == ["begun\n", "cleaned\n"]
    assert await task.answer("deploy", {"go": True, "amount": 7}) is TaskState.QUEUED
    await yard.advance()
    assert waits_of(await task.task()) == [(WaitFor.TIME, "sleep")]
    await yard.advance(timedelta(minutes=1))
    assert await task.result() == ["first", True, 7]
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"first": "x", "finally": "xxx"}
    assert [(step.kind, step.name) for step in await task.steps()] == [
        (StepKind.WORK, "first"),
        (StepKind.ANSWER, "deploy"),
        (StepKind.TIME, "sleep"),
    ]
    assert (await task.task()).attempts == ()


async def test_a_default_that_counts_is_an_answer(yard, tmp_path):
    task = await parked(yard, parking.awaited, params={"folder": str(tmp_path)})
    await yard.advance(timedelta(days=7))
    await yard.advance(timedelta(minutes=1))
    assert await task.result() == ["first", False, 1]
    assert [step.is_expired for step in await task.steps()] == [False, True, False]


async def test_without_a_default_the_task_fails(yard):
    async def asks(task):
        await task.ask("go", "Go?", timeout=timedelta(hours=1))

    task = await parked(yard, asks)
    await yard.advance(timedelta(hours=1))
    with pytest.raises(TaskFailed, match="nobody answered the question go in time"):
        await task.result()


@pytest.mark.parametrize("runs_in", ["loop", "process"])
async def test_what_is_waited_for_at_once_becomes_one_park_when_steps_are_done(yard, runs_in):
    task = await parked(yard, parking.several, runs_in)
    assert waits_of(await task.task()) == [(WaitFor.ANSWER, "a"), (WaitFor.ANSWER, "b"), (WaitFor.TIME, "sleep")]
    assert [step.name for step in await task.steps()] == ["slow"]
    await task.answer("b", "yes")
    await yard.advance()
    assert waits_of(await task.task()) == [(WaitFor.ANSWER, "a"), (WaitFor.TIME, "sleep")]
    await task.answer("a", [1])
    await yard.advance(timedelta(minutes=10))
    assert await task.result() == [[1], "slow", "yes", None]


async def test_a_slot_is_free_meanwhile(yard):
    async def asks(task):
        return await task.ask("go", "Go?")

    async def other(_):
        return "ran"

    yard.host({"work": asks, "other": other}, slots=1)
    task = await yard.client.submit("work")
    assert await (await yard.client.submit("other")).result() == "ran"
    await task.answer("go", None)
    assert await task.result() is None


async def test_tokens_that_are_used_before_a_park_are_counted(yard):
    async def work(task):
        await task.step("model", model, task, 60)
        await task.sleep(60)
        await task.step("again", model, task, 50)
        await task.ask("go", "Go?")

    async def model(task, tokens):
        task.tokens_used = (task.tokens_used or 0) + tokens

    yard.host({"work": work})
    task = await yard.client.submit("work", token_limit=100)
    await yard.advance()
    assert ((await task.task()).state, (await task.task()).tokens_used) == (TaskState.PARKED, 60)
    await yard.advance(seconds=60)
    ended = await task.task()
    assert (ended.state, ended.error, ended.tokens_used) == (TaskState.FAILED, "token limit exceeded", 110)


async def test_a_parent_joins_its_children(yard):
    async def parent(task):
        children = [await task.step(f"child {name}", submit, name) for name in "ab"]
        await task.join(children)
        return [await task.step(f"result {child}", result, child) for child in children]

    async def submit(name) -> str:
        return (await yard.client.submit("child", params={"name": name})).id

    async def result(task_id) -> str:
        return await yard.client.handle(task_id).result()

    async def child(task):
        await task.sleep(60)
        return task.params["name"]

    yard.host({"work": parent, "child": child}, slots=1)
    task = await yard.client.submit("work")
    await yard.advance()
    (wait,) = (await task.task()).park.waits
    assert (wait.kind, wait.name, len(wait.task_ids)) == (WaitFor.ENDS, "join", 2)
    await yard.advance(seconds=60)
    assert await task.result() == ["a", "b"]


async def test_nothing_is_joined_at_once(yard):
    async def work(task):
        await task.join([])
        return "done"

    yard.host({"work": work})
    assert await (await yard.client.submit("work")).result() == "done"


async def test_a_join_may_be_over_before_its_tasks_are(yard):
    async def work(task):
        try:
            await task.join([task.params["other"]], timeout=10)
        except TimeoutError:
            return "late"

    other = await yard.client.submit("other")
    task = await parked(yard, work, params={"other": other.id})
    await yard.advance(seconds=10)
    assert await task.result() == "late"


async def test_an_error_beside_a_question_is_the_handlers_to_catch(yard):
    async def fails():
        raise ValueError("no")

    async def work(task):
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(asked(task))
                group.create_task(stepped(task))
        except* ValueError:
            await task.emit("caught\n")
        return await task.step("instead", lambda: "done")

    async def asked(task):
        await task.ask("go", "Go?")

    async def stepped(task):
        await asyncio.gather(asyncio.gather(task.step("fails", fails)))

    yard.host({"work": work})
    task = await yard.client.submit("work")
    await yard.until_ended(task)
    assert await task.result() == "done"


async def test_a_task_group_is_unwound_too(yard):
    async def work(task):
        async with asyncio.TaskGroup() as group:
            asking = [group.create_task(asked(task, name)) for name in "ab"]
        return [each.result() for each in asking]

    async def asked(task, name):
        return await task.ask(name, "Go?")

    task = await parked(yard, work)
    for name in "ab":
        await task.answer(name, name)
    await yard.advance()
    assert await task.result() == ["a", "b"]


@pytest.mark.parametrize(
    ("handler", "runs_in"),
    [(parking.swallows, "thread"), (parking.swallows, "process"), (parking.swallows_async, "loop")],
)
async def test_a_handler_that_swallows_the_unwinding_is_parked_all_the_same(yard, tmp_path, caplog, handler, runs_in):
    task = await parked(yard, handler, runs_in, params={"folder": str(tmp_path)})
    assert (tmp_path / "Parked").read_text() == "xxxxx"
    now = await task.task()
    assert (now.result, now.progress, now.artifacts, await task.steps()) == (None, None, (), ())
    assert waits_of(now) == [(WaitFor.ANSWER, "deploy")]
    said = await output_of(task)
    assert ["ERROR the handler went on after its task was parked" in each for each in said] == [True, True]
    assert "what it returned is not reported" in said[1]
    assert "what it returned is not reported" in caplog.text


async def test_what_a_handler_raises_while_it_is_unwound_is_logged_and_no_failure(yard, caplog):
    async def work(task):
        try:
            return await task.ask("go", "Go?")
        finally:
            if not task.task.steps:
                raise OSError("cannot be closed")

    task = await parked(yard, work)
    assert "OSError: cannot be closed" in caplog.text
    await task.answer("go", "yes")
    await yard.advance()
    assert await task.result() == "yes"


async def test_except_exception_lets_it_through(yard, caplog):
    async def work(task):
        try:
            return await task.ask("go", "Go?")
        except Exception:
            return "swallowed"

    with caplog.at_level(logging.WARNING):
        task = await parked(yard, work)
    assert caplog.records == []
    await task.answer("go", 1)
    await yard.advance()
    assert await task.result() == 1


async def test_a_host_that_is_lost_before_the_answer_loses_nothing(yard_with_store, tmp_path):
    yard = yard_with_store
    task = await parked(yard, parking.awaited, params={"folder": str(tmp_path)})
    await yard.lose("host-1")
    await task.answer("deploy", {"go": True})
    await yard.restart()
    yard.host(parking.host_of(parking.awaited, "loop"))
    await yard.advance()
    await yard.advance(seconds=60)
    assert await task.result() == ["first", True, 1]
    assert (tmp_path / "first").read_text() == "x"


async def test_answers_outlast_attempts(yard):
    async def work(task):
        said = await task.ask("go", "Go?")
        if task.attempt == 1:
            raise Retry(after=timedelta(0))
        return said

    task = await parked(yard, work)
    await task.answer("go", "yes")
    await yard.until_ended(task)
    assert await task.result() == "yes"


async def test_the_first_answer_wins(yard):
    async def work(task):
        return await task.ask("go", "Go?")

    task = await parked(yard, work)
    assert [each.task_id async for each in yard.client.questions()] == [task.id]
    assert [each async for each in yard.client.questions(agent_id="nobody")] == []
    await yard.client.answer(task.id, "go", {"a": 1})
    await yard.client.answer(task.id, "go", {"a": 1})
    with pytest.raises(Conflict):
        await yard.client.answer(task.id, "go", 2)
    with pytest.raises(NotFound):
        await task.answer("other", 2)
    await yard.advance()
    assert await task.result() == {"a": 1}
    assert await task.questions() == ()


async def test_what_the_server_refuses_fails_the_task(yard):
    async def work(task):
        await task.ask("go", "Go?", choices=["yes"], default="no")

    yard.host({"work": work})
    task = await yard.client.submit("work")
    with pytest.raises(TaskFailed, match=r"park refused: .*default: must be one of the choices"):
        await task.result()


@pytest.mark.parametrize(
    ("asks", "error"),
    [
        (lambda task: task.ask("a b", "Go?"), "ask: an id has 1 to 128 letters"),
        (lambda task: task.ask("go"), "ask 'go': it has a text, or an url"),
        (lambda task: task.ask("go", "Go?", timeout=-1), "timeout: is from 0 to 31,622,400 s, not -1 s"),
        (lambda task: task.ask("go", "Go?", type=object), "object cannot be sent"),
        (lambda task: task.ask("go", "Go?", default=2**60, type=int), "the default holds what an answer cannot"),
        (lambda task: task.sleep(1e9), "sleep: is from 0 to 31,622,400 s"),
        (lambda task: task.sleep(1, name=" "), "sleep: a name has from 1 to 256 characters"),
        (lambda task: task.join(map(str, range(10_001))), "join 'join': at most 10,000 tasks, not 10,001"),
        (lambda task: (task.sleep(1), task.sleep(1)), "sleep 'sleep': this run has used the name already"),
    ],
)
async def test_what_cannot_be_waited_for_is_said_at_once(yard, asks, error):
    async def work(task):
        asks(task)

    yard.host({"work": work})
    task = await yard.client.submit("work")
    with pytest.raises(TaskFailed) as failed:
        await task.result()
    assert error in str(failed.value)


@pytest.mark.parametrize("runs_in", ["loop", "thread"])
async def test_nothing_is_asked_within_a_step(yard, runs_in):
    async def within(task):
        return await task.ask("go", "Go?")

    async def work(task):
        await task.step("it", within, task)

    def plainly(task):
        task.step("it", task.ask, "go", "Go?")

    yard.host(parking.host_of(work if runs_in == "loop" else plainly, runs_in))
    task = await yard.client.submit("work")
    with pytest.raises(TaskFailed, match="'go' is waited for within the step 'it', whose work would be lost"):
        await task.result()


async def test_a_step_of_another_thread_is_recorded_before_the_task_is_parked(yard):
    def work(task):
        begun, unwound = threading.Event(), threading.Event()

        def slowly():
            begun.set()
            return unwound.wait(LIMIT_SECS)

        stepping = threading.Thread(target=task.step, args=("slow", slowly))
        if not task.task.steps:
            stepping.start()
            begun.wait(LIMIT_SECS)
        try:
            return task.ask("go", "Go?").value
        finally:
            unwound.set()

    task = await parked(yard, work, "thread")
    assert [(step.name, step.result) for step in await task.steps()] == [("slow", True)]
    await task.answer("go", 1)
    await yard.advance()
    assert await task.result() == 1


async def test_a_plain_function_of_an_async_handler_may_ask(yard):
    async def work(task):
        return await asyncio.to_thread(lambda: task.ask("go", "Go?").value)

    task = await parked(yard, work)
    await task.answer("go", 1)
    await yard.advance()
    assert await task.result() == 1


async def test_a_handler_that_ends_before_what_it_asked_for_is_not_parked(yard):
    async def work(task):
        asking = asyncio.ensure_future(asked(task))
        await asyncio.sleep(0)
        assert not asking.done()
        return "done"

    async def asked(task):
        await task.ask("go", "Go?")

    yard.host({"work": work})
    task = await yard.client.submit("work")
    assert await task.result() == "done"


async def test_a_task_that_is_cancelled_while_it_is_parked_never_runs_again(yard, tmp_path):
    task = await parked(yard, parking.awaited, params={"folder": str(tmp_path)})
    await task.cancel()
    await yard.advance(hours=1)
    assert (tmp_path / "finally").read_text() == "x"
    with pytest.raises(NotFound):
        await task.answer("deploy", {"go": True})


@pytest.mark.parametrize(("releases", "seen"), [(False, []), (True, ["second"])])
async def test_a_target_stays_taken_while_its_task_waits_unless_that_says_otherwise(yard, releases, seen):
    ran = []

    async def work(task):
        if task.params["name"] == "first":
            task.releases_target = releases
            await task.ask("go", "Go?")
        ran.append(task.params["name"])

    yard.host({"work": work})
    first, second = [
        await yard.client.submit("work", target="page", params={"name": name}) for name in ("first", "second")
    ]
    await yard.advance()
    assert ran == seen
    await first.answer("go", 1)
    await asyncio.gather(first.result(), second.result())
    assert sorted(ran) == ["first", "second"]
