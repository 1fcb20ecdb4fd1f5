"""How many tasks a host runs at once: in all, by action, or by the cores that it may use."""

import os

import pytest

from taskyard import Host
from taskyard.hosting.options import HostOptions, parts_of
from tests.cases import every_case
from tests.clients.python.host.gate import Gate
from tests.waiting import until


def parts(slots, *actions):
    options = HostOptions(credentials=None, host_id="h", slots=slots)
    return [(part.host_id, part.slots, list(part.actions)) for part in parts_of(options, actions)]


def test_a_number_is_for_all_actions():
    assert parts(3, "a", "b") == [("h", 3, ["a", "b"])]


def test_each_named_action_has_slots_and_an_id_of_its_own_and_the_rest_have_those_of_the_host():
    assert parts({"a": 8, "b": 2, "*": 1}, "a", "b", "c", "d") == [
        ("h/a", 8, ["a"]),
        ("h/b", 2, ["b"]),
        ("h", 1, ["c", "d"]),
    ]


def test_slots_for_the_rest_may_be_left_over_or_all_there_are():
    assert parts({"a": 8, "*": 1}, "a") == [("h/a", 8, ["a"])]
    assert parts({"*": 4}) == [("h", 4, [])]


@pytest.mark.parametrize(
    ("slots", "actions", "problem"),
    [
        ({"a": 1}, ["a", "b"], "slots: none for 'b'; '*' is for all that are not named"),
        ({"a": 1, "x": 1, "*": 1}, ["a"], "slots: there is no handler for 'x'"),
        ({"a": 1, "*": 1}, [], "slots: can only be divided among named actions"),
    ],
)
async def test_slots_that_do_not_fit_the_handlers_are_refused_when_the_host_runs(slots, actions, problem):
    host = Host("127.0.0.1:1", "h", slots=slots)
    for action in actions:
        host.action(action)(print)
    if not actions:
        host.any_action(print)
    with pytest.raises(ValueError, match=problem.replace("*", r"\*")):
        await host.run()


@every_case(
    ("slots", "error", "problem"),
    [
        ({}, ValueError, "slots: must name an action"),
        ({"a": 0}, ValueError, r"slots\['a'\]: must be at least 1"),
        ({"a": "2"}, TypeError, r"slots\['a'\]: must be a whole number, is '2'"),
        ("many", ValueError, "slots: must be a number, a mapping of actions to numbers, or"),
        (2.5, TypeError, "slots: must be a whole number"),
        (True, TypeError, "slots: must be a whole number"),
    ],
)
def test_slots_that_are_none_are_refused_at_once(slots, error, problem):
    with pytest.raises(error, match=problem):
        Host("127.0.0.1:1", "h", slots=slots)


async def test_auto_is_one_for_each_core_that_this_process_may_use(server, make_host, work, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5})
    host = make_host(slots="auto")
    host.action("click")(print)
    work(host)
    assert (await server.stream()).hello.slots == 3


async def test_each_part_has_a_stream_and_runs_its_own_tasks_and_the_host_ends_once_all_have_left(
    server, make_host, work
):
    host, gate = make_host(slots={"crawl": 2, "*": 1}), Gate()
    host.action("crawl")(gate)
    host.action("render")(lambda task: f"rendered {task.id}")
    running = work(host)
    streams = {}
    for _ in range(2):
        stream = await server.welcomed()
        streams[stream.hello.host_id] = stream
    crawl, rest = streams["host-1/crawl"], streams["host-1"]
    assert (list(crawl.hello.actions), crawl.hello.slots) == (["crawl"], 2)
    assert (list(rest.hello.actions), rest.hello.slots) == (["render"], 1)
    await crawl.until_credit(2)
    await rest.until_credit(1)
    crawl.assign("a", "b", action="crawl")
    rest.assign("c", action="render")
    assert await crawl.reports(2) == ["a started", "b started"]
    assert await rest.reports(2) == ["c started", "c completed"]
    # What has not begun is given back.
    await until(lambda: gate.entries == 2)
    host.drain()
    await rest.half_closed.wait()
    assert not running.done()
    gate.open.set()
    assert sorted(await crawl.reports(2)) == ["a completed", "b completed"]
    await running
    assert sorted(server.deregistered) == ["host-1", "host-1/crawl"]
