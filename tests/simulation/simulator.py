"""One seeded random history, given to the core and to the model, which must agree after every step.

A history is a chain of lives: a scheduler starts with random limits, works, drains, shuts down, and another one takes
its place. Every random choice comes from the seed, every id from the core's answers. A disagreement, a broken invariant
or a crash of the core is raised as `Mismatch`, which names the seed, the step and the last commands.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf, nextafter
from random import Random
from typing import Any, Final, NamedTuple

from taskyard_server.core.errors import QueueFull, Refusal
from taskyard_server.core.hosts import HostStatus
from taskyard_server.core.limits import Limits
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.task import Task

from .agreement import agree, figures_agree, within_limits_for_one_more, within_limits_in_flight
from .chances import ABLE, BUILT_IN, MACHINES, WEIGHTS, Chances
from .indexes import bounded, recount, same
from .model import FLYING, Machine, Model, Refused, Wish
from .plain import plain, to_profile, to_submission
from .watch import Moved, Watch

START: Final = 1_700_000_000.0
RECOUNT_EVERY: Final = 4
"""So many steps apart all indexes of the core are recounted; everything else is checked after every step."""

NOBODY: Final = ("tsk_nope", "tsk_00000000000000000000000000000000")
EXECUTOR: Final = "tab-executor"


class Mismatch(AssertionError):
    """The core and the model disagree, or the core broke one of its own rules."""

    def __init__(self, seed: int, step: int, why: str, last: list[str]) -> None:
        commands = "\n".join(f"  {line}" for line in last)
        super().__init__(
            f"seed {seed}, step {step}: {why}\nlast commands:\n{commands}\n"
            f"to see it again: SEED={seed} STEPS={step} pytest tests/simulation/test_simulation.py"
        )
        self.seed = seed
        self.step = step
        self.why = why


class Told(NamedTuple):
    """What the core answered, and in which order it moved tasks; the model takes only ids and ties from it."""

    answer: Any
    refusal: Refusal | None
    moved: list[str]


class Lease(NamedTuple):
    """What a host knows of a lease that it was given, whether it still has it or not."""

    host: str
    task: str
    token: int


class Simulation:
    """The history of one seed. `given` counts commands, and what came of them."""

    def __init__(self, seed: int, recount_every: int = RECOUNT_EVERY) -> None:
        self.seed = seed
        self.steps = 0
        self.given: Counter[tuple[str, str]] = Counter()
        self._recount_every = recount_every
        self._chances = Chances(seed)
        self._entropy = partial(Random(f"ids of {seed}").getrandbits, 40)
        self._last: deque[tuple[Any, ...]] = deque(maxlen=20)
        self._commands: dict[str, Callable[[], None]] = {
            name: getattr(self, "_" + name.replace(" ", "_")) for name in WEIGHTS
        }
        self.now = START + self._chances.below(10**6)
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
            if self.steps % self._recount_every == 0:
                recount(self.core)
                figures_agree(self.core, self.model)
        except Exception as error:
            why = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
            raise Mismatch(self.seed, self.steps, why, [_line(*entry) for entry in self._last]) from error

    # Lives

    def _begin_life(self) -> None:
        chances = self._chances
        chances.new_mood()
        self._limits = chances.limits()
        self.core = Scheduler(Limits(**self._limits), self._entropy)
        self.core._life.tasks._last_seq = chances.one_of([0, 0, 4000])  # the next page of the table begins at 4096
        self.model = Model(dict(self._limits))
        self.watch = Watch()
        self._moved: list[Moved] = []
        self._leases: deque[Lease] = deque(maxlen=60)
        self._batch_ids: deque[str] = deque(["bat_nope"], maxlen=12)
        self._task_ids: deque[str] = deque(NOBODY, maxlen=120)
        self._places: deque[tuple[int, int]] = deque([(0, 0)], maxlen=40)
        self._drain_at = self.steps + chances.one_of([1, 30, 200, 400, 600, 900]) + chances.below(30)
        shut_down_at = self._drain_at + chances.one_of([0, 20, 60])
        self._over_at = shut_down_at + chances.one_of([1, 15, 60])
        self._shut_down_at = [shut_down_at, self._over_at]
        self._last.append((self.steps, self.now, "begin", tuple(self._limits.items()), "ok"))
        self._register_one(EXECUTOR, None, BUILT_IN, None)
        if chances.under(0.9):
            for number, machine in enumerate([ABLE, *chances.some_of(MACHINES, chances.below(5))]):
                self._register_one(f"host-{number}", None, machine, None)

    def _take_a_step(self) -> None:
        if self.steps > self._over_at:
            self._begin_life()
        elif self.steps in self._shut_down_at:
            self._both("shut down", (), lambda: self.core.shut_down(self.now), lambda _: self.model.shut_down(self.now))
        elif self.steps == self._drain_at:
            self._both("drain", (), self.core.drain, lambda _: self.model.drain())
        elif self.steps > self._shut_down_at[0] and self._chances.under(0.3):
            self._cancel()
        else:
            self._commands[self._chances.command()]()

    # Giving a command to both

    def _both(
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
        events = self.core.take_events()
        moved = [(event.at, event.task, event.state) for event in events if event.kind in ("submitted", "changed")]
        self._moved += moved
        expected, refused = None, None
        try:
            expected = model(Told(answer, refusal, [task.id for _, task, _ in moved]))
        except Refused as its_own:
            refused = its_own
        same(f"refusal of {name}", outcome, refused.code if refused else "ok")
        if refused is not None and refusal is not None:
            self._same_refusal(refusal, refused)
            return None
        same(f"answer of {name}", plain(answer), plain(expected))
        return answer

    def _same_refusal(self, refusal: Refusal, refused: Refused) -> None:
        if refused.message is not None:
            same("message of a refusal", refusal.message, refused.message)
        if refused.details is not None:
            same("details of a refusal", refusal.details, refused.details)

    # Commands of agents

    def _submit(self) -> None:
        self._submit_one(self._chances.wish(self.now))

    def _submit_one(self, wish: Wish) -> None:
        known = set(self.model.tasks)
        before = [(task.state, task.agent.id) for task in self.core.tasks_after(0)]
        kinds, new_agent = list(self.core._life.ready._buckets), wish.agent not in self.model.agents
        task = self._both(
            "submit",
            (wish,),
            lambda: self.core.submit(self.now, to_submission(wish)),
            lambda told: self.model.submit(self.now, wish, self._named(told.refusal or told.answer)),
        )
        if task is not None and task.id in known:
            self.given["submit", "repeat"] += 1
        elif task is not None:
            within_limits_for_one_more(self.core.limits, before, wish.agent)
            bounded(self.core, task, kinds, new_agent=new_agent)
            self._places.append((task.seq, self.model.tasks[task.id].order))

    def _submit_batch(self) -> None:
        wishes = self._chances.wishes(self.now)

        def model(told: Told) -> Any:
            batch = told.answer.batch.id if told.answer else "none"
            ids = [self._named(outcome) for outcome in told.answer.outcomes] if told.answer else ["none"] * len(wishes)
            return self.model.submit_batch(self.now, wishes, ids, batch)

        submission = self._both(
            "submit batch",
            tuple(wishes),
            lambda: self.core.submit_batch(self.now, [*map(to_submission, wishes)]),
            model,
        )
        if submission is not None:
            self._batch_ids.append(submission.batch.id)
            for outcome in submission.outcomes:
                self.given["task of a batch", outcome.code if isinstance(outcome, Refusal) else "ok"] += 1

    def _flood(self) -> None:
        """Many tasks of one kind; some are handed out, most are cancelled, and a few more come: all in one step."""
        chances = self._chances
        wishes = chances.flood(self.now)
        for wish in wishes:
            self._submit_one(wish)
        latest = list(self._task_ids)[-len(wishes) :]
        self._claim_some(self._some_host_id(), chances.below(20), 30, None)
        for task_id in chances.some_of(latest, max(0, len(latest) - chances.one_of([2, 15, 25, 40]))):
            self._cancel_one(task_id)
        for wish in wishes[:3]:
            self._submit_one(replace(wish, agent=f"late {wish.agent}"))

    def _named(self, outcome: Any) -> str:
        """The id that the core gave to a task that it accepted or kept as rejected."""
        task = outcome.task if isinstance(outcome, QueueFull) else outcome
        if not isinstance(task, Task):
            return "none"
        self._task_ids.append(task.id)
        return task.id

    def _cancel(self) -> None:
        self._cancel_one(self._some_task_id())

    def _cancel_one(self, task_id: str) -> None:
        before = self.model.tasks[task_id].state if task_id in self.model.tasks else "unknown"
        self.given["cancel of", before] += 1
        self._both(
            "cancel",
            (task_id,),
            lambda: self.core.cancel(self.now, task_id),
            lambda _: self.model.cancel(self.now, task_id),
        )

    def _get(self) -> None:
        task_id = self._some_task_id()
        self._both("get", (task_id,), lambda: self.core.get(task_id), lambda _: self.model.get(task_id))

    def _list(self) -> None:
        seq, order = self._chances.one_of(self._places)
        self._both(
            "list",
            (seq,),
            lambda: list(self.core.tasks_after(seq)),
            lambda _: [job for job in self.model.tasks.values() if job.order > order],
        )

    def _batch(self) -> None:
        batch_id = self._chances.one_of(self._batch_ids)
        self._both(
            "batch",
            (batch_id,),
            lambda: list(self.core.batch(batch_id).tasks.values()),
            lambda _: self.model.batch(batch_id),
        )

    def _cancel_batch(self) -> None:
        batch_id = self._chances.one_of(self._batch_ids)
        self._both(
            "cancel batch",
            (batch_id,),
            lambda: self.core.cancel_batch(self.now, batch_id),
            lambda _: self.model.cancel_batch(self.now, batch_id),
        )

    def _some_task_id(self) -> str:
        """Mostly of a task that is known, of any state as often as of any other; else one from the past, or none."""
        if self._chances.under(0.15) or not self.model.tasks:
            return self._chances.one_of(self._task_ids)
        states = list(dict.fromkeys(job.state for job in self.model.tasks.values()))
        state = self._chances.one_of(states)
        return self._chances.one_of([job.id for job in self.model.tasks.values() if job.state == state])

    # Commands of hosts

    def _register(self) -> None:
        chances = self._chances
        if chances.under(0.1):
            host_id, machine = EXECUTOR, BUILT_IN
        else:
            host_id, machine = f"host-{chances.below(6)}", chances.one_of(MACHINES)
        self._register_one(host_id, chances.one_of([None, "", "a name"]), machine, chances.one_of([None, 1, 4]))

    def _register_one(self, host_id: str, name: str | None, machine: Machine, slots: int | None) -> None:
        profile = to_profile(machine)
        self._both(
            "register",
            (host_id, name, machine, slots),
            lambda: self.core.register(self.now, host_id, name, profile, slots=slots, built_in=machine.built_in),
            lambda _: self.model.register(self.now, host_id, name, machine, slots),
        )

    def _heartbeat(self) -> None:
        host_id, chances = self._some_host_id(), self._chances
        word, figures = chances.one_of([None, "alive", "busy"]), chances.one_of([None, b"cpu", b"memory"])
        self._both(
            "heartbeat",
            (host_id, word, figures),
            lambda: self.core.heartbeat(self.now, host_id, word and HostStatus(word), figures),
            lambda _: self.model.heartbeat(self.now, host_id, word, figures),
        )

    def _drain_host(self) -> None:
        host_id = self._some_host_id()
        self._both(
            "drain host",
            (host_id,),
            lambda: self.core.drain_host(host_id),
            lambda _: self.model.drain_host(host_id),
        )

    def _deregister(self) -> None:
        host_id = self._some_host_id()
        self._both(
            "deregister",
            (host_id,),
            lambda: self.core.deregister(self.now, host_id),
            lambda _: self.model.deregister(self.now, host_id),
        )

    def _some_host_id(self) -> str:
        if self._chances.under(0.1) or not self.model.hosts:
            return f"host-{self._chances.below(9)}"
        return self._chances.one_of(list(self.model.hosts))

    def _claim(self) -> None:
        chances = self._chances
        count, project = chances.one_of([1, 1, 1, 2, 6]), "red" if chances.under(0.1) else None
        self._claim_some(self._some_host_id(), count, chances.lease_secs(), project)

    def _claim_some(self, host_id: str, count: int, secs: float | None, project: str | None) -> None:
        leases = self._both(
            "claim",
            (host_id, count, secs, project),
            lambda: self.core.claim(self.now, host_id, count, secs, project),
            lambda _: self.model.claim(self.now, host_id, count, secs, project),
        )
        if leases is not None and len(leases) < count:
            self.given["bound by", self.core.limited_by or "no limit"] += 1
        if leases:
            self._leases.extend(Lease(host_id, lease.task.id, lease.token) for lease in leases)
            after = [(task.state, task.agent.id) for task in self.core.tasks_after(0)]
            within_limits_in_flight(self.core.limits, after, [lease.task.agent_id for lease in leases])
            self.given["claim", "handed out"] += 1

    def _some_lease(self) -> Lease:
        """Mostly one that is held; else one that was given some time, or one that never was."""
        chances, chance = self._chances, self._chances.part()
        flying = self.model.flying()
        if flying and chance < 0.8:
            job = chances.one_of(flying)
            return Lease(job.host or "", job.id, job.token)
        if self._leases and chance < 0.92:
            return chances.one_of(self._leases)
        if flying:
            job = chances.one_of(flying)
            return chances.one_of(
                [Lease(job.host or "", job.id, job.token + 1), Lease(self._some_host_id(), job.id, job.token)]
            )
        return Lease(self._some_host_id(), self._some_task_id(), chances.one_of([0, 1, 2]))

    def _report(self, name: str, *args: Any) -> None:
        lease = self._some_lease()
        core, model = getattr(self.core, name), getattr(self.model, name)
        self._both(
            name, (*lease, *args), lambda: core(self.now, *lease, *args), lambda _: model(self.now, *lease, *args)
        )

    def _start(self) -> None:
        self._report("start")

    def _progress(self) -> None:
        self._report("progress", self._chances.one_of([None, b"a half", b"all"]))

    def _complete(self) -> None:
        self._report("complete", self._chances.one_of([None, b"1", b"{}"]))

    def _fail(self) -> None:
        self._report("fail", self._chances.one_of(["broken", "no such tab"]))

    def _release(self) -> None:
        self._report("release")

    def _renew(self) -> None:
        self._report("renew", self._chances.lease_secs())

    # The operator, and time

    def _reconfigure(self) -> None:
        self._limits |= self._chances.new_limits()
        self._both(
            "reconfigure",
            tuple(self._limits.items()),
            lambda: self.core.reconfigure(Limits(**self._limits)),
            lambda _: self.model.limits.update(self._limits),
        )

    def _pass_time(self) -> None:
        chances, chance = self._chances, self._chances.part()
        due = self.core.next_due()
        if chance < 0.35:
            self.now += (1 + chances.below(5)) / 8
        elif chance < 0.6 or due is None:
            self.now += self._chances.secs(0.15)
        elif chance < 0.75:
            self.now = max(self.now, due)
        elif chance < 0.85:
            self.now = max(self.now, nextafter(due, -inf))
        elif chance < 0.95 and (ends := self._ends()):
            self.now = max(self.now, chances.one_of(ends))
        else:
            self.now += self._chances.secs(3)
        if chances.under(0.8):
            self._advance()

    def _ends(self) -> list[float]:
        """When deadlines and leases end to the instant, up to an eighth of a second before anyone acts on it."""
        live = [job for job in self.model.tasks.values() if job.state in {"queued", *FLYING}]
        ends = [job.deadline for job in live] + [job.lease_until for job in live if job.host is not None]
        return sorted(ends)[:3]

    def _jump(self) -> None:
        self.now += self._chances.secs(self._chances.one_of([20, 100, 5000]))
        self._advance()

    def _advance(self) -> None:
        """Let everything happen that is due; sometimes only a part of it, as a loop that takes turns does."""
        most = self._chances.one_of([1, 2, 1000])
        more, turns = True, self._chances.one_of([1, 2, 10_000])
        while more and turns:
            turns -= 1
            more = self._both(
                "advance",
                (most,),
                lambda: self.core.advance(self.now, most),
                lambda told: self.model.advance(self.now, most, told.moved) == most,
            )
            if more and turns:
                self._check()
        for due in (self.model.next_due(), self.core.next_due()):
            if not more and due is not None and due <= self.now:
                raise AssertionError(f"advance says that nothing is due, but something was at {due - START}")

    # What must hold after every step

    def _check(self) -> None:
        moved, self._moved = self._moved, []
        tasks = list(self.core.tasks_after(0))
        agree(self.core, self.model, self.now, moved, tasks)
        self.model.happened.clear()
        self.watch.see(self.now, moved)
        self.watch.compare(self.core._life.counters, tasks)
        for _, task, state in moved:
            if state in {"failed", "cancelled", "rejected", "paused"}:
                self.given["ended", task.error or "no error"] += 1


def _line(step: int, now: float, name: str, args: tuple[Any, ...], outcome: object) -> str:
    """One of the last commands, as a failure prints it."""
    return f"{step} at {now - START!r}: {name} {', '.join(map(repr, args))} -> {outcome!r}"
