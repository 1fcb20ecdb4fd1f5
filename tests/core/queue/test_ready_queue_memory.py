"""The ready queue under many kinds, agents and hosts: it forgets those that are gone, and keeps its order."""

import pytest

from taskyard_server.core.figures.figures import stats_of
from taskyard_server.core.hosts import Tabs

pytestmark = pytest.mark.gate("counts the instructions and the memory of large queues")


def idle(yard, rounds, submit):
    """Submit tasks, and cancel each before it is claimed."""
    for number in range(rounds):
        yard.cancel(submit(number))
        yard.pass_time(0.125)
        yard.transitions()


def test_made_up_kinds_take_no_memory_for_longer_than_their_tasks(make_yard, object_count):
    yard = make_yard(result_ttl_secs=1)
    yard.register("elsewhere", tabs=Tabs.ONLY)

    def submit(number):
        task = yard.submit(action=f"action-{number}", project=f"project-{number}")
        assert yard.claim("elsewhere") == []
        return task

    idle(yard, 500, submit)
    before = object_count(yard.scheduler)
    idle(yard, 5_000, lambda number: submit(500 + number))
    assert object_count(yard.scheduler) < before * 1.5


def test_made_up_kinds_whose_tasks_are_done_take_no_memory_in_agents_that_stay(make_yard, object_count):
    yard = make_yard(result_ttl_secs=1)
    yard.register()

    def work(first, count):
        for number in range(first, first + count):
            for agent in ("ann", "bob"):
                yard.submit(agent, f"action-{number}")
            for lease in yard.claim(count=2):
                yard.complete(lease)
            yard.pass_time(0.125)
            yard.transitions()

    work(0, 500)
    before = object_count(yard.scheduler)
    work(500, 5_000)
    assert object_count(yard.scheduler) < before * 1.5


def test_made_up_profiles_of_hosts_take_no_memory_once_the_hosts_have_left(yard, object_count):
    """The buckets of a profile are cached, for at most 1,024 profiles."""
    yard.submit()

    def come_and_go(first, count):
        for number in range(first, first + count):
            yard.register("host", f"skill-{number}")
            yard.release(yard.claim_one())
            yard.deregister()
            yard.transitions()

    come_and_go(0, 1_024)
    before = object_count(yard.scheduler)
    come_and_go(1_024, 5_000)
    assert object_count(yard.scheduler) < before * 1.5


def test_a_sweep_of_empty_buckets_forgets_no_waiting_task(yard):
    """Buckets are swept while others hold tasks."""
    yard.register()
    kept = [yard.submit(action=f"kept-{number}", deadline=yard.now + 1_000) for number in range(20)]
    idle(yard, 1_000, lambda number: yard.submit("bob", action=f"action-{number}"))
    assert [lease.task for lease in yard.claim(count=100)] == kept


def test_agents_that_left_are_forgotten(make_yard, object_count):
    yard = make_yard(result_ttl_secs=1, max_agent_figures=10)
    yard.register()
    idle(yard, 500, lambda number: yard.submit(f"agent-{number}"))
    before = object_count(yard.scheduler)
    idle(yard, 5_000, lambda number: yard.submit(f"new-{number}"))
    assert object_count(yard.scheduler) < before * 1.5
    yard.pass_time(2)
    assert len(stats_of(yard.scheduler).agents) == 10 + 1


def test_agents_whose_tasks_were_done_are_forgotten_too(make_yard, object_count):
    yard = make_yard(result_ttl_secs=1, max_agent_figures=10)
    yard.register()

    def work(first, count):
        for number in range(first, first + count):
            yard.submit(f"agent-{number}")
            yard.complete(yard.claim_one())
            yard.pass_time(0.125)
            yard.transitions()

    work(0, 500)
    before = object_count(yard.scheduler)
    work(500, 5_000)
    assert object_count(yard.scheduler) < before * 1.5


