"""The order of claims by brute force: plain lists, and a look at every task for every claim.

It is written from docs/rules.md alone and shares no code with the core: it knows nothing of buckets, lanes, ranks or
ticks.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from taskyard_server.core.hosts import HostProfile, Tabs
from taskyard_server.core.task import Submission


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


@dataclass(frozen=True)
class RateLimit:
    """A limit of concurrency keys."""

    places: int | None = None
    rate: float | None = None
    burst: int = 1


@dataclass
class Tokens:
    """The tokens of one key, or of one of a pattern that nobody has used, as they were at a time."""

    count: Fraction
    at: Fraction

    def now(self, now: float, limit: RateLimit) -> Fraction:
        assert limit.rate is not None
        return min(Fraction(limit.burst), self.count + Fraction(limit.rate) * (Fraction(now) - self.at))


def pattern_of(name: str, patterns: Mapping[str, object]) -> str | None:
    """The pattern that counts for a key."""
    fit = [each for each in patterns if each == name or (each.endswith("*") and name.startswith(each[:-1]))]
    return max(fit, key=lambda each: (len(each.removesuffix("*")), not each.endswith("*")), default=None)


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
    key_limits: dict[str, RateLimit] = field(default_factory=dict)
    used: dict[str, Tokens] = field(default_factory=dict)
    unused: dict[str, Tokens] = field(default_factory=dict)
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

    def tokens_of(self, now: float, name: str) -> Fraction | None:
        """The tokens of a key; None if it needs none."""
        pattern = pattern_of(name, self.key_limits)
        if pattern is None or self.key_limits[pattern].rate is None:
            return None
        return self.used.get(name, self.unused[pattern]).now(now, self.key_limits[pattern])

    def set_key_limits(self, now: float, limits: dict[str, RateLimit]) -> None:
        """A used key takes its tokens along, one that is as full as an unused one counts as such."""
        before, unused = self.key_limits, self.unused
        self.used = {
            name: Tokens(tokens, Fraction(now))
            for name in self.used
            if (tokens := self.tokens_of(now, name)) is not None
            and (old := pattern_of(name, before)) is not None
            and tokens != unused[old].now(now, before[old])
        }
        self.key_limits, self.unused = limits, {}
        for pattern, limit in limits.items():
            if limit.rate is not None:
                old = pattern_of(pattern.removesuffix("*"), before)
                known = old is not None and before[old].rate is not None
                count = unused[old].now(now, before[old]) if known else Fraction(limit.burst)
                self.unused[pattern] = Tokens(min(Fraction(limit.burst), count), Fraction(now))
        for name in list(self.used):
            pattern = pattern_of(name, limits)
            if pattern is None or limits[pattern].rate is None:
                del self.used[name]
            else:
                self.used[name].count = min(Fraction(limits[pattern].burst), self.used[name].count)

    def is_full(self, now: float, name: str) -> bool:
        """Whether a key has no place or no token."""
        pattern = pattern_of(name, self.key_limits)
        if pattern is None:
            return False
        places, tokens = self.key_limits[pattern].places, self.tokens_of(now, name)
        flying = [job for job in self.jobs.values() if job.holder and name in keys_of(job.submission)]
        return (places is not None and len(flying) >= places) or (tokens is not None and tokens < 1)

    def full_keys(self, now: float) -> set[str]:
        """The keys of all waiting tasks that have no place or no token."""
        names = {name for job in self.jobs.values() if job.state == "queued" for name in keys_of(job.submission)}
        return {name for name in names if self.is_full(now, name)}

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
        for name in keys_of(job.submission):
            if (tokens := self.tokens_of(now, name)) is not None:
                self.used[name] = Tokens(tokens - 1, Fraction(now))
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
