"""Names of 0.2 hold for one release, with a warning that names the new one (docs/develop/glossary.md, Names)."""

from datetime import UTC, datetime, timedelta

import pytest

from taskyard import Client, NewTask, RetryPolicy, Submitted, SyncClient, Task, TaskState, TooManyRequests

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def test_arguments_keep_their_old_names(client):
    with pytest.warns(DeprecationWarning, match="agent= is now agent_id=") as warned:
        old = Client("127.0.0.1:1", agent="bob")
    assert warned[0].filename == __file__
    await old.close()
    with pytest.warns(DeprecationWarning, match="agent= is now agent_id="):
        assert [task async for task in client.list(agent="bob")] == []
    with pytest.warns(DeprecationWarning, match="agent= is now agent_id="):
        await client.watch(agent="bob").aclose()
    with pytest.warns(DeprecationWarning, match="agent= is now agent_id="):
        await client.submit_batch([NewTask("click")], agent="bob")
    assert [task.agent_id async for task in client.list()] == ["bob"]


def test_the_blocking_client_warns_its_caller():
    with pytest.warns(DeprecationWarning, match="agent= is now agent_id=") as warned:
        SyncClient("127.0.0.1:1", agent="bob").close()
    assert warned[0].filename == __file__


def test_both_names_of_an_argument_are_refused():
    with pytest.raises(TypeError, match="agent_id and agent are the same: give agent_id alone"):
        SyncClient("127.0.0.1:1", agent="bob", agent_id="ann")


def test_spans_were_numbers():
    with pytest.warns(DeprecationWarning, match=r"RetryPolicy\(first_delay_ms=\) is now first_delay=, a timedelta"):
        policy = RetryPolicy(2, first_delay_ms=250, max_delay_ms=500)
    assert policy == RetryPolicy(2, timedelta(milliseconds=250), max_delay=timedelta(milliseconds=500))
    with pytest.warns(DeprecationWarning, match="first_delay_ms is now first_delay, a timedelta"):
        assert policy.first_delay_ms == 250
    task = Task("t", "ann", "click", TaskState.DONE, NOW, latency=timedelta(milliseconds=7))
    with pytest.warns(DeprecationWarning, match="Task.latency_ms is now latency, a timedelta") as warned:
        assert task.latency_ms == 7
    assert warned[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="retry_after_secs is now retry_after"):
        assert TooManyRequests("no", retry_after=timedelta(seconds=2)).retry_after_secs == 2.0


def test_an_acceptance_had_its_id_under_another_name():
    with pytest.warns(DeprecationWarning, match="Submitted.task_id is now id"):
        assert Submitted("tsk_1", TaskState.QUEUED, 1, NOW).task_id == "tsk_1"


def test_a_delay_is_a_timedelta():
    with pytest.raises(TypeError, match="first_delay: is a timedelta, not 5"):
        RetryPolicy(2, 5)
