"""The tries of a delivery: answers, time-outs, backoff; none of it touches the task (docs/rules.md, Webhooks)."""

import asyncio
from itertools import pairwise

import pytest

from taskyard_server.conversion.task_encoding import encode_task
from taskyard_server.settings.config import WebhookSettings
from taskyard_server.webhooks import webhooks
from tests.live import live


async def silence(_):
    """Never answers."""
    await asyncio.Event().wait()


async def trickle(writer):
    """Sends byte after byte, and never a whole answer."""
    writer.write(b"HTTP/1.1 200 OK\r\nx-slow: ")
    while True:
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.01)


async def endless(writer):
    """Sends a good status, and a body that never ends."""
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n.\r\n")
    await writer.drain()
    await asyncio.Event().wait()


async def hang_up(writer):
    """Closes the connection without an answer."""
    writer.close()


def redirect(status, url):
    return f"HTTP/1.1 {status} Elsewhere\r\nlocation: {url}\r\ncontent-length: 0\r\n\r\n".encode()


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_any_2xx_is_a_delivery(server, receiver, status):
    receiver.answers = [status]
    await server.end(receiver.url)
    await server.settled()
    assert len(receiver.posts) == 1
    assert server.counts == (1, 0, 0)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_and_not_tried_again(server, receiver, make_receiver, status):
    other = await make_receiver()
    receiver.answers = [redirect(status, other.url)]
    await server.end(receiver.url)
    await server.settled()
    assert (len(receiver.posts), other.connections) == (1, 0)
    assert server.counts == (0, 1, 0)


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408, 429])
async def test_a_temporary_error_is_tried_three_times_and_counted_as_one_failure(server, receiver, status):
    receiver.answers = [status]
    await server.end(receiver.url)
    await server.settled()
    assert len(receiver.posts) == 3
    assert server.counts == (0, 1, 0)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 413, 422, 451])
async def test_a_permanent_error_is_not_tried_again(server, receiver, status):
    receiver.answers = [status]
    await server.end(receiver.url)
    await server.settled()
    assert len(receiver.posts) == 1
    assert server.counts == (0, 1, 0)


@pytest.mark.parametrize("answers", [[503, 200], [503, 429, 200], [hang_up, 200]], ids=["once", "twice", "hung up"])
async def test_a_later_try_that_succeeds_is_a_delivery(server, receiver, answers):
    receiver.answers = answers
    await server.end(receiver.url)
    await server.settled()
    assert len(receiver.posts) == len(answers)
    assert server.counts == (1, 0, 0)


async def test_a_permanent_error_after_a_temporary_one_is_not_tried_again(server, receiver):
    receiver.answers = [503, 404, 200]
    await server.end(receiver.url)
    await server.settled()
    assert len(receiver.posts) == 2
    assert server.counts == (0, 1, 0)


async def test_every_try_sends_the_same_request(server, receiver):
    receiver.answers = [503, 503, 200]
    await server.end(receiver.url)
    await server.settled()
    first, second, third = receiver.posts
    assert first == second == third


async def test_tries_are_spaced_by_the_backoff(server, receiver, monkeypatch):
    monkeypatch.setattr(webhooks, "BACKOFF_SECS", (0.05, 0.15))
    receiver.answers = [503]
    await server.end(receiver.url)
    await server.settled()
    first, second = (later - earlier for earlier, later in pairwise(receiver.times))
    assert first >= 0.05
    assert second >= 0.15


def test_the_backoff_grows_and_has_a_delay_before_each_further_try():
    assert webhooks.TRIES == 3
    assert len(webhooks.BACKOFF_SECS) == webhooks.TRIES - 1
    assert 0 < webhooks.BACKOFF_SECS[0] < webhooks.BACKOFF_SECS[1]


async def test_a_backoff_does_not_delay_other_deliveries_while_a_worker_is_free(
    make_server, receiver, make_receiver, monkeypatch
):
    monkeypatch.setattr(webhooks, "BACKOFF_SECS", (60, 60))
    other = await make_receiver(503)
    server = await make_server(workers=2)
    await server.end(other.url, receiver.url, receiver.url)
    await other.received()
    await receiver.received(2)
    assert len(other.posts) == 1


