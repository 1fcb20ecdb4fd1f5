"""The system under test: a scheduler whose clock stands still until a test lets time pass."""

from collections.abc import Sequence
from dataclasses import fields as fields_of
from functools import partial
from random import Random
from typing import Any

from taskyard_server.core.history import Step, Wait
from taskyard_server.core.hosts import Host, HostProfile, Tabs
from taskyard_server.core.leases import Lease
from taskyard_server.core.limits import Limits
from taskyard_server.core.names import Names
from taskyard_server.core.offers import Offer
from taskyard_server.core.runs.events import NewEvent, SentEvent
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.streams import HeldLease, Hello, TokenUse, Welcome
from taskyard_server.core.task import Submission, Task, TaskState
from taskyard_server.core.task_options import TaskExtras, TaskOptions

START = 1_700_000_000.0

TICK = 0.125
"""What comes due is done at most one tick later, in seconds."""

NO_LIMIT_NEAR = {
    "max_queue_size": 1_000_000,
    "max_per_agent": 1_000_000,
    "max_inflight": 1_000_000,
    "max_per_agent_inflight": 1_000_000,
}


class Yard:
    """One scheduler. No limit is near unless a test names it; reports are made by the holder of the given lease."""

    def __init__(self, **limits: Any) -> None:
        self.scheduler = Scheduler(Limits(**{**NO_LIMIT_NEAR, **limits}), partial(Random(1).getrandbits, 40))
        self.now = START

    # Agents

    def submit(self, agent: str = "ann", action: str = "click", **fields: Any) -> Task:
        """Submit a task; `fields` are those of `Submission`, of `TaskOptions` and of `TaskExtras`."""
        options = {name: fields.pop(name) for name in TaskOptions._fields if name in fields}
        extras = {name: fields.pop(name) for name in TaskExtras._fields if name in fields}
        if extras:
            options["extras"] = TaskExtras(**extras)
        submission = Submission(agent, action, **fields, options=TaskOptions(**options))
        return self.scheduler.submit(self.now, submission)

    def cancel(self, task: Task) -> Task:
        return self.scheduler.cancel(self.now, task.id)

    def cancel_with_children(self, task: Task, agents: Names | None = None) -> int:
        """Cancel a task and what descends from it; how many further ones these were."""
        return self.scheduler.cancel_with_children(self.now, task.id, agents)[1]

    def pause(self, task: Task) -> Task:
        return self.scheduler.pause(self.now, task.id)

    def resume(self, task: Task, target: str | None = None, token_limit: int | None = None) -> Task:
        return self.scheduler.resume(self.now, task.id, target, token_limit)

    def resolve(self, task: Task, result: bytes | None = None) -> Task:
        return self.scheduler.resolve(self.now, task.id, result)

    # Hosts

    def register(self, host_id: str = "host", *capabilities: str, built_in: bool = False, **profile: Any) -> Host:
        """Register a host that may run every task that requires no more than these capabilities.

        One that is built in is the tab executor.
        """
        if built_in:
            profile = {"tabs": Tabs.OR_PLAIN, **profile}
        host_profile = HostProfile(frozenset(capabilities), **profile)
        return self.scheduler.register(self.now, host_id, None, host_profile, built_in=built_in)

    def deregister(self, host_id: str = "host") -> None:
        self.scheduler.deregister(self.now, host_id)

    def claim(
        self, host_id: str = "host", count: int = 1, lease_secs: float | None = None, claim_id: str | None = None
    ) -> list[Lease]:
        return self.scheduler.claim(self.now, host_id, count, lease_secs, claim_id=claim_id)

    def claim_one(self, host_id: str = "host", lease_secs: float | None = None) -> Lease:
        """Claim a task; there must be one."""
        (lease,) = self.claim(host_id, 1, lease_secs)
        return lease

    def start_one(self, host_id: str = "host", lease_secs: float | None = None) -> Lease:
        """Claim a task, and report it as started; there must be one."""
        lease = self.claim_one(host_id, lease_secs)
        self.start(lease)
        return lease

    def leased(self, lease_secs: float | None = None) -> Lease:
        """Register the host, and let it claim a new task, whose deadline is far off."""
        self.register()
        self.submit(deadline=self.now + 100_000)
        return self.claim_one(lease_secs=lease_secs)

    # Reports

    def start(self, lease: Lease) -> Task:
        return self.scheduler.reports.start(self.now, lease.host.id, lease.task.id, lease.token)

    def renew(self, lease: Lease, lease_secs: float | None = None, tokens: int | None = None) -> Lease:
        return self.scheduler.reports.renew(self.now, lease.host.id, lease.task.id, lease.token, lease_secs, tokens)

    def progress(self, lease: Lease, progress: bytes | None = None, tokens: int | None = None) -> Task:
        return self.scheduler.reports.progress(self.now, lease.host.id, lease.task.id, lease.token, progress, tokens)

    def complete(
        self, lease: Lease, result: bytes | None = None, tokens: int | None = None, output: bytes | None = None
    ) -> Task:
        return self.scheduler.reports.complete(
            self.now, lease.host.id, lease.task.id, lease.token, result, tokens, output
        )

    def fail(
        self,
        lease: Lease,
        error: str = "broken",
        retryable: bool = True,
        code: str | None = None,
        tokens: int | None = None,
        **more: Any,
    ) -> Task:
        return self.scheduler.reports.fail(
            self.now, lease.host.id, lease.task.id, lease.token, error, retryable, code, tokens, **more
        )

    def release(self, lease: Lease) -> Task:
        return self.scheduler.reports.release(self.now, lease.host.id, lease.task.id, lease.token)

    def park(self, lease: Lease, *waits: Wait, tokens: int | None = None, keeps_target: bool = True) -> Task:
        """The host lets its task wait for any of these."""
        return self.scheduler.reports.park(
            self.now, lease.host.id, lease.task.id, lease.token, waits, tokens, keeps_target=keeps_target
        )

    def answer(self, task: Task, question: str, result: bytes | None = b"yes", by: str | None = "bob") -> Task:
        self.scheduler.parks.answer(self.now, task, question, result, by)
        return task

    def send(
        self,
        name: str,
        payload: bytes = b"paid",
        life_secs: float = 60.0,
        event_id: str | None = None,
        agents: Names | None = None,
    ) -> tuple[SentEvent, bool]:
        """Somebody sends an event to a name, mostly one of an id of its own; returns whether it is a repeat, too."""
        events = self.scheduler.parks.events
        event_id = f"evt-{events.last_number + 1}" if event_id is None else event_id
        return events.send(self.now, NewEvent(name, event_id, payload, life_secs, "bob", agents))

    def steps(self) -> list[Step]:
        """The steps that were taken since the last call."""
        return [taken.step for taken in self.scheduler.steps.take()]

    def report_stopped(self, lease: Lease) -> None:
        """The host reports that nothing runs under a lease that has ended."""
        self.scheduler.reports.stopped(self.now, lease.host.id, lease.task.id, lease.token)

    # Hosts with a stream, and hosts that wait with a claim

    def connect(
        self,
        host_id: str = "host",
        *capabilities: str,
        instance: str = "process 1",
        credit: int = 0,
        slots: int | None = None,
        held: Sequence[Lease | HeldLease] = (),
        lease_secs: float | None = None,
        **profile: Any,
    ) -> Welcome:
        """Open the stream of a host with the profile that `register` would give it, and give it credit."""
        host_profile = HostProfile(frozenset(capabilities), **profile)
        listed = tuple(map(as_held, held))
        hello = Hello(host_id, instance, host_profile, slots=slots, held=listed, lease_secs=lease_secs)
        welcome = self.scheduler.connect(self.now, hello)
        if credit:
            self.give_credit(welcome.offer, credit)
        return welcome

    def stream(self, host_id: str = "host", *capabilities: str, credit: int = 1, **hello: Any) -> Offer:
        """Open the stream of a host that has credit; the stream alone."""
        return self.connect(host_id, *capabilities, credit=credit, **hello).offer

    def work_on_stream(self, **hello: Any) -> tuple[Offer, Lease]:
        """Open a stream, and let its host start a new task, whose deadline is far off."""
        stream = self.stream(**hello)
        self.submit(deadline=self.now + 100_000)
        lease = self.dispatch_one()
        self.start(lease)
        return stream, lease

    def give_credit(self, stream: Offer, count: int = 1) -> None:
        self.scheduler.give_credit(self.now, stream, count)

    def beat(self, stream: Offer, *held: Lease | HeldLease, tokens: Sequence[TokenUse] = ()) -> list[HeldLease]:
        """Send a heartbeat that lists these leases."""
        return self.scheduler.beat(self.now, stream, [*map(as_held, held)], tokens=tokens)

    def disconnect(self, stream: Offer) -> None:
        self.scheduler.disconnect(self.now, stream)

    def offer(self, host_id: str = "host", room: int = 1, lease_secs: float | None = None, **only: Any) -> Offer:
        """Let a host wait with a claim."""
        return self.scheduler.offer(self.now, host_id, room, lease_secs, **only)

    def dispatch(self) -> list[Lease]:
        """Hand out what can be handed out: the leases in the order of their grants."""
        given = self.scheduler.dispatch(self.now)
        return sorted((lease for leases in given.values() for lease in leases), key=lambda lease: lease.token)

    def dispatch_one(self) -> Lease:
        """Hand out a task; there must be one."""
        (lease,) = self.dispatch()
        return lease

    def dispatched_hosts(self) -> list[str]:
        """Hand out what can be handed out: the host of each grant, in order."""
        return [lease.host.id for lease in self.dispatch()]

    def stops(self) -> list[tuple[Lease, str, str]]:
        """The stops for hosts since the last call: the lease, the reason and the message."""
        return [(stop.lease, stop.reason, stop.message) for stop in self.scheduler.take_stops()]

    # Limits and time

    def reconfigure(self, **limits: Any) -> None:
        """Change the named limits and keep the others."""
        present = {each.name: getattr(self.scheduler.limits, each.name) for each in fields_of(Limits)}
        self.scheduler.reconfigure(Limits(**{**present, **limits}))

    def pass_time(self, secs: float) -> None:
        """Let time pass, and do everything that has come due by then."""
        self.now += secs
        while self.scheduler.advance(self.now):
            pass

    def tasks(self, after: int = 0) -> list[Task]:
        return list(self.scheduler.tasks_after(after))

    def transitions(self) -> list[tuple[str, TaskState]]:
        """The transitions since the last call: the id of the task, and its new state."""
        events = self.scheduler.take_events()
        return [(event.task.id, event.state) for event in events if event.kind in ("submitted", "changed")]


def as_held(lease: Lease | HeldLease) -> HeldLease:
    """A lease as its holder lists it."""
    return (lease.task.id, lease.token) if isinstance(lease, Lease) else lease
