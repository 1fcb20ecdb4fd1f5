"""Limits of concurrency keys, one rule a test (docs/rules.md, Concurrency keys); histories: test_ready_queue.py."""

import pytest

from taskyard_server.core.queue.keys import KeyLimit, KeyUsage, KeyWaits
from taskyard_server.core.queue.token_bucket import TokenBucket
from tests.cases import every_case


def limit(yard, limits):
    yard.scheduler.keys.set_limits(yard.now, limits)


def submit(yard, *keys, agent="ann", **fields):
    return yard.submit(agent, concurrency_keys=keys, deadline=yard.now + 1e6, **fields)


def claimed(yard, count=100, host="host"):
    return [lease.task for lease in yard.claim(host, count, 3600)]


@pytest.fixture
def yard(make_yard):
    yard = make_yard()
    yard.register()
    return yard


def test_no_more_tasks_of_a_key_are_in_flight_than_its_limit_and_no_other_waits_for_it(yard):
    limit(yard, {"site:*": KeyLimit(max_inflight=2)})
    first, second, third = (submit(yard, "site:a") for _ in range(3))
    other, plain = submit(yard, "site:b"), submit(yard)
    leases = yard.claim(count=10)
    assert [lease.task for lease in leases] == [first, second, other, plain]
    yard.start(leases[1])
    yard.complete(leases[1])
    assert claimed(yard) == [third]


def test_a_pattern_limits_each_key_by_itself(yard):
    limit(yard, {"site:*": KeyLimit(max_inflight=1)})
    tasks = [submit(yard, f"site:{name}") for name in "abcab"]
    assert claimed(yard) == tasks[:3]


def test_the_longest_pattern_alone_holds(yard):
    limit(yard, {"*": KeyLimit(0), "site:*": KeyLimit(1), "site:a*": KeyLimit(2), "site:ab": KeyLimit(3)})
    for key, places in (("site:ab", 3), ("site:ac", 2), ("site:b", 1), ("other", 0)):
        tasks = [submit(yard, key) for _ in range(5)]
        assert claimed(yard) == tasks[:places]


def test_a_key_without_a_limit_limits_nothing(yard):
    limit(yard, {"site:*": KeyLimit(max_inflight=1)})
    tasks = [submit(yard, "tenant:a") for _ in range(50)]
    assert claimed(yard) == tasks


def test_a_task_needs_room_in_all_its_keys_and_takes_none_while_it_waits(yard):
    limit(yard, {"all": KeyLimit(max_inflight=2), "site:*": KeyLimit(max_inflight=1)})
    submit(yard, "all", "site:a")
    waits, passes = submit(yard, "all", "site:a"), submit(yard, "all", "site:b")
    first, second = yard.claim(count=10)
    assert second.task is passes
    submit(yard, "all", "site:c")
    yard.complete(second)
    assert [task.options.extras.concurrency_keys for task in claimed(yard)] == [("all", "site:c")]
    yard.complete(first)
    assert claimed(yard) == [waits]


@pytest.mark.parametrize("end", ["complete", "release", "fail"])
def test_a_task_gives_its_place_back_however_its_attempt_ends(yard, end):
    limit(yard, {"a": KeyLimit(max_inflight=1)})
    submit(yard, "a"), submit(yard, "a")
    (lease,) = yard.claim(count=2)
    getattr(yard, end)(lease)
    assert len(claimed(yard)) == 1


def test_those_who_wait_leave_in_the_order_of_claims_between_agents_too(yard):
    limit(yard, {"a": KeyLimit(max_inflight=1)})
    for agent in ("ann", "ann", "ann", "bob", "cy"):
        submit(yard, "a", agent=agent)
    submit(yard, "a", agent="bob", priority=-1)
    order = []
    for _ in range(6):
        (lease,) = yard.claim(count=5)
        order.append((lease.task.agent_id, lease.task.priority))
        yard.complete(lease)
    assert order == [("ann", 0), ("bob", -1), ("cy", 0), ("ann", 0), ("bob", 0), ("ann", 0)]


def test_a_place_that_comes_free_wakes_the_hosts_that_wait(yard):
    limit(yard, {"a": KeyLimit(max_inflight=1)})
    yard.stream("stream", credit=5)
    submit(yard, "a")
    second = submit(yard, "a")
    lease = yard.dispatch_one()
    assert yard.dispatch() == []
    yard.complete(lease)
    assert yard.dispatch_one().task is second


