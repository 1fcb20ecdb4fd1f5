"""A map makes a task of each input and hands out each outcome once, at the cost of a few watches."""

import asyncio
import sys
from collections import Counter

import pytest

from taskyard import BadValue, QueueFull, TaskCancelled, TaskFailed, TaskLost, TaskState, Unavailable
from taskyard.bar import Bar
from tests.clients.python.typed.conftest import Worker
from tests.waiting import LIMIT_SECS, until

from .crawling import Links, Page, crawl


def answer(action, params):
    del action
    if params.get("url") == "broken":
        raise ValueError("no such host")
    if params.get("url") == "slow":
        return Worker.LEFT
    return {"found": [params["url"]], "total": params["size"]}


def pages(count, *, broken=()):
    return [Page("broken" if number in broken else "a", number) for number in range(count)]


async def outcomes_of(tasks, stop_after=None):
    """The outcomes of a map, in the order in which they came. It fails on purpose after so many."""
    seen = []
    async with tasks as outcomes:
        async for outcome in outcomes:
            seen.append(outcome)
            if len(seen) == stop_after:
                raise ZeroDivisionError
    return seen


async def test_each_input_has_one_outcome_with_its_types(server, client, working):
    async with working(server, answer), client.map(crawl, pages(300)) as outcomes:
        seen = [outcome async for outcome in outcomes]
    assert sorted(outcome.index for outcome in seen) == list(range(300))
    assert all(outcome.ok and outcome.result == Links(["a"], outcome.input.size) for outcome in seen)
    assert all(outcome.task.state is TaskState.DONE for outcome in seen)
    # Far fewer calls than tasks tell how they ended.
    assert len(server.service.watched) < 60


async def test_without_an_action_inputs_are_params(server, client, working):
    inputs = ({"url": "a", "size": number} for number in range(5))
    async with working(server, answer), client.map("crawl", inputs, labels={"a": "b"}) as outcomes:
        seen = {outcome.index: outcome async for outcome in outcomes}
    assert seen[3].input == {"url": "a", "size": 3}
    assert seen[3].result == {"found": ["a"], "total": 3}
    assert (await client.get(seen[3].task.id)).labels == {"a": "b"}


async def test_inputs_are_read_as_there_is_room(server, client):
    read = []

    async def endless():
        while True:
            read.append(1)
            yield Page("slow")

    async with client.map(crawl, endless(), max_outstanding=7):
        await until(server.made, lambda made: made >= 7)
        for _ in range(20):
            await client.stats()
    assert await server.made() == 7
    assert len(read) <= 8


async def test_leaving_cancels_what_has_not_ended(server, client, working):
    async with working(server, answer):
        tasks = client.map(crawl, [Page("a"), *[Page("slow", number) for number in range(20)]])
        with pytest.raises(ZeroDivisionError):
            await outcomes_of(tasks, stop_after=1)
    states = Counter([task.state async for task in client.list()])
    assert states == {TaskState.DONE: 1, TaskState.CANCELLED: 20}


async def test_an_input_that_fails_is_an_outcome_with_its_error(server, client, working):
    wrong = [*pages(20, broken=[3]), "no page"]
    async with working(server, answer), client.map(crawl, wrong) as outcomes:
        errors = {outcome.index: outcome.error async for outcome in outcomes}
    assert (len(errors), sum(error is None for error in errors.values())) == (21, 19)
    assert isinstance(errors[3], TaskFailed)
    assert errors[3].message == "no such host"
    assert isinstance(errors[20], BadValue)


async def test_a_failure_raises_if_asked_to(server, client, working):
    inputs = [*pages(3, broken=[2]), Page("slow")]
    async with working(server, answer):
        with pytest.raises(TaskFailed, match="no such host"):
            await outcomes_of(client.map(crawl, inputs, on_failure="raise"))
    states = Counter([task.state async for task in client.list()])
    assert states == {TaskState.DONE: 2, TaskState.FAILED: 1, TaskState.CANCELLED: 1}


async def test_a_failure_cancels_the_rest_if_asked_to(server, client, working):
    inputs = [Page("slow"), Page("broken"), Page("slow"), *pages(1_000)]
    async with (
        working(server, answer),
        client.map(crawl, inputs, on_failure="cancel_rest", max_outstanding=3) as outcomes,
    ):
        errors = [type(outcome.error) async for outcome in outcomes]
    assert Counter(errors) == {TaskFailed: 1, TaskCancelled: 2}
    assert await server.made() == 3


async def test_an_error_of_the_inputs_ends_the_map(server, client, working):
    def inputs():
        yield from pages(3)
        raise OSError("the file is gone")

    async with working(server, answer):
        with pytest.raises(OSError, match="the file is gone"):
            await outcomes_of(client.map(crawl, inputs()))


