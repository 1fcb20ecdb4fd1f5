"""Simultaneous submits share a stream and its messages, and each makes one task, also if the stream breaks."""

import asyncio

import pytest

from taskyard import AlreadyExists, BadRequest, Client, ClientClosed, QueueFull, TooLarge, Unavailable
from taskyard.streams.submitting import MAX_UNANSWERED
from taskyard_server.core import errors as refusals
from taskyard_server.engine.answers import Answer
from tests.ports import free_port
from tests.waiting import LIMIT_SECS, until


async def submit_many(client, count, prefix="a"):
    """Submit tasks at once. Returns their outcomes in order, errors among them."""
    calls = (client.submit(f"{prefix}{number}") for number in range(count))
    return await asyncio.gather(*calls, return_exceptions=True)


def sizes(server):
    return [len(message) for message in server.service.messages]


async def actions(client):
    return [task.action async for task in client.list()]


# Messages


async def test_consecutive_submits_are_sent_one_by_one(server, client):
    await client.submit("click")
    await client.submit("type")
    assert server.service.messages == [["click"], ["type"]]
    assert server.service.streams == 1


async def test_simultaneous_submits_share_messages_of_up_to_fifty_tasks(server, client):
    await submit_many(client, 120)
    assert sizes(server) == [50, 50, 20]
    assert server.service.streams == 1


async def test_no_stream_is_opened_before_the_first_submit(server, client):
    await client.stats()
    assert server.service.streams == 0


async def test_tasks_are_queued_in_the_order_of_their_submission_and_each_gets_its_answer(client):
    submitted = await submit_many(client, 500)
    assert [each.position for each in submitted] == list(range(1, 501))
    assert await actions(client) == [f"a{number}" for number in range(500)]
    for number in (0, 49, 50, 499):
        assert (await client.get(submitted[number].id)).action == f"a{number}"


async def test_a_message_has_at_most_a_megabyte(server, client):
    params = {"x": "x" * 240_000}
    await asyncio.gather(*(client.submit("click", params=params) for _ in range(7)))
    assert sizes(server) == [4, 3]


async def test_a_task_larger_than_a_message_is_submitted_by_a_call_of_its_own(server, client):
    submits = client.submit("large", selector="x" * 1_500_000), client.submit("small")
    large, small = await asyncio.gather(*submits, return_exceptions=True)
    assert server.service.messages == [["small"]]
    assert large.reason.startswith("selector: must be at most")
    assert (await client.get(small.id)).action == "small"


async def test_a_task_too_large_for_the_server_does_not_affect_others(server, client):
    outcomes = await asyncio.gather(
        client.submit("huge", selector="x" * 9_000_000), client.submit("small"), return_exceptions=True
    )
    assert isinstance(outcomes[0], TooLarge)
    assert (await client.get(outcomes[1].id)).action == "small"
    assert server.service.streams == 1


async def test_the_number_of_unanswered_messages_is_bounded(server, client):
    server.service.mute = True
    submitting = asyncio.create_task(submit_many(client, 50 * (MAX_UNANSWERED + 10)))
    submitter = client._desk._submitter
    await until(lambda: len(submitter._unanswered) >= MAX_UNANSWERED)
    for _ in range(20):
        await client.stats()
    assert len(submitter._unanswered) == MAX_UNANSWERED
    assert len(submitter._waiting) == 50 * 10
    await server.stop()
    server.service.mute = False
    server.service.messages.clear()
    await server.start()
    assert not [each for each in await submitting if isinstance(each, BaseException)]
    assert await server.made() == 50 * (MAX_UNANSWERED + 10)
    # Unanswered tasks are sent again first, in their order.
    sent = [action for message in server.service.messages for action in message]
    assert sent == [f"a{number}" for number in range(50 * (MAX_UNANSWERED + 10))]


# Refusals


