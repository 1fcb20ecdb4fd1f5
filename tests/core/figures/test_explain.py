"""Why a task waits, reason by reason (docs/rules.md, Why a task waits)."""

from __future__ import annotations

from random import Random

import pytest

from taskyard_server.core.figures.explain import Explanation, Sight, WaitKind, WaitReason, explain
from taskyard_server.core.names import names
from taskyard_server.core.queue.keys import KeyLimit
from taskyard_server.core.task_options import TaskExtras
from tests.cases import every_case

OWN = Sight(names(["ann"]), sees_others=False)
CRAWL = frozenset({"crawl"})


def why(yard, task, sight=None) -> Explanation:
    return explain(yard.scheduler, yard.now, task, *([] if sight is None else [sight]))


def kinds(yard, task) -> list[str]:
    return [reason.kind.value for reason in why(yard, task).reasons]


def reason(yard, task, kind: WaitKind, sight=None) -> WaitReason:
    (found,) = [reason for reason in why(yard, task, sight).reasons if reason.kind is kind]
    return found


def waiting_host(yard, host_id="waits", *capabilities, **profile):
    """A host that waits with a claim, so that no other reason than that of the test is left."""
    yard.register(host_id, *capabilities, **profile)
    return yard.scheduler.offer(yard.now, host_id, 1)


def test_a_task_that_only_the_next_hand_out_is_missing_for_is_runnable(yard):
    waiting_host(yard)
    task = yard.submit()
    assert why(yard, task) == Explanation(task.id, task.state, True, [], 0, False)


def test_one_that_is_in_flight_or_has_ended_waits_for_nothing(yard):
    lease = yard.leased()
    assert why(yard, lease.task)[1:] == ("assigned", False, [], None, False)
    yard.complete(lease)
    assert why(yard, lease.task)[1:] == ("done", False, [], None, False)


def test_each_thing_that_keeps_a_task_pending_is_a_reason(yard):
    waiting_host(yard)
    task = yard.submit(hold=True, not_before=yard.now + 10)
    assert kinds(yard, task) == ["held", "not_due"]
    assert reason(yard, task, WaitKind.NOT_DUE).until == yard.now + 10
    yard.resume(task)
    assert kinds(yard, task) == ["not_due"]
    assert not why(yard, task).runnable


def test_a_predecessor_that_failed_and_blocks_its_target_is_told_of(yard):
    yard.register()
    yard.submit(target="db")
    lease = yard.claim_one()
    task = yard.submit(after=(lease.task.id,))
    assert reason(yard, task, WaitKind.AFTER).message == "a task that it comes after has not ended"
    yard.start(lease)
    yard.fail(lease)
    message = reason(yard, task, WaitKind.AFTER).message
    assert message.endswith("; 1 failed, and blocks its target until resumed, resolved or cancelled")


def test_the_time_of_a_held_task_is_no_reason_once_it_has_passed(yard):
    waiting_host(yard)
    task = yard.submit(hold=True, not_before=yard.now + 10)
    yard.now += 20
    assert kinds(yard, task) == ["held"]


def test_a_target_names_the_task_whose_turn_it_is(yard):
    first = yard.submit(target="site", deadline=yard.now + 10_000)
    second = yard.submit("bob", target="site", deadline=yard.now + 10_000)
    waiting_host(yard)
    assert reason(yard, second, WaitKind.TARGET) == WaitReason(
        WaitKind.TARGET, f"the target site waits for {first.id} to be handed out", name="site", task_ids=(first.id,)
    )
    lease = yard.start_one("waits")
    assert reason(yard, second, WaitKind.TARGET).message.endswith(f"{first.id} to end")
    yard.pause(lease.task)
    yard.report_stopped(lease)
    assert reason(yard, second, WaitKind.TARGET).message.endswith(f"{first.id} to be resumed, resolved or cancelled")
    assert kinds(yard, first) == ["paused"]
    yard.resume(first)
    assert why(yard, first).runnable


def test_a_task_that_is_held_waits_for_its_target_too(yard):
    waiting_host(yard)
    yard.submit(target="site")
    task = yard.submit(target="site", hold=True)
    assert kinds(yard, task) == ["held", "target"]


def test_full_limits_are_reasons_with_how_much_is_in_use(make_yard):
    yard = make_yard(max_inflight=2, max_per_agent_inflight=2)
    yard.register()
    yard.submit()
    yard.submit()
    yard.claim(count=2)
    waiting_host(yard)
    task = yard.submit()
    assert kinds(yard, task) == ["agent_limit", "max_inflight"]
    limit = reason(yard, task, WaitKind.AGENT_LIMIT)
    assert (limit.name, limit.used, limit.limit) == ("ann", 2, 2)
    assert reason(yard, task, WaitKind.MAX_INFLIGHT)[-3:-1] == (2, 2)
    assert reason(yard, task, WaitKind.MAX_INFLIGHT, OWN).used is None
    yard.submit("bob")
    assert why(yard, task).ahead is None, "an agent at its limit has no turn"


