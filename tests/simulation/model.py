"""A naive scheduler of one namespace, written from DESIGN and the documented specs alone.

It shares no code with the core and knows none of its ideas. Each method is one command; it answers in plain values, or
raises `Refused` with the word of DESIGN's error table. Times are seconds on the caller's clock. What the model knows
lies in its `World`; the commands of hosts that hold a stream or wait are in `streams`.

Where DESIGN leaves an order open, the model does not choose: see `advance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import NoReturn

from .model_streams import Streams
from .words import ENDED, FLYING, Agent, Host, Job, Machine, Refused, Wish, lease_length, tick_of
from .world import World


class Model:
    """The front door: `world` is what it knows."""

    def __init__(self, limits: dict[str, float]) -> None:
        self.world = World(limits)
        self.streams = Streams(self.world)
        self._held_up: dict[str, tuple[Machine, str | None]] = {}

    # What agents ask for

    def submit(self, now: float, wish: Wish, task_id: str, batch: str | None = None) -> Job:
        """Admission; a refused task is kept under the same id. A repeat is answered with the first task."""
        first = self._first_under(wish)
        if first is not None:
            if first.wish != wish:
                raise Refused("already_exists")
            return first
        self._check(now, wish)
        world, limits = self.world, self.world.limits
        agent = world.agents.setdefault(wish.agent, Agent(world.number()))
        deadline = now + limits["default_deadline_secs"] if wish.deadline is None else wish.deadline
        job = Job(task_id, world.number(), wish, "queued", now, deadline, batch, queued_at=now)
        queued = world.queued()
        full = queued >= limits["max_queue_size"]
        refused = full or world.queued(wish.agent) >= limits["max_per_agent"]
        world.tasks[task_id] = job
        if refused:
            self._reject(now, job, agent, queued, "global" if full else "agent")
        world.tell(now, "submitted", job, None)
        world.counts["submitted"] += 1
        agent.counts["submitted"] += 1
        job.position = world.queued()
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
        jobs = [job for job in self.world.tasks.values() if job.batch == batch]
        if not jobs:
            raise Refused("not_found", "batch not found")
        return jobs

    def cancel_batch(self, now: float, batch: str) -> int:
        live = [job for job in self.batch(batch) if job.state not in ENDED]
        for job in live:
            self.world.end(now, job, "cancelled", stop="cancelled")
        return len(live)

    def cancel(self, now: float, task_id: str) -> Job:
        job = self.world.get(task_id)
        if job.state in ENDED:
            raise Refused("conflict")
        self.world.end(now, job, "cancelled", stop="cancelled")
        return job

    def get(self, task_id: str) -> Job:
        return self.world.get(task_id)

    # What hosts ask for

    def register(self, now: float, host_id: str, display_name: str | None, machine: Machine, slots: int | None) -> Host:
        return self.streams.register(now, host_id, display_name, machine, slots)

    def heartbeat(self, now: float, host_id: str, own_word: str | None, figures: bytes | None) -> Host:
        host = self.world.heard(now, host_id)
        host.own_word = own_word
        host.figures = figures or host.figures
        return host

    def status(self, now: float, host: Host) -> str:
        """Dead after the missed heartbeats, else its own word, else by its leases."""
        if self.world.is_dead(now, host):
            return "dead"
        leases = len(self.world.leases(host.id))
        busy = host.slots is not None and leases >= host.slots
        return host.own_word or ("idle" if leases == 0 else "busy" if busy else "alive")

    def deregister(self, now: float, host_id: str) -> None:
        world = self.world
        world.host(host_id)
        for job in world.leases(host_id):
            world.requeue(now, job, None, "the host was deregistered")
        world.offers = [offer for offer in world.offers if offer.host != host_id]
        del world.hosts[host_id]
        self._held_up.pop(host_id, None)

    def drain_host(self, host_id: str) -> Host:
        """It gets nothing new, until it registers again."""
        host = self.world.host(host_id)
        host.draining = True
        return host

    def claim(
        self, now: float, host_id: str, count: int, lease_secs: float | None, project: str | None
    ) -> list[tuple[str, int, float]]:
        """For each task that the host gets: its id, the fencing token, and when the lease ends."""
        world = self.world
        host = world.heard(now, host_id)
        machine = world.as_it_is(now, host.machine)
        secs = lease_length(lease_secs, world.limits["lease_secs"])
        if project is not None and machine.project not in (None, project):
            raise Refused("bad_request")
        got: list[tuple[str, int, float]] = []
        if host.draining:
            count = 0
        while len(got) < count and not world.draining and len(world.flying()) < world.limits["max_inflight"]:
            job = world.next_of(world.waiting_for(machine, project))
            if job is None:
                break
            if job.deadline <= now:
                world.expire(now, job)
                continue
            world.grant(now, job, host, secs)
            got.append((job.id, job.token, job.lease_until))
        self._held_up.pop(host_id, None)
        if len(got) < count and world.limit_that_binds(world.waiting_for(machine, project)):
            self._held_up[host_id] = (machine, project)
        return got

    def start(self, now: float, host_id: str, task_id: str, token: int) -> Job:
        job = self._leased(now, host_id, task_id, token)
        if job.state != "assigned":
            raise Refused("conflict")
        self.world.begin(now, job)
        return job

    def renew(
        self, now: float, host_id: str, task_id: str, token: int, lease_secs: float | None
    ) -> tuple[str, int, float]:
        """By its own length unless another is asked for, never to less than it had."""
        job = self._leased(now, host_id, task_id, token)
        secs = job.lease_secs = lease_length(lease_secs, job.lease_secs)
        job.lease_until = max(job.lease_until, now + secs)
        return (job.id, job.token, job.lease_until)

    def progress(self, now: float, host_id: str, task_id: str, token: int, progress: bytes | None) -> Job:
        """Counts as a start, too; None is as far as before."""
        job = self._begun(now, host_id, task_id, token)
        if progress is not None:
            job.progress = progress
            self.world.tell(now, "progressed", job, job.state)
        return job

    def complete(self, now: float, host_id: str, task_id: str, token: int, result: bytes | None) -> Job:
        job = self._begun(now, host_id, task_id, token)
        self.world.end(now, job, "done", result=result)
        return job

    def fail(self, now: float, host_id: str, task_id: str, token: int, error: str) -> Job:
        job = self._begun(now, host_id, task_id, token)
        self.world.end(now, job, "failed", error)
        return job

    def release(self, now: float, host_id: str, task_id: str, token: int) -> Job:
        """Back to its place; this hand-out does not count."""
        job = self._leased(now, host_id, task_id, token)
        self.world.requeue(now, job, None, None)
        job.deliveries -= 1
        return job

    # Time and the operator

    def advance(self, now: float, chosen: Sequence[tuple[str, str]]) -> int:
        """Do what is due: the earliest tick first, at the same tick deadlines before leases; then dead hosts; then
        what need not be retained any more.

        DESIGN leaves open which of two things of the same tick goes first, and how many are done at once. That order
        shows in results: tasks are retained in the order in which they ended. So the model does as many things as the
        core told of in `chosen` (kinds and tasks of its events), and insists that each choice is one of those that were
        due. Returns how many were done.
        """
        world = self.world
        first, done = len(world.happened), 0
        while len(world.happened) - first < len(chosen):
            kind, task_id = chosen[len(world.happened) - first]
            what, due = self._due_now(now, kind)
            if what != "retention" and task_id not in due:
                raise AssertionError(f"the {what} of one of {sorted(due)} is due, but the core {kind} {task_id}")
            if what == "deadline":
                world.expire(now, due[task_id])
            elif what == "end of lease":
                world.lose(now, due[task_id], "lease expired")
            elif what == "death of host":
                world.bury(now, world.hosts[due[task_id].host])
            elif not world.forget_one(now):
                raise AssertionError(f"nothing is due, but the core {kind} {task_id}")
            done += 1
        return done

    def next_due(self) -> float | None:
        """The time of the first thing that happens to a task if only time passes."""
        world = self.world
        times = [tick_of(job.deadline) / 8 for job in world.ticking()]
        times += [tick_of(job.lease_end()) / 8 for job in world.flying()]
        times += [tick_of(host.heard_at + world.dead_after()) / 8 for host in world.mortals()]
        ttl = world.limits["result_ttl_secs"]
        times += [job.completed_at + ttl for job in world.tasks.values() if job.state in ENDED]
        return min(times, default=None)

    def drain(self) -> None:
        self.world.draining = True

    def shut_down(self, now: float) -> None:
        for job in list(self.world.tasks.values()):
            if job.state in FLYING:
                self.world.pause(now, job, "shutdown")
            elif job.state == "queued":
                self.world.end(now, job, "cancelled", "scheduler shutdown")

    def silent_from(self) -> float | None:
        """Until when a runtime host is online if none is heard of again; None where no tab executor waits for that."""
        hosts = self.world.hosts.values()
        heard = [host.heard_at for host in hosts if not host.machine.built_in]
        if not heard or len(heard) == len(hosts):
            return None
        return max(heard) + self.world.limits["heartbeat_timeout_secs"]

    def limited_by(self, now: float) -> tuple[str | None, str | None]:
        """The limit that keeps a host from tasks that wait; and the one that may be said to.

        A host asked for them if it got less than it wanted when it last claimed, or if it waits. The core may not have
        noticed yet that a stream is silent, or what the tab executor may run.
        """
        world = self.world
        asked = [world.waiting_for(*held_up) for held_up in self._held_up.values()]
        sure, unsure = self.streams.wanted(now)
        keys = [key for key in map(world.limit_that_binds, [*asked, *sure]) if key]
        perhaps = [key for key in map(world.limit_that_binds, unsure) if key]
        return next(iter(keys), None), next(iter(keys + perhaps), None)

    # The rules

    def _due_now(self, now: float, kind: str) -> tuple[str, dict[str, Job]]:
        """What is to be done next, and which tasks it may happen to. `kind` is the core's next event.

        A dead host may lose its leases as soon as it is dead, up to an eighth of a second before it has to.
        """
        world, this_tick = self.world, floor(8 * now)
        deadlines = {job.id: tick_of(job.deadline) for job in world.ticking()}
        leases = {job.id: tick_of(job.lease_end()) for job in world.flying()}
        for what, ticks in (("deadline", deadlines), ("end of lease", leases)):
            first = min([*deadlines.values(), *leases.values()], default=this_tick + 1)
            if first <= this_tick and first in ticks.values():
                return what, {task_id: world.tasks[task_id] for task_id, tick in ticks.items() if tick == first}
        dead = [host for host in world.mortals() if world.is_dead(now, host)]
        late = any(tick_of(host.heard_at + world.dead_after()) <= this_tick for host in dead)
        if late or (dead and kind == "changed"):
            return "death of host", {job.id: job for host in dead for job in world.leases(host.id)}
        return "retention", {}

    def _first_under(self, wish: Wish) -> Job | None:
        """The retained task that the agent submitted under this key; a rejection consumed none."""
        if wish.key is None:
            return None
        for job in self.world.tasks.values():
            if job.state != "rejected" and (job.wish.agent, job.wish.key) == (wish.agent, wish.key):
                return job
        return None

    def _check(self, now: float, wish: Wish) -> None:
        if self.world.draining:
            raise Refused("unavailable")
        if wish.deadline is not None and wish.deadline <= now:
            raise Refused("bad_request")

    def _reject(self, now: float, job: Job, agent: Agent, queued: int, which: str) -> NoReturn:
        world = self.world
        job.state = "rejected"
        job.completed_at = now
        job.error = f"rejected: {which} queue full"
        world.tell(now, "submitted", job, None)
        world.counts["rejected"] += 1
        agent.counts["rejected"] += 1
        world.rejected.append(job.id)
        while len(world.rejected) > world.limits["max_queue_size"]:
            world.forget(now, world.rejected[0])
        details = {
            "agentId": job.wish.agent,
            "queued": queued,
            "maxQueue": world.limits["max_queue_size"],
            "maxPerAgent": world.limits["max_per_agent"],
        }
        raise Refused("queue_full", job.error, details)

    def _leased(self, now: float, host_id: str, task_id: str, token: int) -> Job:
        self.world.heard(now, host_id)
        job = self.world.get(task_id)
        if job.state not in FLYING or job.host != host_id or job.token != token:
            self.world.counts["late_reports"] += 1
            raise Refused("lease_lost")
        return job

    def _begun(self, now: float, host_id: str, task_id: str, token: int) -> Job:
        job = self._leased(now, host_id, task_id, token)
        if job.state == "assigned":
            self.world.begin(now, job)
        return job
