"""What the tests of the core share: a scheduler with its clock, and ways to see everything that it holds."""

import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from enum import Enum
from functools import partial
from random import Random
from types import BuiltinFunctionType, FrameType, FunctionType, MethodType
from typing import Any

import pytest

from taskyard_server.core.hosts import Host, HostProfile
from taskyard_server.core.leases import Lease
from taskyard_server.core.limits import Limits
from taskyard_server.core.offers import Offer
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.streams import HeldLease, Hello, Welcome
from taskyard_server.core.task import Submission, Task, TaskOptions, TaskState
from tests.core.records import names
from tests.core.schedules.clockwork import Clockwork

START = 1_700_000_000.0
STEP_COUNTER = 4
"""The id of a tool of `sys.monitoring` that nothing else takes."""


class Yard:
    """One scheduler under test. Time stands still until a test lets it pass.

    Limits are generous unless a test names them. A report is made by the holder of the lease that it is given.
    """

    def __init__(self, **limits: Any) -> None:
        generous = {
            "max_queue_size": 1_000_000,
            "max_per_agent": 1_000_000,
            "max_inflight": 1_000_000,
            "max_per_agent_inflight": 1_000_000,
        }
        self.scheduler = Scheduler(Limits(**{**generous, **limits}), partial(Random(1).getrandbits, 40))
        self.now = START

    def submit(self, agent: str = "ann", action: str = "click", **wish: Any) -> Task:
        """Submit a task; `wish` takes the fields of `Submission` and of `TaskOptions`."""
        options = {field: wish.pop(field) for field in TaskOptions._fields if field in wish}
        asked = Submission(agent, action, **wish, options=TaskOptions(**options))
        return self.scheduler.submit(self.now, asked)

    def register(self, host_id: str = "host", *capabilities: str, built_in: bool = False, **profile: Any) -> Host:
        """Register a host that runs everything that asks for no more than these capabilities."""
        able = HostProfile(frozenset(capabilities), **profile)
        return self.scheduler.register(self.now, host_id, None, able, built_in=built_in)

    def claim(self, host_id: str = "host", count: int = 1, lease_secs: float | None = None) -> list[Lease]:
        return self.scheduler.claim(self.now, host_id, count, lease_secs)

    def claim_one(self, host_id: str = "host", lease_secs: float | None = None) -> Lease:
        """Claim the one task that is known to be there."""
        (lease,) = self.claim(host_id, 1, lease_secs)
        return lease

    def start(self, lease: Lease) -> Task:
        return self.scheduler.reports.start(self.now, lease.host.id, lease.task.id, lease.token)

    def renew(self, lease: Lease, lease_secs: float | None = None) -> Lease:
        return self.scheduler.reports.renew(self.now, lease.host.id, lease.task.id, lease.token, lease_secs)

    def complete(self, lease: Lease, result: bytes | None = None) -> Task:
        return self.scheduler.reports.complete(self.now, lease.host.id, lease.task.id, lease.token, result)

    def fail(self, lease: Lease, error: str = "broken") -> Task:
        return self.scheduler.reports.fail(self.now, lease.host.id, lease.task.id, lease.token, error)

    def release(self, lease: Lease) -> Task:
        return self.scheduler.reports.release(self.now, lease.host.id, lease.task.id, lease.token)

    def cancel(self, task: Task) -> Task:
        return self.scheduler.cancel(self.now, task.id)

    def pause(self, task: Task) -> Task:
        return self.scheduler.pause(self.now, task.id)

    def resume(self, task: Task, target: str | None = None, token_limit: int | None = None) -> Task:
        return self.scheduler.resume(self.now, task.id, target, token_limit)

    def resolve(self, task: Task, result: bytes | None = None) -> Task:
        return self.scheduler.resolve(self.now, task.id, result)

    def stopped(self, lease: Lease) -> None:
        self.scheduler.reports.stopped(self.now, lease.host.id, lease.task.id, lease.token)

    def run_one(self, host_id: str = "host", lease_secs: float | None = None) -> Lease:
        """Claim the one task that is known to be there, and start it."""
        lease = self.claim_one(host_id, lease_secs)
        self.start(lease)
        return lease

    def deregister(self, host_id: str = "host") -> None:
        self.scheduler.deregister(self.now, host_id)

    # Hosts that wait

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
        """Open the stream of a host, as `register` would register it, and give it credit."""
        able = HostProfile(frozenset(capabilities), **profile)
        listed = tuple(map(as_held, held))
        hello = Hello(host_id, instance, able, slots=slots, held=listed, lease_secs=lease_secs)
        welcome = self.scheduler.connect(self.now, hello)
        if credit:
            self.credit(welcome.offer, credit)
        return welcome

    def stream(self, host_id: str = "host", *capabilities: str, credit: int = 1, **hello: Any) -> Offer:
        """The same, where only the stream matters."""
        return self.connect(host_id, *capabilities, credit=credit, **hello).offer

    def credit(self, stream: Offer, count: int = 1) -> None:
        self.scheduler.give_credit(self.now, stream, count)

    def beat(self, stream: Offer, *held: Lease | HeldLease) -> list[HeldLease]:
        return self.scheduler.beat(self.now, stream, [*map(as_held, held)])

    def disconnect(self, stream: Offer) -> None:
        self.scheduler.disconnect(self.now, stream)

    def wait(self, host_id: str = "host", room: int = 1, lease_secs: float | None = None, **only: Any) -> Offer:
        """Let a host wait with a claim."""
        return self.scheduler.offer(self.now, host_id, room, lease_secs, **only)

    def dispatch(self) -> list[Lease]:
        """Hand out what can be handed out: the leases, first granted first."""
        given = self.scheduler.dispatch(self.now)
        return sorted((lease for leases in given.values() for lease in leases), key=lambda lease: lease.number)

    def hand_one(self) -> Lease:
        """Hand out the one task that is known to be there."""
        (lease,) = self.dispatch()
        return lease

    def served(self) -> list[str]:
        """Hand out what can be handed out: the hosts that got something, first served first."""
        return [lease.host.id for lease in self.dispatch()]

    def stops(self) -> list[tuple[Lease, str, str]]:
        """What was to be stopped since the last call, and why."""
        return [(stop.lease, stop.reason, stop.message) for stop in self.scheduler.take_stops()]

    # Limits and time

    def reconfigure(self, **limits: Any) -> None:
        """Change the named limits and keep the others."""
        kept = {each.name: getattr(self.scheduler.limits, each.name) for each in fields(Limits)}
        self.scheduler.reconfigure(Limits(**{**kept, **limits}))

    def pass_time(self, secs: float) -> None:
        """Let time pass, and let everything happen that has come due by then."""
        self.now += secs
        while self.scheduler.advance(self.now):
            pass

    def tasks(self, after: int = 0) -> list[Task]:
        return list(self.scheduler.tasks_after(after))

    def happened(self) -> list[tuple[str, TaskState]]:
        """The transitions since the last call: which task, which state."""
        events = self.scheduler.take_events()
        return [(event.task.id, event.state) for event in events if event.kind in ("submitted", "changed")]