def test_the_nearest_host_is_named_with_what_it_lacks(yard):
    task = yard.submit(action="crawl", project="shop", requires=frozenset({"gpu", "tall"}))
    assert reason(yard, task, WaitKind.NO_HOST) == WaitReason(
        WaitKind.NO_HOST,
        "no host is live",
        missing=("capability gpu", "capability tall", "project shop", "action crawl"),
    )
    waiting_host(yard, "far", project="blog")
    waiting_host(yard, "near", "gpu", actions=frozenset({"index"}))
    found = reason(yard, task, WaitKind.NO_HOST)
    assert (found.name, found.missing) == ("near", ("capability tall", "action crawl"))
    assert found.message == ("no live host may run it: the nearest, near, lacks capability tall, action crawl")
    assert reason(yard, task, WaitKind.NO_HOST, OWN).name is None
    yard.now += 61
    assert reason(yard, task, WaitKind.NO_HOST).name == "near", "it waits for tasks, however quietly"
    for offer in [*yard.scheduler.offers_of("near"), *yard.scheduler.offers_of("far")]:
        yard.scheduler.withdraw(offer)
    assert reason(yard, task, WaitKind.NO_HOST).message == "no host is live"


def test_hosts_that_have_the_capabilities_may_not_offer_the_action(yard):
    waiting_host(yard, actions=frozenset({"index"}))
    task = yard.submit(action="crawl")
    found = reason(yard, task, WaitKind.NO_ACTION)
    assert (found.name, found.message) == (
        "crawl",
        "1 live host with its project and capabilities, and none offers the action crawl",
    )
    waiting_host(yard, "crawler", actions=CRAWL)
    assert why(yard, task).runnable


@pytest.mark.parametrize("trouble", ["credit", "drain", "silence", "rest", "project"])
def test_hosts_that_offer_the_action_may_have_no_room(yard, trouble):
    if trouble == "project":
        yard.register("host", actions=CRAWL)
        yard.scheduler.offer(yard.now, "host", 1, project="shop")
    else:
        yard.connect("host", credit=0 if trouble == "credit" else 1, slots=1, actions=CRAWL)
    if trouble == "drain":
        yard.scheduler.drain_host("host")
    elif trouble == "silence":
        yard.now += 50
    elif trouble == "rest":
        yard.scheduler.hosts.get("host").rests_until = yard.now + 2
    task = yard.submit(action="crawl")
    assert kinds(yard, task) == ["no_credit"]
    found = reason(yard, task, WaitKind.NO_CREDIT)
    assert (found.used, found.limit) == (0, None if trouble == "project" else 1)
    assert found.message.endswith({"drain": "(1 draining)", "rest": "(1 resting)"}.get(trouble, ""))
    assert reason(yard, task, WaitKind.NO_CREDIT, OWN)[-3:-1] == (None, None)
    assert why(yard, task).ahead == 0


def test_a_lost_host_is_not_live_and_is_told_of_while_it_may_come_back(yard):
    stream = yard.stream("crawler", actions=CRAWL)
    task = yard.submit(action="crawl")
    yard.disconnect(stream)
    yard.now += 12.9
    lost = "no host is live; the host crawler that may run it was lost 12 s ago, and may come back"
    assert reason(yard, task, WaitKind.NO_HOST).message == lost
    assert reason(yard, task, WaitKind.NO_HOST, OWN).message == lost.replace("the host crawler", "a host")
    assert "lost" not in reason(yard, yard.submit(action="index"), WaitKind.NO_HOST).message
    waiting_host(yard, "indexer", actions=frozenset({"index"}))
    yard.disconnect(yard.stream("second", actions=CRAWL))
    yard.now += 1
    assert reason(yard, task, WaitKind.NO_ACTION).message.endswith(
        "; 2 hosts that may run it were lost, the last 1 s ago, and may come back"
    )
    yard.now += 1000
    assert "lost" not in reason(yard, task, WaitKind.NO_ACTION).message, "they are dead"


def test_hosts_are_full_of_tasks_that_have_children_waiting(yard):
    yard.stream(credit=2, slots=2)
    parents = [yard.submit() for _ in range(2)]
    yard.dispatch()
    child = yard.submit(parent_id=parents[0].id)
    standing = "; all that they run has children waiting: where it waits for these, nothing ends"
    assert standing not in reason(yard, child, WaitKind.NO_CREDIT).message
    other = yard.submit(parent_id=parents[1].id)
    assert reason(yard, other, WaitKind.DEADLOCK).message.endswith(f"2 of 2 slots are in use{standing}")
    assert reason(yard, other, WaitKind.DEADLOCK, OWN).message.endswith(f"none has credit or waits for tasks{standing}")


