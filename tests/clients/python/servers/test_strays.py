"""Calls that come to a server which does not own the namespace: they had no effect, and are repeated soon."""

import asyncio
import time

import pytest

from taskyard import SyncClient, TaskState, Unavailable
from taskyard.calls.retrying import QUICK_TRIES, Backoff
from taskyard.errors import CallCancelled, Conflict, NotFound, NotOwner
from taskyard.v1 import task_pb2 as pb

CALLS = {
    "get": lambda client: client.get("a"),
    "submit": lambda client: client.submit("click"),
    "submit a large task": lambda client: client.submit("click", params={"text": "x" * 1_100_000}),
    "resume": lambda client: client.resume("a"),
    "cancel": lambda client: client.cancel("a"),
    "wait": lambda client: client.wait("a"),
    "watch": lambda client: anext(client.watch()),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_every_call_is_repeated(start, open_client, call):
    replica = await start()
    replica.strays = 5
    began = time.monotonic()
    await call(open_client(replica.address))
    assert time.monotonic() - began >= 0.1
    assert len(replica.calls) == 6


async def test_the_blocking_client_repeats_them_too(start):
    replica = await start()
    replica.strays = 2

    def call():
        with SyncClient(replica.address) as client:
            return client.resume("a")

    assert await asyncio.to_thread(call) is TaskState.QUEUED


async def test_a_repeat_of_what_had_no_effect_does_not_hide_an_error(start, open_client):
    replica = await start()
    replica.strays, replica.state = 1, pb.Task.cancelled
    client = open_client(replica.address)
    with pytest.raises(Conflict):
        await client.cancel("a")
    replica.strays = 1
    with pytest.raises(NotFound):
        await client.resume("tsk_none")


async def test_after_the_patience_the_error_is_unavailable_and_names_the_owner(start, open_client):
    replica = await start()
    replica.strays = 1_000
    client = open_client(replica.address, patience=0.3)
    for call in (client.get("a"), client.resume("a"), client.submit("click"), anext(client.watch())):
        began = time.monotonic()
        with pytest.raises(Unavailable) as raised:
            await call
        assert time.monotonic() - began > 0.25
        assert (raised.value.code, raised.value.retryable, raised.value.details) == (
            "unavailable",
            True,
            {"owner": "other"},
        )


@pytest.mark.parametrize("does", ["hangs", "ends"])
async def test_a_submission_that_is_given_up_names_the_owner_whatever_the_last_stream_did(start, open_client, does):
    # gRPC ends a stream without a reason where it is written to in the moment in which the server refuses it.
    replica = await start()
    replica.strays = 1
    setattr(replica, does, True)
    with pytest.raises(Unavailable) as raised:
        await open_client(replica.address, patience=0.3).submit("click")
    assert raised.value.details == {"owner": "other"}


@pytest.mark.usefixtures("in_order")
async def test_a_connection_outlives_a_stray_and_a_server_that_knows_no_better_is_left(start, open_client):
    first, second = await start(), await start()
    client = open_client(first.address, second.address)
    first.strays = 3
    await client.get("a")
    assert (len(first.calls), len(second.calls)) == (4, 0)
    first.strays = 1_000
    await client.get("a")
    assert (len(first.calls), len(second.calls)) == (14, 1)


def test_the_first_delays_are_short_and_the_later_ones_grow():
    backoff, stray = Backoff(), NotOwner("another replica has it")
    first = [backoff.delay(stray) for _ in range(QUICK_TRIES)]
    assert all(0.02 <= delay <= 0.05 for delay in first)
    assert len(set(first)) > 1
    later = [backoff.delay(stray) for _ in range(6)]
    assert max(later) > 0.2
    backoff.reset()
    assert backoff.delay(stray) <= 0.05


@pytest.mark.usefixtures("in_order")
class TestWhereAServerIsKilledInMidCall:
    """What it had done nobody knows."""

    @pytest.fixture
    async def replicas(self, start):
        first, second = await start(), await start()
        first.dies = True
        return first, second

    @pytest.fixture
    async def client(self, replicas, open_client):
        return open_client(*[replica.address for replica in replicas])

    async def test_a_read_is_repeated_at_another(self, replicas, client):
        assert (await client.get("a")).id == "a"
        assert [replica.calls for replica in replicas] == [["GetTask"]] * 2

    async def test_a_submission_is_repeated_under_its_key(self, replicas, client):
        await client.submit("click")
        first, second = replicas
        assert first.made == second.made
        assert len(second.made) == 1

    async def test_a_cancel_that_was_done_before_is_no_conflict(self, replicas, client):
        replicas[1].state = pb.Task.cancelled
        assert await client.cancel("a") is TaskState.CANCELLED

    async def test_what_must_not_be_repeated_is_not(self, replicas, client):
        with pytest.raises((Unavailable, CallCancelled)):
            await client.resume("a")
        assert replicas[1].calls == []
