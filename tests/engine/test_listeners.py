"""Listeners: each hears every transition of every namespace once, in order, soon after it happened."""

import asyncio
from collections import defaultdict
from random import Random

import pytest

from taskyard_server.core.errors import Refusal
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.task import LEGAL
from tests import reporting

NS = "default"


class Ear:
    """A listener that keeps what it heard."""

    def __init__(self, engine):
        self.heard = []
        self.leave = engine.subscribe(self.hear)

    def hear(self, namespace, happened):
        assert happened
        self.heard += [
            (namespace, event.at, event.task.id, event.state.value)
            for event in happened
            if event.kind in ("submitted", "changed")
        ]

    def told(self):
        """What was heard since the last call: which task, which state."""
        heard, self.heard = self.heard, []
        return [(task_id, state) for _, _, task_id, state in heard]


async def test_a_listener_hears_every_transition_in_order(engine, host, clock, asked):
    ear = Ear(engine)
    task = await engine.tasks.submit(NS, asked())
    (lease,) = await engine.leases.claim(NS, host)
    await reporting.start(engine, NS, host, task.id, lease.token)
    await reporting.release(engine, NS, host, task.id, lease.token)
    (lease,) = await engine.leases.claim(NS, host)
    await reporting.complete(engine, NS, host, task.id, lease.token, None)
    await clock.settle()
    assert ear.told() == [
        (task.id, state) for state in ("queued", "assigned", "running", "queued", "assigned", "running", "done")
    ]


async def test_a_transition_is_told_in_the_next_turn(engine, asked):
    ear = Ear(engine)
    task = await engine.tasks.submit(NS, asked())
    await asyncio.sleep(0)
    assert ear.told() == [(task.id, "queued")]


async def test_a_transition_is_told_with_its_time_and_namespace(engine, clock, asked):
    ear = Ear(engine)
    clock.now += 5
    task = await engine.tasks.submit("red", asked())
    at = clock.now
    clock.now += 5
    await clock.settle()
    assert ear.heard == [("red", at, task.id, "queued")]


async def test_what_happens_by_itself_is_told_too(engine, host, clock, asked):
    task = await engine.tasks.submit(NS, asked(deadline=clock.now + 30))
    await engine.leases.claim(NS, host, 1, 10)
    await clock.settle()
    ear = Ear(engine)
    await clock.pass_time(10.125)
    assert ear.told() == [(task.id, "queued")]
    await clock.pass_time(20)
    assert ear.told() == [(task.id, "failed")]


async def test_a_hand_out_to_a_waiting_claim_is_told_right_after_the_submit(engine, host, clock, asked):
    claim = asyncio.ensure_future(engine.leases.claim(NS, host, wait_secs=30))
    await clock.settle()
    ear = Ear(engine)
    task = await engine.tasks.submit(NS, asked())
    await claim
    assert ear.told() == [(task.id, "queued"), (task.id, "assigned")]


async def test_a_rejected_task_is_told(make_engine, clock, asked):
    engine = make_engine(max_queue_size=1)
    await engine.tasks.submit(NS, asked())
    await clock.settle()
    ear = Ear(engine)
    with pytest.raises(Refusal) as full:
        await engine.tasks.submit(NS, asked())
    await clock.settle()
    assert ear.told() == [(full.value.task.id, "rejected")]


async def test_all_listeners_hear_the_same(engine, clock, asked):
    ears = [Ear(engine) for _ in range(3)]
    task = await engine.tasks.submit(NS, asked())
    await clock.settle()
    assert [ear.told() for ear in ears] == [[(task.id, "queued")]] * 3


async def test_a_listener_hears_nothing_from_before_it_came_or_after_it_left(engine, clock, asked):
    await engine.tasks.submit(NS, asked())
    await clock.settle()
    ear, other = Ear(engine), Ear(engine)
    task = await engine.tasks.submit(NS, asked())
    await clock.settle()
    ear.leave()
    later = await engine.tasks.submit(NS, asked())
    await clock.settle()
    assert ear.told() == [(task.id, "queued")]
    assert other.told() == [(task.id, "queued"), (later.id, "queued")]


async def test_a_listener_hears_of_namespaces_apart(engine, clock, asked):
    ear = Ear(engine)
    expected = defaultdict(list)
    for number in range(10):
        namespace = f"space-{number % 3}"
        expected[namespace].append((await engine.tasks.submit(namespace, asked())).id)
    await clock.settle()
    heard = defaultdict(list)
    for namespace, _, task_id, _ in ear.heard:
        heard[namespace].append(task_id)
    assert heard == expected


async def test_closing_tells_what_became_of_the_tasks_that_were_live(engine, host, asked):
    """The embedded engine interrupts what is in flight and ends what waits, in the order of submission."""
    running, waiting = [await engine.tasks.submit(NS, asked()) for _ in range(2)]
    await engine.leases.claim(NS, host)
    await asyncio.sleep(0)
    ear = Ear(engine)
    await engine.admin.close()
    assert ear.told() == [(running.id, "paused"), (waiting.id, "cancelled")]


@pytest.mark.parametrize("seed", range(5))
async def test_what_a_listener_heard_adds_up_to_the_state_of_every_task(make_engine, clock, asked, seed):
    """Random commands in two namespaces: each step that was heard is legal, the last one is where the task stands."""
    draw = Random(seed)
    engine = make_engine(max_per_agent=10, max_deliveries=2, result_ttl_secs=1e6)
    ear = Ear(engine)
    leases = []
    for namespace in ("red", "blue"):
        await engine.hosts.register(namespace, "host", None, HostProfile())
    tasks = {"red": [], "blue": []}
    for _ in range(600):
        namespace = draw.choice(["red", "blue"])
        try:
            match draw.randrange(6):
                case 0 | 1:
                    wish = asked(draw.choice("abc"), deadline=clock.now + draw.randrange(1, 30))
                    tasks[namespace].append((await engine.tasks.submit(namespace, wish)).id)
                case 2:
                    claimed = await engine.leases.claim(namespace, "host", draw.randrange(1, 4), draw.randrange(1, 6))
                    leases += [(namespace, lease) for lease in claimed]
                case 3 if leases:
                    where, lease = draw.choice(leases)
                    call = draw.choice([reporting.start, reporting.release])
                    await call(engine, where, "host", lease.task.id, lease.token)
                case 4 if leases:
                    where, lease = leases.pop(draw.randrange(len(leases)))
                    await reporting.complete(engine, where, "host", lease.task.id, lease.token, None)
                case 5 if tasks[namespace]:
                    await engine.tasks.cancel(namespace, draw.choice(tasks[namespace]))
                case _:
                    await clock.pass_time(draw.random())
        except Refusal as refusal:
            if refusal.code == "queue_full":
                tasks[namespace].append(refusal.task.id)
    await clock.settle()

    last = {}
    times = []
    for namespace, at, task_id, state in ear.heard:
        before = last.get((namespace, task_id))
        if before is None:
            assert state in ("queued", "rejected")
        else:
            assert state in LEGAL[before]
        last[namespace, task_id] = state
        times.append(at)
    assert last == {
        (namespace, task_id): (await engine.tasks.get(namespace, task_id)).state
        for namespace, ids in tasks.items()
        for task_id in ids
    }
    assert {"queued", "assigned", "running", "done", "failed", "cancelled", "rejected"} >= set(last.values())
    assert len(last) > 100
