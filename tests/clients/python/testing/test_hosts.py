"""The hosts of a yard: the program's own, those that are lost, and what fails because a test orders it."""

import asyncio
import os
from dataclasses import dataclass
from datetime import timedelta

import pytest

from taskyard import Action, Host, RetryPolicy
from taskyard.hosting.failing import NotRetryable
from taskyard.testing import YardError
from tests.clients.python.testing.processes import where

RETRY = RetryPolicy(max_attempts=3, first_delay=timedelta(seconds=1))


@dataclass
class Page:
    url: str


crawl = Action[Page, list[str]]("crawl")


async def test_a_lost_host_loses_its_tasks_to_another(yard):
    hosts, started = [], asyncio.Event()

    async def work(task):
        hosts.append(task.attempt)
        if task.attempt == 1:
            started.set()
            await asyncio.Event().wait()
        return {"done": True}

    yard.host({"work": work})
    submitted = await yard.client.submit("work", deadline=timedelta(hours=1))
    await started.wait()
    yard.host({"work": work})
    await yard.lose("host-1")
    assert (await yard.task(submitted)).state == "running"
    task = await yard.until_ended(submitted)
    assert task.state == "done"
    assert [attempt.host_id for attempt in task.attempts] == ["host-1", "host-2"]


async def test_a_host_of_the_program_runs_at_the_yard(yard):
    host = Host("production.example:50051", "prod", slots=3)

    @host.action("greet")
    async def greet(task):
        return f"Hello, {task.params['name']}!"

    assert yard.host(host).id == "prod"
    assert await yard.client.run("greet", params={"name": "Ann"}) == "Hello, Ann!"
    assert host._options.credentials.addresses == ("production.example:50051",)


async def test_a_host_of_handlers_takes_typed_actions(yard):
    def fetch(page: Page) -> list[str]:
        return [page.url, "x"]

    yard.host({crawl: fetch})
    task = await yard.until_ended(await yard.client.submit("crawl", params={"url": "a"}))
    assert task.result == ["a", "x"]


async def test_hosts_stay_alive_however_far_the_time_jumps(yard):
    ran = []
    yard.host({"work": ran.append})
    await yard.advance(days=100)
    await yard.client.submit("work")
    await yard.advance()
    assert len(ran) == 1


async def test_the_next_runs_fail_as_ordered(yard):
    ran = []
    yard.host({"crawl": ran.append})
    yard.fail_next(crawl, "no network", times=2)
    task = await yard.until_ended(await yard.client.submit("crawl", retry=RETRY))
    assert (task.state, len(ran)) == ("done", 1)
    assert [attempt.error for attempt in task.attempts] == ["no network", "no network", None]
    yard.fail_next("crawl", NotRetryable("gone", code="http_410"))
    task = await yard.until_ended(await yard.client.submit("crawl", retry=RETRY))
    assert (task.state, task.error, task.attempts[0].code) == ("failed", "gone", "http_410")


async def test_a_failure_waits_for_a_run_however_often_its_handler_is_looked_up(yard):
    host = yard.host({"crawl": lambda _: None})
    yard.fail_next(crawl, ValueError("no network"), times=2)
    assert not host._host._actions.runs_in_process("crawl")
    task = await yard.until_ended(await yard.client.submit("crawl", retry=RETRY))
    assert [attempt.error for attempt in task.attempts] == ["ValueError: no network"] * 2 + [None]


async def test_the_traceback_of_an_ordered_failure_is_that_of_its_run(yard):
    yard.host({"crawl": lambda _: None})
    yard.fail_next(crawl, ValueError("no network"), times=4)
    task = await yard.until_ended(await yard.client.submit("crawl", retry=RETRY))
    assert task.traceback.count("in fail") == 1


async def test_with_a_store_a_restart_goes_on(yard_with_store):
    yard = yard_with_store
    ran = []
    yard.host({"work": ran.append})
    submitted = await yard.client.submit("work", not_before=timedelta(hours=2), deadline=timedelta(days=1))
    await yard.restart(down=timedelta(hours=1))
    assert (await yard.task(submitted)).state == "pending"
    await yard.advance(hours=1)
    assert (await yard.task(submitted)).state == "done"
    assert len(ran) == 1


async def test_without_a_store_a_restart_forgets(yard):
    submitted = await yard.client.submit("work", not_before=timedelta(hours=2), deadline=timedelta(days=1))
    yard.host({"work": lambda _: None})
    await yard.restart()
    assert [task async for task in yard.client.list()] == []
    assert await yard.client.run("work") is None
    assert submitted.id


async def test_a_host_that_has_failed_is_told_of(yard):
    yard.host(Host("127.0.0.1:1", "empty"))
    with pytest.raises(YardError, match="'empty' has ended: ValueError: the host has no handlers"):
        await yard.advance(seconds=1)
    yard._hosts.clear()


async def test_an_id_is_for_one_host_at_a_time(yard):
    yard.host({"work": lambda _: None}, "one")
    with pytest.raises(YardError, match="'one' runs here already"):
        yard.host({"work": lambda _: None}, "one")
    await yard.lose("one")
    with pytest.raises(YardError, match="no host 'one' runs here"):
        await yard.lose("one")
    yard.host({"work": lambda _: None}, "one")
    await yard.advance()


async def test_a_host_can_leave_in_order(yard):
    host = yard.host({"work": lambda _: None})
    await yard.client.run("work")
    await host.drain()
    assert host.has_ended
    await yard.advance(hours=1)


async def test_handlers_in_processes_run_and_fail_as_ordered(yard):
    host = Host("127.0.0.1:1", "prod", slots=1)
    host.action("where", runs_in="process")(where)
    yard.host(host)
    yard.fail_next("where")
    task = await yard.until_ended(await yard.client.submit("where", retry=RETRY))
    process, parent, attempt = task.result
    assert (process != os.getpid(), parent != 0, attempt) == (True, True, 2)


async def test_slots_by_action_are_waited_for_as_well(yard):
    host = Host("127.0.0.1:1", "prod", slots={"one": 1, "two": 2})
    ran = []
    host.action("one")(ran.append)
    host.action("two")(ran.append)
    yard.host(host)
    for action in ("one", "two", "one", "two", "one"):
        await yard.client.submit(action, not_before=timedelta(hours=1), deadline=timedelta(days=1))
    await yard.advance(hours=2)
    assert len(ran) == 5
    await yard.lose("prod")


async def test_a_host_is_no_name(yard):
    with pytest.raises(TypeError, match="a dict of handlers by action, not 'host-1'"):
        yard.host("host-1")
