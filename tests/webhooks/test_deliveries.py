"""How a delivery goes: tries, answers, time-outs, and what none of it may touch (DESIGN, Webhooks)."""

import asyncio
from itertools import pairwise

import pytest

from taskyard_server import webhooks
from taskyard_server.config import WebhookSettings
from taskyard_server.conversion.responses import task_message


async def silence(_):
    """Never answers."""
    await asyncio.Event().wait()


async def trickle(writer):
    """Sends a little again and again, and never a whole answer."""
    writer.write(b"HTTP/1.1 200 OK\r\nx-slow: ")
    while True:
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.01)


async def endless(writer):
    """A good status, and a body that never ends."""
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n.\r\n")
    await writer.drain()
    await asyncio.Event().wait()


async def hang_up(writer):
    """Ends the connection without an answer."""
    writer.close()


def redirect(status, url):
    return f"HTTP/1.1 {status} Elsewhere\r\nlocation: {url}\r\ncontent-length: 0\r\n\r\n".encode()


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_any_2xx_is_a_delivery(yard, receiver, status):
    receiver.answers = [status]
    await yard.end(receiver.url)
    await yard.settled()
    assert len(receiver.posts) == 1
    assert yard.counts == (1, 0, 0)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_and_not_tried_again(yard, receiver, make_receiver, status):
    other = await make_receiver()
    receiver.answers = [redirect(status, other.url)]
    await yard.end(receiver.url)
    await yard.settled()
    assert (len(receiver.posts), other.connections) == (1, 0)
    assert yard.counts == (0, 1, 0)


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408, 429])
async def test_a_passing_trouble_is_tried_three_times_and_counted_as_one_failure(yard, receiver, status):
    receiver.answers = [status]
    await yard.end(receiver.url)
    await yard.settled()
    assert len(receiver.posts) == 3
    assert yard.counts == (0, 1, 0)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 413, 422, 451])
async def test_a_refusal_is_not_tried_again(yard, receiver, status):
    receiver.answers = [status]
    await yard.end(receiver.url)
    await yard.settled()
    assert len(receiver.posts) == 1
    assert yard.counts == (0, 1, 0)


@pytest.mark.parametrize("answers", [[503, 200], [503, 429, 200], [hang_up, 200]], ids=["once", "twice", "hung up"])
async def test_a_later_try_that_succeeds_is_a_delivery(yard, receiver, answers):
    receiver.answers = answers
    await yard.end(receiver.url)
    await yard.settled()
    assert len(receiver.posts) == len(answers)
    assert yard.counts == (1, 0, 0)


async def test_a_trouble_that_turns_into_a_refusal_is_not_tried_again(yard, receiver):
    receiver.answers = [503, 404, 200]
    await yard.end(receiver.url)
    await yard.settled()
    assert len(receiver.posts) == 2
    assert yard.counts == (0, 1, 0)


async def test_each_try_sends_the_same(yard, receiver):
    receiver.answers = [503, 503, 200]
    await yard.end(receiver.url)
    await yard.settled()
    first, second, third = receiver.posts
    assert first == second == third


async def test_tries_are_spaced_by_the_backoff(yard, receiver, monkeypatch):
    monkeypatch.setattr(webhooks, "BACKOFF_SECS", (0.05, 0.15))
    receiver.answers = [503]
    await yard.end(receiver.url)
    await yard.settled()
    first, second = (later - earlier for earlier, later in pairwise(receiver.times))
    assert first >= 0.05
    assert second >= 0.15


def test_the_backoff_grows_and_has_a_pause_before_each_further_try():
    assert webhooks.TRIES == 3
    assert len(webhooks.BACKOFF_SECS) == webhooks.TRIES - 1
    assert 0 < webhooks.BACKOFF_SECS[0] < webhooks.BACKOFF_SECS[1]


async def test_a_pause_before_the_next_try_keeps_no_other_delivery_waiting_while_a_worker_is_free(
    make_yard, receiver, make_receiver, monkeypatch
):
    monkeypatch.setattr(webhooks, "BACKOFF_SECS", (60, 60))
    other = await make_receiver(503)
    yard = make_yard(workers=2)
    await yard.end(other.url, receiver.url, receiver.url)
    await other.received()
    await receiver.received(2)
    assert len(other.posts) == 1


