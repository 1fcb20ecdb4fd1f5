"""The order of claims: each one is compared with the choice that brute force makes.

`BruteForce` is written from DESIGN's rules alone and shares no code with the core: it keeps plain lists, looks at every
task for every claim, and knows nothing of buckets, lanes, ranks or ticks. `Twins` gives every command to both.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from taskyard_server.core.hosts import HostProfile, Tabs
from taskyard_server.core.limits import Limits
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.task import Submission, TaskOptions

EIGHTH = 0.125
JUST_BEFORE = 0.0625
"""All times end just before an eighth of a second, and the clock moves in eighths: so it is exact what is over."""


@dataclass(frozen=True)
class Machine:
    """A host as the brute force sees it."""

    capabilities: frozenset[str] = frozenset()
    project: str | None = None
    actions: frozenset[str] | None = None
    tabs: str = "any"
    built_in: bool = False

    def for_core(self) -> HostProfile:
        tabs = {"any": Tabs.ANY, "only": Tabs.ONLY, "or plain": Tabs.OR_PLAIN}[self.tabs]
        return HostProfile(self.capabilities, self.project, self.actions, tabs)


@dataclass
class Job:
    """A task as the brute force sees it. `holder` is the host that has it, until `held_until`."""

    order: int
    asked: Submission
    deadline: float
    state: str = "queued"
    token: int = 0
    deliveries: int = 0
    holder: str | None = None
    held_secs: float = 0
    held_until: float = 0
    over_at: float = 0


@dataclass
class BruteForce:
    """The rules of DESIGN (Claim order, Leases, Deadlines, Hosts, The tab executor), as plainly as they can be put."""

    max_inflight: int
    max_per_agent_inflight: int
    max_deliveries: int
    ttl_secs: float
    online_secs: float
    jobs: dict[str, Job] = field(default_factory=dict)
    hosts: dict[str, Machine] = field(default_factory=dict)
    heard: dict[str, float] = field(default_factory=dict)
    turns: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Per agent: (1, when it was last served); (0, when it came) for one that was never served."""
    count: int = 0

    def submit(self, job_id: str, asked: Submission, deadline: float) -> None:
        self.count += 1
        self.jobs[job_id] = Job(self.count, asked, deadline)
        self.turns.setdefault(asked.agent_id, (0, self.count))

    def loads(self) -> Counter[str]:
        """How many tasks each agent has in flight."""
        return Counter(job.asked.agent_id for job in self.jobs.values() if job.state in ("assigned", "running"))

    def may_run(self, now: float, host: str, asked: Submission) -> bool:
        machine = self.hosts[host]
        plain = asked.tab_id is None and not asked.options.requires
        tabs = machine.tabs
        if machine.built_in:
            online = any(
                now - self.heard[other] <= self.online_secs for other, its in self.hosts.items() if not its.built_in
            )
            tabs = "only" if online else "or plain"
        return (
            asked.options.requires <= machine.capabilities
            and machine.project in (None, asked.options.project)
            and (machine.actions is None or asked.action in machine.actions)
            and (tabs == "any" or asked.tab_id is not None or (tabs == "or plain" and plain))
        )

    def claim(self, now: float, host: str, secs: float) -> str | None:
        """The task that this host gets now."""
        load = self.loads()
        if load.total() >= self.max_inflight:
            return None
        eligible = {
            job_id: job
            for job_id, job in self.jobs.items()
            if job.state == "queued" and job.deadline > now and self.may_run(now, host, job.asked)
        }
        agents = {job.asked.agent_id for job in eligible.values()}
        free = [agent for agent in agents if load[agent] < self.max_per_agent_inflight]
        if not free:
            return None
        agent = min(free, key=lambda agent: (load[agent], self.turns[agent]))
        own = [job_id for job_id, job in eligible.items() if job.asked.agent_id == agent]
        first = min(own, key=lambda job_id: (self.jobs[job_id].asked.priority, self.jobs[job_id].order))
        self.count += 1
        self.turns[agent] = (1, self.count)
        job = self.jobs[first]
        job.state = "assigned"
        job.token += 1
        job.deliveries += 1
        job.holder, job.held_secs, job.held_until = host, secs, now + secs
        return first

    def requeue(self, job: Job) -> None:
        job.state, job.holder = "queued", None

    def end(self, now: float, job: Job, state: str) -> None:
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
        known = {job.asked.agent_id for job in self.jobs.values()}
        self.turns = {agent: turn for agent, turn in self.turns.items() if agent in known}


