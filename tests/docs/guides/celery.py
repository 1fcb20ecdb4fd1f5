"""What docs/use/from_celery.md says of its examples, as tests of that project."""

from datetime import timedelta

import post
import pytest

from taskyard import BadValue


def test_a_task_is_run(sync_yard):
    sync_yard.host(post.host)
    assert post.greet() == 5


def test_it_is_sent_at_last(sync_yard):
    sync_yard.host(post.host)
    sync_yard.fail_next(post.send, "the mail server is down", times=4)
    task = sync_yard.until_ended(sync_yard.client.submit(post.send, post.Mail("ann", "Hello")))
    assert (task.state, len(task.attempts)) == ("done", 5)


def test_an_address_that_is_missing_fails_at_once(sync_yard):
    sync_yard.host(post.host)
    task = sync_yard.until_ended(sync_yard.client.submit(post.send, post.Mail("", "Hello")))
    assert (task.state, task.code, len(task.attempts)) == ("failed", "no_address", 1)


def test_a_busy_server_is_asked_again_after_exactly_five_minutes(sync_yard, monkeypatch):
    answers = iter([True, False])
    monkeypatch.setattr(post, "is_busy", lambda: next(answers))
    sync_yard.host(post.host)
    task = sync_yard.until_ended(sync_yard.client.submit(post.send, post.Mail("ann", "Hello")))
    assert task.state == "done"
    between = task.attempts[1].started_at - task.attempts[0].ended_at
    assert timedelta(minutes=5) <= between < timedelta(minutes=5, seconds=1)


def test_a_mail_is_sent_later(sync_yard):
    sync_yard.host(post.host)
    post.plan(sync_yard.client)
    (task,) = sync_yard.client.list()
    assert task.state == "pending"
    assert sync_yard.until_ended(task).state == "done"


def test_all_are_sent(sync_yard):
    sync_yard.host(post.host)
    assert post.send_all(sync_yard.client, ["ann", "bob"]) == 10


def test_an_input_that_does_not_fit_is_refused_before_it_is_sent(sync_yard):
    with pytest.raises(BadValue):
        sync_yard.client.submit(post.send, post.Mail("ann", 7))
    assert list(sync_yard.client.list()) == []


def test_without_a_deadline_it_fails_after_a_minute(sync_yard):
    submitted = sync_yard.client.submit("send")
    sync_yard.advance(seconds=59)
    assert sync_yard.task(submitted).state == "queued"
    sync_yard.advance(seconds=2)
    assert sync_yard.task(submitted).state == "failed"


def test_a_rate_holds_over_all_workers(sync_yard):
    sync_yard.client.limits.put("mail", per_second=1)
    for host_id in ("worker-1", "worker-2"):
        sync_yard.host({"send": lambda _: None}, host_id)
    mails = [sync_yard.client.submit("send", concurrency_keys=["mail"]) for _ in range(4)]
    sync_yard.advance(seconds=2)
    assert [sync_yard.task(mail).state for mail in mails] == ["done", "done", "done", "queued"]


def test_a_chain_goes_on_where_its_first_task_is_done(sync_yard):
    order = []
    sync_yard.host({name: lambda task: order.append(task.action) for name in ("first", "second", "last")})
    first, second = sync_yard.client.submit("first"), sync_yard.client.submit("second")
    sync_yard.until_ended(sync_yard.client.submit("last", after=[first, second]))
    assert (sorted(order[:2]), order[2:]) == (["first", "second"], ["last"])


def test_a_task_is_there_once(sync_yard):
    first = sync_yard.client.submit("report", unique_key="daily")
    assert sync_yard.client.submit("report", unique_key="daily").id == first.id
