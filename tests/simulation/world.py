"""What the model knows, and how tasks move in it: plain lists, no queue, no timers, no counts of what waits.

Everything is found by looking at every task. `happened` and `stops` tell what came of the commands, in order.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import TypeAlias

from tests.core.queue.naive_keys import NaiveKeys

from .model_events import Happened, Stop
from .model_families import Families
from .model_parks import Parks
from .model_records import (
    COUNTED,
    ENDED,
    FLYING,
    INTERRUPTED,
    OVER_BUDGET,
    TICKING,
    WAITING,
    Agent,
    Host,
    Job,
    Machine,
    Offer,
    PastKey,
    Refused,
    StoppingLeases,
    may_run,
)
from .model_relations import Relations
from .model_weights import Weights

Why: TypeAlias = tuple[str | None, str | None]
"""A code and a traceback."""


class World:
    """All tasks and hosts of one namespace. `limits` are the core's `Limits` by name; the simulator changes them."""

    def __init__(self, limits: dict[str, float]) -> None:
        self.limits = limits
        self.tasks: dict[str, Job] = {}
        self.agents: dict[str, Agent] = {}
        self.figures: dict[str, Counter[str]] = {}
        self.hosts: dict[str, Host] = {}
        self.offers: list[Offer] = []
        self.said = 0
        self.ended, self.rejected = list[str](), list[str]()
        self.past_keys: list[PastKey] = []
        self.counts: Counter[str] = Counter()
        self.last_token = 0
        self.latency = 0.0
        self.draining = False
        self.happened: list[Happened] = []
        self.stops: list[Stop] = []
        self.stopping: list[StoppingLeases] = []
        self.families = Families(self.tasks)
        self.relations = Relations(self)
        self.parks = Parks(self)
        self.weights = Weights()
        self.keys = NaiveKeys()
        self.retries: dict[str, deque[float]] = {}
        self._numbers = 0

    def number(self) -> int:
        """A number greater than all before."""
        self._numbers += 1
        return self._numbers

    # What can be found

    def flying(self, agent: str | None = None) -> list[Job]:
        return [job for job in self.tasks.values() if job.state in FLYING and agent in (None, job.wish.agent)]

    def ticking(self) -> list[Job]:
        """The tasks whose deadline counts."""
        return [job for job in self.tasks.values() if job.state in TICKING and job.deadline is not None]

    def queued(self, agent: str | None = None) -> int:
        """How many wait, for whatever they wait."""
        return sum(job.state in WAITING and agent in (None, job.wish.agent) for job in self.tasks.values())

    def leases(self, host_id: str | None = None) -> list[Job]:
        """The tasks under a lease, in the order of the grants."""
        return sorted((job for job in self.flying() if host_id in (None, job.host)), key=lambda job: job.token)

    def any_online(self, now: float) -> bool:
        """True if a runtime host is online; the built-in executor is none."""
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
        return replace(machine, tabs="only" if self.any_online(now) else "or plain")

    def waiting_for(self, machine: Machine, project: str | None = None) -> list[Job]:
        """The queued tasks that such a host may run, of one project or of any."""
        return [
            job
            for job in self.tasks.values()
            if job.state == "queued"
            and (job.target is None or job.is_head)
            and project in (None, job.wish.project)
            and may_run(machine, job.wish)
        ]

    def without_full_keys(self, now: float, waiting: Sequence[Job]) -> list[Job]:
        """Those that do not wait for a place or a token of a key."""
        full = self.keys.full(now, [job.wish.keys for job in waiting], [job.wish.keys for job in self.flying()])
        return [job for job in waiting if full.isdisjoint(job.wish.keys)]

    def next_of(self, now: float, waiting: Sequence[Job]) -> Job | None:
        """docs/rules.md, Claim order. One past its deadline takes its turn like any other, and is then expired."""
        waiting = self.without_full_keys(now, waiting)
        load = Counter(job.wish.agent for job in self.flying())
        names = {job.wish.agent for job in waiting if load[job.wish.agent] < self.limits["max_per_agent_inflight"]}
        if not names:
            return None
        best = min(names, key=lambda name: self.weights.turn(name, self.agents[name], load[name]))
        return min((job for job in waiting if job.wish.agent == best), key=lambda job: (job.priority, job.order))

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
        host.heard_at, host.lost_at = now, None
        return host

    # How tasks move

    def tell(self, now: float, kind: str, job: Job, before: str | None) -> None:
        self.happened.append(
            Happened(now, kind, job.id, before, job.state, job.last_host, job.started_at, job.error, job.progress)
        )

    def enter(self, now: float, job: Job, state: str, error: str | None = None) -> None:
        before, job.state, job.error = job.state, state, error
        self.tell(now, "changed", job, before)

    def grant(
        self,
        now: float,
        job: Job,
        host: Host,
        secs: float,
        stream: Offer | None = None,
        claim_id: str | None = None,
    ) -> None:
        """One that came over a stream has to be started in time."""
        self.agents[job.wish.agent].served = self.number()
        self.weights.serve(job.wish.agent, self.agents[job.wish.agent])
        self.keys.take(now, job.wish.keys)
        self.last_token += 1
        job.token = self.last_token
        job.deliveries += 1
        job.host, job.claimed_at, job.begun = host.id, now, False
        job.last_host = None if host.machine.built_in else host.id
        job.lease_secs, job.lease_until, job.claim_id = secs, now + secs, claim_id
        if stream is not None:
            job.stream = stream.number
            job.start_by = now + self.limits["start_timeout_secs"]
        job.tokens_before = job.tokens_used or 0
        self.counts["dispatched"] += 1
        self.latency += now - job.queued_at
        job.keeps = False
        self.enter(now, job, "assigned")
        self.settle(now, job.target)

    def begin(self, now: float, job: Job) -> None:
        if job.started_at is None:
            job.started_at = now
        job.start_by = inf
        job.begun = True
        job.run_until = None if job.wish.run_timeout is None else now + job.wish.run_timeout
        self.enter(now, job, "running")

    def requeue(self, now: float, job: Job, stop: str | None) -> None:
        """To its old place. `stop` is the message for its stream; None where the host itself gave it back."""
        self.enter(now, job, "queued")
        self.end_lease(now, job, None if stop is None else "lease_ended", stop)
        self.place(now, job)

    def pause(self, now: float, job: Job, reason: str) -> None:
        """One over its budget fails."""
        if job.is_over_budget():
            self.end(now, job, "failed", OVER_BUDGET, stop="token_limit_exceeded")
            return
        self.enter(now, job, "paused", INTERRUPTED)
        job.deadline = None
        job.blocks = job.target is not None
        self.end_lease(now, job, reason, INTERRUPTED)
        self.settle(now, job.target)

    def resume(self, now: float, job: Job) -> None:
        """Another run, at the old place."""
        self.parks.resumed.add(job.id)
        self.relations.lives_by_itself(job)
        self._reopen(job)
        job.left = None
        job.run += 1
        job.deliveries = job.failed = 0
        job.progress = job.completed_at = job.result = job.code = job.traceback = job.reason = None
        job.deadline = None if job.own_secs is None else now + job.own_secs
        self.enter(now, job, "queued")
        self.place(now, job)

    def come_due(self, now: float, job: Job) -> None:
        job.due = None
        job.retrying = False
        self.enter(now, job, "queued")
        self.relations.let_go()
        self.place(now, job)

    def place(self, now: float, job: Job) -> None:
        """It waits for a host, or for its target; a default deadline counts once only a host is missing."""
        job.queued_at = now
        if job.target is None and job.deadline is None:
            job.deadline = now + self.default_secs(job)
        self.settle(now, job.target)

    def default_secs(self, job: Job) -> float:
        """How long a default deadline is: what was left of it, if it stood still while the task was parked."""
        return self.limits["default_deadline_secs"] if job.left is None else job.left

    def settle(self, now: float, target: str | None) -> None:
        """docs/rules.md, Targets: the oldest that waits may go, if nothing runs, may still run, or blocks.

        Where one that was parked keeps the target, it alone may.
        """
        if target is None:
            return
        its = [job for job in self.tasks.values() if job.target == target]
        line = [job for job in its if job.state == "queued" or job.retrying]
        taken = any(job.state in FLYING or job.blocks for job in its)
        taken = taken or any(lease.job.target == target for lease in self.stopping)
        head = None if taken or not line or line[0].retrying else line[0]
        for keeper in [job for job in its if job.keeps]:
            head = keeper if keeper.state == "queued" else None
        for job in its:
            if job is head and not job.is_head and job.deadline is None:
                job.deadline = now + self.default_secs(job)
            elif job.is_head and job is not head and job.state == "queued" and not job.deliveries and job.left is None:
                job.deadline = None if job.own_secs is None else job.deadline
            job.is_head = job is head

    def end(
        self,
        now: float,
        job: Job,
        state: str,
        error: str | None = None,
        result: bytes | None = None,
        stop: str | None = None,
        code: str | None = None,
        traceback: str | None = None,
    ) -> None:
        """`stop` is the reason for its stream; None where the end is the host's own report."""
        if job.state not in TICKING:
            self._reopen(job)
        flew, lived = job.state in FLYING, job.state not in ENDED
        if state == "failed" and (flew or job.state == "parked"):
            job.code, job.traceback = code, traceback
        self.enter(now, job, state, error)
        job.blocks = state == "failed" and job.target is not None and job.started_at is not None
        job.blocks = job.blocks and job.wish.on_target_failure != "continue"
        job.held = job.retrying = job.keeps = False
        job.due, job.waits = None, ()
        self.relations.let_go()
        if flew:
            self.end_lease(now, job, stop, error or "task cancelled")
        job.completed_at = now
        job.result = result
        self.counts[COUNTED[state]] += 1
        self.agents[job.wish.agent].counts[COUNTED[state]] += 1
        if not job.blocks:
            self.ended.append(job.id)
        while len(self.ended) > self.limits["max_retained_tasks"]:
            if not self.relations.put_aside(self.tasks[self.ended[0]]):
                self.counts["evicted"] += 1
                self.forget(now, self.ended[0])
        self.settle(now, job.target)
        if lived:
            self.parks.ended(job)

    def use_tokens(self, now: float, job: Job, used: int) -> None:
        """A heartbeat or a renewal tells what an attempt used; news of it only where that changed something."""
        before = job.tokens_used
        job.tokens_used = max(before or 0, job.tokens_before + used)
        self.agents[job.wish.agent].counts["tokens_used"] += job.tokens_used - (before or 0)
        if job.tokens_used != before:
            self.tell(now, "progressed", job, job.state)
        if job.is_over_budget():
            self.end(now, job, "failed", OVER_BUDGET, stop="token_limit_exceeded")

    def expire(self, now: float, job: Job) -> None:
        if job.state in WAITING:
            self.counts["expired"] += 1
            self.end(now, job, "failed", "deadline exceeded while queued")
        else:
            self.end(now, job, "failed", "deadline exceeded", stop="deadline_exceeded")

    def lose(self, now: float, job: Job, why: str) -> None:
        """docs/rules.md, Leases; what a stream never started is no delivery."""
        if any(offer.number == job.stream for offer in self.offers):
            self.hosts[job.host or ""].rest(now, job.claimed_at)
        if job.stream is not None and job.state == "assigned":
            job.deliveries -= 1
            self.requeue(now, job, "not started by its host")
            return
        self.counts["leases_expired"] += 1
        if job.wish.retry is not None:
            self.fail(now, job, why, stop="lease_ended")
        elif job.target is None and job.deliveries < self.limits["max_deliveries"]:
            job.code = job.traceback = None
            self.requeue(now, job, why)
        else:
            self.end(now, job, "failed", why, stop="lease_ended")

    def fail(
        self,
        now: float,
        job: Job,
        error: str,
        retryable: bool = True,
        code: str | None = None,
        stop: str | None = None,
        traceback: str | None = None,
        after: float | None = None,
    ) -> None:
        """docs/rules.md, Retries. When the next attempt is due the core says: from half of the delay to all of it.

        Where the deadline lies between, the core may also say that there is none. `after` is when the host asks for it.
        """
        retry, is_last = job.wish.retry, after is None or job.deliveries >= self.limits["max_deliveries"]
        if retry is not None:
            is_last = code in retry.fatal or job.failed + 1 >= retry.attempts
        if is_last or not retryable:
            self.end(now, job, "failed", error, stop=stop, code=code, traceback=traceback)
            return
        delay = after if retry is None or after is not None else retry.delay(job.failed + 1)
        least = delay if after is not None else delay / 2
        left = inf if job.deadline is None else job.deadline - now
        told = self.retries.get(job.id)
        due = told.popleft() if told else None
        if due is None:
            if left > delay + 1e-6:
                raise AssertionError(f"{job.id} is not tried again after {delay} s, though it has {left} s")
            self.end(now, job, "failed", error, stop=stop, code=code, traceback=traceback)
            return
        if not now + least - 1e-6 <= due <= now + delay + 1e-6 or due - now >= left + 1e-6:
            raise AssertionError(f"{job.id} is tried again after {due - now} s, not {delay} s, and has {left} s")
        job.failed += 1
        self.counts["retried"] += 1
        self.set_back(now, job, due, (code, traceback), stop, error)

    def set_back(self, now: float, job: Job, due: float, why: Why, stop: str | None = None, error: str = "") -> None:
        """Its lease ends; from then on it may be handed out again."""
        (job.code, job.traceback), job.due, job.retrying = why, due, True
        self.enter(now, job, "pending")
        self.end_lease(now, job, stop, error)
        self.settle(now, job.target)

    def bury(self, now: float, host: Host) -> None:
        """A dead host loses all that it holds (docs/rules.md, Lost leases)."""
        missed = self.limits["dead_heartbeat_threshold"]
        for job in self.leases(host.id):
            self.lose(now, job, f"lease expired: runtime host {host.id} missed {missed} heartbeats")

    def forget_one(self, now: float) -> bool:
        """Forget the first task whose time is over; accepted ones go before rejected ones, where `most` cuts."""
        for kept in (self.ended, self.rejected):
            while kept and self.tasks[kept[0]].completed_at + self.limits["result_ttl_secs"] <= now:
                if not self.relations.put_aside(self.tasks[kept[0]]):
                    self.forget(now, kept[0])
                    return True
        return False

    def forget(self, now: float, task_id: str) -> None:
        self.families.leaves(self.tasks[task_id])
        job = self.tasks.pop(task_id)
        (self.rejected if job.state == "rejected" else self.ended).remove(task_id)
        self.tell(now, "evicted", job, job.state)
        self.past_keys += self.relations.past_keys(now, job)
        self.relations.let_go()
        if all(other.wish.agent != job.wish.agent for other in self.tasks.values()):
            del self.agents[job.wish.agent]

    def stopped(self, now: float, leases: Sequence[StoppingLeases]) -> None:
        """Nothing runs under these any more."""
        self.stopping = [lease for lease in self.stopping if lease not in leases]
        for lease in leases:
            self.settle(now, lease.job.target)

    def _reopen(self, job: Job) -> None:
        """A paused or failed task goes on."""
        job.blocks = False
        if job.state == "failed":
            self.counts["reopened"] += 1
            self.counts["expired_reopened"] += job.error == "deadline exceeded while queued"
            self.agents[job.wish.agent].counts["failed"] -= 1
            self.relations.retain_no_more(job.id)

    def end_lease(self, now: float, job: Job, stop: str | None, message: str | None) -> None:
        """`stop` is why its host shall stop; None where the host itself ended it. Till it has, its target is taken."""
        if job.host is None:
            raise AssertionError(f"{job.id} has no lease that could end")
        if stop is not None and job.stream is not None:
            self.stops.append(Stop(job.host, job.id, job.token, stop, job.told(stop, message or "")))
        may_run = job.stream is None or job.begun
        if stop is not None and may_run and job.target is not None and job.lease_until > now:
            self.stopping.append(
                StoppingLeases(job.host, job, job.token, job.lease_until, job.stream is not None, job.lease_secs)
            )
        job.host = job.stream = job.claim_id = job.run_until = None
        job.start_by = job.adopt_by = inf