LIVE = ("queued", "assigned", "running")


class Twins:
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
        """Whether time has passed that nobody acted on yet, as after a stall."""
        self.story: list[str] = []
        self.claims = 0

    def tell(self, what: str) -> None:
        self.story.append(f"{self.now:.3f} {what}")

    def recent(self) -> str:
        return "the last steps were\n" + "\n".join(self.story[-30:])

    # What can be asked about

    def queued(self) -> list[str]:
        return [job_id for job_id, job in self.brute.jobs.items() if job.state == "queued" and job.deadline > self.now]

    def held(self) -> list[str]:
        return [job_id for job_id, job in self.brute.jobs.items() if job.holder]

    # What can be done

    def submit(self, asked: Submission) -> None:
        task = self.core.submit(self.now, asked)
        self.brute.submit(task.id, asked, task.deadline)
        self.tell(f"submit {asked} as {task.id}")

    def register(self, host: str, machine: Machine) -> None:
        self.core.register(self.now, host, None, machine.for_core(), built_in=machine.built_in)
        self.brute.hosts[host] = machine
        self.brute.heard[host] = self.now
        self.tell(f"register {host} {machine}")

    def deregister(self, host: str) -> None:
        self.core.deregister(self.now, host)
        del self.brute.hosts[host]
        for job in self.brute.jobs.values():
            if job.holder == host:
                self.brute.requeue(job)
        self.tell(f"deregister {host}")

    def claim(self, host: str, count: int, secs: float) -> None:
        self.brute.heard[host] = self.now
        leases = self.core.claim(self.now, host, count, secs)
        got = [(lease.task.id, lease.token) for lease in leases]
        self.tell(f"claim {host} {count} {secs} got {got}")
        wanted = []
        while len(wanted) < count and (job_id := self.brute.claim(self.now, host, secs)):
            wanted.append((job_id, self.brute.jobs[job_id].token))
        assert got == wanted, self.recent()
        self.claims += len(got)

    def report(self, what: str, job_id: str) -> None:
        job = self.brute.jobs[job_id]
        assert job.holder
        self.brute.heard[job.holder] = self.now
        self.tell(f"{what} {job_id} by {job.holder}")
        lease = (self.now, job.holder, job_id, job.token)
        if what == "complete":
            self.core.reports.complete(*lease, None)
            self.brute.end(self.now, job, "done")
        elif what == "fail":
            self.core.reports.fail(*lease, "broken")
            self.brute.end(self.now, job, "failed")
        elif what == "release":
            self.core.reports.release(*lease)
            job.deliveries -= 1
            self.brute.requeue(job)
        elif what == "renew":
            self.core.reports.renew(*lease)
            job.held_until = max(job.held_until, self.now + job.held_secs)
        elif job.state == "assigned":
            self.core.reports.start(*lease)
            job.state = "running"

    def cancel(self, job_id: str) -> None:
        self.core.cancel(self.now, job_id)
        self.brute.end(self.now, self.brute.jobs[job_id], "cancelled")
        self.tell(f"cancel {job_id}")

    def limit(self, max_inflight: int, max_per_agent_inflight: int) -> None:
        kept = {each.name: getattr(self.limits, each.name) for each in fields(Limits)}
        self.limits = Limits(**{**kept, "max_inflight": max_inflight, "max_per_agent_inflight": max_per_agent_inflight})
        self.core.reconfigure(self.limits)
        self.brute.max_inflight, self.brute.max_per_agent_inflight = max_inflight, max_per_agent_inflight
        self.tell(f"limit {max_inflight} {max_per_agent_inflight}")

    def stall(self, eighths: int) -> None:
        """Time passes, and nobody looks."""
        self.now += eighths * EIGHTH
        self.behind = True
        self.tell("stall")

    def pass_time(self, eighths: int) -> None:
        self.now += eighths * EIGHTH
        while self.core.advance(self.now, max_items=3):
            pass
        self.brute.advance(self.now)
        self.behind = False
        self.tell("time passed")

    def compare(self) -> None:
        """Every task is in the same state, and the figures agree."""
        if self.behind:
            return
        jobs = self.brute.jobs
        states = {task.id: (task.state.value, task.token) for task in self.core.tasks_after(0)}
        assert states == {job_id: (job.state, job.token) for job_id, job in jobs.items()}, self.recent()
        stats = self.core.stats()
        load = self.brute.loads()
        assert stats.inflight == load.total(), self.recent()
        inflight = {agent: figures.inflight for agent, figures in stats.agents.items()}
        assert inflight == {agent: load[agent] for agent in self.brute.turns}, self.recent()


