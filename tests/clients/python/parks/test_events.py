"""Handlers that wait for events, and clients that send them (docs/rules.md, Events)."""

from datetime import timedelta

import pytest

from taskyard import AlreadyExists, BadRequest, Host, StepKind, TaskState, TooLarge, WaitFor

MINUTE = timedelta(minutes=1)


async def pays(task):
    """Wait for two payments, the second for a minute at most."""
    first = await task.event("paid")
    try:
        return [first, await task.event("paid", MINUTE, name="second")]
    except TimeoutError as error:
        return [first, str(error)]


def pays_plainly(task):
    """The same of a plain function."""
    return [task.event("paid").value, task.event("paid", name="second").value]


async def parked(yard, handler=pays):
    """A task that waits for an event."""
    host = Host(host_id="host-1")
    host.action("pay")(handler)
    yard.host(host)
    task = await yard.client.submit("pay")
    await yard.advance()
    assert (await task.task()).state is TaskState.PARKED, (await task.task()).error
    return task


@pytest.mark.parametrize("handler", [pays, pays_plainly])
async def test_a_task_goes_on_with_what_is_sent(yard, handler):
    task = await parked(yard, handler)
    (wait,) = (await task.task()).park.waits
    assert (wait.kind, wait.name, wait.event) == (WaitFor.EVENT, "paid", "paid")
    assert await yard.client.send_event("shipped") == 0
    assert await yard.client.send_event("paid", {"amount": 7}) == 1
    await yard.advance()
    assert (await task.task()).state is TaskState.PARKED
    assert await yard.client.send_event("paid", [None]) == 1
    await yard.advance()
    assert await task.result() == [{"amount": 7}, [None]]
    steps = await task.steps()
    assert [(step.kind, step.name, step.result) for step in steps] == [
        (StepKind.EVENT, "paid", {"amount": 7}),
        (StepKind.EVENT, "second", [None]),
    ]


async def test_what_does_not_come_in_time_is_an_error_of_the_handler(yard):
    task = await parked(yard)
    await yard.client.send_event("paid")
    await yard.advance()
    await yard.advance(MINUTE)
    assert await task.result() == [None, "event 'second': none has come in time"]


async def test_an_event_of_the_same_id_is_the_same(yard):
    task = await parked(yard)
    for _ in range(2):
        assert await yard.client.send_event("paid", 1, event_id="order-7", life=MINUTE) == 1
    with pytest.raises(AlreadyExists, match="eventId"):
        await yard.client.send_event("paid", 2, event_id="order-7")
    await yard.advance()
    assert (await task.task()).state is TaskState.PARKED


async def test_what_cannot_be_sent_or_waited_for_is_refused(yard):
    for name in ("a b", ".a", "ä", "x" * 257):
        with pytest.raises(BadRequest, match="name"):
            await yard.client.send_event(name)
    with pytest.raises(BadRequest, match="life"):
        await yard.client.send_event("paid", life=86_401)
    with pytest.raises(TooLarge, match="payload"):
        await yard.client.send_event("paid", "x" * 65_536)
    with pytest.raises(TypeError):
        await yard.client.send_event("paid", object())

    async def odd(task):
        await task.event("a/b")

    host = Host(host_id="host-1")
    host.action("odd")(odd)
    yard.host(host)
    task = await yard.client.submit("odd")
    await yard.advance()
    assert "event: a name has 1 to 256" in str((await task.task()).error)
