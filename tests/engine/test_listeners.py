"""Listeners: each is called with every transition of every namespace once, in order, without delay."""

import asyncio
from collections import defaultdict
from random import Random

import pytest

from taskyard_server.core.errors import Refusal
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.task import LEGAL
from tests import reporting
from tests.live import live

NS = "default"


class RecordingListener:
    """A listener that records the transitions it is called with."""

    def __init__(self, engine):
        self.received = []
        self.leave = engine.subscribe(self.receive)

    def receive(self, namespace, events):
        assert events
        self.received += [
            (namespace, event.at, event.task.id, event.state.value)
            for event in events
            if event.kind in ("submitted", "changed")
        ]

    def take(self):
        """The task and state of each transition since the last call."""
        received, self.received = self.received, []
        return [(task_id, state) for _, _, task_id, state in received]


async def test_a_listener_receives_every_transition_in_order(engine, host, clock, submission):
    listener = RecordingListener(engine)
    task = await engine.tasks.submit(NS, submission(), show=live)
    (lease,) = await engine.leases.claim(NS, host, show=live)
    await reporting.start(engine, NS, host, task.id, lease.token)
    await reporting.release(engine, NS, host, task.id, lease.token)
    (lease,) = await engine.leases.claim(NS, host, show=live)
    await reporting.complete(engine, NS, host, task.id, lease.token, None)
    await clock.run_pending()
    assert listener.take() == [
        (task.id, state) for state in ("queued", "assigned", "running", "queued", "assigned", "running", "done")
    ]


async def test_a_transition_is_delivered_in_the_next_turn_of_the_loop(engine, submission):
    listener = RecordingListener(engine)
    task = await engine.tasks.submit(NS, submission(), show=live)
    await asyncio.sleep(0)
    assert listener.take() == [(task.id, "queued")]


async def test_a_transition_is_delivered_with_its_time_and_namespace(engine, clock, submission):
    listener = RecordingListener(engine)
    clock.now += 5
    task = await engine.tasks.submit("red", submission(), show=live)
    at = clock.now
    clock.now += 5
    await clock.run_pending()
    assert listener.received == [("red", at, task.id, "queued")]


async def test_transitions_by_time_are_delivered_too(engine, host, clock, submission):
    task = await engine.tasks.submit(NS, submission(deadline=clock.now + 30), show=live)
    await engine.leases.claim(NS, host, 1, 10, show=live)
    await clock.run_pending()
    listener = RecordingListener(engine)
    await clock.advance(10.125)
    assert listener.take() == [(task.id, "queued")]
    await clock.advance(20)
    assert listener.take() == [(task.id, "failed")]


async def test_a_dispatch_to_a_waiting_claim_is_delivered_right_after_the_submit(engine, host, clock, submission):
    claim = asyncio.ensure_future(engine.leases.claim(NS, host, wait_secs=30, show=live))
    await clock.run_pending()
    listener = RecordingListener(engine)
    task = await engine.tasks.submit(NS, submission(), show=live)
    await claim
    assert listener.take() == [(task.id, "queued"), (task.id, "assigned")]


async def test_a_rejected_task_is_delivered(make_engine, clock, submission):
    engine = make_engine(max_queue_size=1)
    await engine.tasks.submit(NS, submission(), show=live)
    await clock.run_pending()
    listener = RecordingListener(engine)
    with pytest.raises(Refusal) as full:
        await engine.tasks.submit(NS, submission(), show=live)
    await clock.run_pending()
    assert listener.take() == [(full.value.task.id, "rejected")]


async def test_all_listeners_receive_the_same_transitions(engine, clock, submission):
    listeners = [RecordingListener(engine) for _ in range(3)]
    task = await engine.tasks.submit(NS, submission(), show=live)
    await clock.run_pending()
    assert [listener.take() for listener in listeners] == [[(task.id, "queued")]] * 3