async def test_a_server_that_hangs_up_is_tried_three_times(yard, receiver):
    receiver.answers = [hang_up]
    await yard.end(receiver.url)
    await yard.settled()
    assert len(receiver.posts) == 3
    assert yard.counts == (0, 1, 0)


async def test_a_server_that_does_not_speak_http_is_a_failure(yard, receiver):
    receiver.answers = [b"220 mail.example ESMTP\r\n"]
    await yard.end(receiver.url)
    await yard.settled()
    assert yard.counts == (0, 1, 0)


async def test_a_port_where_nobody_listens_is_a_failure_after_three_tries(yard, make_receiver, logged):
    gone = await make_receiver()
    await gone.close()
    await yard.end(gone.url)
    await yard.settled()
    assert yard.counts == (0, 1, 0)
    assert [(line["event"], line["tries"]) for line in logged] == [("webhook_failed", 3)]


@pytest.mark.parametrize("answer", [silence, trickle])
async def test_a_try_without_an_answer_in_time_is_given_up(make_yard, receiver, logged, answer):
    yard = make_yard(timeout_secs=0.05)
    receiver.answers = [answer]
    (task,) = await yard.end(receiver.url)
    await yard.settled()
    assert len(receiver.posts) == 3
    assert yard.counts == (0, 1, 0)
    (line,) = logged
    assert (line["event"], line["task_id"], line["tries"]) == ("webhook_failed", task.id, 3)
    assert "0.05 s" in line["problem"]


async def test_a_server_that_answers_in_time_after_one_time_out_gets_its_delivery(make_yard, receiver):
    yard = make_yard(timeout_secs=0.2)
    receiver.answers = [silence, 200]
    await yard.end(receiver.url)
    await yard.settled()
    assert len(receiver.posts) == 2
    assert yard.counts == (1, 0, 0)


def test_the_time_out_is_ten_seconds_unless_set():
    assert WebhookSettings().timeout_secs == 10


async def test_a_delivery_waits_for_the_status_and_not_for_the_end_of_the_answer(yard, receiver):
    receiver.answers = [endless]
    await yard.end(receiver.url)
    await yard.settled()
    assert yard.counts == (1, 0, 0)


@pytest.mark.parametrize("answer", [200, 404, 503, hang_up], ids=["delivered", "refused", "in trouble", "hung up"])
async def test_the_task_is_untouched_by_its_delivery(yard, receiver, answer):
    receiver.answers = [answer]
    await yard.submit(receiver.url)
    task = await yard.complete()
    before, figures = task_message(task), await yard.engine.admin.stats("default")
    await yard.settled()
    assert sum(yard.counts) == 1
    assert task_message(await yard.engine.tasks.get("default", task.id)) == before
    assert await yard.engine.admin.stats("default") == figures


async def test_outcomes_are_logged_with_the_task_and_the_tries(yard, receiver, logged):
    receiver.answers = [503, 200, 404]
    (good,) = await yard.end(receiver.url)
    await yard.settled()
    (bad,) = await yard.end(receiver.url)
    await yard.settled()
    delivered, failed = logged
    assert (delivered["event"], delivered["log_level"], delivered["task_id"]) == ("webhook_delivered", "info", good.id)
    assert (delivered["status"], delivered["tries"]) == (200, 2)
    assert (failed["event"], failed["log_level"], failed["task_id"]) == ("webhook_failed", "warning", bad.id)
    assert (failed["problem"], failed["tries"]) == ("status 404", 1)


@pytest.mark.parametrize(
    "poison",
    ["ftp://127.0.0.1/hook", "http://127.0.0.1:99999/hook", "http://h\u00f6ks.example/hook", "http://[::1/hook"],
    ids=["other scheme", "no port", "not ASCII", "no URL"],
)
async def test_a_delivery_that_crashes_is_counted_and_leaves_its_worker_alive(make_yard, receiver, logged, poison):
    yard = make_yard(workers=1)
    crashed, _ = await yard.end(poison, receiver.url)
    await yard.settled()
    assert len(receiver.posts) == 1
    assert yard.counts == (1, 1, 0)
    assert logged[0]["task_id"] == crashed.id
    assert yard.running is not None
    assert not yard.running.done()


async def test_a_proxy_in_the_environment_is_not_used(yard, receiver, make_receiver, monkeypatch):
    proxy = await make_receiver()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    await yard.end(receiver.url)
    await yard.settled()
    assert (len(receiver.posts), proxy.connections) == (1, 0)
