"""Calls over the limits of a principal: the SDK comes again when the server says, and gives up after its patience."""

import asyncio
from datetime import timedelta

import pytest

from taskyard import TaskState, TooManyRequests
from taskyard.calls.retrying import FIRST_DELAY_SECS, MAX_SPREAD, Backoff
from taskyard_server.core import errors as refusals
from tests.cases import every_case


def limiting(service, name, monkeypatch, times, retry_after_ms):
    """Let a method refuse so many calls. The times of all calls."""
    real, at = getattr(service, name), []

    async def refuse(request, context):
        at.append(asyncio.get_running_loop().time())
        if len(at) <= times:
            raise refusals.TooManyRequests("at most 5 calls a second are allowed", retry_after_ms)
        return await real(request, context)

    monkeypatch.setattr(service, name, refuse)
    return at


async def restarted(server):
    """The server takes the methods of its service as they are at its start."""
    await server.stop()
    await server.start()


async def test_a_call_that_came_too_soon_comes_again_when_the_server_says(server, client, monkeypatch):
    task_id = (await client.submit("click")).id
    at = limiting(server.service, "CancelTask", monkeypatch, times=1, retry_after_ms=400)
    await restarted(server)
    assert await client.cancel(task_id) is TaskState.CANCELLED
    assert at[1] - at[0] >= 0.4


async def test_a_submission_whose_stream_came_too_soon_comes_again(server, client, monkeypatch):
    at = limiting(server.service, "SubmitTasks", monkeypatch, times=1, retry_after_ms=400)
    await restarted(server)
    await client.submit("click")
    assert at[1] - at[0] >= 0.4


async def test_after_its_patience_the_client_raises_what_the_server_said(server, open_client, monkeypatch):
    limiting(server.service, "GetTask", monkeypatch, times=1_000, retry_after_ms=200)
    await restarted(server)
    client = open_client(server, patience=0.5)
    with pytest.raises(TooManyRequests, match="at most 5 calls a second") as raised:
        await client.get("tsk_0")
    assert raised.value.retry_after == timedelta(seconds=0.2)


def test_the_delay_is_never_shorter_than_the_server_says_and_little_longer():
    error = TooManyRequests("too many", retry_after=timedelta(seconds=20))
    delays = [Backoff().delay(error) for _ in range(100)]
    assert min(delays) >= 20
    assert max(delays) <= 20 * MAX_SPREAD
    assert len(set(delays)) > 50


def test_without_a_word_of_the_server_the_delay_is_that_of_an_outage():
    assert Backoff().delay(TooManyRequests("too many")) <= FIRST_DELAY_SECS


@every_case(
    ("call", "error", "message"),
    [
        (lambda client: client.limits.put("k", max_inflight=-1), ValueError, "max_inflight: is from 0 to 4294967295"),
        (lambda client: client.limits.put("k", burst=1.5), TypeError, r"burst: is a whole number, not 1.5 \(float\)"),
        (lambda client: client.limits.put("k", per_second="5"), TypeError, r"per_second: is a number, not '5' \(str\)"),
        (lambda client: client.agents.put("a", 1.5), TypeError, r"weight: is a whole number, not 1.5 \(float\)"),
        (
            lambda client: client.agents.put("a", 2**40),
            ValueError,
            "weight: is from 0 to 4294967295, not 1099511627776",
        ),
        (lambda client: client.reprioritize_tasks(2**31, all=True), ValueError, "priority: is from -2147483648 to "),
        (lambda client: client.resume_tasks(token_limit=-1, all=True), ValueError, "token_limit: is from 0 to "),
        (lambda client: client.resume("tsk_1", token_limit=2**32), ValueError, "token_limit: is from 0 to "),
    ],
)
async def test_a_number_that_the_api_cannot_express_is_refused_by_its_name(client, call, error, message):
    with pytest.raises(error, match=message):
        await call(client)
