"""Deliveries wait in a bounded queue for a fixed number of workers (docs/rules.md, Webhooks)."""

import asyncio

import pytest

from tests.waiting import LIMIT_SECS

FULL = (0, 0, 2)


class Gate:
    """An answer that is delayed until the gate is opened."""

    def __init__(self):
        self.opened = asyncio.Event()

    async def __call__(self, writer):
        await self.opened.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")


@pytest.fixture
def gate(receiver):
    """Delays every answer of the receiver."""
    gate = Gate()
    receiver.answers = [gate]
    return gate


@pytest.mark.memory_store
async def test_a_delivery_is_dropped_counted_and_logged_while_the_queue_is_full(make_server, receiver, logged):
    server = await make_server(deliver=False, max_pending=1)
    tasks = await asyncio.wait_for(server.end(*[receiver.url] * 3), LIMIT_SECS)
    assert server.counts == FULL
    assert [(line["event"], line["task_id"]) for line in logged] == [("webhook_dropped", task.id) for task in tasks[1:]]
    assert {line["reason"] for line in logged} == {"queue full"}


@pytest.mark.memory_store
async def test_a_task_whose_delivery_is_dropped_ends_like_any_other(make_server, receiver):
    server = await make_server(deliver=False, max_pending=1)
    tasks = await server.end(*[receiver.url] * 3)
    assert server.counts == FULL
    assert [task.state for task in tasks] == ["done"] * 3
    assert (await server.engine.admin.stats("default")).counters.completed == 3


@pytest.mark.memory_store
async def test_a_full_queue_is_delivered(make_server, receiver):
    server = await make_server(deliver=False, max_pending=1)
    first, *_ = await server.end(*[receiver.url] * 3)
    server.deliver()
    await server.settled()
    assert [post.json()["taskId"] for post in receiver.posts] == [first.id]
    assert server.counts == (1, 0, 2)


@pytest.mark.memory_store
async def test_the_queue_accepts_more_once_it_is_no_longer_full(make_server, receiver):
    server = await make_server(deliver=False, max_pending=1)
    await server.end(*[receiver.url] * 3)
    server.deliver()
    await server.settled()
    await server.end(receiver.url)
    await server.settled()
    assert server.counts == (2, 0, 2)


async def test_at_most_workers_deliveries_are_under_way(make_server, receiver, gate):
    server = await make_server(workers=2)
    await server.end(*[receiver.url] * 6)
    await receiver.received(2)
    gate.opened.set()
    await server.settled()
    assert receiver.max_concurrent == 2
    assert server.counts == (6, 0, 0)


async def test_workers_deliver_concurrently(make_server, receiver, gate):
    server = await make_server(workers=3)
    await server.end(*[receiver.url] * 3)
    await receiver.received(3)
    assert server.counts == (0, 0, 0)
    gate.opened.set()
    await server.settled()
    assert server.counts == (3, 0, 0)


async def test_a_receiver_that_hangs_does_not_delay_others_while_a_worker_is_free(
    make_server, receiver, gate, make_receiver
):
    other = await make_receiver()
    server = await make_server(workers=2)
    await server.end(receiver.url, *[other.url] * 4)
    await other.received(4)
    assert not gate.opened.is_set()
    assert len(receiver.posts) == 1


async def test_tasks_run_while_every_worker_hangs(make_server, receiver, gate):
    server = await make_server(workers=1)
    await server.end(receiver.url)
    await receiver.received()
    tasks = await asyncio.wait_for(server.end(*[receiver.url] * 50), LIMIT_SECS)
    assert {task.state for task in tasks} == {"done"}
    assert not gate.opened.is_set()


async def test_finish_waits_for_pending_deliveries_and_those_under_way(make_server, receiver, gate, logged):
    server = await make_server(workers=1)
    await server.end(*[receiver.url] * 3)
    finishing = asyncio.create_task(server.webhooks.finish(5))
    await receiver.received()
    assert not finishing.done()
    gate.opened.set()
    await finishing
    assert server.counts == (3, 0, 0)
    assert {line["event"] for line in logged} == {"webhook_delivered"}


async def test_finish_returns_at_once_when_nothing_is_pending(server, logged):
    await asyncio.wait_for(server.webhooks.finish(3_600), LIMIT_SECS)
    assert logged == []


@pytest.mark.memory_store
async def test_finish_drops_counts_and_logs_what_is_not_delivered_in_time(make_server, receiver, logged):
    server = await make_server(deliver=False)
    await server.end(*[receiver.url] * 3)
    await server.webhooks.finish(0.01)
    assert server.counts == (0, 0, 3)
    assert [(line["event"], line["log_level"], line["pending"]) for line in logged] == [
        ("webhooks_undelivered", "warning", 3)
    ]


async def test_finish_waits_for_a_further_try(make_server, receiver, monkeypatch):
    monkeypatch.setattr("taskyard_server.webhooks.webhooks.BACKOFF_SECS", (0.05, 0.05))
    receiver.answers = [503, 200]
    server = await make_server()
    await server.end(receiver.url)
    await server.webhooks.finish(5)
    assert server.counts == (1, 0, 0)


async def test_cancelled_workers_end_while_a_receiver_hangs(make_server, receiver, gate):
    server = await make_server(workers=2)
    await server.end(receiver.url)
    await receiver.received()
    assert not gate.opened.is_set()
    server.running.cancel()
    await asyncio.wait_for(asyncio.gather(server.running, return_exceptions=True), LIMIT_SECS)
    assert server.running.cancelled()
