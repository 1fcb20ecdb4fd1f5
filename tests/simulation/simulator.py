"""One seeded random history, given to the core and to the model, which must agree after every step.

A history is a chain of lives: a scheduler starts with random limits, works, drains, shuts down, and another one takes
its place. Every random choice comes from the seed, every id from the core's answers. A disagreement, a broken invariant
or a crash of the core is raised as `Mismatch`, which names the seed, the step and the last commands.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from math import inf, nextafter
from random import Random
from typing import Any, Final, NamedTuple

from taskyard_server.core.errors import QueueFull, Refusal
from taskyard_server.core.limits import Limits
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.task import Task

from .indexes import recount, same
from .model import FLYING, Machine, Model, Refused, Wish
from .plain import COUNTERS, FIELDS, of_job, of_task, plain, to_profile, to_submission
from .watch import Watch

START: Final = 1_700_000_000.0
RECOUNT_EVERY: Final = 4
"""So many steps apart all indexes of the core are recounted; everything else is checked after every step."""

NOBODY: Final = ("tsk_nope", "tsk_00000000000000000000000000000000")

WEIGHTS: Final = {
    "submit": 22,
    "submit batch": 4,
    "claim": 22,
    "start": 6,
    "complete": 5,
    "fail": 1.5,
    "release": 1.5,
    "renew": 4,
    "cancel": 4,
    "cancel batch": 1,
    "get": 1,
    "batch": 1,
    "register": 2,
    "heartbeat": 2,
    "deregister": 0.6,
    "reconfigure": 1.5,
    "advance": 3,
    "pass time": 9,
    "jump": 0.1,
}

LIMITS: Final = {
    "max_queue_size": [1, 7, 15, 15, 30, 30, 60, 60],
    "max_per_agent": [1, 5, 12, 12, 30, 30, 60, 60],
    "max_inflight": [1, 4, 10, 10, 20, 20, 40, 40],
    "max_per_agent_inflight": [1, 2, 4, 4, 10, 10],
    "result_ttl_secs": [0.5, 4.0, 15.0, 60.0],
    "max_retained_tasks": [1, 10, 25, 25, 50],
    "default_deadline_secs": [0.75, 6.0, 20.0, 60.0, 60.0],
    "lease_secs": [1.0, 3.5, 12.0, 60.0],
    "max_deliveries": [1, 2, 3, 5],
    "heartbeat_timeout_secs": [0.5, 4.0, 60.0],
}

REQUIRED: Final = [frozenset(needs) for needs in ((), (), (), (), ("gpu",), ("eu",), ("gpu", "eu"))]
ABLE: Final = Machine(frozenset({"gpu", "eu"}))
MACHINES: Final = [
    Machine(),
    Machine(frozenset({"gpu"})),
    ABLE,
    Machine(frozenset({"gpu", "eu", "big"}), project="red"),
    Machine(frozenset({"eu"}), project="blue", actions=frozenset({"action-0"})),
    Machine(actions=frozenset({"action-1", "action-2"})),
    Machine(tabs="only"),
    Machine(frozenset({"eu"}), tabs="or plain"),
]


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
    """The history of one seed. `given` counts commands by name and outcome."""

    def __init__(self, seed: int, recount_every: int = RECOUNT_EVERY) -> None:
        self.seed = seed
        self.steps = 0
        self.given: Counter[tuple[str, str]] = Counter()
        self._recount_every = recount_every
        self._draw = Random(seed)
        self._entropy = partial(Random(f"ids of {seed}").getrandbits, 40)
        self._last: deque[tuple[Any, ...]] = deque(maxlen=20)
        self._commands: dict[str, Callable[[], None]] = {
            name: getattr(self, "_" + name.replace(" ", "_")) for name in WEIGHTS
        }
        self.now = START + self._draw.randrange(10**6)
        self._begin_life()

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
        except Exception as error:
            why = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
            raise Mismatch(self.seed, self.steps, why, [self._line(*entry) for entry in self._last]) from error

    def _line(self, step: int, now: float, name: str, args: tuple[Any, ...], outcome: str) -> str:
        return f"{step} at {now - START!r}: {name} {', '.join(map(repr, args))} -> {outcome}"

    # Lives

    def _begin_life(self) -> None:
        draw = self._draw
        self._limits: dict[str, float] = {name: draw.choice(values) for name, values in LIMITS.items()}
        if draw.random() < 0.06:
            self._limits |= {"max_queue_size": 400, "max_per_agent": 400, "default_deadline_secs": 60.0}
        self.core = Scheduler(Limits(**self._limits), self._entropy)
        self.model = Model(dict(self._limits))
        self.watch = Watch()
        self._agents = draw.choice([1, 2, 4, 8, 8, 150])
        self._actions = draw.choice([1, 2, 2, 150])
        self._grid = draw.random() < 0.7
        weights = {name: weight * draw.choice([0.4, 1, 1, 2]) for name, weight in WEIGHTS.items()}
        self._names, self._weights = list(weights), list(weights.values())
        self._leases: deque[Lease] = deque(maxlen=60)
        self._batch_ids: deque[str] = deque(["bat_nope"], maxlen=12)
        self._task_ids: deque[str] = deque(NOBODY, maxlen=120)
        self._drain_at = self.steps + draw.randrange(200, 900)
        self._shut_down_at = self._drain_at + draw.choice([0, 20, 60])
        self._over_at = self._shut_down_at + draw.choice([1, 15, 60])
        self._last.append((self.steps, self.now, "a new scheduler", tuple(self._limits.items()), "ok"))
        self._both("register", ("tab-executor",), *self._registering("tab-executor", None, Machine(built_in=True)))
        for number, machine in enumerate([ABLE, *draw.sample(MACHINES, draw.randrange(5))]):
            self._both("register", (machine,), *self._registering(f"host-{number}", None, machine))

    def _take_a_step(self) -> None:
        if self.steps >= self._over_at:
            self._begin_life()
        elif self.steps == self._shut_down_at:
            self._both("shut down", (), lambda: self.core.shut_down(self.now), lambda _: self.model.shut_down(self.now))
        elif self.steps == self._drain_at:
            self._both("drain", (), self.core.drain, lambda _: self.model.drain())
        else:
            (name,) = self._draw.choices(self._names, self._weights)
            self._commands[name]()

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
        except Refusal as refused:
            refusal = refused
        outcome = refusal.code if refusal else "ok"
        self._last[-1] = (self.steps, self.now, name, args, f"{outcome} {answer if refusal is None else refusal}")
        self.given[name, outcome] += 1
        self._moved = self.core.take_transitions()
        expected, refused = None, None
        try:
            expected = model(Told(answer, refusal, [task.id for _, task, _ in self._moved]))
        except Refused as its:
            refused = its
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

    def _wish(self, agent: str | None = None) -> Wish:
        draw = self._draw
        chance = draw.random()
        deadline = None
        if chance < 0.05:
            deadline = self.now - draw.choice([0.0, 0.125, 5.0])
        elif chance < 0.4:
            deadline = self.now + self._secs(draw.choice([0.5, 3.0, 10.0]))
        elif chance < 0.47:
            deadline = self.now + 3600
        return Wish(
            agent or f"agent-{draw.randrange(self._agents)}",
            f"action-{draw.randrange(self._actions)}",
            tab=draw.choice([None, "tab"]),
            priority=draw.choice([-5, -1, 0, 0, 0, 1, 7]),
            deadline=deadline,
            project=draw.choice([None, None, None, "red", "blue"]),
            requires=draw.choice(REQUIRED),
        )

    def _submit(self) -> None:
        wish = self._wish()
        queued, of_agent = self._counted("queued"), self._counted("queued", wish.agent)
        task = self._both(
            "submit",
            (wish,),
            lambda: self.core.submit(self.now, to_submission(wish)),
            lambda told: self.model.submit(self.now, wish, self._named(told.refusal or told.answer)),
        )
        if task is not None:
            self._admitted(queued, of_agent)

    def _admitted(self, queued: int, of_agent: int) -> None:
        limits = self.core.limits
        if queued >= limits.max_queue_size or of_agent >= limits.max_per_agent:
            raise AssertionError(f"admitted over a limit: {queued} queued, {of_agent} of the agent")

    def _submit_batch(self) -> None:
        agent = f"agent-{self._draw.randrange(self._agents)}"
        wishes = [self._wish(agent) for _ in range(self._draw.choice([1, 2, 3, 8]))]
        if self._draw.random() < 0.8:
            wishes = [wish for wish in wishes if wish.deadline is None or wish.deadline > self.now] or [
                Wish(agent, "x")
            ]

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
                self.given["task of a batch", "queue_full" if isinstance(outcome, Refusal) else "ok"] += 1

    def _named(self, outcome: Any) -> str:
        """The id that the core gave to a task that it accepted or kept as rejected."""
        task = outcome.task if isinstance(outcome, QueueFull) else outcome
        if not isinstance(task, Task):
            return "none"
        self._task_ids.append(task.id)
        return task.id

    def _cancel(self) -> None:
        task_id = self._some_task_id()
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

    def _batch(self) -> None:
        batch_id = self._draw.choice(self._batch_ids)
        self._both(
            "batch",
            (batch_id,),
            lambda: list(self.core.batch(batch_id).tasks.values()),
            lambda _: self.model.batch(batch_id),
        )

    def _cancel_batch(self) -> None:
        batch_id = self._draw.choice(self._batch_ids)
        self._both(
            "cancel batch",
            (batch_id,),
            lambda: self.core.cancel_batch(self.now, batch_id),
            lambda _: self.model.cancel_batch(self.now, batch_id),
        )

    def _some_task_id(self) -> str:
        """Mostly of a task that is known, of any state as often as of any other; else one from the past, or none."""
        if self._draw.random() < 0.15 or not self.model.tasks:
            return self._draw.choice(self._task_ids)
        states = list(dict.fromkeys(job.state for job in self.model.tasks.values()))
        state = self._draw.choice(states)
        return self._draw.choice([job.id for job in self.model.tasks.values() if job.state == state])

    # Commands of hosts

    def _registering(self, host_id: str, name: str | None, machine: Machine) -> tuple[Any, Any]:
        register, profile, built_in = self.core.register, to_profile(machine), machine.built_in
        return (
            lambda: register(self.now, host_id, name, profile, built_in=built_in),
            lambda _: self.model.register(self.now, host_id, name, machine),
        )

    def _register(self) -> None:
        draw = self._draw
        if draw.random() < 0.1:
            host_id, machine = "tab-executor", Machine(built_in=True)
        else:
            host_id, machine = f"host-{draw.randrange(6)}", draw.choice(MACHINES)
        name = draw.choice([None, "", "a name"])
        self._both("register", (host_id, name, machine), *self._registering(host_id, name, machine))

    def _heartbeat(self) -> None:
        host_id = self._some_host_id()
        self._both(
            "heartbeat",
            (host_id,),
            lambda: self.core.heartbeat(self.now, host_id),
            lambda _: self.model.heartbeat(self.now, host_id),
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
        if self._draw.random() < 0.1 or not self.model.hosts:
            return f"host-{self._draw.randrange(9)}"
        return self._draw.choice(list(self.model.hosts))

    def _claim(self) -> None:
        host_id, count, secs = self._some_host_id(), self._draw.choice([1, 1, 1, 2, 6]), self._some_lease_secs()
        leases = self._both(
            "claim",
            (host_id, count, secs),
            lambda: self.core.claim(self.now, host_id, count, secs),
            lambda _: self.model.claim(self.now, host_id, count, secs),
        )
        if leases:
            self._leases.extend(Lease(host_id, lease.task.id, lease.token) for lease in leases)
            self._handed_out(count, [lease.task.agent_id for lease in leases])
            self.given["claim", "handed out"] += 1

    def _handed_out(self, count: int, agents: list[str]) -> None:
        limits = self.core.limits
        load = {agent: sum(self._counted(state, agent) for state in FLYING) for agent in agents}
        inflight = sum(self._counted(state) for state in FLYING)
        if len(agents) > count or inflight > limits.max_inflight or max(load.values()) > limits.max_per_agent_inflight:
            raise AssertionError(f"handed out over a limit: {inflight} in flight, {load} of agents")

    def _counted(self, state: str, agent: str | None = None) -> int:
        """How many tasks of the core, its counts aside, are in a state."""
        return sum(task.state == state and agent in (None, task.agent.id) for task in self.core.tasks_after(0))

    def _some_lease_secs(self) -> float | None:
        if self._draw.random() < 0.8:
            return None
        return self._draw.choice([1, 1.75, self._secs(3) + 1, 3600, 0.5, 3601])

    def _some_lease(self) -> Lease:
        """Mostly one that is held; else one that was given some time, or one that never was."""
        draw, chance = self._draw, self._draw.random()
        flying = self.model.flying()
        if flying and chance < 0.8:
            job = draw.choice(flying)
            return Lease(job.host or "", job.id, job.token)
        if self._leases and chance < 0.92:
            return draw.choice(self._leases)
        if flying:
            job = draw.choice(flying)
            return draw.choice(
                [Lease(job.host or "", job.id, job.token + 1), Lease(self._some_host_id(), job.id, job.token)]
            )
        return Lease(self._some_host_id(), self._some_task_id(), draw.choice([0, 1, 2]))

    def _report(self, name: str, *args: Any) -> None:
        lease = self._some_lease()
        core, model = getattr(self.core, name), getattr(self.model, name)
        self._both(
            name, (*lease, *args), lambda: core(self.now, *lease, *args), lambda _: model(self.now, *lease, *args)
        )

    def _start(self) -> None:
        self._report("start")

    def _complete(self) -> None:
        self._report("complete", self._draw.choice([None, b"1", b"{}"]))

    def _fail(self) -> None:
        self._report("fail", self._draw.choice(["broken", "no such tab"]))

    def _release(self) -> None:
        self._report("release")

    def _renew(self) -> None:
        self._report("renew", self._some_lease_secs())

    # The operator, and time

    def _reconfigure(self) -> None:
        for name in self._draw.sample(list(LIMITS), self._draw.choice([1, 1, 3])):
            self._limits[name] = self._draw.choice(LIMITS[name])
        self._both(
            "reconfigure",
            tuple(self._limits.items()),
            lambda: self.core.reconfigure(Limits(**self._limits)),
            lambda _: self.model.limits.update(self._limits),
        )

    def _secs(self, about: float) -> float:
        """A random length of time: a whole number of 1/1024 s, or anything."""
        secs = self._draw.random() * 2 * about
        return round(secs * 1024) / 1024 + 1 / 1024 if self._grid else secs + 1e-6

    def _pass_time(self) -> None:
        draw, chance = self._draw, self._draw.random()
        due = self.core.next_due()
        if chance < 0.35:
            self.now += draw.randrange(1, 6) / 8
        elif chance < 0.6 or due is None:
            self.now += self._secs(0.15)
        elif chance < 0.75:
            self.now = max(self.now, due)
        elif chance < 0.85:
            self.now = max(self.now, nextafter(due, -inf))
        elif chance < 0.95 and (ends := self._ends()):
            self.now = max(self.now, draw.choice(ends))
        else:
            self.now += self._secs(3)
        if draw.random() < 0.8:
            self._advance()

    def _ends(self) -> list[float]:
        """When deadlines and leases end to the instant, up to an eighth of a second before anyone acts on it."""
        live = [job for job in self.model.tasks.values() if job.state in {"queued", *FLYING}]
        ends = [job.deadline for job in live] + [job.lease_until for job in live if job.host is not None]
        return sorted(ends)[:3]

    def _jump(self) -> None:
        self.now += self._secs(self._draw.choice([20, 100, 5000]))
        self._advance()

    def _advance(self) -> None:
        """Let everything happen that is due; sometimes only a part of it, as a loop that takes turns does."""
        most = self._draw.choice([1, 2, 1000])
        more, turns = True, self._draw.choice([1, 2, 10_000])
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
        due = self.model.next_due()
        if not more and due is not None and due <= self.now:
            raise AssertionError(f"advance says that nothing is due, but something was at {due - START}")

    # What must hold after every step

    def _check(self) -> None:
        core, model = self.core, self.model
        same("transitions", sorted((at, task.id, state) for at, task, state in self._moved), sorted(model.happened))
        self.watch.see(self.now, self._moved)
        self._moved, model.happened = [], []
        tasks = list(core.tasks_after(0))
        if [*map(of_task, tasks)] != [*map(of_job, model.tasks.values())]:
            self._differ(tasks)
        counters = core._life.counters
        for name in COUNTERS:
            same(name, getattr(counters, name), model.counts[name])
        same("sum of latencies", counters.dispatch_latency_secs, model.latency)
        same("limited_by", core.limited_by, model.limited_by)
        same("any host online", core.hosts.any_online(self.now, core.limits.heartbeat_timeout_secs), self._online())
        same("hosts", [plain(host) for host in core.hosts], [plain(host) for host in model.hosts.values()])
        due, expected = core.next_due(), model.next_due()
        same("next_due", due, expected)
        self.watch.compare(counters, tasks)
        if self.steps % self._recount_every == 0:
            recount(core)
            self._check_figures()

    def _online(self) -> bool:
        return self.model.any_online(self.now)

    def _differ(self, tasks: list[Task]) -> None:
        same("tasks", [task.id for task in tasks], list(self.model.tasks))
        for task, job in zip(tasks, self.model.tasks.values(), strict=True):
            for name, found, expected in zip(FIELDS, of_task(task), of_job(job), strict=True):
                same(f"{name} of {task.id}", found, expected)

    def _check_figures(self) -> None:
        """The figures that are handed out: one line an agent, and the totals."""
        model, stats = self.model, self.core.stats()
        same("agents of the stats", set(stats.agents), set(model.agents))
        for name, its in stats.agents.items():
            counts = model.agents[name].counts
            found = {each: getattr(its, each) for each in ("submitted", "completed", "failed", "cancelled", "rejected")}
            same(f"counters of {name}", found, {each: counts[each] for each in found})
            same(f"queued and in flight of {name}", (its.queued, its.inflight), self._load(name))
        same("queued and in flight", (stats.queued, stats.inflight), self._load(None))
        same("order of the ended", [task.id for _, task in self.core._life.ended._ended], model.ended)
        same("order of the rejected", [task.id for _, task in self.core._life.rejected._ended], model.rejected)

    def _load(self, agent: str | None) -> tuple[int, int]:
        return self.model.queued(agent), len(self.model.flying(agent))
