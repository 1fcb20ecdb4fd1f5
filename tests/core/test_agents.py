"""Agents: a record goes with its last task, the figures of the newest agents are kept (docs/rules.md, Figures)."""

from collections import Counter
from random import Random

import pytest

from taskyard_server.core.agents import OTHERS
from taskyard_server.core.errors import QueueFull
from taskyard_server.core.figures.figures import stats_of

COUNTS = ("submitted", "completed", "failed", "cancelled", "rejected", "tokens_used")


@pytest.fixture
def make_yard(make_yard):
    """Makes a yard where ended tasks are forgotten after a second."""
    return lambda **limits: make_yard(**{"result_ttl_secs": 1, **limits})


def come_and_go(yard, *agents):
    """Each of these agents has a task that ends, and that is forgotten."""
    for agent in agents:
        yard.cancel(yard.submit(agent))
        yard.pass_time(1.2)


def submitted(yard):
    return {agent: figures.submitted for agent, figures in stats_of(yard.scheduler).agents.items()}


def test_figures_outlive_the_tasks_of_their_agent(make_yard):
    yard = make_yard()
    yard.register()
    yard.submit()
    lease = yard.claim_one()
    yard.scheduler.reports.complete(yard.now, "host", lease.task.id, lease.token, None, 7)
    come_and_go(yard, "ann")
    assert yard.tasks() == []
    figures = stats_of(yard.scheduler).agents["ann"]
    assert [getattr(figures, name) for name in COUNTS] == [2, 1, 0, 1, 0, 7]
    assert (figures.queued, figures.inflight) == (0, 0)


def test_the_figures_of_an_agent_that_comes_back_go_on(make_yard):
    yard = make_yard()
    come_and_go(yard, "ann", "bob", "ann")
    yard.submit("ann")
    assert submitted(yard) == {"ann": 3, "bob": 1}


def test_figures_of_an_agent_whose_tasks_were_all_rejected_are_kept(make_yard):
    yard = make_yard(max_queue_size=1)
    yard.submit("ann", deadline=yard.now + 1_000)
    with pytest.raises(QueueFull):
        yard.submit("bob")
    yard.pass_time(2)
    assert stats_of(yard.scheduler).agents["bob"].rejected == 1


def test_the_figures_of_the_newest_agents_are_kept_and_the_rest_are_summed_under_one_name(make_yard):
    yard = make_yard(max_agent_figures=2)
    come_and_go(yard, "ann", "bob", "ann", "cy", "dee", "dee")
    assert submitted(yard) == {OTHERS: 3, "cy": 1, "dee": 2}


def test_an_agent_whose_figures_were_summed_begins_at_zero_and_nothing_is_counted_twice(make_yard):
    yard = make_yard(max_agent_figures=1)
    come_and_go(yard, "ann", "ann", "bob", "ann")
    assert submitted(yard) == {OTHERS: 3, "ann": 1}


def test_the_figures_of_agents_that_have_tasks_are_kept_also_beyond_the_limit(make_yard):
    yard = make_yard(max_agent_figures=2)
    names = [f"agent-{number}" for number in range(5)]
    tasks = [yard.submit(name, deadline=yard.now + 1_000) for name in names]
    come_and_go(yard, "guest")
    assert submitted(yard) == {**dict.fromkeys(names, 1), OTHERS: 1}
    for task in tasks:
        yard.cancel(task)
    yard.pass_time(1.2)
    assert len(stats_of(yard.scheduler).agents) == 2 + 1
    assert sum(submitted(yard).values()) == 6


def test_a_lowered_limit_holds_from_the_next_agent_that_comes_or_goes(make_yard):
    yard = make_yard(max_agent_figures=10)
    come_and_go(yard, *"abcdef")
    yard.reconfigure(max_agent_figures=2)
    come_and_go(yard, "g")
    assert submitted(yard) == {OTHERS: 5, "f": 1, "g": 1}


@pytest.mark.parametrize("order", [("ann", OTHERS), (OTHERS, "ann")])
def test_an_agent_that_has_the_name_of_the_rest_is_counted_with_it(make_yard, order):
    yard = make_yard(max_agent_figures=0)
    come_and_go(yard, *order)
    live = yard.submit(OTHERS)
    figures = stats_of(yard.scheduler).agents
    assert list(figures) == [OTHERS]
    assert (figures[OTHERS].submitted, figures[OTHERS].queued) == (3, 1)
    yard.cancel(live)
    assert stats_of(yard.scheduler).agents[OTHERS].cancelled == 3


@pytest.mark.parametrize("most", [0, 1, 3, 10])
def test_the_figures_of_all_agents_add_up_to_those_of_the_namespace(make_yard, most):
    draw = Random(most)
    yard = make_yard(max_agent_figures=most, max_queue_size=6)
    yard.register()
    for _ in range(500):
        match draw.randrange(4):
            case 0 | 1:
                try:
                    yard.submit(draw.choice([*"abcdefghij", OTHERS]), deadline=yard.now + 3)
                except QueueFull:
                    continue
            case 2:
                for lease in yard.claim():
                    draw.choice([yard.complete, yard.fail])(lease)
            case _:
                yard.pass_time(draw.choice([0.2, 2]))
    stats = stats_of(yard.scheduler)
    total = Counter()
    for figures in stats.agents.values():
        total.update({name: getattr(figures, name) for name in COUNTS})
    assert total["rejected"] > 0
    assert total["completed"] > 0
    for name in ("submitted", "completed", "failed", "cancelled", "rejected"):
        assert total[name] == getattr(stats.counters, name)


@pytest.mark.python_core
def test_a_new_agent_costs_the_same_however_many_have_tasks(make_yard, instructions):
    def cost(agents):
        yard = make_yard(max_agent_figures=10)
        for number in range(agents):
            yard.submit(f"agent-{number}")
        return instructions(lambda: yard.submit("new"))

    assert cost(5_000) < 1.2 * cost(50)
