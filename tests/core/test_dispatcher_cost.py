"""The cost of a dispatch does not grow with the hosts that wait."""

import pytest

# The tests count instructions of the interpreter.
pytestmark = pytest.mark.python_core

FEW, MANY = 10, 1_000


def crowd(make_yard, hosts, **limits):
    """A yard where that many hosts of one profile wait, after a first dispatch."""
    yard = make_yard(**limits)
    for number in range(hosts):
        yard.stream(f"host-{number}", slots=10, credit=10)
    yard.submit("first")
    yard.dispatch_one()
    return yard


@pytest.fixture
def cost(make_yard, instructions):
    """The instructions of one act among few hosts, and among many."""

    def cost(act, many=MANY, **limits):
        taken = []
        for hosts in (FEW, many):
            yard = crowd(make_yard, hosts, **limits)
            taken.append(instructions(lambda yard=yard: act(yard)))
        return taken

    return cost


def hand_out_one(yard):
    yard.submit()
    assert len(yard.dispatch()) == 1


def test_to_hand_out_a_task_among_a_thousand_hosts_of_one_profile_costs_as_among_ten(cost):
    few, many = cost(hand_out_one)
    assert many < few * 1.2


def test_a_hand_out_of_nothing_costs_nothing(cost):
    few, many = cost(lambda yard: yard.dispatch())
    assert many == few


def test_a_task_that_ends_frees_its_host_at_no_more_cost(cost):
    def end_one(yard):
        (lease,) = yard.scheduler.hosts.get("host-0").leases.values()
        yard.complete(lease)
        yard.dispatch()

    few, many = cost(end_one)
    assert many < few * 1.2


def test_over_many_tasks_the_hosts_that_wait_cost_no_more_each(cost):
    """Outdated heap entries are dropped from time to time, at no more than the cost of making them."""

    hosts = 200

    def work(yard):
        for _ in range(3 * hosts):
            yard.submit()
            lease = yard.dispatch_one()
            yard.complete(lease)
            yard.give_credit(lease.stream)
        yard.transitions()

    few, many = cost(work, hosts)
    assert many < few * 1.5


def test_thousands_of_hosts_that_have_no_room_cost_nothing(make_yard, instructions):
    taken = []
    for full in (FEW, 5 * MANY):
        yard = make_yard()
        for number in range(full):
            yard.stream(f"full-{number}", credit=0)
        streams = [yard.stream(f"host-{number}", slots=10, credit=10) for number in range(2)]

        def work(yard=yard, streams=streams):
            for _ in range(200):
                yard.submit()
                yard.complete(yard.dispatch_one())
                for stream in streams:
                    yard.give_credit(stream)

        taken.append(instructions(work))
    few, many = taken
    assert many < few * 1.2


def test_a_task_wakes_only_the_hosts_that_may_run_it(make_yard, instructions):
    taken = []
    for hosts in (FEW, MANY):
        yard = make_yard()
        for number in range(hosts):
            yard.stream(f"host-{number}", credit=10, project=f"project-{number}")
        yard.submit(project="project-1")
        yard.dispatch_one()

        def act(yard=yard):
            yard.submit(project="project-1")
            assert len(yard.dispatch()) == 1

        taken.append(instructions(act))
    few, many = taken
    assert many < few * 1.2


def test_a_dispatch_while_max_inflight_is_reached_asks_no_host(cost):
    def submit(yard):
        yard.submit()
        assert yard.dispatch() == []

    few, many = cost(submit, max_inflight=1)
    assert many < few * 1.2
