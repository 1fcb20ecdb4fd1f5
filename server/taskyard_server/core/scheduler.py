"""The one front door of the core: commands in, tasks and transitions out.

`Scheduler` owns every task of one namespace and all that is derived from it: the table, the ready queue, leases,
timers, counters. A command either does all of its work or raises a `Refusal` and changes nothing. Each takes `now`, in
seconds, and `now` never goes back. Whoever drives it calls `advance` when `next_due` comes, and reads `transitions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from .agents import Agent
from .batches import Batch, Batches, BatchSubmission
from .errors import BadRequest, Conflict, LeaseLost, NotFound, QueueFull, Refusal, Unavailable
from .events import Transition
from .hosts import TAB_EXECUTOR, TAB_EXECUTOR_ALONE, Host, HostProfile, Hosts
from .leases import Lease
from .limits import MAX_LEASE_SECS, Limits
from .ready_queue import ReadyQueue
from .retention import Retention
from .stats import AgentStats, Counters, Stats, Totals
from .task import IN_FLIGHT, LEGAL, TERMINAL, Submission, Task, TaskState
from .task_table import TaskTable
from .timers import TICKS_PER_SECOND, Timers

QUEUED, ASSIGNED, RUNNING, PAUSED = TaskState.QUEUED, TaskState.ASSIGNED, TaskState.RUNNING, TaskState.PAUSED
DONE, FAILED, CANCELLED, REJECTED = TaskState.DONE, TaskState.FAILED, TaskState.CANCELLED, TaskState.REJECTED


class Scheduler:
    """All tasks of one namespace. `entropy` returns 40 random bits for each new id."""

    def __init__(self, limits: Limits, entropy: Callable[[], int]) -> None:
        self.limits = limits
        self.hosts = Hosts()
        self.counters = Counters()
        self.transitions: list[Transition] = []
        self._tasks = TaskTable(entropy)
        self._batches = Batches()
        self._entropy = entropy
        self._agents: dict[str, Agent] = {}
        self._ready = ReadyQueue()
        self._queued = 0
        self.inflight = 0
        self._draining = False
        self._deadlines: Timers[Task] = Timers()
        self._lease_ends: Timers[Lease] = Timers()
        self._ended = Retention()
        self._rejected = Retention()
        self.limited_by: str | None = None

    # Commands of agents

    def submit(self, now: float, asked: Submission) -> Task:
        """Accept a task into the queue.

        Raises `BadRequest` for a deadline that is not in the future, `Unavailable` while it drains, and `QueueFull`
        where a limit refuses it; the refused task is then kept as `rejected` (scheduler-architecture, Admission And
        Limits).
        """
        self.check(now, asked)
        limits = self.limits
        deadline = now + limits.default_deadline_secs if asked.deadline is None else asked.deadline
        agent = self._agents.get(asked.agent_id)
        if agent is None:
            agent = self._agents[asked.agent_id] = self._ready.new_agent(asked.agent_id)
        if self._queued >= limits.max_queue_size or agent.queued >= limits.max_per_agent:
            raise self._reject(now, agent, asked, deadline)
        task_id, seq = self._tasks.next_id(now)
        task = Task(task_id, seq, agent, asked, now, deadline, QUEUED)
        self._keep(task)
        self._deadlines.add(deadline, task)
        agent.submitted += 1
        self.counters.submitted += 1
        self.transitions.append((now, task, QUEUED))
        self._enqueue(now, task)
        task.position = self._queued
        return task

    def submit_batch(self, now: float, asked: Sequence[Submission]) -> BatchSubmission:
        """Admit the tasks of one agent one by one, as one batch (scheduler-architecture, Batch Submission).

        Raises `BadRequest` for a task that no admission could accept, before any is admitted.
        """
        for submission in asked:
            self.check(now, submission)
        batch_id = f"bat_{int(now * 1000) << 80 | self._entropy() << 40 | self._entropy():032x}"
        batch = self._batches.open(batch_id, asked[0].agent_id, now)
        outcomes: list[Task | Refusal] = []
        for submission in asked:
            try:
                options = submission.options._replace(batch_id=batch_id)
                outcomes.append(self.submit(now, submission._replace(options=options)))
            except QueueFull as refusal:
                outcomes.append(refusal)
        return BatchSubmission(batch, outcomes)

    def batch(self, batch_id: str) -> Batch:
        """The batch; raises `NotFound` where none of its tasks is retained."""
        return self._batches.get(batch_id)

    def cancel_batch(self, now: float, batch_id: str) -> int:
        """Cancel every task of a batch that has not ended; how many that were. Raises `NotFound`."""
        live = [task for task in self._batches.get(batch_id).tasks.values() if task.state not in TERMINAL]
        for task in live:
            self._finish(now, task, CANCELLED, None, None)
        return len(live)

    def check(self, now: float, asked: Submission) -> None:
        """Raise `BadRequest` or `Unavailable` for what no admission could accept."""
        if self._draining:
            raise Unavailable("the scheduler is draining")
        if asked.deadline is not None and asked.deadline <= now:
            raise BadRequest("deadline: must be in the future")

    def cancel(self, now: float, task_id: str) -> Task:
        """End a task that has not ended, at once; a host that runs it learns of it by its lost lease.

        Raises `NotFound`, or `Conflict` for a terminal task (scheduler-reference, Cancel A Task).
        """
        task = self.get(task_id)
        if task.state in TERMINAL:
            raise Conflict(f"task is already {task.state.value}")
        self._finish(now, task, CANCELLED, None, None)
        return task

    def get(self, task_id: str) -> Task:
        """The task; raises `NotFound` for one that never was or is no longer retained."""
        task = self._tasks.get(task_id)
        if task is None:
            raise NotFound("task not found")
        return task

    def tasks_after(self, seq: int) -> Iterator[Task]:
        """All tasks submitted after `seq`, in order; 0 is before the first. Not to be held across a command."""
        return self._tasks.after(seq)

    # Commands of hosts

    def register(
        self,
        now: float,
        host_id: str,
        display_name: str | None,
        profile: HostProfile,
        *,
        built_in: bool = False,
    ) -> Host:
        """Make or replace a host (runtime-host-model, Behavior Rules 1)."""
        return self.hosts.register(now, host_id, display_name, profile, built_in)

    def heartbeat(self, now: float, host_id: str) -> Host:
        """A sign of life; renews no lease. Raises `NotFound`."""
        host = self.hosts.get(host_id)
        self.hosts.heard(now, host)
        return host

    def deregister(self, now: float, host_id: str) -> None:
        """Forget a host; its tasks go back to the queue at once (runtime-host-model, Behavior Rules 3)."""
        host = self.hosts.get(host_id)
        for lease in list(host.leases.values()):
            self._requeue(now, lease.task)
        self.hosts.remove(host)

    def claim(self, now: float, host_id: str, count: int = 1, lease_secs: float | None = None) -> list[Lease]:
        """Lease up to `count` tasks to a host, in claim order, none if none may be claimed.

        Raises `NotFound` for an unknown host and `BadRequest` for a lease outside of 1 to 3600 s.
        """
        host = self.hosts.get(host_id)
        self.hosts.heard(now, host)
        limits = self.limits
        secs = limits.lease_secs if lease_secs is None else lease_secs
        if not 1 <= secs <= MAX_LEASE_SECS:
            raise BadRequest("lease_secs: must be from 1 to 3600")
        profile = self._profile(now, host)
        leases: list[Lease] = []
        while len(leases) < count and self.inflight < limits.max_inflight and not self._draining:
            lane = self._ready.first(profile, limits.max_per_agent_inflight)
            if lane is None:
                break
            if lane.head().deadline <= now:
                self._expire(now, lane.head())
                continue
            leases.append(self._grant(now, self._ready.take(lane), host, secs))
        if len(leases) < count:
            self.limited_by = self._limit_in_force(profile)
        return leases

    def start(self, now: float, host_id: str, task_id: str, token: int) -> Task:
        """The host has begun. Raises `NotFound`, `LeaseLost`, or `Conflict` if it said so before."""
        task = self._leased(now, host_id, task_id, token).task
        if task.state is not ASSIGNED:
            raise Conflict(f"task is already {task.state.value}")
        self._begin(now, task)
        return task

    def renew(self, now: float, host_id: str, task_id: str, token: int, lease_secs: float | None = None) -> Lease:
        """Let a lease live for its own length, or `lease_secs`, from now; never for less than it had."""
        lease = self._leased(now, host_id, task_id, token)
        secs = lease.secs if lease_secs is None else lease_secs
        if not 1 <= secs <= MAX_LEASE_SECS:
            raise BadRequest("lease_secs: must be from 1 to 3600")
        if now + secs > lease.expires_at:
            self._lease_ends.remove(lease.expires_at, lease)
            lease.expires_at = now + secs
            self._lease_ends.add(lease.expires_at, lease)
        return lease

    def complete(self, now: float, host_id: str, task_id: str, token: int, result: bytes | None) -> Task:
        """The task is done. One that was not reported as started counts as started now."""
        task = self._leased(now, host_id, task_id, token).task
        if task.started_at is None:
            self._begin(now, task)
        self._finish(now, task, DONE, result, None)
        return task

    def fail(self, now: float, host_id: str, task_id: str, token: int, error: str) -> Task:
        """The task has failed, for the reason that the host gives."""
        task = self._leased(now, host_id, task_id, token).task
        if task.started_at is None:
            self._begin(now, task)
        self._finish(now, task, FAILED, None, error)
        return task

    def release(self, now: float, host_id: str, task_id: str, token: int) -> Task:
        """The host gives the task back unexecuted: it is queued again, and this hand-out does not count."""
        task = self._leased(now, host_id, task_id, token).task
        self._requeue(now, task)
        task.deliveries -= 1
        return task

    # Time, limits, figures

    def next_due(self) -> float | None:
        """When `advance` has something to do, in seconds on the caller's clock; None while nothing can come due."""
        ticks = [tick for timers in (self._deadlines, self._lease_ends) if (tick := timers.next_tick()) is not None]
        times = [tick / TICKS_PER_SECOND for tick in ticks]
        times += [
            ended + self.limits.result_ttl_secs
            for kept in (self._ended, self._rejected)
            if (ended := kept.oldest()) is not None
        ]
        return min(times, default=None)

    def advance(self, now: float, most: int = 1000) -> bool:
        """Do what has come due, in order of time, a deadline before a lease that ends with it.

        Stops after `most` items and returns True if more are due, so that the caller can let others run between.
        """
        this_tick = int(now * TICKS_PER_SECOND)
        for _ in range(most):
            deadline, lease_end = self._deadlines.next_tick(), self._lease_ends.next_tick()
            if deadline is not None and deadline <= this_tick and (lease_end is None or deadline <= lease_end):
                self._expire(now, self._deadlines.pop(deadline))
            elif lease_end is not None and lease_end <= this_tick:
                self._lease_expired(now, self._lease_ends.pop(lease_end).task)
            elif not self._evict_one(now):
                return False
        return True

    def reconfigure(self, limits: Limits) -> None:
        """Put new limits in force. What was admitted or is in flight stays, also above a lowered limit."""
        self.limits = limits

    def drain(self) -> None:
        """Hand out and accept nothing from now on; what is in flight may finish (queueing-and-execution, Drain)."""
        self._draining = True

    def shut_down(self, now: float) -> None:
        """Interrupt what is in flight, and end what waits: this core does not outlive its process."""
        for task in [task for task in self._tasks.after(0) if task.state not in TERMINAL]:
            if task.state in IN_FLIGHT:
                self._pause(now, task)
            else:
                self._finish(now, task, CANCELLED, None, "scheduler shutdown")

    def add_to(self, totals: Totals) -> None:
        """Add this namespace's figures to those of others."""
        totals.queued += self._queued
        totals.inflight += self.inflight
        totals.retained += len(self._ended) + len(self._rejected)
        totals.namespaces += 1
        totals.counters.add(self.counters)

    def stats(self) -> Stats:
        """The figures of this moment (scheduler-reference, Scheduler Stats)."""
        return Stats(
            queued=self._queued,
            inflight=self.inflight,
            limited_by=self.limited_by,
            counters=replace(self.counters),
            limits=self.limits,
            agents={
                agent.id: AgentStats(
                    queued=agent.queued,
                    inflight=agent.inflight,
                    submitted=agent.submitted,
                    completed=agent.completed,
                    failed=agent.failed,
                    cancelled=agent.cancelled,
                    rejected=agent.rejected,
                )
                for agent in self._agents.values()
            },
        )

    # How tasks move: each transition, and the figures derived from it in the same place

    def _move(self, now: float, task: Task, state: TaskState) -> None:
        if state not in LEGAL[task.state]:
            raise Conflict(f"task is {task.state.value} and cannot become {state.value}")
        task.state = state
        self.transitions.append((now, task, state))

    def _enqueue(self, now: float, task: Task) -> None:
        task.queued_at = now
        task.agent.queued += 1
        self._queued += 1
        self._ready.add(task)

    def _grant(self, now: float, task: Task, host: Host, secs: float) -> Lease:
        self._move(now, task, ASSIGNED)
        task.agent.queued -= 1
        self._queued -= 1
        self.inflight += 1
        task.deliveries += 1
        task.token += 1
        lease = task.lease = host.leases[task.id] = Lease(task, host, task.token, now, secs)
        self._lease_ends.add(lease.expires_at, lease)
        self.counters.dispatched += 1
        self.counters.dispatch_latency_secs += now - task.queued_at
        return lease

    def _begin(self, now: float, task: Task) -> None:
        self._move(now, task, RUNNING)
        if task.started_at is None:
            task.started_at = now

    def _end_lease(self, task: Task) -> None:
        lease = task.lease
        assert lease is not None
        task.lease = None
        del lease.host.leases[task.id]
        self._lease_ends.remove(lease.expires_at, lease)
        self.inflight -= 1
        self._ready.landed(task.agent)

    def _requeue(self, now: float, task: Task) -> None:
        self._move(now, task, QUEUED)
        self._end_lease(task)
        self._enqueue(now, task)

    def _finish(self, now: float, task: Task, state: TaskState, result: bytes | None, error: str | None) -> None:
        """End a task as done, failed or cancelled, from wherever it stands."""
        before = task.state
        self._move(now, task, state)
        if before in IN_FLIGHT:
            self._end_lease(task)
        elif before is QUEUED:
            task.agent.queued -= 1
            self._queued -= 1
            self._ready.remove(task)
        self._deadlines.remove(task.deadline, task)
        task.completed_at = now
        task.result = result
        task.error = error
        counters, agent = self.counters, task.agent
        if state is DONE:
            counters.completed += 1
            agent.completed += 1
        elif state is FAILED:
            counters.failed += 1
            agent.failed += 1
        else:
            counters.cancelled += 1
            agent.cancelled += 1
        self._ended.add(task)
        if len(self._ended) > self.limits.max_retained_tasks:
            counters.evicted += 1
            self._evict(self._ended)

    def _pause(self, now: float, task: Task) -> None:
        """Interrupt a task in flight so that it can be resumed (queueing-and-execution, Cancellation semantics)."""
        self._move(now, task, PAUSED)
        self._end_lease(task)
        self._deadlines.remove(task.deadline, task)
        task.error = "Job was interrupted by user"

    def _expire(self, now: float, task: Task) -> None:
        """The deadline has passed (scheduler-architecture, Deadline Handling)."""
        if task.state is QUEUED:
            self.counters.expired += 1
            self._finish(now, task, FAILED, None, "deadline exceeded while queued")
        else:
            self._finish(now, task, FAILED, None, "deadline exceeded")

    def _lease_expired(self, now: float, task: Task) -> None:
        """A host fell silent: another may try, up to `max_deliveries` (DESIGN, Leases)."""
        if task.deliveries < self.limits.max_deliveries:
            self._requeue(now, task)
        else:
            self._finish(now, task, FAILED, None, "lease expired")

    def _reject(self, now: float, agent: Agent, asked: Submission, deadline: float) -> QueueFull:
        """Keep a task that admission refused, the newest `max_queue_size` of them."""
        limits = self.limits
        which = "global" if self._queued >= limits.max_queue_size else "agent"
        task_id, seq = self._tasks.next_id(now)
        task = Task(task_id, seq, agent, asked, now, deadline, REJECTED)
        task.completed_at = now
        task.error = f"rejected: {which} queue full"
        self._keep(task)
        self._rejected.add(task)
        self.transitions.append((now, task, REJECTED))
        agent.rejected += 1
        self.counters.rejected += 1
        if len(self._rejected) > limits.max_queue_size:
            self._evict(self._rejected)
        return QueueFull(
            task.error,
            {
                "agentId": agent.id,
                "queued": self._queued,
                "maxQueue": limits.max_queue_size,
                "maxPerAgent": limits.max_per_agent,
            },
            task,
        )

    def _keep(self, task: Task) -> None:
        self._tasks.add(task)
        task.agent.tasks += 1
        if task.options.batch_id is not None:
            self._batches.add(task.options.batch_id, task)

    def _evict_one(self, now: float) -> bool:
        oldest = now - self.limits.result_ttl_secs
        for kept in (self._ended, self._rejected):
            ended = kept.oldest()
            if ended is not None and ended <= oldest:
                self._evict(kept)
                return True
        return False

    def _evict(self, kept: Retention) -> None:
        if kept.oldest() is None:
            return
        task = kept.pop()
        self._tasks.remove(task)
        if task.options.batch_id is not None:
            self._batches.forget(task.options.batch_id, task)
        agent = task.agent
        agent.tasks -= 1
        if not agent.tasks:
            del self._agents[agent.id]

    # What hosts may be given

    def _profile(self, now: float, host: Host) -> HostProfile:
        if not host.built_in:
            return host.profile
        online = self.hosts.any_online(now, self.limits.heartbeat_timeout_secs)
        return TAB_EXECUTOR if online else TAB_EXECUTOR_ALONE

    def _limit_in_force(self, profile: HostProfile) -> str | None:
        """The configuration key that keeps a host of this profile from more work, if tasks wait for nothing else."""
        if self._draining or not self._ready.has_work_for(profile):
            return None
        return "maxInflight" if self.inflight >= self.limits.max_inflight else "maxPerAgentInflight"

    def _leased(self, now: float, host_id: str, task_id: str, token: int) -> Lease:
        """The lease that a report is about; raises `NotFound`, or `LeaseLost` if it is not the task's present one."""
        host = self.hosts.get(host_id)
        self.hosts.heard(now, host)
        task = self.get(task_id)
        lease = task.lease
        if lease is None or lease.token != token or lease.host is not host:
            self.counters.late_reports += 1
            raise LeaseLost(f"lease lost: task is {task.state.value} and fencing token {token} is not its lease")
        return lease
