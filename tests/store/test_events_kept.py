"""Events over restarts (docs/rules.md, Events)."""

from __future__ import annotations

import pytest

from taskyard_server.core.history import Wait
from taskyard_server.core.names import names
from taskyard_server.core.runs.events import NewEvent, SentEvent
from taskyard_server.core.task import Task
from taskyard_server.store.port import Table
from taskyard_server.store.records.events import decode_event, encode_event, to_event
from tests.store.kept_yard import KeptYard

PAID = Wait("event", "paid", None, ("paid",))


@pytest.fixture
def yard() -> KeptYard:
    yard = KeptYard(default_deadline_secs=1e6, lease_secs=1e6, heartbeat_timeout_secs=1e9)
    yard.host()
    return yard


def park(yard: KeptYard, *waits: Wait) -> Task:
    lease = yard.claim()
    yard.scheduler.reports.park(yard.now, "host", lease.task.id, lease.token, waits)
    return lease.task


def parked(yard: KeptYard, **fields) -> Task:
    yard.submit(**fields)
    return park(yard, PAID)


def send(yard: KeptYard, life_secs: float, event_id: str = "e") -> tuple[SentEvent, bool]:
    return yard.scheduler.parks.events.send(yard.now, NewEvent("paid", event_id, b"yes", life_secs, "bob"))


def restart(yard: KeptYard, after: float = 0.0) -> None:
    yard.commit()
    yard.restart(after)


def test_what_waits_for_a_name_waits_on(yard):
    task = parked(yard)
    restart(yard, 100.0)
    send(yard, 0)
    yard.pass_time(0)
    assert yard.scheduler.get(task.id).state == "queued"


def test_what_begins_to_wait_after_a_restart_within_its_life_gets_it(yard):
    send(yard, 60)
    restart(yard, 50.0)
    assert parked(yard).state == "queued"
    (taken,) = yard.scheduler.steps.take()
    assert (taken.step.result, taken.step.by) == (b"yes", "bob")


def test_its_life_ends_while_nobody_serves(yard):
    send(yard, 60)
    restart(yard, 61.0)
    assert parked(yard).state == "parked"
    yard.pass_time(0)
    assert len(yard.scheduler.parks.events) == 0


def test_those_that_had_not_got_it_get_it(yard):
    tasks = [parked(yard) for _ in range(3)]
    send(yard, 0)
    yard.scheduler.advance(yard.now, 1)
    restart(yard, 100.0)
    assert [yard.scheduler.get(task.id).state for task in tasks] == ["queued", "parked", "parked"]
    yard.pass_time(0)
    assert [yard.scheduler.get(task.id).state for task in tasks] == ["queued"] * 3
    group = yard.commit()
    assert len(group.removes[Table.EVENTS]) == 1
    assert yard.store.wrong() == []


def test_what_a_task_had_it_does_not_get_again(yard):
    send(yard, 1000)
    task = parked(yard)
    restart(yard)
    park(yard, PAID._replace(name="again"))
    assert yard.scheduler.get(task.id).state == "parked"
    assert send(yard, 1000)[1] is True
    event, _ = send(yard, 1000, "another")
    assert event.number == 2
    yard.pass_time(0)
    assert yard.scheduler.get(task.id).state == "queued"


def test_a_number_is_never_given_again(yard):
    send(yard, 0)
    restart(yard)
    assert send(yard, 0)[0].number == 2


def test_it_is_the_same_from_its_record():
    new = NewEvent("paid", "e", b"yes", 60.0, None, names(["a", "b*"]))
    event = to_event(decode_event(encode_event(SentEvent(7, new, 100.0, 160.0, 5))), 7, 10.0)
    assert (event.key, event.payload, event.by) == ((names(["a", "b*"]), "paid", "e"), b"yes", None)
    assert (event.number, event.at, event.until, event.waited) == (7, 110.0, 170.0, 5)
