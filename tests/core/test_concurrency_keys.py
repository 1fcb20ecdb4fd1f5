"""Limits of concurrency keys, one rule a test (docs/rules.md, Concurrency keys); test_ready_queue.py has histories."""

from taskyard_server.core.keys import KeyLimit


def limit(yard, **by_pattern):
    yard.scheduler.set_key_limits(yard.now, by_pattern)


def test_no_more_tasks_of_a_key_are_in_flight_than_its_limit(yard):
    yard.register()
    yard.scheduler.set_key_limits(yard.now, {"site:*": KeyLimit(max_inflight=2)})
    tasks = [yard.submit(concurrency_keys=("site:a",)) for _ in range(3)]
    leases = yard.claim(count=10)
    assert [lease.task for lease in leases] == tasks[:2]
    yard.start(leases[1])
    yard.complete(leases[1])
    assert yard.claim_one().task is tasks[2]
