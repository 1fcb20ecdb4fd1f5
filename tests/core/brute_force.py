"""The order of claims by brute force: plain lists, and a look at every task for every claim.

It is written from docs/rules.md alone and shares no code with the core: it knows nothing of buckets, lanes, ranks or
ticks.
"""

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

from taskyard_server.core.hosts import HostProfile, Tabs
from taskyard_server.core.task import Submission
from tests.core.queue.naive_keys import NaiveKeys


@dataclass(frozen=True)
class HostKind:
    """What a host may run."""

    capabilities: frozenset[str] = frozenset()
    project: str | None = None
    actions: frozenset[str] | None = None
    tabs: str = "any"
    built_in: bool = False

    def for_core(self) -> HostProfile:
        tabs = {"any": Tabs.ANY, "only": Tabs.ONLY, "or plain": Tabs.OR_PLAIN}[self.tabs]
        return HostProfile(self.capabilities, self.project, self.actions, tabs)


@dataclass
class TaskRecord:
    """A task. `holder` is the host that holds its lease, which ends at `held_until`."""

    order: int
    submission: Submission
    deadline: float
    state: str = "queued"
    token: int = 0
    deliveries: int = 0
    holder: str | None = None
    held_secs: float = 0
    held_until: float = 0
    over_at: float = 0


LIVE = ("queued", "assigned", "running")


@dataclass
class BruteForce:
    """The rules of the order of claims, of leases and of deadlines, without any index."""

    max_inflight: int
    max_per_agent_inflight: int
    max_deliveries: int
    ttl_secs: float
    online_secs: float
    jobs: dict[str, TaskRecord] = field(default_factory=dict)
    hosts: dict[str, HostKind] = field(default_factory=dict)
    heard: dict[str, float] = field(default_factory=dict)
    last_served: dict[str, tuple[int, int]] = field(default_factory=dict)
    """For each agent (1, when it was last served), or (0, when it came) if it was never served."""
    keys: NaiveKeys = field(default_factory=NaiveKeys)
    weights: dict[str, int] = field(default_factory=dict)
    """The weight of each pattern."""
    passed: Counter[str] = field(default_factory=Counter)
    """The pass of each agent, in units of 2^-32."""
    front: int = 0
    """The greatest pass that any agent had before it was served."""
    count: int = 0
    last_token: int = 0

    def set_weights(self, weights: dict[str, int]) -> None:
        """Passes begin equal when the first weight above 1 comes."""
        if max(self.weights.values(), default=1) == 1:
            self.passed.clear()
            self.front = 0
        self.weights = weights

    def weight(self, agent: str) -> int:
        """That of the longest pattern that matches."""
        found = [each for each in self.weights if agent == each or (each[-1] == "*" and agent.startswith(each[:-1]))]
        return self.weights[max(found, key=lambda each: (each[-1] != "*", len(each)))] if found else 1

    def turn(self, load: int, agent: str) -> tuple[Fraction, int, tuple[int, int]]:
        """The least is served next."""
        weighted = max(self.weights.values(), default=1) > 1
        passed = self.passed[agent] if weighted else 0
        return Fraction(load, self.weight(agent)), passed, self.last_served[agent]

    def submit(self, job_id: str, submission: Submission, deadline: float) -> None:
        self.count += 1
        self.jobs[job_id] = TaskRecord(self.count, submission, deadline)
        self.last_served.setdefault(submission.agent_id, (0, self.count))

    def loads(self) -> Counter[str]:
        """How many tasks each agent has in flight."""
        return Counter(job.submission.agent_id for job in self.jobs.values() if job.state in ("assigned", "running"))

    def full_keys(self, now: float) -> set[str]:
        """The keys of all waiting tasks that have no place or no token."""
        jobs = self.jobs.values()
        waiting = [keys_of(job.submission) for job in jobs if job.state == "queued"]
        return self.keys.full(now, waiting, [keys_of(job.submission) for job in jobs if job.holder])

    def may_run(self, now: float, host: str, submission: Submission) -> bool:
        kind = self.hosts[host]
        plain = submission.tab_id is None and not submission.options.requires
        tabs = kind.tabs
        if kind.built_in:
            online = any(
                now - self.heard[other] <= self.online_secs for other, its in self.hosts.items() if not its.built_in
            )
            tabs = "only" if online else "or plain"
        return (
            submission.options.requires <= kind.capabilities
            and kind.project in (None, submission.options.project)
            and (kind.actions is None or submission.action in kind.actions)
            and (tabs == "any" or submission.tab_id is not None or (tabs == "or plain" and plain))
        )

    def claim(self, now: float, host: str, secs: float) -> str | None:
        """The task that this host gets now."""
        load = self.loads()
        if load.total() >= self.max_inflight:
            return None
        full = self.full_keys(now)
        eligible = {
            job_id: job
            for job_id, job in self.jobs.items()
            if job.state == "queued"
            and job.deadline > now
            and self.may_run(now, host, job.submission)
            and not full.intersection(keys_of(job.submission))
        }
        agents = {job.submission.agent_id for job in eligible.values()}
        free = [agent for agent in agents if load[agent] < self.max_per_agent_inflight]
        if not free:
            return None
        agent = min(free, key=lambda agent: self.turn(load[agent], agent))
        own = [job_id for job_id, job in eligible.items() if job.submission.agent_id == agent]
        first = min(own, key=lambda job_id: (self.jobs[job_id].submission.priority, self.jobs[job_id].order))
        self.count += 1
        self.last_served[agent] = (1, self.count)
        passed = max(self.passed[agent], self.front - 2**32)
        self.front = max(self.front, passed)
        self.passed[agent] = passed + 2**32 // self.weight(agent)
        job = self.jobs[first]
        job.state = "assigned"
        self.last_token += 1
        job.token = self.last_token
        job.deliveries += 1
        job.holder, job.held_secs, job.held_until = host, secs, now + secs
        self.keys.take(now, keys_of(job.submission))
        return first

    def requeue(self, job: TaskRecord) -> None:
        job.state, job.holder = "queued", None

    def end(self, now: float, job: TaskRecord, state: str) -> None:
        job.state, job.holder, job.over_at = state, None, now

    def advance(self, now: float) -> None:
        """Deadlines and leases in the order in which they end, a deadline first; then what is no longer retained."""
        due = [(job.deadline, 0, job.order, job) for job in self.jobs.values() if job.state in LIVE]
        due += [(job.held_until, 1, job.order, job) for job in self.jobs.values() if job.holder]
        for at, is_lease, _, job in sorted(due, key=lambda entry: entry[:3]):
            if at > now or job.state not in LIVE:
                continue
            if not is_lease:
                self.end(now, job, "failed")
            elif job.deliveries < self.max_deliveries:
                self.requeue(job)
            else:
                self.end(now, job, "failed")
        for job_id, job in list(self.jobs.items()):
            if job.state not in LIVE and now - job.over_at >= self.ttl_secs:
                del self.jobs[job_id]
        known = {job.submission.agent_id for job in self.jobs.values()}
        self.last_served = {agent: served for agent, served in self.last_served.items() if agent in known}
        for agent in self.passed.keys() - known:
            del self.passed[agent]


def keys_of(submission: Submission) -> tuple[str, ...]:
    return submission.options.extras.concurrency_keys
