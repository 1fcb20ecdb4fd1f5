"""A naive scheduler of one namespace, written from docs/rules.md alone.

It shares no code with the core and knows none of its ideas. Each method is one command; it answers in plain values, or
raises `Refused` with the word of the error table (docs/rules.md, Errors). Times are seconds on the caller's clock. What
the model knows lies in its `World`; the commands of hosts that hold a stream or wait are in `streams`.

Where docs/rules.md leaves an order open, the model does not choose: see `advance`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from .model_agenda import agenda, bring_about, first_due, name_of
from .model_agents import AgentModel
from .model_events import Came
from .model_operations import Operations
from .model_output import PARTS
from .model_parks import MAX_STEPS_BYTES
from .model_records import (
    FLYING,
    OVER_BUDGET,
    WAITING,
    Asked,
    Host,
    Job,
    Machine,
    Refused,
    Wish,
    lease_length,
)
from .model_streams import Streams
from .world import World


class Model(AgentModel):
    """The front door: `world` is what it knows."""

    def __init__(self, limits: dict[str, float]) -> None:
        super().__init__(World(limits))
        self.streams = Streams(self.world)
        self.operations = Operations(self)
        self._held_up: dict[str, tuple[Machine, str | None]] = {}

    # What hosts ask for

    def register(self, now: float, host_id: str, display_name: str | None, machine: Machine, slots: int | None) -> Host:
        return self.streams.register(now, host_id, display_name, machine, slots)

    def heartbeat(self, now: float, host_id: str, reported_status: str | None, figures: bytes | None) -> Host:
        host = self.world.heard(now, host_id)
        host.reported_status = reported_status
        host.figures = figures or host.figures
        return host

    def status(self, now: float, host: Host) -> str:
        """Dead after the missed heartbeats, else its own word, else by its leases."""
        if self.world.is_dead(now, host):
            return "dead"
        leases = len(self.world.leases(host.id))
        busy = host.slots is not None and leases >= host.slots
        return host.reported_status or ("idle" if leases == 0 else "busy" if busy else "alive")

    def deregister(self, now: float, host_id: str) -> None:
        world = self.world
        world.host(host_id)
        for job in world.leases(host_id):
            world.requeue(now, job, "the host was deregistered")
        world.offers = [offer for offer in world.offers if offer.host != host_id]
        del world.hosts[host_id]
        self._held_up.pop(host_id, None)

    def forget_vanished(self, now: float, known: Collection[str]) -> None:
        """Forget the hosts that the core knows no more; each must have been silent for long, and hold nothing."""
        world = self.world
        for host in [host for host in world.hosts.values() if host.id not in known]:
            holds = world.leases(host.id) or any(offer.host == host.id for offer in world.offers)
            if holds or host.machine.built_in or now - host.heard_at < world.limits["forget_hosts_secs"]:
                raise AssertionError(f"{host.id} is forgotten, and was heard of {now - host.heard_at} s ago")
            del world.hosts[host.id]
            self._held_up.pop(host.id, None)

    def drain_host(self, host_id: str, until: float | None) -> Host:
        """It gets nothing new, until it registers again; what it still has by then is paused."""
        host = self.world.host(host_id)
        host.draining = True
        host.drain_until = until
        return host

    def claim(
        self, now: float, host_id: str, count: int, lease_secs: float | None, project: str | None, claim_id: str | None
    ) -> list[tuple[str, int, float]]:
        """For each task that the host gets, or got under this id: its id, the token, and when the lease ends."""
        world = self.world
        host = world.heard(now, host_id)
        machine = world.as_it_is(now, host.machine)
        secs = lease_length(lease_secs, world.limits["lease_secs"])
        if project is not None and machine.project not in (None, project):
            raise Refused("bad_request")
        named = [job for job in world.leases(host_id) if job.claim_id == claim_id is not None]
        if named:
            return [(job.id, job.token, job.lease_until) for job in sorted(named, key=lambda job: job.token)]
        got: list[tuple[str, int, float]] = []
        if host.draining:
            count = 0
        while len(got) < count and not world.draining and len(world.flying()) < world.limits["max_inflight"]:
            job = world.next_of(now, world.waiting_for(machine, project))
            if job is None:
                break
            if job.deadline is not None and job.deadline <= now:
                world.expire(now, job)
                continue
            world.grant(now, job, host, secs, None, claim_id)
            got.append((job.id, job.token, job.lease_until))
        self._held_up.pop(host_id, None)
        if len(got) < count and self._limit_that_binds(now, world.waiting_for(machine, project)):
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

    def progress(
        self, now: float, host_id: str, task_id: str, token: int, progress: bytes | None, tokens: int | None
    ) -> Job:
        """Counts as a start, too; None is as far as before, or as many tokens."""
        job = self._begun(now, host_id, task_id, token)
        self._use(job, tokens)
        if progress is not None:
            job.progress = progress
        if progress is not None or tokens is not None:
            self.world.tell(now, "progressed", job, job.state)
        if tokens is not None and job.is_over_budget():
            self.world.end(now, job, "failed", OVER_BUDGET, stop="token_limit_exceeded")
        return job

    def say(
        self, now: float, host_id: str, task_id: str, token: int, number: int, sizes: tuple[int, ...]
    ) -> tuple[int, int, int, int | None]:
        """Counts as a start, too, but not what leaves a gap."""
        said = self._leased(now, host_id, task_id, token).said
        if said.leaves_a_gap(token, number):
            raise Refused("bad_request")
        self._begun(now, host_id, task_id, token)
        world, before = self.world, said.kept
        limit = int(world.limits["max_output_bytes"])
        if world.said > world.limits["max_namespace_output_bytes"]:
            limit //= PARTS
        taken = said.append(token, number, sizes, limit)
        world.said += said.kept - before
        return taken

    def put(
        self, now: float, host_id: str | None, task_id: str, token: int, name: str, size: int, child: str = ""
    ) -> int | None:
        """Counts as a start with a host; without one, and for a child, it must be held. The size of the one before."""
        if host_id is None:
            found = self.world.tasks.get(task_id)
            if found is None:
                raise Refused("not_found")
            if not found.held:
                raise Refused("conflict")
            job = found
        else:
            job = self._leased(now, host_id, task_id, token)
            if child:
                job = self.world.relations.held_child(job, child)
        before = job.artifacts.get(name, 0)
        own, limits = sum(job.artifacts.values()) - before + size, self.world.limits
        everything = sum(sum(each.artifacts.values()) for each in self.world.tasks.values()) - before + size
        if own > limits["max_artifact_bytes"] or everything > limits["max_namespace_artifact_bytes"]:
            raise Refused("too_large")
        if host_id is not None and not child:
            self._begun(now, host_id, task_id, token)
        replaced = job.artifacts.pop(name, None)
        job.artifacts[name] = size
        self.world.tell(now, "progressed", job, job.state)
        return replaced

    def record(self, now: float, host_id: str, task_id: str, token: int, name: str, size: int) -> tuple[int, bool]:
        """Counts as a start, too, unless the task has the name; then it stays as it was."""
        steps, key = self._leased(now, host_id, task_id, token).steps, f"work:{name}"
        if key in steps:
            return [*steps].index(key) + 1, True
        if sum(steps.values()) + len(name) + size > MAX_STEPS_BYTES:
            raise Refused("too_large")
        job = self._begun(now, host_id, task_id, token)
        came = Came("", 0, "work", name, bytes(size), None, False, None, 0.0, 0)
        self.world.parks.record(now, job, key, came, len(name) + size)
        self.world.tell(now, "progressed", job, job.state)
        return len(steps), False

    def submit_child(
        self, now: float, host_id: str, task_id: str, token: int, name: str, wish: Wish, child_id: str
    ) -> tuple[Job, bool]:
        """Counts as a start, too, unless the task has the name of one that is not held. `wish` has no name yet."""
        relations, parent = self.world.relations, self._leased(now, host_id, task_id, token)
        known = relations.child(parent, name)
        if known is not None:
            if known.held:
                relations.submit_again(now, known, wish)
                self._begun(now, host_id, task_id, token)
            return known, True
        agent = parent.wish.agent
        if wish.agent not in ("", agent) or wish.parent not in (None, parent.id) or wish.key or wish.unique:
            raise Refused("bad_request")
        policy = wish.on_parent_end or "cancel"
        wish = replace(wish, agent=agent, parent=parent.id, child_name=name, on_parent_end=policy)
        child = self.submit(now, wish, child_id, known=agent)
        assert isinstance(child, Job)
        parent.children = (*parent.children, child.id)
        self._begun(now, host_id, task_id, token)
        self.world.tell(now, "progressed", parent, parent.state)
        return child, False

    def fetch_child(self, now: float, host_id: str, task_id: str, token: int, name: str) -> Job:
        child = self.world.relations.child(self._leased(now, host_id, task_id, token), name)
        if child is None:
            raise Refused("not_found", "child not found")
        return child

    def park(
        self,
        now: float,
        host_id: str,
        task_id: str,
        token: int,
        waits: tuple[Asked, ...],
        tokens: int | None,
        keeps: bool,
    ) -> Job:
        """Counts as a start, too; it may be repeated until the task is handed out again."""
        self.world.heard(now, host_id)
        parks = self.world.parks
        repeated = parks.repeated(host_id, task_id, token)
        if repeated is not None:
            return repeated
        parks.check(self._leased(now, host_id, task_id, token), waits)
        job = self._begun(now, host_id, task_id, token)
        self._use(job, tokens)
        if tokens is not None and job.is_over_budget():
            self.world.end(now, job, "failed", OVER_BUDGET)
        else:
            parks.park(now, job, waits, keeps)
        return job

    def answer(self, now: float, task_id: str, name: str, result: bytes | None, by: str | None) -> Job:
        job = self.world.get(task_id)
        self.world.parks.answer(now, job, name, result, by)
        return job

    def complete(
        self,
        now: float,
        host_id: str,
        task_id: str,
        token: int,
        result: bytes | None,
        tokens: int | None,
        output: bytes | None,
    ) -> Job:
        job = self._begun(now, host_id, task_id, token)
        self.world.hosts[host_id].losses = 0
        self._use(job, tokens)
        if tokens is not None and job.is_over_budget():
            self.world.end(now, job, "failed", OVER_BUDGET)
        else:
            job.output = output
            self.world.end(now, job, "done", result=result)
        return job

    def fail(
        self,
        now: float,
        host_id: str,
        task_id: str,
        token: int,
        error: str,
        retryable: bool,
        code: str | None,
        tokens: int | None,
        traceback: str | None,
        after: float | None,
    ) -> Job:
        job = self._leased(now, host_id, task_id, token)
        self._use(job, tokens)
        over = tokens is not None and job.is_over_budget()
        error = OVER_BUDGET if over else error
        self.world.fail(now, job, error, retryable and not over, code, traceback=traceback, after=after)
        return job

    def stopped(self, now: float, host_id: str, task_id: str, token: int) -> None:
        """A sign of life of a host that is known; and what it speaks of may be over, or unknown."""
        world = self.world
        if host_id in world.hosts:
            world.heard(now, host_id)
        world.stopped(now, [lease for lease in world.stopping if lease.key == (host_id, task_id, token)])

    def release(self, now: float, host_id: str, task_id: str, token: int, after: float | None, code: str | None) -> Job:
        """Back to its place, at once or after a time; this hand-out does not count, nor is it an attempt."""
        job = self._leased(now, host_id, task_id, token)
        job.deliveries -= 1
        if after is None:
            self.world.requeue(now, job, None)
        else:
            self.world.set_back(now, job, now + after, (code, None))
        return job

    # Time and the operator

    def advance(
        self,
        now: float,
        chosen: Sequence[tuple[str, str]],
        looks: Mapping[str, float],
        left: Collection[object],
    ) -> int:
        """Do what is due: the earliest tick first, at the same tick deadlines before leases, then what hosts did not
        do, what pending tasks wait for, and leases that only may still run; then what need not be retained any more.

        docs/rules.md leaves open which of two things of the same kind and tick goes first, and how many are done at
        once. That order shows in results: tasks are retained in the order in which they ended. So the model does as
        many things as the core told of in `chosen` (kinds and tasks of its events), and insists that each choice is one
        of those that were due. `looks` is when the core meant to look at hosts, which may be before they have to be
        dead. `left` are the hosts and leases that the core says are still to come, of those of which nothing is told.
        Returns how many things were done.
        """
        world = self.world
        first, done = len(world.happened), 0
        while True:
            told = chosen[len(world.happened) - first :]
            due = first_due(world, now, looks)
            if due and not any(each.touches(world) for each in due):
                over = [each for each in due if told or name_of(each) not in left]
                if over:
                    bring_about(world, now, over[0])
                    done += 1
                    continue
            if not told:
                return done
            kind, task_id = told[0]
            if not due and kind == "changed" and world.relations.may_go(now, world.get(task_id)):
                world.relations.settle(now, world.get(task_id))
            elif not due:
                if kind != "evicted" or world.relations.overdue() or not world.forget_one(now):
                    raise AssertionError(f"nothing is due, but the core {kind} {task_id}")
            else:
                fit = [each for each in due if task_id in each.touches(world)]
                if not fit:
                    raise AssertionError(f"{due} is due, but the core {kind} {task_id}")
                bring_about(world, now, fit[0])
            done += 1

    def next_due(self) -> float | None:
        """The time of the first thing that happens to a task if only time passes."""
        world = self.world
        times = [due.tick / 8 for due in agenda(self.world, {})]
        ttl = world.limits["result_ttl_secs"]
        times += [world.tasks[task_id].completed_at + ttl for task_id in (*world.ended, *world.rejected)]
        return min(times, default=None)

    def reconfigure(self, limits: Mapping[str, float]) -> None:
        self.world.limits.update(limits)
        self.streams.reconfigured()

    def drain(self) -> None:
        self.world.draining = True

    def shut_down(self, now: float) -> None:
        for job in list(self.world.tasks.values()):
            if job.state in FLYING:
                self.world.pause(now, job, "shutdown")
            elif job.state in WAITING or job.state == "parked":
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
        keys = [key for each in [*asked, *sure] if (key := self._limit_that_binds(now, each))]
        perhaps = [key for each in unsure if (key := self._limit_that_binds(now, each))]
        order = ("maxInflight", "maxPerAgentInflight", "limits")
        first, second = ([name for name in order if name in each] for each in (keys, keys + perhaps))
        return next(iter(first), None), next(iter(second), None)

    # The rules

    def _limit_that_binds(self, now: float, waiting: Sequence[Job]) -> str | None:
        """The limit that keeps hosts from these tasks."""
        world = self.world
        if world.draining or not waiting:
            return None
        if len(world.flying()) >= world.limits["max_inflight"]:
            return "maxInflight"
        if world.next_of(now, waiting):
            return None
        return "maxPerAgentInflight" if world.without_full_keys(now, waiting) else "limits"

    def _use(self, job: Job, tokens: int | None) -> None:
        """What an attempt says that it used, on top of the earlier ones; never less than before."""
        if tokens is not None:
            before = job.tokens_used or 0
            job.tokens_used = max(before, job.tokens_before + tokens)
            self.world.agents[job.wish.agent].counts["tokens_used"] += job.tokens_used - before

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