def test_a_raised_limit_lets_tasks_go_at_once_and_a_lowered_one_ends_none(yard):
    limit(yard, {"a": KeyLimit(max_inflight=1)})
    yard.stream("stream", credit=10)
    for _ in range(6):
        submit(yard, "a")
    assert len(yard.dispatch()) == 1
    limit(yard, {"a": KeyLimit(max_inflight=4)})
    leases = [lease for host in yard.scheduler.hosts for lease in host.leases.values()] + yard.dispatch()
    assert len(leases) == 4
    limit(yard, {"a": KeyLimit(max_inflight=2)})
    for lease in leases[:2]:
        yard.complete(lease)
    assert yard.dispatch() == []
    yard.complete(leases[2])
    assert len(yard.dispatch()) == 1
    submit(yard, "a")
    assert yard.dispatch() == []
    limit(yard, {})
    assert len(yard.dispatch()) == 2


def test_limited_by_names_the_limits_while_hosts_have_room_for_tasks_that_wait_for_keys(yard):
    limit(yard, {"a": KeyLimit(max_inflight=1)})
    yard.stream("stream", credit=10)
    submit(yard, "a"), submit(yard, "a")
    yard.dispatch()
    assert yard.scheduler.limited_by == "limits"


def test_the_figures_of_keys(yard):
    limit(yard, {"a*": KeyLimit(max_inflight=1), "b": KeyLimit(None, 2.0, 3)})
    for keys in (("a1",), ("a1",), ("a1", "c"), ("b", "c"), ("b",)):
        submit(yard, *keys)
    assert yard.scheduler.keys.waits(yard.now, 100) == KeyWaits(0, {})
    claimed(yard)
    expected = [KeyUsage("a1", "a*", 1, 2, None), KeyUsage("b", "b", 2, 0, 1.0), KeyUsage("c", None, 1, 1, None)]
    assert yard.scheduler.keys.usage(yard.now, "", 10) == expected
    assert yard.scheduler.keys.usage(yard.now, "a1", 1) == expected[1:2]
    assert yard.scheduler.keys.waits(yard.now, 100) == KeyWaits(2, {"a1": 2})


def test_keys_that_are_made_up_take_no_memory_for_longer_than_their_tasks(make_yard, object_count):
    yard = make_yard(result_ttl_secs=1)
    yard.register()
    limit(yard, {"key-*": KeyLimit(1, 10.0, 1)})

    def work(first, count):
        for number in range(first, first + count):
            for _ in range(2):
                submit(yard, f"key-{number}", "all")
            for _ in range(2):
                yard.complete(yard.claim_one())
                yard.pass_time(0.25)
            yard.transitions()

    work(0, 300)
    before = object_count(yard.scheduler)
    work(300, 3_000)
    assert object_count(yard.scheduler) < before * 1.5


# Rates


def hand_outs(yard, secs, step, key="a"):
    """When tasks of a key were handed out over so long, of which there are always some; the host asks at each step."""
    times, end = [], yard.now + secs
    for _ in range(5):
        submit(yard, key)
    while yard.now < end:
        yard.pass_time(step)
        while leases := yard.claim():
            times.append(yard.now)
            yard.complete(leases[0])
            submit(yard, key)
    return times


def most_over(times, limit):
    """By how many hand-outs the worst of all windows is over `burst + per_second * T`."""
    return max(
        last - first + 1 - limit.burst - limit.per_second * (times[last] - times[first])
        for first in range(len(times))
        for last in range(first, len(times))
    )


RATES = [KeyLimit(None, 5.0, 10), KeyLimit(None, 0.7, 1), KeyLimit(None, 33.3, 3), KeyLimit(2, 10.0, 1)]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("step", [0.01, 0.125, 0.333])
def test_in_no_window_are_there_more_hand_outs_than_the_burst_and_those_of_its_length(yard, rate, step):
    limit(yard, {"*": rate})
    times = hand_outs(yard, 300 / rate.per_second, step)
    assert most_over(times, rate) <= 0


