"""A naive scheduler of one namespace, written from DESIGN and the documented specs alone.

It shares no code with the core and knows none of its ideas: no queue, lanes, ranks, timers or counts of what waits.
Everything is found by looking at every task. Each method is one command; it answers in plain values, or raises
`Refused` with the word of DESIGN's error table. Times are seconds on the caller's clock.

Where DESIGN leaves an order open, the model does not choose: see `advance`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import floor
from typing import Final, NoReturn

INTERRUPTED: Final = "Job was interrupted by user"

# DESIGN, Task states: where a task may go from each state; from None, how it enters.
ARROWS: Final[dict[str | None, set[str]]] = {
    None: {"pending", "queued", "rejected"},
    "pending": {"queued", "failed", "cancelled"},
    "queued": {"assigned", "failed", "cancelled"},
    "assigned": {"running", "queued", "pending", "paused", "done", "failed", "cancelled"},
    "running": {"queued", "pending", "paused", "done", "failed", "cancelled"},
    "paused": {"queued", "done", "cancelled"},
    "failed": {"queued", "done", "cancelled"},
    "done": set(),
    "cancelled": set(),
    "rejected": set(),
}
ENDED: Final = {"done", "failed", "cancelled", "rejected"}
FLYING: Final = {"assigned", "running"}
TICKING: Final = {"queued", "assigned", "running"}
"""The states in which a deadline counts."""

COUNTED: Final = {"done": "completed", "failed": "failed", "cancelled": "cancelled"}


class Refused(Exception):
    """A command that was refused. `message` is None where no spec words it."""

    def __init__(self, code: str, message: str | None = None, details: dict[str, object] | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.details = details


@dataclass(frozen=True)
class Wish:
    """What an agent asks for. `deadline` is absolute; None takes the default."""

    agent: str
    action: str
    tab: str | None = None
    priority: int = 0
    deadline: float | None = None
    project: str | None = None
    requires: frozenset[str] = frozenset()
    key: str | None = None


@dataclass(frozen=True)
class Machine:
    """What a host may run; `tabs` is `any`, `only` or `or plain`. The built-in one is the tab executor."""

    capabilities: frozenset[str] = frozenset()
    project: str | None = None
    actions: frozenset[str] | None = None
    tabs: str = "any"
    built_in: bool = False


@dataclass(slots=True)
class Job:
    """One task. `order` is the order of submission, `host` holds its lease, which is the `grant`-th of all.

    `last_host` is the runtime host that has or had it last; the tab executor is none.
    """

    id: str
    order: int
    wish: Wish
    state: str
    created_at: float
    deadline: float
    batch: str | None
    position: int | None = None
    token: int = 0
    deliveries: int = 0
    host: str | None = None
    last_host: str | None = None
    grant: int = 0
    claimed_at: float = 0.0
    lease_secs: float = 0.0
    lease_until: float = 0.0
    queued_at: float = 0.0
    started_at: float | None = None
    completed_at: float | None = None
    result: bytes | None = None
    progress: bytes | None = None
    error: str | None = None

    def latency_ms(self) -> int | None:
        """From the first start to the end."""
        if self.started_at is None or self.completed_at is None:
            return None
        return round((self.completed_at - self.started_at) * 1000)


@dataclass(slots=True)
class Agent:
    """When an agent came and when it was last served, as numbers that grow; and its share of the counters."""

    came: int
    served: int | None = None
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Host:
    """A registered host. `own_word` is the status that it gave itself."""

    id: str
    machine: Machine
    display_name: str
    registered_at: float
    heard_at: float
    slots: int | None = None
    draining: bool = False
    own_word: str | None = None
    figures: bytes | None = None


def tick_of(at: float) -> int:
    """The eighth of a second at which something that lasts until `at` is over: never early, at most 1/8 s late."""
    return floor(8 * at) + 1


def first_tick(jobs: Sequence[Job], end: Callable[[Job], float]) -> int | None:
    """The earliest tick at which one of these jobs meets its end."""
    return min((tick_of(end(job)) for job in jobs), default=None)


def _lease_length(asked: float | None, otherwise: float) -> float:
    if asked is not None and not 1 <= asked <= 3600:
        raise Refused("bad_request")
    return otherwise if asked is None else asked


def _may_run(machine: Machine, wish: Wish) -> bool:
    return (
        wish.requires <= machine.capabilities
        and machine.project in (None, wish.project)
        and (machine.actions is None or wish.action in machine.actions)
        and (machine.tabs == "any" or wish.tab is not None or (machine.tabs == "or plain" and not wish.requires))
    )


class Model:
    """All tasks of one namespace. `limits` are the core's `Limits` by name; the simulator puts in new ones."""

    def __init__(self, limits: dict[str, float]) -> None:
        self.limits = limits
        self.tasks: dict[str, Job] = {}
        self.agents: dict[str, Agent] = {}
        self.hosts: dict[str, Host] = {}
        self.ended: list[str] = []
        self.rejected: list[str] = []
        self.counts: Counter[str] = Counter()
        self.latency = 0.0
        self.held_up: dict[str, Machine] = {}
        self.draining = False
        self.happened: list[tuple[float, str, str]] = []
        self._numbers = 0

    # What agents ask for

    def submit(self, now: float, wish: Wish, task_id: str, batch: str | None = None) -> Job:
        """Admission; a refused task is kept under the same id. A repeat is answered with the first task."""
        first = self._first_under(wish)
        if first is not None:
            if first.wish != wish:
                raise Refused("already_exists")
            return first
        self._check(now, wish)
        agent = self.agents.setdefault(wish.agent, Agent(self._number()))
        deadline = now + self.limits["default_deadline_secs"] if wish.deadline is None else wish.deadline
        job = Job(task_id, self._number(), wish, "queued", now, deadline, batch, queued_at=now)
        queued = self.queued()
        full = queued >= self.limits["max_queue_size"]
        self.tasks[task_id] = job
        if full or self.queued(wish.agent) - 1 >= self.limits["max_per_agent"]:
            self._reject(now, job, agent, queued, "global" if full else "agent")
        self._enter(now, job, "queued")
        self.counts["submitted"] += 1
        agent.counts["submitted"] += 1
        job.position = self.queued()
        return job

    def submit_batch(self, now: float, wishes: Sequence[Wish], ids: Sequence[str], batch: str) -> list[Job | Refused]:
        """One by one; nothing at all where one of them could never be accepted."""
        for wish in wishes:
            if self._first_under(wish) is None:
                self._check(now, wish)
        outcomes: list[Job | Refused] = []
        for wish, task_id in zip(wishes, ids, strict=True):
            try:
                outcomes.append(self.submit(now, wish, task_id, batch))
            except Refused as refused:
                outcomes.append(refused)
        return outcomes

    def batch(self, batch: str) -> list[Job]:
        """The retained tasks of a batch, in the order of the request."""
        jobs = [job for job in self.tasks.values() if job.batch == batch]
        if not jobs:
            raise Refused("not_found", "batch not found")
        return jobs

    def cancel_batch(self, now: float, batch: str) -> int:
        live = [job for job in self.batch(batch) if job.state not in ENDED]
        for job in live:
            self._end(now, job, "cancelled")
        return len(live)

    def cancel(self, now: float, task_id: str) -> Job:
        job = self.get(task_id)
        if job.state in ENDED:
            raise Refused("conflict")
        self._end(now, job, "cancelled")
        return job

    def get(self, task_id: str) -> Job:
        if task_id not in self.tasks:
            raise Refused("not_found", "task not found")
        return self.tasks[task_id]

    # What hosts ask for

    def register(self, now: float, host_id: str, display_name: str | None, machine: Machine, slots: int | None) -> Host:
        """An upsert: `registered_at`, the figures of the machine and the leases stay."""
        known = self.hosts.get(host_id)
        host = self.hosts[host_id] = Host(host_id, machine, display_name or host_id, now, now, slots)
        if known is not None:
            host.registered_at, host.figures = known.registered_at, known.figures
        return host

    def heartbeat(self, now: float, host_id: str, own_word: str | None, figures: bytes | None) -> Host:
        host = self._heard(now, host_id)
        host.own_word = own_word
        host.figures = figures or host.figures
        return host

    def status(self, now: float, host: Host) -> str:
        """Dead after the missed heartbeats, else its own word, else by its leases."""
        if now - host.heard_at > self.limits["heartbeat_timeout_secs"] * self.limits["dead_heartbeat_threshold"]:
            return "dead"
        leases = len(self.leases(host.id))
        busy = host.slots is not None and leases >= host.slots
        return host.own_word or ("idle" if leases == 0 else "busy" if busy else "alive")

    def deregister(self, now: float, host_id: str) -> None:
        if host_id not in self.hosts:
            raise Refused("not_found", "runtime host not found")
        for job in self.flying():
            if job.host == host_id:
                self._requeue(now, job)
        del self.hosts[host_id]
        self.held_up.pop(host_id, None)

    def drain_host(self, host_id: str) -> Host:
        """It gets nothing new, until it registers again."""
        if host_id not in self.hosts:
            raise Refused("not_found", "runtime host not found")
        self.hosts[host_id].draining = True
        return self.hosts[host_id]

    def claim(
        self, now: float, host_id: str, count: int, lease_secs: float | None, project: str | None
    ) -> list[tuple[str, int, float]]:
        """For each task that the host gets: its id, the fencing token, and when the lease ends."""
        host = self._heard(now, host_id)
        machine = self._as_it_is(now, host.machine)
        secs = _lease_length(lease_secs, self.limits["lease_secs"])
        if project is not None:
            if machine.project not in (None, project):
                raise Refused("bad_request")
            machine = replace(machine, project=project)
        got: list[tuple[str, int, float]] = []
        if host.draining:
            count = 0
        while len(got) < count and not self.draining and len(self.flying()) < self.limits["max_inflight"]:
            job = self._next_for(machine)
            if job is None:
                break
            if job.deadline <= now:
                self._expire(now, job)
                continue
            self._enter(now, job, "assigned")
            job.error = None
            self.agents[job.wish.agent].served = self._number()
            job.token += 1
            job.deliveries += 1
            job.host, job.claimed_at = host_id, now
            job.last_host = None if host.machine.built_in else host_id
            job.lease_secs, job.lease_until = secs, now + secs
            self.counts["dispatched"] += 1
            job.grant = self.counts["dispatched"]
            self.latency += now - job.queued_at
            got.append((job.id, job.token, job.lease_until))
        self.held_up.pop(host_id, None)
        if len(got) < count and self._limit_that_binds(machine):
            self.held_up[host_id] = machine
        return got

    def start(self, now: float, host_id: str, task_id: str, token: int) -> Job:
        job = self._leased(now, host_id, task_id, token)
        if job.state != "assigned":
            raise Refused("conflict")
        self._begin(now, job)
        return job

    def renew(
        self, now: float, host_id: str, task_id: str, token: int, lease_secs: float | None
    ) -> tuple[str, int, float]:
        """By its own length unless another is asked for, never to less than it had."""
        job = self._leased(now, host_id, task_id, token)
        secs = job.lease_secs = _lease_length(lease_secs, job.lease_secs)
        job.lease_until = max(job.lease_until, now + secs)
        return (job.id, job.token, job.lease_until)

    def progress(self, now: float, host_id: str, task_id: str, token: int, progress: bytes | None) -> Job:
        """Counts as a start, too; None is as far as before."""
        job = self._leased(now, host_id, task_id, token)
        if job.state == "assigned":
            self._begin(now, job)
        job.progress = progress or job.progress
        return job

    def complete(self, now: float, host_id: str, task_id: str, token: int, result: bytes | None) -> Job:
        job = self._leased(now, host_id, task_id, token)
        if job.state == "assigned":
            self._begin(now, job)
        self._end(now, job, "done", result=result)
        return job

    def fail(self, now: float, host_id: str, task_id: str, token: int, error: str) -> Job:
        job = self._leased(now, host_id, task_id, token)
        if job.state == "assigned":
            self._begin(now, job)
        self._end(now, job, "failed", error)
        return job

    def release(self, now: float, host_id: str, task_id: str, token: int) -> Job:
        """Back to its place; this hand-out does not count."""
        job = self._leased(now, host_id, task_id, token)
        self._requeue(now, job)
        job.deliveries -= 1
        return job

    # Time and the operator

    def advance(self, now: float, most: int, chosen: Sequence[str]) -> int:
        """Do up to `most` things that are due, earliest tick first, at the same tick deadlines before leases.

        DESIGN leaves open which of two deadlines (or leases) of the same tick goes first. That order shows in results
        where two tasks end in one tick: they are retained in the order in which they ended, and `max_retained_tasks`
        drops the first; and where `most` cuts between the two. So the model follows the order that the core took,
        `chosen`, and insists that each choice is one of the things that were due at the earliest tick. Returns how many
        were done.
        """
        turns = iter(chosen)
        for done in range(most):
            ticking = [job for job in self.tasks.values() if job.state in TICKING]
            flying = self.flying()
            deadline = first_tick(ticking, lambda job: job.deadline)
            lease_end = first_tick(flying, lambda job: job.lease_until)
            if deadline is not None and deadline <= floor(8 * now) and (lease_end is None or deadline <= lease_end):
                due = {job.id: job for job in ticking if tick_of(job.deadline) == deadline}
                self._expire(now, self._one_of(due, turns, "deadline"))
            elif lease_end is not None and lease_end <= floor(8 * now):
                due = {job.id: job for job in flying if tick_of(job.lease_until) == lease_end}
                self._lose(now, self._one_of(due, turns, "end of lease"))
            elif not self._forget_one(now):
                return done
        return most

    def next_due(self) -> float | None:
        """The time of the first thing that happens to a task if only time passes."""
        times = [tick_of(job.deadline) / 8 for job in self.tasks.values() if job.state in TICKING]
        times += [tick_of(job.lease_until) / 8 for job in self.flying()]
        times += [
            job.completed_at + self.limits["result_ttl_secs"] for job in self.tasks.values() if job.state in ENDED
        ]
        return min(times, default=None)

    def drain(self) -> None:
        self.draining = True

    def shut_down(self, now: float) -> None:
        for job in list(self.tasks.values()):
            if job.state in FLYING:
                self._enter(now, job, "paused")
                job.host = None
                job.error = INTERRUPTED
            elif job.state == "queued":
                self._end(now, job, "cancelled", "scheduler shutdown")

    # What can be counted

    def flying(self, agent: str | None = None) -> list[Job]:
        return [job for job in self.tasks.values() if job.state in FLYING and agent in (None, job.wish.agent)]

    def queued(self, agent: str | None = None) -> int:
        return sum(job.state == "queued" and agent in (None, job.wish.agent) for job in self.tasks.values())

    def leases(self, host_id: str | None = None) -> list[Job]:
        """The tasks under a lease, in the order of the grants."""
        return sorted((job for job in self.flying() if host_id in (None, job.host)), key=lambda job: job.grant)

    def limited_by(self) -> str | None:
        """The limit that keeps a host from tasks that wait, if it got less than it asked for when it last claimed."""
        keys = [self._limit_that_binds(machine) for machine in self.held_up.values()]
        return next((key for key in keys if key), None)

    def silent_from(self) -> float | None:
        """Until when a runtime host is online if none is heard of again; None where no tab executor waits for that."""
        heard = [host.heard_at for host in self.hosts.values() if not host.machine.built_in]
        if not heard or len(heard) == len(self.hosts):
            return None
        return max(heard) + self.limits["heartbeat_timeout_secs"]

    def any_online(self, now: float) -> bool:
        """Whether a runtime host is online; the built-in executor is none."""
        timeout = self.limits["heartbeat_timeout_secs"]
        return any(now - host.heard_at <= timeout for host in self.hosts.values() if not host.machine.built_in)

    # The rules

    def _first_under(self, wish: Wish) -> Job | None:
        """The retained task that the agent submitted under this key; a rejection consumed none."""
        if wish.key is None:
            return None
        for job in self.tasks.values():
            if job.state != "rejected" and (job.wish.agent, job.wish.key) == (wish.agent, wish.key):
                return job
        return None

    def _check(self, now: float, wish: Wish) -> None:
        if self.draining:
            raise Refused("unavailable")
        if wish.deadline is not None and wish.deadline <= now:
            raise Refused("bad_request")

    def _reject(self, now: float, job: Job, agent: Agent, queued: int, which: str) -> NoReturn:
        self._enter(now, job, "rejected")
        job.completed_at = now
        job.error = f"rejected: {which} queue full"
        self.counts["rejected"] += 1
        agent.counts["rejected"] += 1
        self.rejected.append(job.id)
        while len(self.rejected) > self.limits["max_queue_size"]:
            self._forget(self.rejected[0])
        details = {
            "agentId": job.wish.agent,
            "queued": queued,
            "maxQueue": self.limits["max_queue_size"],
            "maxPerAgent": self.limits["max_per_agent"],
        }
        raise Refused("queue_full", job.error, details)

    def _as_it_is(self, now: float, machine: Machine) -> Machine:
        """What the tab executor may run depends on whether runtime hosts are online."""
        if not machine.built_in:
            return machine
        return Machine(tabs="only" if self.any_online(now) else "or plain")

    def _waiting_for(self, machine: Machine) -> list[Job]:
        return [job for job in self.tasks.values() if job.state == "queued" and _may_run(machine, job.wish)]

    def _next_for(self, machine: Machine) -> Job | None:
        """DESIGN, Claim order. One past its deadline takes its turn like any other, and is then expired."""
        waiting = self._waiting_for(machine)
        load = Counter(job.wish.agent for job in self.flying())

        def turn(name: str) -> tuple[int, bool, int]:
            agent = self.agents[name]
            return (load[name], agent.served is not None, agent.came if agent.served is None else agent.served)

        names = {job.wish.agent for job in waiting if load[job.wish.agent] < self.limits["max_per_agent_inflight"]}
        if not names:
            return None
        best = min(names, key=turn)
        return min((job for job in waiting if job.wish.agent == best), key=lambda job: (job.wish.priority, job.order))

    def _limit_that_binds(self, machine: Machine) -> str | None:
        if self.draining or not self._waiting_for(machine):
            return None
        if len(self.flying()) >= self.limits["max_inflight"]:
            return "maxInflight"
        return None if self._next_for(machine) else "maxPerAgentInflight"

    def _heard(self, now: float, host_id: str) -> Host:
        """Every call of a host is a sign of life."""
        if host_id not in self.hosts:
            raise Refused("not_found", "runtime host not found")
        self.hosts[host_id].heard_at = now
        return self.hosts[host_id]

    def _leased(self, now: float, host_id: str, task_id: str, token: int) -> Job:
        self._heard(now, host_id)
        job = self.get(task_id)
        if job.state not in FLYING or job.host != host_id or job.token != token:
            self.counts["late_reports"] += 1
            raise Refused("lease_lost")
        return job

    def _enter(self, now: float, job: Job, state: str) -> None:
        job.state = state
        self.happened.append((now, job.id, state))

    def _begin(self, now: float, job: Job) -> None:
        self._enter(now, job, "running")
        if job.started_at is None:
            job.started_at = now

    def _requeue(self, now: float, job: Job, why: str | None = None) -> None:
        self._enter(now, job, "queued")
        job.host = None
        job.error = why
        job.queued_at = now

    def _end(self, now: float, job: Job, state: str, error: str | None = None, result: bytes | None = None) -> None:
        self._enter(now, job, state)
        job.host = None
        job.completed_at = now
        job.error = error
        job.result = result
        self.counts[COUNTED[state]] += 1
        self.agents[job.wish.agent].counts[COUNTED[state]] += 1
        self.ended.append(job.id)
        while len(self.ended) > self.limits["max_retained_tasks"]:
            self.counts["evicted"] += 1
            self._forget(self.ended[0])

    def _expire(self, now: float, job: Job) -> None:
        if job.state == "queued":
            self.counts["expired"] += 1
            self._end(now, job, "failed", "deadline exceeded while queued")
        else:
            self._end(now, job, "failed", "deadline exceeded")

    def _lose(self, now: float, job: Job) -> None:
        if job.deliveries < self.limits["max_deliveries"]:
            self._requeue(now, job, "lease expired")
        else:
            self._end(now, job, "failed", "lease expired")

    def _forget_one(self, now: float) -> bool:
        """Forget the first task whose time is over; accepted ones go before rejected ones, where `most` cuts."""
        for kept in (self.ended, self.rejected):
            if kept and self.tasks[kept[0]].completed_at + self.limits["result_ttl_secs"] <= now:
                self._forget(kept[0])
                return True
        return False

    def _forget(self, task_id: str) -> None:
        job = self.tasks.pop(task_id)
        (self.rejected if job.state == "rejected" else self.ended).remove(task_id)
        if all(other.wish.agent != job.wish.agent for other in self.tasks.values()):
            del self.agents[job.wish.agent]

    def _one_of(self, due: dict[str, Job], turns: object, what: str) -> Job:
        task_id = next(turns, None)
        if task_id not in due:
            raise AssertionError(f"the {what} of one of {sorted(due)} is due, but the core took {task_id}")
        return due[task_id]

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers
