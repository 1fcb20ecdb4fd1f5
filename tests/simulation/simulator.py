"""One seeded random history, given to the core and to the model, which must agree after every step.

A history is a chain of lives: a scheduler starts with random limits, works, drains, shuts down, and another one takes
its place. Every random choice comes from the seed, every id from the core's answers. A disagreement, a broken invariant
or a crash of the core is raised as `Mismatch`, which names the seed, the step and the last commands.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from math import inf, nextafter
from random import Random
from typing import Any, Final, NamedTuple

from taskyard_server.core.errors import Refusal
from taskyard_server.core.events import Event, EventKind
from taskyard_server.core.limits import Limits
from taskyard_server.core.process_end import end_all
from taskyard_server.core.scheduler import Scheduler

from .agent_commands import AgentCommands
from .agreement import agree, figures_agree
from .artifact_commands import ArtifactCommands
from .child_commands import ChildCommands
from .counter_watch import Watch
from .crowd_commands import CrowdCommands
from .event_commands import EventCommands
from .explanations import explained
from .host_commands import EXECUTOR, HostCommands
from .indexes import recount, same
from .key_indexes import for_core, keys_agree, recount_keys
from .ledger import ENDING, Ledger
from .model import Model
from .model_records import FLYING, Refused
from .offer_indexes import recount_offers
from .operation_commands import OperationCommands
from .output_commands import OutputCommands
from .park_commands import ParkCommands
from .park_indexes import recount_parks
from .plain_values import of_step, of_stop, plain
from .random_choices import ABLE, BUILT_IN, MACHINES, WEIGHTS, Chances
from .relation_indexes import recount_relations
from .step_commands import StepCommands
from .stream_commands import StreamCommands
from .target_indexes import nothing_stays, recount_targets
from .target_ledger import TargetLedger

START: Final = 1_700_000_000.0
EXPLAINED: Final = {"pending", "queued", "paused", "parked"}
EXPLAINED_SHARE: Final = 0.3
RECOUNT_EVERY: Final = 4
"""So many steps apart all indexes of the core are recounted; everything else is checked after every step."""


MANY: Final = 1_000


class Mismatch(AssertionError):
    """The core and the model disagree, or the core broke one of its own rules."""

    def __init__(self, seed: int, step: int, why: str, last: list[str], test: str = "test_simulation.py") -> None:
        commands = "\n".join(f"  {line}" for line in last)
        super().__init__(
            f"seed {seed}, step {step}: {why}\nlast commands:\n{commands}\n"
            f"to see it again: SEED={seed} STEPS={step} pytest tests/simulation/{test}"
        )
        self.seed = seed
        self.step = step
        self.why = why


class Told(NamedTuple):
    """What the core answered, and what it told of, in order; the model takes only ids and ties from it."""

    answer: Any
    refusal: Refusal | None
    events: list[tuple[str, str]]


class Simulation:
    """The history of one seed. `given` counts commands, and what came of them."""

    test = "test_simulation.py"

    def __init__(self, seed: int, recount_every: int = RECOUNT_EVERY) -> None:
        self.seed = seed
        self.steps = 0
        self.given: Counter[tuple[str, str]] = Counter()
        self.chances = Chances(seed)
        self.now = START + self.chances.below(10**6)
        self._recount_every = recount_every
        # Beside the choices of the history, so that these do not depend on what is looked at.
        self._looks = Random(f"looks of {seed}")
        self._entropy = partial(Random(f"ids of {seed}").getrandbits, 40)
        self._last: deque[tuple[Any, ...]] = deque(maxlen=20)
        self._over_at = 0

    def run(self, steps: int) -> None:
        """Take so many steps; raises `Mismatch`."""
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        """One command to both, and all checks after it."""
        self.steps += 1
        try:
            self._take_a_step()
            self._check()
            self._explain_one()
            if self.steps % self._recount_every == 0:
                recount(self.core)
                recount_offers(self.core, self.now)
                recount_targets(self.core)
                recount_relations(self.core)
                recount_parks(self.core)
                figures_agree(self.core, self.model)
                recount_keys(self.core)
                keys_agree(self.core, self.model.world, self.now)
        except Exception as error:
            why = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
            raise Mismatch(self.seed, self.steps, why, [_line(*entry) for entry in self._last], self.test) from error

    def _explain_one(self) -> None:
        """One task that waits is explained right."""
        waiting = [job.id for job in self.model.world.tasks.values() if job.state in EXPLAINED]
        # While followers are to be looked at, one of them may wait for that alone.
        life = self.core._life
        is_settled = life.predecessors.next_due() is None and life.children.ends.next_due() is None
        if waiting and self._looks.random() < EXPLAINED_SHARE and is_settled:
            for kind in explained(self.core, self.model, self.now, self._looks.choice(waiting)) or ["runnable"]:
                self.given["explained", kind] += 1

    # Lives

    def _begin_life(self) -> None:
        chances = self.chances
        chances.new_mood()
        self._limits = chances.limits()
        self.weights: dict[str, int] = {}
        self.core = self._new_core()
        self.core._life.tasks._last_seq = chances.one_of([0, 0, 4000])  # the next page of the table begins at 4096
        self.model = Model(dict(self._limits))
        self.watch, self.ledger, self.targets = Watch(), Ledger(), TargetLedger()
        self._events: list[Event] = []
        agents = AgentCommands(self)
        hosts = HostCommands(self, agents)
        self._streams = StreamCommands(self, hosts)
        agents.let_claim = hosts.claim_up_to
        self._operations = OperationCommands(self)
        self._output = OutputCommands(self, hosts)
        self._artifacts = ArtifactCommands(self, agents, hosts)
        self._recording = StepCommands(self, hosts)
        self._parks = ParkCommands(self, agents, hosts, self._recording)
        self._parts = (agents, hosts, self._streams, self._operations, self._output, self._artifacts)
        self._sending = EventCommands(self)
        self._children = ChildCommands(self, agents, hosts, self._parks)
        self._crowds = CrowdCommands(self, agents, hosts, self._parks, self._sending)
        self._parts = (*self._parts, self._recording, self._parks, self._sending, self._children, self._crowds)
        own = {name: part for part in (self, agents, hosts, self._streams) for name in dir(part)}
        names = {command: command.replace(" ", "_") for command in WEIGHTS}
        self._commands: dict[str, Callable[[], None]] = {
            command: getattr(own[name], name) for command, name in names.items()
        }
        self._drain_at = self.steps + chances.one_of([1, 30, 200, 400, 600, 900]) + chances.below(30)
        shut_down_at = self._drain_at + chances.one_of([0, 20, 60])
        self._over_at = shut_down_at + chances.one_of([1, 15, 60])
        self._shut_down_at = [shut_down_at, self._over_at]
        self._last.append((self.steps, self.now, "begin", tuple(self._limits.items()), "ok"))
        hosts.register_one(EXECUTOR, None, BUILT_IN, None)
        if chances.under(0.9):
            for number, machine in enumerate([ABLE, *chances.some_of(MACHINES, chances.below(5))]):
                hosts.register_one(f"host-{number}", None, machine, None)

    def _new_core(self) -> Scheduler:
        return Scheduler(Limits(**self._limits), self._entropy)

    def _take_a_step(self) -> None:
        if self.steps > self._over_at:
            if self._over_at:
                nothing_stays(self.core, self.now)
            self._begin_life()
            return
        if self.steps in self._shut_down_at:
            self.both("shut down", (), lambda: end_all(self.core, self.now), lambda _: self.model.shut_down(self.now))
        elif self.steps == self._drain_at:
            self.both("drain", (), self.core.drain, lambda _: self.model.drain())
        elif self.steps > self._shut_down_at[0] and self.chances.under(0.3):
            self._commands["cancel"]()
        elif self.chances.limits_keys():
            self.limit_keys()
        elif self.chances.weighs():
            self.weigh()
        elif self.chances.says():
            self._output.say()
        elif self.chances.puts():
            self._artifacts.put()
        elif self.chances.records():
            self._recording.record()
        elif self._parks.wants():
            self._parks.act()
        elif self._sending.wants():
            self._sending.send()
        elif self._crowds.wants():
            self._crowds.act()
        elif self._children.wants():
            self._children.act()
        elif self._operations.wants():
            self._operations.act()
        else:
            self._commands[self.chances.command()]()
        if self.chances.prompt():
            self._streams.dispatch()

    # Giving a command to both

    def both(
        self, name: str, args: tuple[Any, ...], core: Callable[[], Any], model: Callable[[Told], Any]
    ) -> Any | None:
        """The core's answer, which is the model's too; None where both refused."""
        refusal: Refusal | None = None
        answer = None
        self._last.append((self.steps, self.now, name, args, "crashed"))
        try:
            answer = core()
        except Refusal as its:
            refusal = its
        outcome = refusal.code if refusal else "ok"
        self._last[-1] = (self.steps, self.now, name, args, plain(refusal or answer))
        self.given[name, outcome] += 1
        events = self._take_events(name, args, refusal)
        self.model.world.retries = retries_of(events)
        expected, refused = None, None
        try:
            expected = model(Told(answer, refusal, [(event.kind, event.task.id) for event in events]))
        except Refused as its_own:
            refused = its_own
        self.model.world.parks.events.kept()
        same(f"refusal of {name}", outcome, refused.code if refused else "ok")
        if refused is not None and refusal is not None:
            self._same_refusal(refusal, refused)
            return None
        same(f"answer of {name}", plain(answer), plain(expected))
        return answer

    def _take_events(self, name: str, args: tuple[Any, ...], refusal: Refusal | None) -> list[Event]:
        events = self.core.take_events()
        for event in events:
            if event.kind is EventKind.EVICTED:
                self.core.artifacts.forget(event.task)
            if event.task.lease is None:
                self.core.steps.let_go(event.task)
        self._events += events
        self.watch.see(events)
        self.targets.given(lease for host in self.core.hosts for lease in host.leases.values())
        self.targets.see(events, [args[1:3]] if name in ENDING and refusal is None else [])
        if refusal is None:
            self.ledger.reported(name, args)
        self.ledger.see(events)
        return events

    def _same_refusal(self, refusal: Refusal, refused: Refused) -> None:
        if refused.message is not None:
            same("message of a refusal", refusal.message, refused.message)
        if refused.details is not None:
            same("details of a refusal", refusal.details, refused.details)

    # The operator, and time

    def reconfigure(self) -> None:
        self._limits |= self.chances.new_limits()
        self.both(
            "reconfigure",
            tuple(self._limits.items()),
            lambda: self.core.reconfigure(Limits(**self._limits)),
            lambda _: self.model.reconfigure(self._limits),
        )

    def limit_keys(self) -> None:
        """Other limits of concurrency keys hold."""
        limits = self.chances.key_limits()
        self.both(
            "limit keys",
            tuple(limits.items()),
            lambda: self.core.keys.set_limits(self.now, for_core(limits)),
            lambda _: self.model.world.keys.put(self.now, limits),
        )

    def weigh(self) -> None:
        """Other weights of agents hold."""
        weights = self.weights = self.chances.weights()
        self.both(
            "weigh",
            tuple(weights.items()),
            lambda: self.core.set_weights(weights),
            lambda _: self.model.world.weights.put(weights),
        )

    def pass_time(self) -> None:
        chances, chance = self.chances, self.chances.part()
        due = self.core.next_due()
        if chance < 0.35:
            self.now += (1 + chances.below(5)) / 8
        elif chance < 0.55 or due is None:
            self.now += self.chances.secs(0.15)
        elif chance < 0.65:
            self.now = max(self.now, due)
        elif chance < 0.72:
            self.now = max(self.now, nextafter(due, -inf))
        elif chance < 0.95 and (ends := self._ends()):
            self.now = max(self.now, chances.one_of(ends))
        else:
            self.now += self.chances.secs(3)
        if chances.under(0.75):
            self.advance()
        elif chances.under(0.3):
            self._streams.reconcile()

    def _ends(self) -> list[float]:
        """When deadlines and leases end to the instant, up to an eighth of a second before anyone acts on it.

        And when hosts are too silent, to which someone may come at once.
        """
        world = self.model.world
        tasks = [job.deadline for job in world.ticking() if job.deadline is not None]
        tasks += [job.lease_end() for job in world.flying()]
        tasks += [job.due for job in world.tasks.values() if job.due is not None]
        tasks += [lease.until for lease in world.stopping]
        tasks += [wait.until for job in world.tasks.values() for wait in job.waits if wait.until is not None]
        hosts = [
            world.hosts[offer.host].heard_at + offer.silence_limit_secs
            for offer in world.offers
            if offer.silence_limit_secs
        ]
        hosts += [host.heard_at + world.dead_after() for host in world.mortals()]
        return [end for ends in (tasks, hosts) for end in sorted(end for end in ends if end > self.now)[:2]]

    def jump(self) -> None:
        """Some time or some hours pass at once."""
        self.now += self.chances.secs(self.chances.one_of([20, 100, 5000]))
        self.advance()

    def crawl(self) -> None:
        """Time passes in many small steps, and all is looked at after each."""
        for _ in range(self.chances.below(30)):
            self.now += self.chances.secs(0.05)
            self.advance()
            self._streams.dispatch()

    def advance(self) -> None:
        """Let everything happen that is due; sometimes only a part of it, as a loop that takes turns does."""
        most = self.chances.one_of([1, 2, 1000])
        more, turns = True, self.chances.one_of([1, 2, 10_000])
        while more and turns:
            turns -= 1
            more = self._advance_by(most)
            if more and turns:
                self._check()
        if not more and (left := self.model.world.relations.overdue()):
            raise AssertionError(f"advance says that nothing is due, but {left[0].id} is to be queued or cancelled")
        for due in (self.model.next_due(), self.core.next_due()):
            if not more and due is not None and due <= self.now:
                raise AssertionError(f"advance says that nothing is due, but something was at {due - START}")

    def _advance_by(self, most: int) -> bool:
        """A look at a host that lives is something to do, too, though nothing comes of it."""
        looks = {host.id: host.silence_at for host in self.core.hosts if host.silence_at is not None}
        # What is looked at may come to nothing, and so may the turn of a task that others wait for, or that waits.
        predecessors, ends = self.core._life.predecessors, self.core._life.parks.ends
        is_kept = predecessors.followers or self.core._life.children.named._of
        is_looked_at = predecessors.next_due() is not None or ends.next_due() is not None
        silent = MANY if is_kept or is_looked_at else 0
        armed = {task.id for tasks in self.core._life.pending.delayed._due.values() for task in tasks}
        self.model.world.relations.armed = armed
        checks = silent + len(looks) + sum(host.forget_at is not None for host in self.core.hosts)

        def model(told: Told) -> bool:
            done = self.model.advance(self.now, told.events, looks, still_to_come(self.core))
            self.model.world.relations.seen_aside(self.now, [task.id for task in self.core._life.retention.aside])
            same(f"{done} things of {most} done", done <= most, True)
            same("more to do", told.answer is False or done + checks >= most, True)
            return bool(told.answer)

        return bool(self.both("advance", (most,), lambda: self.core.advance(self.now, most), model))

    # What must hold after every step

    def _check(self) -> None:
        events, self._events = self._events, []
        agree(self.core, self.model, self.now, events, self._streams.names)
        self.model.world.happened.clear()
        stops, expected = self.core.take_stops(), self.model.world.stops
        same("stops", [*map(of_stop, stops)], expected)
        self.model.world.stops = []
        same("steps", [*map(of_step, self.core.steps.take())], self.model.world.parks.came)
        self.model.world.parks.came.clear()
        self.ledger.stopped(stops)
        self.ledger.compare(self.core.leases_after(0), [offer for host in self.core.hosts for offer in host.offers])
        self.watch.compare(self.core._life.counters, self.core.tasks_after(0))
        for event in events:
            if event.kind != "evicted" and event.error is not None:
                self.given["error", _error(event.error)] += 1
        for stop in stops:
            self.given["stop", stop.reason] += 1
            self.given["stop message", _error(stop.message)] += 1


def retries_of(events: Sequence[Event]) -> dict[str, deque[float]]:
    """When the tasks that are tried again are due, in order."""
    dues: dict[str, deque[float]] = {}
    for event in events:
        if event.state == "pending" and event.before in FLYING and event.history.not_before is not None:
            dues.setdefault(event.task.id, deque()).append(event.history.not_before)
    return dues


def still_to_come(core: Scheduler) -> set[object]:
    """Hosts that have a time to drain by or that rest, leases that may still run, keys of the past, lives of events."""
    drains: set[object] = {host.id for hosts in core._life.liveness._drains._due.values() for host in hosts}
    stopping = {(host, *key) for host, leases in core._life.grants.stopping._by_host.items() for key in leases}
    ends = core._life.liveness.rests._ends
    rests: set[object] = {("rest", host.id) for hosts in ends._due.values() for host in hosts}
    lives: set[object] = {("event", event.number) for event in core.parks.events.all() if not event.has_ended}
    return drains | stopping | rests | lives | set(core._life.past_keys._by_name)


def _error(error: str) -> str:
    """An error, without the name of a host and the time that it is about."""
    if error.startswith("run timeout"):
        return "run timeout exceeded"
    return "missed heartbeats" if "missed" in error else error


def _line(step: int, now: float, name: str, args: tuple[Any, ...], outcome: object) -> str:
    """One of the last commands, as a failure prints it."""
    return f"{step} at {now - START!r}: {name} {', '.join(map(repr, args))} -> {outcome!r}"
