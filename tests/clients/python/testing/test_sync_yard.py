"""The yard for plain functions."""

import asyncio
import threading
from datetime import timedelta

import pytest

from taskyard import RetryPolicy, SyncClient
from taskyard.testing import SyncYard, YardError


def test_a_plain_test_has_a_yard(sync_yard):
    ran = []

    def flaky(task):
        ran.append(threading.current_thread())
        if task.attempt == 1:
            raise ValueError("once")
        return {"attempt": task.attempt}

    sync_yard.host({"flaky": flaky})
    submitted = sync_yard.client.submit("flaky", retry=RetryPolicy(max_attempts=2, first_delay=timedelta(seconds=40)))
    sync_yard.advance(seconds=40)
    assert sync_yard.task(submitted).result == {"attempt": 2}
    assert threading.main_thread() not in ran


def test_clients_that_the_program_makes_find_the_yard(sync_yard):
    sync_yard.host({"work": lambda _: 1})
    with SyncClient(agent_id="program") as client:
        assert client.run("work") == 1
        assert client._loop is sync_yard.client._loop


def test_a_host_is_lost_and_another_takes_over(sync_yard):
    started, go_on = threading.Event(), threading.Event()

    def work(task):
        if task.attempt == 1:
            started.set()
            go_on.wait(5)
        return task.attempt

    sync_yard.host({"work": work})
    submitted = sync_yard.client.submit("work", deadline=timedelta(hours=1))
    assert started.wait(5)
    sync_yard.lose("host-1")
    sync_yard.host({"work": work})
    assert sync_yard.until_ended(submitted).result == 2
    go_on.set()


def test_a_closed_yard_is_closed():
    with SyncYard() as yard:
        yard.advance(days=1)
    with pytest.raises(YardError, match="is not open"):
        yard.advance(days=1)


async def test_an_event_loop_is_not_blocked(yard):
    with pytest.raises(RuntimeError, match="use Client here"):
        SyncClient(yard.address)


async def test_blocking_clients_in_threads_live_in_the_loop_of_the_test(yard):
    def program():
        with SyncClient(agent_id="program") as client:
            return client.run("work")

    yard.host({"work": lambda _: 1})
    assert await asyncio.to_thread(program) == 1


def test_a_question_is_answered(sync_yard):
    sync_yard.host({"work": lambda task: task.ask("go", "Go?").value})
    handles = [sync_yard.client.submit("work") for _ in range(2)]
    sync_yard.advance()
    assert [each.question_id for each in handles[0].questions()] == ["go"]
    assert [each.task_id for each in sync_yard.client.questions()] == [each.id for each in handles]
    handles[0].answer("go", 1)
    sync_yard.client.answer(handles[1].id, "go", 2)
    assert [each.result() for each in handles] == [1, 2]
