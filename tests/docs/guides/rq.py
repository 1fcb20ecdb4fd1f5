"""What docs/use/from_rq.md says of its examples, as tests of that project."""

import asyncio
from datetime import timedelta

import pytest
import words

from taskyard import TaskFailed


def test_its_result_is_there_later(sync_yard):
    sync_yard.host(words.host)
    assert words.words_of(sync_yard.client, words.enqueue(sync_yard.client)) == 3


def test_its_failure_has_the_traceback_of_the_host(sync_yard):
    sync_yard.host(words.host)
    submitted = sync_yard.client.submit("count", params={"url": 7})
    with pytest.raises(TaskFailed, match="bad_input"):
        words.words_of(sync_yard.client, submitted.id)
    sync_yard.fail_next(words.count, RuntimeError("no route"), times=4)
    task_id = words.enqueue(sync_yard.client)
    sync_yard.until_ended(task_id)
    with pytest.raises(TaskFailed, match="no route") as caught:
        words.words_of(sync_yard.client, task_id)
    assert "RuntimeError: no route" in caught.value.traceback


def test_thumbnails_are_made_in_a_process(sync_yard):
    sync_yard.host(words.host)
    assert sync_yard.client.run(words.thumbnails, 3) == 3


def test_thumbnails_are_stopped(sync_yard):
    sync_yard.host(words.host)
    handle = sync_yard.client.submit(words.thumbnails, 10**12)
    sync_yard.advance(seconds=1, wait=False)
    words.stop(sync_yard.client, handle.id)
    assert sync_yard.task(handle).state == "cancelled"
    assert sync_yard.client.run(words.thumbnails, 3) == 3


async def test_a_failed_task_is_resumed(yard):
    yard.host(words.host)
    yard.fail_next(words.thumbnails, "down")
    task = await yard.until_ended(await yard.client.submit(words.thumbnails, 3))
    assert task.state == "failed"
    await yard.client.resume(task.id)
    assert (await yard.until_ended(task)).state == "done"


async def test_an_attempt_of_over_thirty_seconds_is_ended(yard):
    async def hang(_task):
        await asyncio.Event().wait()

    yard.host({"count": hang})
    submitted = await yard.client.submit(words.count, words.Page("x"))
    await yard.advance(seconds=31, wait=False)
    assert (await yard.task(submitted)).code == "timed_out"


async def test_the_first_delay_is_about_ten_seconds(yard):
    yard.host(words.host)
    yard.fail_next(words.count, "down")
    task = await yard.until_ended(await yard.client.submit(words.count, words.Page("x")))
    between = task.attempts[1].started_at - task.attempts[0].ended_at
    assert timedelta(seconds=5) <= between <= timedelta(seconds=15)


def test_a_job_comes_after_another_even_if_that_fails(sync_yard):
    def fail(_):
        raise ValueError("no")

    sync_yard.host({"first": fail, "second": lambda _: None})
    first = sync_yard.client.submit("first")
    second = sync_yard.client.submit("second", after=[first], after_policy="ended")
    assert sync_yard.until_ended(second).state == "done"


def test_a_unique_job_is_there_once(sync_yard):
    first = sync_yard.client.submit("report", unique_key="daily")
    assert sync_yard.client.submit("report", unique_key="daily").id == first.id
