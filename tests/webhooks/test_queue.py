"""Deliveries wait in a bounded queue for a fixed number of workers; the scheduler never waits for them."""

import asyncio

import pytest

FULL = (0, 0, 2)


class Gate:
    """An answer that is held back until the gate is opened."""

    def __init__(self):
        self.opened = asyncio.Event()

    async def __call__(self, writer):
        await self.opened.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")


@pytest.fixture
def gate(receiver):
    """Holds back every answer of the receiver."""
    gate = Gate()
    receiver.answers = [gate]
    return gate


async def test_a_full_queue_drops_and_counts_and_says_so_without_blocking(make_yard, receiver, logged):
    yard = make_yard(deliver=False, max_pending=1)
    tasks = await asyncio.wait_for(yard.end(*[receiver.url] * 3), 1)
    assert yard.counts == FULL
    assert [(line["event"], line["task_id"]) for line in logged] == [("webhook_dropped", task.id) for task in tasks[1:]]
    assert {line["reason"] for line in logged} == {"queue full"}


async def test_a_task_whose_delivery_is_dropped_ends_like_any_other(make_yard, receiver):
    yard = make_yard(deliver=False, max_pending=1)
    tasks = await yard.end(*[receiver.url] * 3)
    assert yard.counts == FULL
    assert [task.state for task in tasks] == ["done"] * 3
    assert (await yard.engine.admin.stats("default")).counters.completed == 3


async def test_what_fits_into_a_full_queue_is_still_delivered(make_yard, receiver):
    yard = make_yard(deliver=False, max_pending=1)
    first, *_ = await yard.end(*[receiver.url] * 3)
    yard.deliver()
    await yard.settled()
    assert [post.json()["taskId"] for post in receiver.posts] == [first.id]
    assert yard.counts == (1, 0, 2)


async def test_the_queue_takes_more_once_there_is_room_again(make_yard, receiver):
    yard = make_yard(deliver=False, max_pending=1)
    await yard.end(*[receiver.url] * 3)
    yard.deliver()
    await yard.settled()
    await yard.end(receiver.url)
    await yard.settled()
    assert yard.counts == (2, 0, 2)


async def test_no_more_deliveries_are_under_way_than_there_are_workers(make_yard, receiver, gate):
    yard = make_yard(workers=2)
    await yard.end(*[receiver.url] * 6)
    await receiver.received(2)
    await asyncio.sleep(0.05)  # time for a third to come, if one could
    assert len(receiver.posts) == 2
    gate.opened.set()
    await yard.settled()
    assert receiver.most_at_once == 2
    assert yard.counts == (6, 0, 0)


async def test_deliveries_are_made_side_by_side(make_yard, receiver, gate):
    yard = make_yard(workers=3)
    await yard.end(*[receiver.url] * 3)
    await receiver.received(3)
    assert yard.counts == (0, 0, 0)
    gate.opened.set()
    await yard.settled()
    assert yard.counts == (3, 0, 0)


async def test_a_receiver_that_hangs_does_not_hold_up_others_while_a_worker_is_free(
    make_yard, receiver, gate, make_receiver
):
    other = await make_receiver()
    yard = make_yard(workers=2)
    await yard.end(receiver.url, *[other.url] * 4)
    await other.received(4)
    assert not gate.opened.is_set()
    assert len(receiver.posts) == 1


async def test_the_scheduler_goes_on_while_every_worker_hangs(make_yard, receiver, gate):
    yard = make_yard(workers=1)
    await yard.end(receiver.url)
    await receiver.received()
    tasks = await asyncio.wait_for(yard.end(*[receiver.url] * 50), 1)
    assert {task.state for task in tasks} == {"done"}
    assert not gate.opened.is_set()


async def test_finish_waits_for_what_is_pending_and_under_way(make_yard, receiver, gate, logged):
    yard = make_yard(workers=1)
    await yard.end(*[receiver.url] * 3)
    finishing = asyncio.create_task(yard.webhooks.finish(5))
    await receiver.received()
    assert not finishing.done()
    gate.opened.set()
    await finishing
    assert yard.counts == (3, 0, 0)
    assert {line["event"] for line in logged} == {"webhook_delivered"}


async def test_finish_returns_at_once_when_nothing_is_pending(yard, logged):
    await asyncio.wait_for(yard.webhooks.finish(60), 1)
    assert logged == []


async def test_finish_reports_and_counts_what_it_could_not_deliver(make_yard, receiver, logged):
    yard = make_yard(deliver=False)
    await yard.end(*[receiver.url] * 3)
    await yard.webhooks.finish(0.01)
    assert yard.counts == (0, 0, 3)
    assert [(line["event"], line["log_level"], line["pending"]) for line in logged] == [
        ("webhooks_undelivered", "warning", 3)
    ]


async def test_finish_waits_for_a_further_try(make_yard, receiver, monkeypatch):
    monkeypatch.setattr("taskyard_server.webhooks.BACKOFF_SECS", (0.05, 0.05))
    receiver.answers = [503, 200]
    yard = make_yard()
    await yard.end(receiver.url)
    await yard.webhooks.finish(5)
    assert yard.counts == (1, 0, 0)


async def test_workers_that_are_cancelled_end_though_a_receiver_hangs(make_yard, receiver, gate):
    yard = make_yard(workers=2)
    await yard.end(receiver.url)
    await receiver.received()
    assert not gate.opened.is_set()
    yard.running.cancel()
    await asyncio.wait_for(asyncio.gather(yard.running, return_exceptions=True), 1)
    assert yard.running.cancelled()