@dataclass(frozen=True)
class World:
    """What the random histories are made of: how many of everything, and how often each command is given."""

    agents: int = 6
    actions: int = 2
    alike: bool = False
    backlog: int = 60
    max_inflight: int = 40
    max_per_agent_inflight: int = 4
    ttl_secs: float = 1e9
    submits: int = 20
    claims: int = 10
    reports: int = 12
    cancels: int = 1
    passes: int = 1
    stalls: int = 0
    limits: int = 0


WORLDS = {
    "a few agents": World(),
    "many agents": World(agents=300, backlog=150, max_inflight=60, max_per_agent_inflight=2),
    "one agent": World(agents=1, max_per_agent_inflight=10),
    "many kinds that come and go": World(actions=400, backlog=40),
    "tight limits that move": World(max_inflight=5, max_per_agent_inflight=2, limits=1),
    "most tasks are cancelled": World(agents=3, alike=True, backlog=200, submits=30, cancels=25, claims=3, reports=3),
    "most agents come once": World(agents=2000, alike=True, backlog=12, submits=30, cancels=15),
    "agents are forgotten and come back": World(agents=40, backlog=20, ttl_secs=4, passes=3),
    "time passes unseen": World(stalls=2),
}
MACHINES = [
    Machine(),
    Machine(frozenset({"gpu"})),
    Machine(frozenset({"gpu", "eu"})),
    Machine(project="red"),
    Machine(frozenset({"eu"}), project="blue", actions=frozenset({"action-0"})),
    Machine(actions=frozenset({"action-1"})),
    Machine(tabs="only"),
    Machine(frozenset({"eu"}), tabs="or plain"),
]
ABLE = Machine(frozenset({"gpu", "eu"}))
BUILT_IN = Machine(built_in=True)
SECS = [2 - JUST_BEFORE, 4 - JUST_BEFORE, 10 - JUST_BEFORE]


def some_task(draw: Random, world: World, now: float) -> Submission:
    agent, action = f"agent-{draw.randrange(world.agents)}", f"action-{draw.randrange(world.actions)}"
    deadline = draw.choice([None, None, now + draw.randrange(8, 200) * EIGHTH - JUST_BEFORE])
    asked = Submission(agent, action, priority=draw.choice([-3, -1, 0, 0, 0, 1, 7]), deadline=deadline)
    if world.alike:
        return asked
    requires = draw.choice([(), (), ("gpu",), ("eu",), ("gpu", "eu")])
    options = TaskOptions(project=draw.choice([None, "red", "blue"]), requires=frozenset(requires))
    return asked._replace(tab_id=draw.choice([None, "tab"]), options=options)


def take_a_step(twins: Twins, draw: Random, world: World) -> None:
    def submit() -> None:
        if len(twins.queued()) < world.backlog:
            twins.submit(some_task(draw, world, twins.now))

    def claim() -> None:
        host = draw.choice(["host-0", *twins.brute.hosts])
        twins.claim(host, draw.choice([1, 1, 1, 2, 5]), draw.choice(SECS))

    def report() -> None:
        if held := twins.held():
            twins.report(draw.choice(["start", "renew", "complete", "complete", "fail", "release"]), draw.choice(held))

    def cancel() -> None:
        if live := twins.queued() + twins.held():
            twins.cancel(draw.choice(live))

    def change_hosts() -> None:
        host = f"host-{draw.randrange(1, 6)}"
        if host in twins.brute.hosts:
            twins.deregister(host)
        else:
            twins.register(host, draw.choice(MACHINES))

    def limit() -> None:
        twins.limit(draw.randrange(1, 12), draw.randrange(1, 5))

    commands: dict[Callable[[], None], int] = {
        submit: world.submits,
        claim: world.claims,
        report: world.reports,
        cancel: world.cancels,
        change_hosts: 1,
        limit: world.limits,
        lambda: twins.pass_time(draw.choice([1, 1, 1, 2, 4, 8, 50])): world.passes,
        lambda: twins.stall(draw.choice([1, 4, 20])): world.stalls,
    }
    draw.choices(list(commands), list(commands.values()))[0]()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", WORLDS)