async def test_a_server_that_is_gone_ends_the_map(server, open_client):
    client = open_client(server, patience=0.3)
    await server.stop()
    with pytest.raises(Unavailable):
        await outcomes_of(client.map(crawl, pages(5)))


async def test_a_map_goes_on_over_broken_connections(server, open_client, wire, working):
    client = open_client(wire)
    seen = []
    async with working(server, answer), client.map(crawl, pages(400), max_outstanding=20) as outcomes:
        async for outcome in outcomes:
            seen.append((outcome.index, outcome.ok))
            if len(seen) % 80 == 0:
                wire.cut()
    assert sorted(seen) == [(number, True) for number in range(400)]


async def test_a_server_that_was_started_anew_has_lost_the_tasks(server, open_server, open_client, wire):
    client = open_client(wire)
    other = await open_server()
    async with client.map(crawl, [Page("slow", number) for number in range(30)]) as outcomes:
        await until(server.made, lambda made: made >= 30)
        await client.stats()
        wire.lead_to(other)
        errors = [type(outcome.error) async for outcome in outcomes]
    assert errors == [TaskLost] * 30


async def test_more_tasks_than_one_watch_holds_can_be_outstanding(server, client, working, monkeypatch):
    monkeypatch.setattr("taskyard.streams.completions.MAX_IDS", 40)
    async with working(server, answer), client.map(crawl, pages(200), max_outstanding=200) as outcomes:
        assert len([outcome async for outcome in outcomes if outcome.ok]) == 200
    assert max(len(request.task_ids) for request in server.service.watched) <= 40


async def test_many_slow_tasks_leave_few_watches_open(client):
    async with client.map(crawl, [Page("slow", number) for number in range(300)], max_outstanding=300):
        watchings = client._desk.completions._watchings
        for _ in range(30):
            handle = await client.submit("click")
            ended = client._desk.completions.expect(handle.id)
            await client.stats()
            assert len(watchings) <= 10
            client._desk.completions.forget(handle.id, ended)


# Full queues


async def test_a_map_waits_for_room_in_a_full_queue(open_server, open_client, working):
    server = await open_server(max_queue_size=5)
    client = open_client(server)
    async with working(server, answer), client.map(crawl, pages(60)) as outcomes:
        seen = [outcome async for outcome in outcomes]
    assert (len(seen), all(outcome.ok for outcome in seen)) == (60, True)


async def test_submitting_waits_for_room_if_asked_to(open_server, open_client):
    server = await open_server(max_queue_size=1)
    client = open_client(server)
    first = await client.submit("click")
    with pytest.raises(QueueFull):
        await client.submit("click")
    waiting = [asyncio.create_task(client.submit("click", when_full="wait")) for _ in range(2)]
    for _ in range(20):
        await client.stats()
    assert not any(each.done() for each in waiting)
    await first.cancel()
    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=LIMIT_SECS)
    assert len(done) == 1
    await done.pop().result().cancel()
    await asyncio.wait(waiting, timeout=LIMIT_SECS)
    assert all(each.done() for each in waiting)


# Arguments and the bar


async def test_arguments_are_checked_at_once(client):
    with pytest.raises(ValueError, match="max_outstanding: is at least 1"):
        client.map(crawl, [], max_outstanding=0)
    with pytest.raises(ValueError, match="on_failure: is 'yield', 'raise' or 'cancel_rest', not 'stop'"):
        client.map(crawl, [], on_failure="stop")
    with pytest.raises(TypeError, match="inputs: is an iterable"):
        client.map(crawl, 5)
    with pytest.raises(RuntimeError, match="a map is entered before"):
        async for _ in client.map(crawl, []):
            pass


async def test_no_inputs_have_no_outcomes(client):
    async with client.map(crawl, []) as outcomes:
        assert [outcome async for outcome in outcomes] == []


def test_the_bar_says_how_far_it_is(capsys, monkeypatch):
    bar = Bar(4)
    for is_done in (True, True, False):
        bar.add(is_done)
    assert bar.text().startswith("[" + "#" * 22 + "." * 8 + "] 3 of 4, ")
    assert bar.text().endswith(", 1 failed")
    assert Bar(None).text().startswith("0 tasks, ")
    bar.close()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    shown = Bar(1)
    shown.add(True)
    shown.close()
    assert "1 of 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("field", "error"),
    [
        ({"bogus": 1}, TypeError),
        ({"deadline": 5.0}, TypeError),
        ({"params": {}}, TypeError),
        ({"when_full": "later"}, ValueError),
    ],
)
async def test_a_mistake_in_the_call_is_raised_by_it(client, field, error):
    for action in (crawl, "crawl"):
        with pytest.raises(error, match=next(iter(field))):
            client.map(action, pages(3), **field)