@pytest.mark.parametrize("rate", RATES)
def test_a_rate_is_used_where_there_is_demand(yard, rate):
    """A host waits on its stream, and time passes as `next_due` says."""
    limit(yard, {"*": rate})
    stream = yard.stream("stream", credit=1_000_000)
    begin, times = yard.now, []
    for _ in range(5):
        submit(yard, "a")
    while yard.now < begin + 400 / rate.per_second:
        leases = yard.dispatch()
        for lease in leases:
            times.append(yard.now)
            submit(yard, "a")
            yard.complete(lease)
        if not leases:
            yard.pass_time(yard.scheduler.next_due() - yard.now)
            yard.beat(stream)
        yard.transitions()
    assert len(times) >= 0.99 * (rate.per_second * (yard.now - begin) + rate.burst)
    assert most_over(times, rate) <= 0


def test_the_next_due_time_is_that_of_the_token_that_a_task_waits_for(yard):
    limit(yard, {"a": KeyLimit(None, 40.0, 1)})
    submit(yard, "a"), submit(yard, "a")
    assert len(claimed(yard)) == 1
    assert yard.scheduler.next_due() == yard.now + 1 / 40


def test_each_attempt_takes_a_token_anew(yard):
    limit(yard, {"a": KeyLimit(None, 1.0, 2)})
    submit(yard, "a")
    for _ in range(2):
        yard.release(yard.claim_one())
    assert claimed(yard) == []
    yard.pass_time(1)
    assert len(claimed(yard)) == 1


def test_a_key_is_not_forgotten_before_its_tokens_are_back(yard):
    limit(yard, {"*": KeyLimit(None, 0.01, 1)})
    for key in ("a", *[f"made-up-{number}" for number in range(300)]):
        submit(yard, key)
        yard.complete(yard.claim_one())
    submit(yard, "a")
    assert claimed(yard) == []
    yard.pass_time(100)
    assert len(claimed(yard)) == 1


def test_a_task_that_gets_another_priority_stands_where_it_belongs(yard):
    """One strand waits at a full key, and its head goes behind that of another one."""
    limit(yard, {"a": KeyLimit(max_inflight=1)})
    (lease,) = [submit(yard, "a"), yard.claim_one()][1:]
    first, second = submit(yard, "a", "b", priority=-1), submit(yard, "a")
    assert claimed(yard) == []
    ready = yard.scheduler.life.ready
    ready.remove(first)
    first.priority = 1
    ready.add(first)
    yard.complete(lease)
    (lease,) = yard.claim(count=5)
    assert lease.task is second
    yard.complete(lease)
    assert claimed(yard) == [first]


def test_the_default_burst_is_what_comes_in_a_second_and_at_least_one(yard):
    limit(yard, {"a": KeyLimit(None, 7.9), "b": KeyLimit(None, 0.1)})
    for _ in range(20):
        submit(yard, "a"), submit(yard, "b")
    keys = [task.options.extras.concurrency_keys for task in claimed(yard)]
    assert (keys.count(("a",)), keys.count(("b",))) == (7, 1)


def test_a_change_of_a_limit_gives_no_tokens_at_once_beyond_those_that_were_there(yard):
    limit(yard, {"a": KeyLimit(None, 1.0, 4)})
    for _ in range(60):
        submit(yard, "a")
    assert len(claimed(yard, 3)) == 3
    limit(yard, {"a": KeyLimit(None, 10.0, 20)})
    assert len(claimed(yard)) == 1
    yard.pass_time(0.5)
    assert len(claimed(yard)) == 5
    yard.pass_time(100)
    limit(yard, {"a": KeyLimit(None, 10.0, 2)})
    assert len(claimed(yard)) == 2


def test_a_change_of_other_limits_leaves_a_key_as_it_is(yard):
    limit(yard, {"a": KeyLimit(None, 1.0, 4)})
    for _ in range(60):
        submit(yard, "a")
    assert len(claimed(yard)) == 4
    limit(yard, {"a": KeyLimit(None, 1.0, 4), "b": KeyLimit(1)})
    assert claimed(yard) == []


@every_case("per_second", [0.1, 1 / 3, 7.7, 1000.0, 999_999.5])
def test_over_many_tokens_nothing_drifts(per_second):
    now = start = 1_700_000_000.0
    bucket, dues = TokenBucket(now, per_second, 2), []
    bucket.take(now)
    for _ in range(20_000):
        bucket.take(now)
        now = bucket.due(now)
        dues.append(now)
    exact = [start + number / per_second for number in range(1, len(dues) + 1)]
    assert all(0 <= due - at < 5e-7 for due, at in zip(dues, exact, strict=True))