def test_the_tab_executor_is_a_host_that_is_never_named(yard):
    yard.register("taskyard:tab-executor", built_in=True)
    task = yard.submit(requires=frozenset({"gpu"}))
    assert reason(yard, task, WaitKind.NO_HOST)[2:] == (
        None, None, (), None, None, ("capability gpu", "tasks without a tab"),
    )  # fmt: skip
    assert kinds(yard, yard.submit(tab_id="tab")) == ["no_credit"]


def test_a_server_that_drains_hands_nothing_out(yard):
    waiting_host(yard)
    task = yard.submit()
    yard.scheduler.drain()
    assert kinds(yard, task) == ["draining"]


def test_an_agent_is_told_of_nobody_else(yard):
    yard.submit("bob", target="site")
    task = yard.submit(target="site")
    waiting_host(yard)
    assert reason(yard, task, WaitKind.TARGET, OWN) == WaitReason(
        WaitKind.TARGET, "the target site waits for another task to be handed out", name="site"
    )
    behind = yard.submit()
    assert why(yard, behind, OWN)[-2:] == (None, False)


def test_over_share_is_an_agent_that_has_more_in_flight_by_weight_than_another_that_waits(yard):
    yard.register()
    yard.submit("ann")
    yard.submit("bob")
    yard.claim(count=2)
    task = yard.submit("ann")
    yard.submit("bob")
    assert not why(yard, task).over_share, "one each"
    yard.scheduler.set_weights({"bob": 2})
    assert why(yard, task).over_share


@every_case("seed", range(40))
def test_so_many_are_ahead_as_are_handed_out_first_if_nothing_ends(make_yard, seed):
    chances = Random(seed)
    yard = make_yard(max_per_agent_inflight=chances.choice([3, 8, 1000]))
    yard.register("other", actions=frozenset({"index"}))
    if seed % 2:
        yard.scheduler.set_weights({agent: chances.choice([1, 2, 3, 5]) for agent in "abcdefg"})
    tasks = []
    for _ in range(80):
        action = chances.choice(["crawl", "crawl", "click", "index"])
        tasks.append(yard.submit(chances.choice("abcdefg"), action, priority=chances.randrange(3)))
        if chances.random() < 0.2:
            yard.claim("other")
    yard.register("host", actions=frozenset({"crawl", "click"}))
    yard.claim("host", chances.randrange(10))
    waiting = [task for task in tasks if task.state == "queued" and task.action != "index"]
    yard.scheduler.offer(yard.now, "host", 1)
    expected = {task.id: why(yard, task).ahead for task in waiting}
    order = [lease.task.id for lease in yard.claim("host", 1000)]
    found = {task_id: ahead for task_id, ahead in expected.items() if task_id in order}
    assert found == {task_id: place for place, task_id in enumerate(order)}


def keyed(yard, *keys: str, **fields):
    return yard.submit(extras=TaskExtras(concurrency_keys=keys), **fields)


def test_each_full_key_is_a_reason_by_itself(yard):
    yard.scheduler.keys.set_limits(yard.now, {"site:*": KeyLimit(1), "rate": KeyLimit(per_second=0.5, burst=1)})
    yard.register()
    keyed(yard, "site:a", "rate")
    yard.claim_one()
    waiting_host(yard)
    task = keyed(yard, "rate", "site:a", "site:b")
    rate, places = why(yard, task).reasons
    assert (rate.kind, rate.name, rate.limit, rate.until) == ("key_rate", "rate", 0.5, yard.now + 2)
    assert (places.kind, places.name, places.used, places.limit) == ("key_inflight", "site:a", 1, 1)
    assert why(yard, task, OWN).reasons[1].used is None
    assert why(yard, task).ahead is None


def test_a_key_that_nobody_has_used_may_be_full(yard):
    yard.scheduler.keys.set_limits(yard.now, {"closed": KeyLimit(0)})
    waiting_host(yard)
    task = keyed(yard, "closed", hold=True)
    assert kinds(yard, task) == ["held", "key_inflight"]


def test_tasks_that_wait_for_keys_are_not_ahead(yard):
    yard.scheduler.keys.set_limits(yard.now, {"one": KeyLimit(2)})
    for _ in range(10):
        keyed(yard, "one")
    task = yard.submit()
    assert why(yard, task).ahead == 2, "as many as the key has places"
