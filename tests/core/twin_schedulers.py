"""The core and the brute force under the same commands at the same times."""

from collections import Counter
from dataclasses import fields
from random import Random

from taskyard_server.core.figures.figures import stats_of
from taskyard_server.core.limits import Limits
from taskyard_server.core.queue.keys import KeyLimit, KeyUsage, KeyWaits
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.task import Submission
from tests.core.brute_force import BruteForce, HostKind, keys_of
from tests.core.queue.naive_keys import RateLimit

EIGHTH = 0.125
JUST_BEFORE = 0.0625
"""Every lease and deadline ends just before a tick, and the clock moves by ticks, so both agree on what is over."""


class TwinSchedulers:
    """The core and the brute force, under the same commands at the same times."""

    def __init__(self, max_inflight: int = 40, max_per_agent_inflight: int = 4, ttl_secs: float = 1e9) -> None:
        self.limits = Limits(
            max_queue_size=1 << 40,
            max_per_agent=1 << 40,
            max_inflight=max_inflight,
            max_per_agent_inflight=max_per_agent_inflight,
            result_ttl_secs=ttl_secs,
            max_retained_tasks=1 << 40,
            default_deadline_secs=60 - JUST_BEFORE,
            max_deliveries=3,
            heartbeat_timeout_secs=5,
        )
        draw = Random(1)
        self.core = Scheduler(self.limits, lambda: draw.getrandbits(40))
        self.brute = BruteForce(max_inflight, max_per_agent_inflight, 3, ttl_secs, 5)
        self.now = 1_700_000_000.0
        self.behind = False
        """True if time has passed without a call of `advance`, as after a stall."""
        self.lines: list[str] = []
        self.claims = 0

    def log(self, line: str) -> None:
        self.lines.append(f"{self.now:.3f} {line}")

    def recent(self) -> str:
        return "the last steps were\n" + "\n".join(self.lines[-30:])

    # What commands can be about

    def queued(self) -> list[str]:
        return [job_id for job_id, job in self.brute.jobs.items() if job.state == "queued" and job.deadline > self.now]

    def held(self) -> list[str]:
        return [job_id for job_id, job in self.brute.jobs.items() if job.holder]

    # Commands

    def submit(self, submission: Submission) -> None:
        task = self.core.submit(self.now, submission)
        self.brute.submit(task.id, submission, task.deadline)
        self.log(f"submit {submission} as {task.id}")

    def register(self, host: str, kind: HostKind) -> None:
        self.core.register(self.now, host, None, kind.for_core(), built_in=kind.built_in)
        self.brute.hosts[host] = kind
        self.brute.heard[host] = self.now
        self.log(f"register {host} {kind}")

    def deregister(self, host: str) -> None:
        self.core.deregister(self.now, host)
        del self.brute.hosts[host]
        for job in self.brute.jobs.values():
            if job.holder == host:
                self.brute.requeue(job)
        self.log(f"deregister {host}")

    def claim(self, host: str, count: int, secs: float) -> None:
        self.brute.heard[host] = self.now
        leases = self.core.claim(self.now, host, count, secs)
        got = [(lease.task.id, lease.token) for lease in leases]
        self.log(f"claim {host} {count} {secs} got {got}")
        expected = []
        while len(expected) < count and (job_id := self.brute.claim(self.now, host, secs)):
            expected.append((job_id, self.brute.jobs[job_id].token))
        assert got == expected, self.recent()
        self.claims += len(got)

    def report(self, kind: str, job_id: str) -> None:
        job = self.brute.jobs[job_id]
        assert job.holder
        if kind == "start" and job.state != "assigned":
            return  # Nobody reports it, so that nobody is heard.
        self.brute.heard[job.holder] = self.now
        self.log(f"{kind} {job_id} by {job.holder}")
        lease = (self.now, job.holder, job_id, job.token)
        if kind == "complete":
            self.core.reports.complete(*lease, None)
            self.brute.end(self.now, job, "done")
        elif kind == "fail":
            self.core.reports.fail(*lease, "broken")
            self.brute.end(self.now, job, "failed")
        elif kind == "release":
            self.core.reports.release(*lease)
            job.deliveries -= 1
            self.brute.requeue(job)
        elif kind == "renew":
            self.core.reports.renew(*lease)
            job.held_until = max(job.held_until, self.now + job.held_secs)
        else:
            self.core.reports.start(*lease)
            job.state = "running"

    def cancel(self, job_id: str) -> None:
        self.core.cancel(self.now, job_id)
        self.brute.end(self.now, self.brute.jobs[job_id], "cancelled")
        self.log(f"cancel {job_id}")

    def limit(self, max_inflight: int, max_per_agent_inflight: int) -> None:
        kept = {each.name: getattr(self.limits, each.name) for each in fields(Limits)}
        self.limits = Limits(**{**kept, "max_inflight": max_inflight, "max_per_agent_inflight": max_per_agent_inflight})
        self.core.reconfigure(self.limits)
        self.brute.max_inflight, self.brute.max_per_agent_inflight = max_inflight, max_per_agent_inflight
        self.log(f"limit {max_inflight} {max_per_agent_inflight}")

    def limit_keys(self, limits: dict[str, RateLimit]) -> None:
        core = {pattern: KeyLimit(each.places, each.rate, each.burst) for pattern, each in limits.items()}
        self.core.keys.set_limits(self.now, core)
        self.brute.keys.put(self.now, limits)
        self.log(f"limit keys {limits}")

    def weigh(self, weights: dict[str, int]) -> None:
        self.core.set_weights(weights)
        self.brute.set_weights(weights)
        self.log(f"weigh {weights}")

    def stall(self, eighths: int) -> None:
        """Let time pass without a call of `advance`."""
        self.now += eighths * EIGHTH
        self.behind = True
        self.log("stall")

    def pass_time(self, eighths: int) -> None:
        self.now += eighths * EIGHTH
        while self.core.advance(self.now, max_items=3):
            pass
        self.brute.advance(self.now)
        self.behind = False
        self.log("time passed")

    def compare(self) -> None:
        """Every task is in the same state, and the figures agree."""
        if self.behind:
            return
        jobs = self.brute.jobs
        states = {task.id: (task.state.value, task.token) for task in self.core.tasks_after(0)}
        assert states == {job_id: (job.state, job.token) for job_id, job in jobs.items()}, self.recent()
        stats = stats_of(self.core)
        load = self.brute.loads()
        assert stats.inflight == load.total(), self.recent()
        inflight = {agent: figures.inflight for agent, figures in stats.agents.items() if figures.inflight}
        assert inflight == {agent: load[agent] for agent in self.brute.last_served if load[agent]}, self.recent()
        self.compare_keys()

    def compare_keys(self) -> None:
        """The figures of each key agree."""
        brute, full = self.brute, self.brute.full_keys(self.now)
        jobs = [job for job in brute.jobs.values() if keys_of(job.submission)]
        inflight = Counter(name for job in jobs if job.holder for name in keys_of(job.submission))
        waiting = [job for job in jobs if job.state == "queued"]
        used = {name for job in waiting for name in keys_of(job.submission)} | {*inflight}
        held = [job for job in waiting if full.intersection(keys_of(job.submission))]
        waits = Counter(name for job in held for name in keys_of(job.submission))
        expected = [
            KeyUsage(
                name,
                brute.keys.pattern(name),
                inflight[name],
                waits[name],
                None if (tokens := brute.keys.tokens(self.now, name)) is None else float(tokens),
            )
            for name in sorted(used)
        ]
        assert self.core.keys.usage(self.now, "", 1000) == expected, self.recent()
        its = {name: count for name, count in waits.items() if name in full}
        assert self.core.keys.waits(self.now, 100) == KeyWaits(len(held), its), self.recent()
