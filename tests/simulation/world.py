"""What the model knows, and how tasks move in it: plain lists, no queue, no timers, no counts of what waits.

Everything is found by looking at every task. `happened` and `stops` tell what came of the commands, in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from .words import COUNTED, FLYING, INTERRUPTED, TICKING, Agent, Host, Job, Machine, Offer, Refused, may_run


class Happened(NamedTuple):
    """One event: what was true of the task just after it, of all that an event tells."""

    at: float
    kind: str
    task: str
    before: str | None
    state: str
    host: str | None
    started_at: float | None
    error: str | None
    progress: bytes | None


class Stop(NamedTuple):
    """Work on a stream that its host is to stop."""

    host: str
    task: str
    token: int
    reason: str
    message: str


class World:
    """All tasks and hosts of one namespace. `limits` are the core's `Limits` by name; the simulator changes them."""

    def __init__(self, limits: dict[str, float]) -> None:
        self.limits = limits
        self.tasks: dict[str, Job] = {}
        self.agents: dict[str, Agent] = {}
        self.hosts: dict[str, Host] = {}
        self.offers: list[Offer] = []
        self.ended: list[str] = []
        self.rejected: list[str] = []
        self.counts: Counter[str] = Counter()
        self.latency = 0.0
        self.draining = False
        self.happened: list[Happened] = []
        self.stops: list[Stop] = []
        self._numbers = 0

    def number(self) -> int:
        """A number greater than all before."""
        self._numbers += 1
        return self._numbers

    # What can be found

    def flying(self, agent: str | None = None) -> list[Job]:
        return [job for job in self.tasks.values() if job.state in FLYING and agent in (None, job.wish.agent)]

    def ticking(self) -> list[Job]:
        return [job for job in self.tasks.values() if job.state in TICKING]

    def queued(self, agent: str | None = None) -> int:
        return sum(job.state == "queued" and agent in (None, job.wish.agent) for job in self.tasks.values())

    def leases(self, host_id: str | None = None) -> list[Job]:
        """The tasks under a lease, in the order of the grants."""
        return sorted((job for job in self.flying() if host_id in (None, job.host)), key=lambda job: job.grant)

    def any_online(self, now: float) -> bool:
        """Whether a runtime host is online; the built-in executor is none."""
        timeout = self.limits["heartbeat_timeout_secs"]
        return any(now - host.heard_at <= timeout for host in self.hosts.values() if not host.machine.built_in)

    def dead_after(self) -> float:
        return self.limits["heartbeat_timeout_secs"] * self.limits["dead_heartbeat_threshold"]

    def is_dead(self, now: float, host: Host) -> bool:
        return now - host.heard_at > self.dead_after()

    def mortals(self) -> list[Host]:
        """The hosts whose silence would cost them a lease."""
        holders = {job.host for job in self.flying()}
        return [host for host in self.hosts.values() if host.id in holders and not host.machine.built_in]

    def as_it_is(self, now: float, machine: Machine) -> Machine:
        """What the tab executor may run depends on whether runtime hosts are online."""
        if not machine.built_in:
            return machine
        return Machine(tabs="only" if self.any_online(now) else "or plain")

    def waiting_for(self, machine: Machine, project: str | None = None) -> list[Job]:
        """The queued tasks that such a host may run, of one project or of any."""
        return [
            job
            for job in self.tasks.values()
            if job.state == "queued" and project in (None, job.wish.project) and may_run(machine, job.wish)
        ]

    def next_of(self, waiting: Sequence[Job]) -> Job | None:
        """DESIGN, Claim order. One past its deadline takes its turn like any other, and is then expired."""
        if not waiting:
            return None
        load = Counter(job.wish.agent for job in self.flying())

        def turn(name: str) -> tuple[int, bool, int]:
            agent = self.agents[name]
            return (load[name], agent.served is not None, agent.came if agent.served is None else agent.served)

        names = {job.wish.agent for job in waiting if load[job.wish.agent] < self.limits["max_per_agent_inflight"]}
        if not names:
            return None
        best = min(names, key=turn)
        return min((job for job in waiting if job.wish.agent == best), key=lambda job: (job.wish.priority, job.order))

    def limit_that_binds(self, waiting: Sequence[Job]) -> str | None:
        """The limit that keeps hosts from these tasks."""
        if self.draining or not waiting:
            return None
        if len(self.flying()) >= self.limits["max_inflight"]:
            return "maxInflight"
        return None if self.next_of(waiting) else "maxPerAgentInflight"

    def get(self, task_id: str) -> Job:
        if task_id not in self.tasks:
            raise Refused("not_found", "task not found")
        return self.tasks[task_id]

    def host(self, host_id: str) -> Host:
        if host_id not in self.hosts:
            raise Refused("not_found", "runtime host not found")
        return self.hosts[host_id]

    def heard(self, now: float, host_id: str) -> Host:
        """Every call of a host is a sign of life."""
        host = self.host(host_id)
        host.heard_at = now
        return host

    # How tasks move

    def tell(self, now: float, kind: str, job: Job, before: str | None) -> None:
        self.happened.append(
            Happened(now, kind, job.id, before, job.state, job.last_host, job.started_at, job.error, job.progress)
        )

    def enter(self, now: float, job: Job, state: str, error: str | None = None) -> None:
        before, job.state, job.error = job.state, state, error
        self.tell(now, "changed", job, before)

    def grant(self, now: float, job: Job, host: Host, secs: float, stream: Offer | None = None) -> None:
        """One that came over a stream has to be started in time."""
        self.agents[job.wish.agent].served = self.number()
        job.token += 1
        job.deliveries += 1
        job.host, job.claimed_at = host.id, now
        job.last_host = None if host.machine.built_in else host.id
        job.lease_secs, job.lease_until = secs, now + secs
        if stream is not None:
            job.stream = stream.number
            job.start_by = now + self.limits["start_timeout_secs"]
        self.counts["dispatched"] += 1
        job.grant = self.counts["dispatched"]
        self.latency += now - job.queued_at
        self.enter(now, job, "assigned")

    def begin(self, now: float, job: Job) -> None:
        if job.started_at is None:
            job.started_at = now
        job.start_by = inf
        self.enter(now, job, "running")

    def requeue(self, now: float, job: Job, why: str | None, stop: str | None) -> None:
        """To its old place. `stop` is the message for its stream; None where the host itself gave it back."""
        self.enter(now, job, "queued", why)
        if stop is not None:
            self._stop(job, "lease_ended", stop)
        self._unlease(job)
        job.queued_at = now

    def pause(self, now: float, job: Job, reason: str) -> None:
        self.enter(now, job, "paused", INTERRUPTED)
        self._stop(job, reason, INTERRUPTED)
        self._unlease(job)

    def end(
        self,
        now: float,
        job: Job,
        state: str,
        error: str | None = None,
        result: bytes | None = None,
        stop: str | None = None,
    ) -> None:
        """`stop` is the reason for its stream; None where the end is the host's own report."""
        self.enter(now, job, state, error)
        if stop is not None:
            self._stop(job, stop, error or "task cancelled")
        self._unlease(job)
        job.completed_at = now
        job.result = result
        self.counts[COUNTED[state]] += 1
        self.agents[job.wish.agent].counts[COUNTED[state]] += 1
        self.ended.append(job.id)
        while len(self.ended) > self.limits["max_retained_tasks"]:
            self.counts["evicted"] += 1
            self.forget(now, self.ended[0])

    def expire(self, now: float, job: Job) -> None:
        if job.state == "queued":
            self.counts["expired"] += 1
            self.end(now, job, "failed", "deadline exceeded while queued")
        else:
            self.end(now, job, "failed", "deadline exceeded", stop="deadline_exceeded")

    def lose(self, now: float, job: Job, why: str) -> None:
        """DESIGN, Leases; what a stream never started is no delivery."""
        if job.stream is not None and job.state == "assigned":
            job.deliveries -= 1
            self.requeue(now, job, "not started by its host", "not started by its host")
        elif job.deliveries < self.limits["max_deliveries"]:
            self.requeue(now, job, why, why)
        else:
            self.end(now, job, "failed", why, stop="lease_ended")

    def bury(self, now: float, host: Host) -> None:
        """A dead host loses all that it holds (DESIGN, Hosts)."""
        missed = self.limits["dead_heartbeat_threshold"]
        for job in self.leases(host.id):
            self.lose(now, job, f"lease expired: runtime host {host.id} missed {missed} heartbeats")

    def forget_one(self, now: float) -> bool:
        """Forget the first task whose time is over; accepted ones go before rejected ones, where `most` cuts."""
        for kept in (self.ended, self.rejected):
            if kept and self.tasks[kept[0]].completed_at + self.limits["result_ttl_secs"] <= now:
                self.forget(now, kept[0])
                return True
        return False

    def forget(self, now: float, task_id: str) -> None:
        job = self.tasks.pop(task_id)
        (self.rejected if job.state == "rejected" else self.ended).remove(task_id)
        self.tell(now, "evicted", job, job.state)
        if all(other.wish.agent != job.wish.agent for other in self.tasks.values()):
            del self.agents[job.wish.agent]

    def _stop(self, job: Job, reason: str, message: str) -> None:
        if job.host is not None and job.stream is not None:
            self.stops.append(Stop(job.host, job.id, job.token, reason, message))

    def _unlease(self, job: Job) -> None:
        job.host = job.stream = None
        job.start_by = job.adopt_by = inf