def as_held(lease: Lease | HeldLease) -> HeldLease:
    """What the holder of a lease knows of it."""
    return (lease.task.id, lease.token) if isinstance(lease, Lease) else lease


@pytest.fixture
def make_yard() -> type[Yard]:
    """Makes a `Yard` with the limits that a test is about."""
    return Yard


@pytest.fixture
def yard() -> Yard:
    """A `Yard` with no limit near."""
    return Yard()


@pytest.fixture
def make_clockwork() -> Callable[..., Clockwork]:
    """Makes a `Clockwork` with the limits that a test is about."""
    generous = {"max_concurrent": 1_000_000, "max_queued_triggers": 1_000_000, "jitter_threshold": 1_000_000}
    return lambda **limits: Clockwork(Yard(**{**generous, **limits}))


@pytest.fixture
def clockwork(make_clockwork: Callable[..., Clockwork]) -> Clockwork:
    """A `Clockwork` with no limit near."""
    return make_clockwork()


OPAQUE = (type, FunctionType, BuiltinFunctionType, MethodType, partial, Enum)


def _parts(thing: object) -> Iterator[tuple[str, object]]:
    """What an object is made of, each part with its name."""
    if isinstance(thing, dict):
        for number, (key, value) in enumerate(thing.items()):
            yield f"[key {number}]", key
            yield f"[value {number}]", value
    elif isinstance(thing, (frozenset, set)):
        yield from (("{}", member) for member in sorted(thing, key=repr))
    elif isinstance(thing, (list, tuple)) or hasattr(thing, "popleft"):
        yield from ((f"[{number}]", member) for number, member in enumerate(thing))  # type: ignore[arg-type]
    else:
        held = [name for name in (*names(type(thing)), *getattr(thing, "__dict__", ())) if hasattr(thing, name)]
        assert held, f"nothing is to be seen of {thing!r}"
        yield from ((f".{name}", getattr(thing, name)) for name in held)


def _picture(root: object) -> list[str]:
    """Everything that an object holds, one line a value."""
    lines: list[str] = []
    seen: dict[int, str] = {}
    todo = [("it", root)]
    while todo:
        name, thing = todo.pop()
        if thing is None or isinstance(thing, (str, bytes, int, float, *OPAQUE)):
            lines.append(f"{name} = {thing!r}")
        elif id(thing) in seen:
            lines.append(f"{name} is {seen[id(thing)]}")
        else:
            seen[id(thing)] = name
            parts = list(_parts(thing))
            lines.append(f"{name}: {type(thing).__name__} of {len(parts)}")
            todo += ((name + part, value) for part, value in reversed(parts))
    return lines


@pytest.fixture
def watch() -> Callable[[object], Callable[[], list[str]]]:
    """`changes = watch(thing)` remembers all that a thing holds, however deep; `changes()` is what differs since."""

    def watch(thing: object) -> Callable[[], list[str]]:
        before = Counter(_picture(thing))

        def changes() -> list[str]:
            after = Counter(_picture(thing))
            return [*((after - before).elements()), *(f"was: {line}" for line in (before - after).elements())]

        return changes

    return watch


@pytest.fixture
def steps(request: pytest.FixtureRequest) -> Callable[[Callable[[], object]], int]:
    """How many steps, in instructions of the interpreter, a call takes: what it costs, on any machine.

    Of a compiled core nothing is seen.
    """
    assert request.node.get_closest_marker("python_core"), "what counts steps needs the core as it is written"

    def traced(call: Callable[[], object]) -> int:
        taken = 0

        def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any]:
            nonlocal taken
            frame.f_trace_lines, frame.f_trace_opcodes = False, True
            taken += event == "opcode"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            call()
        finally:
            sys.settrace(before)
        return taken

    def monitored(call: Callable[[], object]) -> int:
        taken = 0

        def step(*_: object) -> None:
            nonlocal taken
            taken += 1

        monitoring = sys.monitoring
        monitoring.use_tool_id(STEP_COUNTER, "steps")
        try:
            monitoring.register_callback(STEP_COUNTER, monitoring.events.INSTRUCTION, step)
            monitoring.set_events(STEP_COUNTER, monitoring.events.INSTRUCTION)
            call()
        finally:
            monitoring.set_events(STEP_COUNTER, monitoring.events.NO_EVENTS)
            monitoring.free_tool_id(STEP_COUNTER)
        return taken

    # Before Python 3.12 there is no monitoring, and since then tracing misses the first call of a function.
    return monitored if sys.version_info >= (3, 12) else traced


@pytest.fixture
def weight() -> Callable[[object], int]:
    """How many objects an object keeps in memory, however deep."""

    def count(root: object) -> int:
        seen: set[int] = set()
        todo = [root]
        while todo:
            thing = todo.pop()
            if id(thing) not in seen and not isinstance(thing, OPAQUE):
                seen.add(id(thing))
                todo += gc.get_referents(thing)
        return len(seen)

    return count