def test_agents_that_come_and_go_do_not_disturb_the_order_of_those_that_wait(yard):
    """Empty lanes are dropped while others wait under outdated ranks."""
    yard.register()
    names = [f"agent-{number}" for number in range(60)]
    inflight, served = dict.fromkeys(names, 0), {name: number for number, name in enumerate(names)}
    for name in names:
        for _ in range(4):
            yard.submit(name)
    landing = []
    for turn in range(60, 200):
        agent = min(names, key=lambda name: (inflight[name], served[name]))
        lease = yard.claim_one()
        assert lease.task.agent_id == agent
        inflight[agent] += 1
        served[agent] = turn
        landing.append(lease)
        if turn % 3 == 0:
            lease = landing.pop(turn * 7 % len(landing))
            inflight[lease.task.agent_id] -= 1
            yard.complete(lease)
        if turn % 10 == 0:
            for number in range(300):
                yard.cancel(yard.submit(f"guest-{turn}-{number}"))


def test_an_agent_that_was_forgotten_comes_back_as_a_new_one(make_yard):
    yard = make_yard(result_ttl_secs=1)
    yard.register()
    yard.submit("ann")
    yard.submit("bob")
    for lease in yard.claim(count=2):
        yard.complete(lease)
    yard.submit("ann")
    yard.pass_time(2)
    yard.submit("bob")
    assert [lease.task.agent_id for lease in yard.claim(count=2)] == ["bob", "ann"]


def test_a_lane_with_many_cancelled_tasks_is_compacted(make_yard, object_count):
    """One agent keeps 100 tasks waiting, of which a high priority one stays on top, and cancels all others."""
    yard = make_yard(result_ttl_secs=1)
    yard.register()
    waiting = [yard.submit(priority=-1, deadline=yard.now + 100_000) for _ in range(100)]
    idle(yard, 500, lambda _: yard.submit())
    before = object_count(yard.scheduler)
    idle(yard, 5_000, lambda _: yard.submit())
    assert object_count(yard.scheduler) < before * 4
    assert [lease.task for lease in yard.claim(count=200)] == waiting


def test_a_compacted_lane_keeps_its_order(yard):
    yard.register()
    tasks = [yard.submit(priority=number * 7 % 10) for number in range(1_000)]
    for task in tasks[::2] + tasks[1::4]:
        yard.cancel(task)
    left = sorted(tasks[3::4], key=lambda task: (task.priority, task.seq))
    assert [lease.task for lease in yard.claim(count=1_000)] == left


def test_ten_thousand_agents_are_served_in_rotation(yard):
    """First in the order in which the agents came, then in the order in which they were served."""
    yard.register()
    names = [f"agent-{number}" for number in range(10_000)]
    for _ in range(3):
        for name in names:
            yard.submit(name)

    leases = [yard.claim_one() for _ in names]
    assert [lease.task.agent_id for lease in leases] == names
    for lease in reversed(leases):
        yard.complete(lease)

    leases = [yard.claim_one() for _ in names]
    assert [lease.task.agent_id for lease in leases] == names
    landed = leases[3::10]
    for lease in landed:
        yard.complete(lease)

    leases = [yard.claim_one() for _ in names]
    early = names[3::10]
    late = [name for number, name in enumerate(names) if number % 10 != 3]
    assert [lease.task.agent_id for lease in leases] == early + late
    assert yard.claim() == []


def test_hosts_of_many_profiles_share_ten_thousand_agents_fairly(make_yard):
    """No agent gets a second task of a kind while another has none of that kind."""
    yard = make_yard(max_per_agent_inflight=100)
    for action in ("click", "scroll"):
        yard.register(action, actions=frozenset({action}))
        for _ in range(2):
            for number in range(5_000):
                yard.submit(f"{action}-{number}", action)
    for _ in range(5_000):
        yard.claim_one("click")
        yard.claim_one("scroll")
    assert {agent.inflight for agent in stats_of(yard.scheduler).agents.values()} == {1}