async def test_a_refused_task_raises_an_error_and_does_not_affect_others(server, client):
    outcomes = await asyncio.gather(
        client.submit("click"),
        client.submit(""),
        client.submit("type"),
        client.submit("click", callback_url="ftp://x"),
        client.submit("scroll"),
        return_exceptions=True,
    )
    assert [type(each) for each in (outcomes[1], outcomes[3])] == [BadRequest, BadRequest]
    assert "action" in outcomes[1].reason
    assert "callbackUrl" in outcomes[3].reason
    assert [each.state for each in (outcomes[0], outcomes[2], outcomes[4])] == ["queued"] * 3
    assert sizes(server) == [5]


async def test_each_task_is_admitted_by_itself(open_server, open_client):
    client = open_client(await open_server(max_queue_size=3))
    outcomes = await submit_many(client, 5)
    assert [each.position for each in outcomes[:3]] == [1, 2, 3]
    assert all(isinstance(each, QueueFull) for each in outcomes[3:])
    kept = [(await client.get(each.task_id)).action for each in outcomes[3:]]
    assert kept == ["a3", "a4"]


async def test_an_idempotency_key_of_another_task_is_refused(client):
    await client.submit("click", idempotency_key="key")
    with pytest.raises(AlreadyExists):
        await client.submit("type", idempotency_key="key")


async def test_every_submit_raises_an_error_that_refuses_the_whole_stream(server, open_client):
    client = open_client(server, namespace="no/such")
    outcomes = await submit_many(client, 3)
    assert [type(each) for each in outcomes] == [BadRequest] * 3
    assert len(set(map(id, outcomes))) == 3
    assert len(await submit_many(client, 2)) == 2


# Cancelling a submit


async def test_a_submit_that_is_cancelled_before_it_is_sent_makes_no_task(server, client):
    calls = [asyncio.create_task(client.submit(f"a{number}")) for number in range(5)]
    await asyncio.sleep(0)
    calls[2].cancel()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(outcomes[2], asyncio.CancelledError)
    assert server.service.messages == [["a0", "a1", "a3", "a4"]]
    assert [each.position for each in outcomes[:2] + outcomes[3:]] == [1, 2, 3, 4]


async def test_a_submit_that_is_cancelled_after_it_was_sent_does_not_affect_others(server, client):
    server.service.mute = True
    calls = [asyncio.create_task(client.submit(f"a{number}")) for number in range(3)]
    await server.service.arrived.wait()
    calls[1].cancel()
    await asyncio.wait([calls[1]])
    await server.stop()
    server.service.mute = False
    await server.start()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(outcomes[1], asyncio.CancelledError)
    for number in (0, 2):
        assert (await client.get(outcomes[number].id)).action == f"a{number}"
    # A cancelled submit is not sent again.
    assert server.service.messages == [["a0", "a1", "a2"], ["a0", "a2"]]


# Breaks


async def test_after_a_break_only_unanswered_tasks_are_sent_again(server, client):
    await submit_many(client, 3, "answered")
    server.service.mute = True
    submitting = asyncio.create_task(submit_many(client, 2, "open"))
    await until(lambda: len(server.service.messages) >= 2)
    await server.stop()
    server.service.mute = False
    await server.start()
    outcomes = await submitting
    assert server.service.messages[1:] == [["open0", "open1"]] * 2
    assert server.service.streams == 2
    assert await server.made() == 5
    assert [(await client.get(each.id)).action for each in outcomes] == ["open0", "open1"]


async def test_restarts_of_the_server_under_load_make_each_task_once(server, client):
    async def restart_often():
        for _ in range(5):
            server.service.arrived.clear()
            await server.service.arrived.wait()
            await server.stop()
            await server.start()

    restarting = asyncio.create_task(restart_often())
    outcomes = []
    rounds = 0
    while not restarting.done():
        outcomes += await submit_many(client, 200, f"{rounds}-")
        rounds += 1
    await restarting
    assert not [each for each in outcomes if isinstance(each, BaseException)]
    assert len({each.id for each in outcomes}) == len(outcomes) == 200 * rounds
    assert await server.made() == 200 * rounds
    assert server.service.streams >= 5


