"""The order of claims, one rule a test (docs/rules.md, Claim order). `test_ready_queue.py` has random histories."""

import pytest

from taskyard_server.core.hosts import HostProfile
from tests.cases import every_case


def handed_out(yard, count=100, host="host"):
    """Claim all that may be claimed: the tasks in the order of their grants."""
    return [lease.task for lease in yard.claim(host, count)]


def agents(tasks):
    return [task.agent_id for task in tasks]


def test_within_an_agent_the_lower_priority_goes_first_also_below_zero(yard):
    yard.register()
    for priority in (5, -5, 0, 1, -1):
        yard.submit(priority=priority)
    assert [task.priority for task in handed_out(yard)] == [-5, -1, 0, 1, 5]


def test_tasks_of_equal_priority_go_in_order_of_submission_across_kinds(yard):
    yard.register("host", "gpu")
    first = yard.submit(action="click")
    second = yard.submit(action="scroll", tab_id="tab")
    third = yard.submit(action="click", requires=frozenset({"gpu"}))
    fourth = yard.submit(action="click", project="red")
    assert handed_out(yard) == [first, second, third, fourth]


def test_priority_does_not_help_against_other_agents(yard):
    yard.register()
    yard.submit("ann", priority=9)
    yard.submit("bob", priority=0)
    yard.submit("bob", priority=-9)
    assert agents(handed_out(yard, 2)) == ["ann", "bob"]


def test_the_agent_with_the_fewest_tasks_in_flight_goes_first(yard):
    yard.register()
    for agent in ("ann", "ann", "ann", "bob"):
        yard.submit(agent)
    assert agents(handed_out(yard, 3)) == ["ann", "bob", "ann"]
    yard.submit("bob")
    assert agents(handed_out(yard, 1)) == ["bob"]


def test_ties_go_to_the_agent_served_longest_ago(yard):
    yard.register()
    for agent in ("ann", "bob", "cy"):
        yard.submit(agent)
    leases = yard.claim(count=3)
    for agent in ("cy", "bob", "ann"):
        yard.submit(agent)
    for lease in reversed(leases):
        yard.complete(lease)
    assert agents(handed_out(yard)) == ["ann", "bob", "cy"]


def test_an_agent_that_was_never_served_goes_before_all_that_were(yard):
    yard.register()
    yard.submit("ann")
    yard.complete(yard.claim_one())
    yard.submit("ann")
    yard.submit("bob")
    assert agents(handed_out(yard)) == ["bob", "ann"]


def test_agents_that_were_never_served_go_in_the_order_in_which_they_came(yard):
    yard.register()
    for agent in ("cy", "ann", "bob"):
        yard.submit(agent)
    assert agents(handed_out(yard)) == ["cy", "ann", "bob"]


def test_a_task_that_was_released_still_counts_as_served(yard):
    yard.register()
    yard.submit("ann")
    yard.release(yard.claim_one())
    yard.submit("bob")
    assert agents(handed_out(yard)) == ["bob", "ann"]


def give_back(yard, lease):
    yard.release(lease)


def outlive_lease(yard, _):
    yard.pass_time(6)


def lose_host(yard, _):
    yard.deregister()
    yard.register()


@pytest.mark.parametrize("come_back", [give_back, outlive_lease, lose_host])
def test_a_task_that_comes_back_keeps_its_place_by_priority_and_first_submission(yard, come_back):
    yard.register()
    urgent = yard.submit(priority=-1)
    first = yard.submit()
    second = yard.submit()
    assert yard.claim_one(lease_secs=3600).task is urgent
    lease = yard.claim_one(lease_secs=5)
    assert lease.task is first
    yard.submit(priority=1)
    yard.submit()
    come_back(yard, lease)
    back = [urgent] if come_back is lose_host else []
    assert handed_out(yard)[: len(back) + 2] == [*back, first, second]


def test_a_host_gets_only_tasks_whose_requirements_it_meets_all(yard):
    yard.register("plain")
    yard.register("gpu", "gpu")
    yard.register("both", "gpu", "eu")
    plain = yard.submit()
    gpu = yard.submit(requires=frozenset({"gpu"}))
    both = yard.submit(requires=frozenset({"gpu", "eu"}))
    assert handed_out(yard, host="plain") == [plain]
    assert handed_out(yard, host="gpu") == [gpu]
    assert handed_out(yard, host="both") == [both]