async def test_a_server_that_hangs_up_is_tried_three_times(server, receiver):
    receiver.answers = [hang_up]
    await server.end(receiver.url)
    await server.settled()
    assert len(receiver.posts) == 3
    assert server.counts == (0, 1, 0)


async def test_a_server_that_does_not_speak_http_is_a_failure(server, receiver):
    receiver.answers = [b"220 mail.example ESMTP\r\n"]
    await server.end(receiver.url)
    await server.settled()
    assert server.counts == (0, 1, 0)


async def test_a_refused_connection_is_a_failure_after_three_tries(server, make_receiver, logged):
    gone = await make_receiver()
    await gone.close()
    await server.end(gone.url)
    await server.settled()
    assert server.counts == (0, 1, 0)
    assert [(line["event"], line["tries"]) for line in logged] == [("webhook_failed", 3)]


@pytest.mark.parametrize("answer", [silence, trickle])
async def test_a_try_without_a_whole_answer_in_time_is_given_up(make_server, receiver, logged, answer):
    server = await make_server(timeout_secs=0.2)
    receiver.answers = [answer]
    (task,) = await server.end(receiver.url)
    await server.settled()
    assert server.counts == (0, 1, 0)
    (line,) = logged
    assert (line["event"], line["task_id"], line["tries"]) == ("webhook_failed", task.id, 3)
    assert "0.2 s" in line["problem"]


async def test_a_try_after_a_time_out_can_be_a_delivery(make_server, receiver):
    server = await make_server(timeout_secs=0.5)
    receiver.answers = [silence, 200]
    await server.end(receiver.url)
    await server.settled()
    assert len(receiver.posts) == 2
    assert server.counts == (1, 0, 0)


def test_the_time_out_is_ten_seconds_by_default():
    assert WebhookSettings().timeout_secs == 10


async def test_a_delivery_does_not_wait_for_the_end_of_the_answer(server, receiver):
    receiver.answers = [endless]
    await server.end(receiver.url)
    await server.settled()
    assert server.counts == (1, 0, 0)


@pytest.mark.parametrize("answer", [200, 404, 503, hang_up], ids=["delivered", "permanent", "temporary", "hung up"])
async def test_a_delivery_does_not_change_its_task(server, receiver, answer):
    receiver.answers = [answer]
    await server.submit(receiver.url)
    task = await server.complete()
    before, figures = encode_task(task), await server.engine.admin.stats("default")
    await server.settled()
    assert sum(server.counts) == 1
    assert encode_task(await server.engine.tasks.get("default", task.id, show=live)) == before
    assert await server.engine.admin.stats("default") == figures


async def test_outcomes_are_logged_with_the_task_and_the_tries(server, receiver, logged):
    receiver.answers = [503, 200, 404]
    (good,) = await server.end(receiver.url)
    await server.settled()
    (bad,) = await server.end(receiver.url)
    await server.settled()
    delivered, failed = logged
    assert (delivered["event"], delivered["log_level"], delivered["task_id"]) == ("webhook_delivered", "info", good.id)
    assert (delivered["status"], delivered["tries"]) == (200, 2)
    assert (failed["event"], failed["log_level"], failed["task_id"]) == ("webhook_failed", "warning", bad.id)
    assert (failed["problem"], failed["tries"]) == ("status 404", 1)


@pytest.mark.parametrize(
    "url",
    ["ftp://127.0.0.1/hook", "http://127.0.0.1:99999/hook", "http://h\u00f6ks.example/hook", "http://[::1/hook"],
    ids=["other scheme", "no port", "not ASCII", "no URL"],
)
async def test_a_delivery_that_raises_is_counted_and_does_not_end_its_worker(make_server, receiver, logged, url):
    server = await make_server(workers=1)
    broken, _ = await server.end(url, receiver.url)
    await server.settled()
    assert len(receiver.posts) == 1
    assert server.counts == (1, 1, 0)
    assert logged[0]["task_id"] == broken.id
    assert server.running is not None
    assert not server.running.done()


async def test_proxies_of_the_environment_are_not_used(server, receiver, make_receiver, monkeypatch):
    proxy = await make_receiver()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    await server.end(receiver.url)
    await server.settled()
    assert (len(receiver.posts), proxy.connections) == (1, 0)