async def test_a_listener_receives_nothing_from_before_it_subscribed_or_after_it_left(engine, clock, submission):
    await engine.tasks.submit(NS, submission(), show=live)
    await clock.run_pending()
    listener, other = RecordingListener(engine), RecordingListener(engine)
    task = await engine.tasks.submit(NS, submission(), show=live)
    await clock.run_pending()
    listener.leave()
    later = await engine.tasks.submit(NS, submission(), show=live)
    await clock.run_pending()
    assert listener.take() == [(task.id, "queued")]
    assert other.take() == [(task.id, "queued"), (later.id, "queued")]


async def test_a_listener_receives_the_transitions_of_each_namespace_in_order(engine, clock, submission):
    listener = RecordingListener(engine)
    expected = defaultdict(list)
    for number in range(10):
        namespace = f"space-{number % 3}"
        expected[namespace].append((await engine.tasks.submit(namespace, submission(), show=live)).id)
    await clock.run_pending()
    received = defaultdict(list)
    for namespace, _, task_id, _ in listener.received:
        received[namespace].append(task_id)
    assert received == expected


async def test_closing_delivers_the_last_transitions_of_live_tasks(engine, host, submission):
    """Without a store, tasks in flight are paused and queued ones cancelled, in order of submission."""
    running, waiting = [await engine.tasks.submit(NS, submission(), show=live) for _ in range(2)]
    await engine.leases.claim(NS, host, show=live)
    await asyncio.sleep(0)
    listener = RecordingListener(engine)
    await engine.admin.close()
    await asyncio.sleep(0)
    expected = [(running.id, "paused")] if engine.is_kept else [(running.id, "paused"), (waiting.id, "cancelled")]
    assert listener.take() == expected


@pytest.mark.parametrize("seed", range(5))
async def test_the_received_transitions_are_legal_and_lead_to_the_state_of_every_task(
    make_engine, clock, submission, seed
):
    """Random commands in two namespaces: each received transition is legal, and the last one is the task's state."""
    draw = Random(seed)
    engine = make_engine(max_per_agent=10, max_deliveries=2, result_ttl_secs=1e6)
    listener = RecordingListener(engine)
    leases = []
    for namespace in ("red", "blue"):
        await engine.hosts.register(namespace, "host", None, HostProfile(), show=live)
    tasks = {"red": [], "blue": []}
    for _ in range(600):
        namespace = draw.choice(["red", "blue"])
        try:
            match draw.randrange(6):
                case 0 | 1:
                    task = submission(draw.choice("abc"), deadline=clock.now + draw.randrange(1, 30))
                    tasks[namespace].append((await engine.tasks.submit(namespace, task, show=live)).id)
                case 2:
                    claimed = await engine.leases.claim(
                        namespace, "host", draw.randrange(1, 4), draw.randrange(1, 6), show=live
                    )
                    leases += [(namespace, lease) for lease in claimed]
                case 3 if leases:
                    where, lease = draw.choice(leases)
                    call = draw.choice([reporting.start, reporting.release])
                    await call(engine, where, "host", lease.task.id, lease.token)
                case 4 if leases:
                    where, lease = leases.pop(draw.randrange(len(leases)))
                    await reporting.complete(engine, where, "host", lease.task.id, lease.token, None)
                case 5 if tasks[namespace]:
                    await engine.tasks.cancel(namespace, draw.choice(tasks[namespace]), show=live)
                case _:
                    await clock.advance(draw.random())
        except Refusal as refusal:
            if refusal.code == "queue_full":
                tasks[namespace].append(refusal.task.id)
    await clock.run_pending()

    last = {}
    times = []
    for namespace, at, task_id, state in listener.received:
        before = last.get((namespace, task_id))
        if before is None:
            assert state in ("queued", "rejected")
        else:
            assert state in LEGAL[before]
        last[namespace, task_id] = state
        times.append(at)
    assert last == {
        (namespace, task_id): (await engine.tasks.get(namespace, task_id, show=live)).state
        for namespace, ids in tasks.items()
        for task_id in ids
    }
    assert {"queued", "assigned", "running", "done", "failed", "cancelled", "rejected"} >= set(last.values())
    assert len(last) > 100