def test_a_host_with_a_project_gets_only_tasks_of_that_project(yard):
    yard.register("red", project="red")
    yard.register("any")
    yard.submit()
    yard.submit(project="blue")
    red = yard.submit(project="red")
    assert handed_out(yard, host="red") == [red]
    assert len(handed_out(yard, host="any")) == 2


def test_a_host_with_actions_gets_only_tasks_of_those_actions(yard):
    yard.register("clicker", actions=frozenset({"click", "type"}))
    yard.submit(action="scroll")
    click = yard.submit(action="click")
    typing = yard.submit(action="type")
    assert handed_out(yard, host="clicker") == [click, typing]


def test_a_host_that_registers_again_gets_tasks_by_its_new_profile(yard):
    yard.register()
    gpu = yard.submit(requires=frozenset({"gpu"}))
    assert handed_out(yard) == []
    yard.register("host", "gpu")
    assert handed_out(yard) == [gpu]


def test_fairness_counts_what_an_agent_has_in_flight_on_all_hosts(yard):
    yard.register("red", project="red")
    yard.register("blue", project="blue")
    yard.submit("ann", project="red")
    yard.submit("ann", project="blue")
    yard.submit("bob", project="blue")
    handed_out(yard, host="red")
    assert agents(handed_out(yard, host="blue")) == ["bob", "ann"]


def test_no_more_than_max_inflight_tasks_are_in_flight(make_yard):
    yard = make_yard(max_inflight=3)
    yard.register()
    for number in range(5):
        yard.submit(f"agent-{number}")
    leases = yard.claim(count=5)
    assert len(leases) == 3
    yard.start(leases[0])
    assert handed_out(yard) == []
    yard.complete(leases[0])
    assert len(handed_out(yard)) == 1


def test_no_agent_has_more_than_max_per_agent_inflight_tasks_in_flight_and_no_other_waits_for_it(make_yard):
    yard = make_yard(max_per_agent_inflight=2)
    yard.register()
    for agent in ("ann", "ann", "ann", "bob"):
        yard.submit(agent)
    leases = yard.claim(count=10)
    assert agents(lease.task for lease in leases) == ["ann", "bob", "ann"]
    yard.complete(leases[1])
    assert handed_out(yard) == []
    yard.complete(leases[0])
    assert agents(handed_out(yard)) == ["ann"]


def test_a_claim_of_several_is_as_many_claims_of_one(make_yard):
    def of(count):
        yard = make_yard(max_per_agent_inflight=3)
        yard.register()
        for number in range(30):
            yard.submit(f"agent-{number % 4}", priority=number % 3)
        claims = [yard.claim(count=count) for _ in range(0, 12, count)]
        return [lease.task.seq for leases in claims for lease in leases]

    assert of(1) == of(4) == of(12)


def test_hosts_of_equal_profile_share_one_queue_and_no_task_goes_to_two(yard):
    yard.register("one", "gpu")
    yard.register("two", "gpu")
    for _ in range(10):
        yard.submit()
    first, second = handed_out(yard, 5, "one"), handed_out(yard, 100, "two")
    assert len(first) == len(second) == 5
    assert not {task.id for task in first} & {task.id for task in second}


def test_more_profiles_than_are_remembered_still_get_the_right_tasks(yard):
    """The buckets of a profile are cached, for at most 1,024 profiles."""
    for number in range(1500):
        yard.register(f"host-{number}", f"skill-{number}")
        yard.claim(f"host-{number}")
    tasks = [yard.submit(requires=frozenset({f"skill-{number}"})) for number in range(1500)]
    for number in (0, 1, 700, 1023, 1024, 1499):
        assert handed_out(yard, host=f"host-{number}") == [tasks[number]]


@every_case(
    ("requires", "project", "action", "runs"),
    [
        (frozenset(), "red", "click", True),
        (frozenset({"gpu"}), "red", "click", True),
        (frozenset({"gpu", "eu"}), "red", "click", False),
        (frozenset(), None, "click", False),
        (frozenset(), "blue", "click", False),
        (frozenset(), "red", "scroll", False),
    ],
)
def test_every_filter_of_a_profile_must_match(requires, project, action, runs):
    profile = HostProfile(frozenset({"gpu"}), project="red", actions=frozenset({"click"}))
    assert profile.may_run(project, action, requires, has_tab=False) is runs
