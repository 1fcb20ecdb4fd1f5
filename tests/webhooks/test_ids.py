"""A `webhook-id` is TASK-RUN-STATE: receivers drop a delivery whose id they have seen (docs/rules.md, Webhooks)."""

from base64 import b64encode

import pytest

from taskyard.v1.wait_pb2 import Question
from taskyard_server.core.history import RetryPolicy, Wait
from taskyard_server.engine.questions import NewAnswer
from tests import reporting
from tests.live import live

SECRET = "whsec_" + b64encode(b"a secret of twenty-four.").decode()


def ids(posts):
    return [post.header("webhook-id") for post in posts]


@pytest.fixture
async def server(make_server):
    """A `Server` that signs its deliveries, one at a time."""
    return await make_server(secret=SECRET, workers=1)


async def test_the_id_names_the_task_its_run_and_its_state(server, receiver):
    (task,) = await server.end(receiver.url)
    assert ids(await receiver.received()) == [f"{task.id}-1-done"]


async def test_every_try_of_a_delivery_has_the_same_id(server, receiver):
    receiver.answers = [503, 503, 200]
    await server.end(receiver.url)
    assert len(set(ids(await receiver.received(3)))) == 1


async def test_two_tasks_have_different_ids(server, receiver):
    await server.end(receiver.url, receiver.url)
    assert len(set(ids(await receiver.received(2)))) == 2


async def test_each_run_of_a_task_has_its_own_id(server, receiver):
    task = await server.submit(receiver.url)
    for _ in range(3):
        await server.fail("broken")
        await server.engine.tasks.resume("default", task.id, show=live)
    await server.complete()
    runs = [f"{task.id}-1-failed", f"{task.id}-2-failed", f"{task.id}-3-failed", f"{task.id}-4-done"]
    assert ids(await receiver.received(4)) == runs


async def test_a_run_that_is_tried_again_after_the_task_was_resumed_keeps_its_id(make_server, receiver):
    server = await make_server(secret=SECRET, deliver=False)
    receiver.answers = [503, 200]
    task = await server.submit(receiver.url)
    await server.fail("broken")
    await server.engine.tasks.resume("default", task.id, show=live)
    await server.notified()
    assert task.history.run == 2
    server.deliver()
    assert ids(await receiver.received(2)) == [f"{task.id}-1-failed"] * 2


async def test_a_failed_task_that_is_resolved_has_another_id_though_its_run_is_the_same(server, receiver):
    task = await server.submit(receiver.url)
    await server.fail("broken")
    await server.engine.tasks.resolve("default", task.id, None, show=live)
    assert ids(await receiver.received(2)) == [f"{task.id}-1-failed", f"{task.id}-1-done"]


async def test_a_failed_task_that_is_cancelled_has_another_id_though_its_run_is_the_same(server, receiver):
    task = await server.submit(receiver.url, target="t")
    await server.fail("broken")
    await server.cancel(task)
    assert ids(await receiver.received(2)) == [f"{task.id}-1-failed", f"{task.id}-1-cancelled"]


async def test_the_run_is_that_which_ended_though_the_task_is_resumed_in_the_same_turn(server, receiver):
    """Listeners are called once a turn of the event loop, and may find the task in its next run."""
    task = await server.submit(receiver.url)
    lease = await server.claim()
    await reporting.fail(server.engine, "default", "host", task.id, lease.token, "broken")
    await server.engine.tasks.resume("default", task.id, show=live)
    assert task.history.run == 2
    assert ids(await receiver.received()) == [f"{task.id}-1-failed"]


async def test_attempts_of_one_run_are_one_delivery(server, receiver):
    task = await server.submit(receiver.url, retry=RetryPolicy(max_attempts=2, first_delay_secs=0))
    await server.fail("not yet")
    server.now += 1
    await server.complete()
    await server.settled()
    assert ids(receiver.posts) == [f"{task.id}-1-done"]


async def test_an_id_holds_no_full_stop(server, receiver):
    """The signature separates the id, the time and the body by full stops."""
    await server.end(receiver.url)
    (post,) = await receiver.received()
    assert "." not in post.header("webhook-id")


async def test_each_question_is_told_once_and_each_park_has_its_own_id(server, receiver):
    task = await server.submit(receiver.url)
    for answer in (b"1", b"2"):
        await server.park(Wait("answer", answer.decode(), None, (), Question(text="Go on?").SerializeToString()))
        found = NewAnswer(task.id, answer.decode(), answer, None, lambda _: None, lambda _: False)
        await server.engine.questions.answer("default", found)
    await server.park(Wait("time", "nap", None))
    await server.cancel(task)
    posts = await receiver.received(3)
    assert ids(posts) == [f"{task.id}-1-parked-1", f"{task.id}-1-parked-2", f"{task.id}-1-cancelled"]
    assert [post.header("X-PinchTab-Event") for post in posts] == ["task.asks", "task.asks", "task.completed"]
    assert posts[0].json()["park"]["waits"][0]["question"] == {"text": "Go on?"}
    assert posts[1].json()["state"] == "parked"


async def test_a_question_that_was_answered_while_the_task_ran_is_told_no_more(server, receiver):
    task, now = await server.submit(receiver.url), server.now
    asked = Wait("answer", "go", None, (), Question(text="Go on?").SerializeToString())
    lease = await server.claim()
    await reporting.park(server.engine, "default", "host", task.id, lease.token, asked, Wait("time", "nap", now))
    lease = await server.claim()
    found = NewAnswer(task.id, "go", b"yes", None, lambda _: None, lambda _: False)
    await server.engine.questions.answer("default", found)
    await reporting.park(
        server.engine, "default", "host", task.id, lease.token, asked, Wait("time", "night", now + 1e6)
    )
    await server.cancel(task)
    assert ids(await receiver.received(2)) == [f"{task.id}-1-parked-1", f"{task.id}-1-cancelled"]
