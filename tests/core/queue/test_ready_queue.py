"""The order of claims: each claim is compared with the choice of brute force (docs/rules.md, Claim order)."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from taskyard_server.core.task import NO_EXTRAS, Submission
from taskyard_server.core.task_options import TaskExtras, TaskOptions
from tests.core.brute_force import HostKind
from tests.core.queue.naive_keys import RateLimit
from tests.core.twin_schedulers import EIGHTH, JUST_BEFORE, TwinSchedulers
from tests.effort import times
from tests.tiers import spread


@dataclass(frozen=True)
class Mix:
    """How many of everything a random history has, and how often it gives each command."""

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
    keys: int = 0
    shared_keys: int = 0
    key_limits: int = 0
    rates: bool = False
    weights: int = 0


MIXES = {
    "a few agents": Mix(),
    "many agents": Mix(agents=300, backlog=150, max_inflight=60, max_per_agent_inflight=2),
    "one agent": Mix(agents=1, max_per_agent_inflight=10),
    "many kinds that come and go": Mix(actions=400, backlog=40),
    "tight limits that move": Mix(max_inflight=5, max_per_agent_inflight=2, limits=1),
    "most tasks are cancelled": Mix(agents=3, alike=True, backlog=200, submits=30, cancels=25, claims=3, reports=3),
    "most agents come once": Mix(agents=2000, alike=True, backlog=12, submits=30, cancels=15),
    "agents are forgotten and come back": Mix(agents=40, backlog=20, ttl_secs=4, passes=3),
    "time passes unseen": Mix(stalls=2),
    "keys": Mix(keys=4, key_limits=1),
    "keys of their own and shared ones": Mix(keys=30, shared_keys=2, key_limits=1, backlog=200, submits=25),
    "many agents share few keys": Mix(agents=60, keys=3, shared_keys=1, key_limits=1, backlog=200, submits=30),
    "one agent and many keys": Mix(
        agents=1, keys=80, shared_keys=1, key_limits=1, backlog=200, max_per_agent_inflight=40
    ),
    "alike but for keys": Mix(agents=30, alike=True, keys=6, shared_keys=2, key_limits=1, backlog=300, submits=40),
    "keys with rates": Mix(keys=5, shared_keys=1, key_limits=1, rates=True, passes=6),
    "keys with rates under tight limits": Mix(
        max_inflight=5, max_per_agent_inflight=2, limits=1, keys=3, shared_keys=1, key_limits=1, rates=True, passes=6
    ),
    "keys and agents that are forgotten": Mix(
        agents=40, backlog=20, ttl_secs=4, passes=3, keys=200, key_limits=1, rates=True
    ),
    "most tasks with keys are cancelled": Mix(
        agents=3, keys=5, shared_keys=2, backlog=200, submits=30, cancels=25, claims=3, reports=3, key_limits=1
    ),
    "weights that change": Mix(weights=1),
    "weights of many agents with few places": Mix(agents=40, backlog=200, max_inflight=7, weights=1),
    "weights and limits that move": Mix(max_inflight=12, max_per_agent_inflight=3, limits=1, weights=2),
    "weights of agents that are forgotten and come back": Mix(agents=40, backlog=20, ttl_secs=4, passes=3, weights=1),
}
HOST_KINDS = [
    HostKind(),
    HostKind(frozenset({"gpu"})),
    HostKind(frozenset({"gpu", "eu"})),
    HostKind(project="red"),
    HostKind(frozenset({"eu"}), project="blue", actions=frozenset({"action-0"})),
    HostKind(actions=frozenset({"action-1"})),
    HostKind(tabs="only"),
    HostKind(frozenset({"eu"}), tabs="or plain"),
]
ABLE = HostKind(frozenset({"gpu", "eu"}))
BUILT_IN = HostKind(built_in=True, tabs="or plain")
SECS = [2 - JUST_BEFORE, 4 - JUST_BEFORE, 10 - JUST_BEFORE]


def some_keys(draw: Random, mix: Mix) -> TaskExtras:
    names = [f"site:{draw.randrange(mix.keys)}"] if mix.keys and draw.random() < 0.8 else []
    names += [f"all:{number}" for number in range(mix.shared_keys) if draw.random() < 0.4]
    return TaskExtras(concurrency_keys=tuple(sorted(names))) if names else NO_EXTRAS


def some_key_limits(draw: Random, mix: Mix) -> dict[str, RateLimit]:
    def one() -> RateLimit:
        places = draw.choice([None, 0, 1, 1, 2, 3, 8])
        if not mix.rates or draw.random() < 0.3:
            return RateLimit(places)
        return RateLimit(places, draw.choice([0.3, 0.5, 1.0, 2.5, 8.0, 100.0]), draw.choice([1, 1, 2, 5]))

    patterns = ["*", "site:*", "site:1*", "site:2", "all:*", "all:0"]
    return {pattern: one() for pattern in patterns if draw.random() < 0.4}


def some_task(draw: Random, mix: Mix, now: float) -> Submission:
    agent, action = f"agent-{draw.randrange(mix.agents)}", f"action-{draw.randrange(mix.actions)}"
    deadline = draw.choice([None, None, now + draw.randrange(8, 200) * EIGHTH - JUST_BEFORE])
    submission = Submission(agent, action, priority=draw.choice([-3, -1, 0, 0, 0, 1, 7]), deadline=deadline)
    extras = some_keys(draw, mix)
    if mix.alike:
        return submission._replace(options=TaskOptions(extras=extras))
    requires = draw.choice([(), (), ("gpu",), ("eu",), ("gpu", "eu")])
    options = TaskOptions(project=draw.choice([None, "red", "blue"]), requires=frozenset(requires), extras=extras)
    return submission._replace(tab_id=draw.choice([None, "tab"]), options=options)


def take_a_step(twins: TwinSchedulers, draw: Random, mix: Mix) -> None:
    def submit() -> None:
        if len(twins.queued()) < mix.backlog:
            twins.submit(some_task(draw, mix, twins.now))

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
            twins.register(host, draw.choice(HOST_KINDS))

    def limit() -> None:
        twins.limit(draw.randrange(1, 12), draw.randrange(1, 5))

    def weigh() -> None:
        patterns = ["*", "agent-*", "agent-1*", "agent-2*", *[f"agent-{number}" for number in range(6)]]
        chosen = draw.sample(patterns, draw.choice([0, 1, 3, 6]))
        twins.weigh({pattern: draw.choice([1, 2, 3, 4, 7, 1000]) for pattern in chosen})

    commands: dict[Callable[[], None], int] = {
        submit: mix.submits,
        claim: mix.claims,
        report: mix.reports,
        cancel: mix.cancels,
        change_hosts: 1,
        limit: mix.limits,
        lambda: twins.limit_keys(some_key_limits(draw, mix)): mix.key_limits,
        weigh: mix.weights,
        lambda: twins.pass_time(draw.choice([1, 1, 1, 2, 4, 8, 50])): mix.passes,
        lambda: twins.stall(draw.choice([1, 4, 20])): mix.stalls,
    }
    draw.choices(list(commands), list(commands.values()))[0]()


@pytest.mark.parametrize("seed", spread(range(12), gate=1))
@pytest.mark.parametrize("name", MIXES)
def test_each_claim_equals_the_choice_of_brute_force(name, seed):
    mix = MIXES[name]
    draw = Random(f"{name} {seed}")
    twins = TwinSchedulers(mix.max_inflight, mix.max_per_agent_inflight, mix.ttl_secs)
    twins.register("built-in", BUILT_IN)
    twins.register("host-0", ABLE)
    print(f"seed {name!r} {seed}")
    for step in range(2500):
        take_a_step(twins, draw, mix)
        if step % 20 == 0:
            twins.compare()
    twins.pass_time(0)
    twins.compare()
    assert twins.claims > 100


class AnyHistory(RuleBasedStateMachine):
    """Histories that hypothesis chooses, and shrinks where the two disagree."""

    def __init__(self) -> None:
        super().__init__()
        self.twins = TwinSchedulers(max_inflight=6, max_per_agent_inflight=2, ttl_secs=10)
        self.twins.register("built-in", BUILT_IN)

    @rule(
        agent=st.sampled_from(["ann", "bob", "cy", "dee"]),
        action=st.sampled_from(["action-0", "action-1"]),
        tab=st.sampled_from([None, "tab"]),
        priority=st.integers(-1, 1),
        project=st.sampled_from([None, "red"]),
        requires=st.sampled_from([frozenset(), frozenset({"gpu"}), frozenset({"eu"})]),
        keys=st.sampled_from([(), ("a",), ("a:1",), ("a", "a:1"), ("a:1", "b")]),
        times=st.integers(1, 3),
    )
    def submit(self, agent, action, tab, priority, project, requires, keys, times):
        extras = TaskExtras(concurrency_keys=keys) if keys else NO_EXTRAS
        options = TaskOptions(project=project, requires=requires, extras=extras)
        for _ in range(times):
            self.twins.submit(Submission(agent, action, tab, priority=priority, options=options))

    @rule(
        host=st.sampled_from(["host-1", "host-2"]),
        kind=st.sampled_from([ABLE, HostKind(), HostKind(frozenset({"gpu"}), project="red")]),
    )
    def register(self, host, kind):
        self.twins.register(host, kind)

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
        kind=st.sampled_from(["complete", "fail", "release", "start", "renew"]),
        which=st.integers(0, 5),
    )
    def report(self, kind, which):
        held = self.twins.held()
        self.twins.report(kind, held[which % len(held)])

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

    @rule(
        limits=st.dictionaries(
            st.sampled_from(["*", "a*", "a:1", "b"]),
            st.builds(
                RateLimit,
                st.sampled_from([None, 0, 1, 2]),
                st.sampled_from([None, 0.5, 3.0]),
                st.sampled_from([1, 3]),
            ),
        )
    )
    def limit_keys(self, limits):
        self.twins.limit_keys(limits)

    @rule(
        weights=st.dictionaries(
            st.sampled_from(["*", "ann", "bob", "c*", "cy", "dee"]), st.sampled_from([1, 2, 3, 5, 1000]), max_size=4
        )
    )
    def weigh(self, weights):
        self.twins.weigh(weights)

    @invariant()
    def agree(self):
        self.twins.compare()


def test_core_and_brute_force_agree_in_every_history_that_hypothesis_finds():
    thorough = settings(max_examples=times(40), stateful_step_count=60, deadline=None, print_blob=True)
    run_state_machine_as_test(AnyHistory, settings=thorough)