async def test_connection_breaks_under_load_make_each_task_once(server, wire, open_client):
    client = open_client(wire)

    async def cut_often():
        for _ in range(8):
            server.service.arrived.clear()
            await server.service.arrived.wait()
            wire.cut()

    cutting = asyncio.create_task(cut_often())
    outcomes = []
    rounds = 0
    while not cutting.done():
        outcomes += await submit_many(client, 200, f"{rounds}-")
        rounds += 1
    await cutting
    assert not [each for each in outcomes if isinstance(each, BaseException)]
    assert len({each.id for each in outcomes}) == len(outcomes) == 200 * rounds
    assert await server.made() == 200 * rounds


async def test_a_restart_between_submits_goes_unnoticed(server, client):
    await client.submit("click")
    await server.stop()
    await server.start()
    await client.submit("type")
    assert server.service.messages == [["click"], ["type"]]


async def test_tasks_that_a_draining_server_refuses_are_sent_again(server, client):
    real = server.engine.tasks.submit_each
    refused = asyncio.Event()

    def drains(_, submissions, *, show, **__):
        refused.set()
        return Answer(show([refusals.Unavailable("draining") for _ in submissions]))

    server.engine.tasks.submit_each = drains
    submitting = asyncio.create_task(submit_many(client, 3))
    await refused.wait()
    server.engine.tasks.submit_each = real
    assert [each.state for each in await submitting] == ["queued"] * 3
    assert await server.made() == 3


async def test_an_outage_longer_than_the_patience_raises_unavailable(server, open_client):
    client = open_client(server, patience=0.5)
    await client.submit("click")
    await server.stop()
    async with asyncio.timeout(LIMIT_SECS):
        outcomes = await submit_many(client, 3)
    assert [type(each) for each in outcomes] == [Unavailable] * 3
    await server.start()
    # The channel may wait longer before it reconnects than the short patience of this client.
    async with asyncio.timeout(LIMIT_SECS):
        while isinstance((await submit_many(client, 1))[0], Unavailable):
            pass
    assert await server.made() == 2


async def test_an_answer_later_than_the_patience_raises_unavailable(server, open_client):
    client = open_client(server, patience=0.3)
    server.service.mute = True
    async with asyncio.timeout(LIMIT_SECS):
        outcomes = await submit_many(client, 3)
    assert [type(each) for each in outcomes] == [Unavailable] * 3
    assert "0.3 s" in outcomes[0].reason
    server.service.mute = False
    assert (await client.submit("type")).position == 4


async def test_a_submit_late_in_an_outage_has_the_full_patience():
    async with Client(f"127.0.0.1:{free_port()}", agent_id="ann", patience=0.5) as client:
        loop = asyncio.get_running_loop()

        async def timed():
            begin = loop.time()
            with pytest.raises(Unavailable):
                await client.submit("click")
            return loop.time() - begin

        early = asyncio.create_task(timed())
        await asyncio.sleep(0.3)
        late = asyncio.create_task(timed())
        assert await early > 0.45
        assert await late > 0.45


# Closing


async def test_closing_waits_for_submitted_tasks(server, client):
    submitting = asyncio.create_task(submit_many(client, 300))
    await server.service.arrived.wait()
    await client.close()
    assert [each.position for each in await submitting] == list(range(1, 301))


async def test_closing_waits_for_large_tasks_too(client):
    submitting = asyncio.create_task(client.submit("large", selector="x" * 1_500_000))
    await asyncio.sleep(0)
    await client.close()
    with pytest.raises(BadRequest, match="selector: must be at most"):
        await submitting


async def test_closing_without_a_submit_opens_no_stream(server, client):
    await client.close()
    assert server.service.streams == 0


async def test_cancelling_close_gives_up_the_submits(server, client, monkeypatch):
    async def never(*_):
        await asyncio.Event().wait()

    monkeypatch.setattr(server.service, "SubmitTask", never)
    await server.stop()
    await server.start()
    server.service.mute = True
    large = client.submit("large", selector="x" * 1_500_000)
    submitting = asyncio.gather(large, client.submit("small"), client.submit("small"), return_exceptions=True)
    await server.service.arrived.wait()
    closing = asyncio.create_task(client.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    outcomes = await submitting
    assert [type(each) for each in outcomes] == [ClientClosed] * 3