def test_each_claim_equals_the_choice_of_brute_force(name, seed):
    world = WORLDS[name]
    draw = Random(f"{name} {seed}")
    twins = Twins(world.max_inflight, world.max_per_agent_inflight, world.ttl_secs)
    twins.register("built-in", BUILT_IN)
    twins.register("host-0", ABLE)
    print(f"seed {name!r} {seed}")
    for step in range(2500):
        take_a_step(twins, draw, world)
        if step % 20 == 0:
            twins.compare()
    twins.pass_time(0)
    twins.compare()
    assert twins.claims > 100


class AnyHistory(RuleBasedStateMachine):
    """Histories that hypothesis makes up, and shrinks where the two disagree."""

    def __init__(self) -> None:
        super().__init__()
        self.twins = Twins(max_inflight=6, max_per_agent_inflight=2, ttl_secs=10)
        self.twins.register("built-in", BUILT_IN)

    @rule(
        agent=st.sampled_from(["ann", "bob", "cy", "dee"]),
        action=st.sampled_from(["action-0", "action-1"]),
        tab=st.sampled_from([None, "tab"]),
        priority=st.integers(-1, 1),
        project=st.sampled_from([None, "red"]),
        requires=st.sampled_from([frozenset(), frozenset({"gpu"}), frozenset({"eu"})]),
        times=st.integers(1, 3),
    )
    def submit(self, agent, action, tab, priority, project, requires, times):
        options = TaskOptions(project=project, requires=requires)
        for _ in range(times):
            self.twins.submit(Submission(agent, action, tab, priority=priority, options=options))

    @rule(
        host=st.sampled_from(["host-1", "host-2"]),
        machine=st.sampled_from([ABLE, Machine(), Machine(frozenset({"gpu"}), project="red")]),
    )
    def register(self, host, machine):
        self.twins.register(host, machine)

    @precondition(lambda self: len(self.twins.brute.hosts) > 1)
    @rule()
    def deregister(self):
        self.twins.deregister(max(self.twins.brute.hosts))

    @rule(host=st.integers(0, 2), count=st.integers(1, 3), secs=st.sampled_from(SECS))
    def claim(self, host, count, secs):
        hosts = sorted(self.twins.brute.hosts)
        self.twins.claim(hosts[host % len(hosts)], count, secs)

    @precondition(lambda self: self.twins.held())
    @rule(
        what=st.sampled_from(["complete", "fail", "release", "start", "renew"]),
        which=st.integers(0, 5),
    )
    def report(self, what, which):
        held = self.twins.held()
        self.twins.report(what, held[which % len(held)])

    @precondition(lambda self: self.twins.queued() or self.twins.held())
    @rule(which=st.integers(0, 30))
    def cancel(self, which):
        live = self.twins.queued() + self.twins.held()
        self.twins.cancel(live[which % len(live)])

    @rule(eighths=st.sampled_from([1, 8, 20, 60, 500]))
    def pass_time(self, eighths):
        self.twins.pass_time(eighths)

    @rule(max_inflight=st.integers(1, 8), max_per_agent=st.integers(1, 3))
    def limit(self, max_inflight, max_per_agent):
        self.twins.limit(max_inflight, max_per_agent)

    @invariant()
    def agree(self):
        self.twins.compare()


def test_no_history_that_hypothesis_finds_tells_core_and_brute_force_apart():
    thorough = settings(max_examples=200, stateful_step_count=60, deadline=None, print_blob=True)
    run_state_machine_as_test(AnyHistory, settings=thorough)
