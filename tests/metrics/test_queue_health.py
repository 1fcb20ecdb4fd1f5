"""How namespaces stand: how old their queues are, and which agents get nothing (docs/operate/monitoring.md)."""

from taskyard_server.core.figures.queue_health import QueueHealth
from taskyard_server.core.history import Wait
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.queue.keys import KeyLimit
from taskyard_server.core.task_options import TaskExtras
from tests.live import live


async def standing(harness, namespace="default"):
    return harness.engine.admin.standings()[namespace]


async def test_the_age_of_a_queue_is_that_of_its_oldest_task_which_could_be_claimed(harness):
    await harness.submit(priority=5)
    harness.now += 10
    await harness.submit(priority=0)
    await harness.submit(not_before=harness.now + 100, deadline=harness.now + 1_000)
    harness.now += 5
    assert (await standing(harness)).oldest_secs == 15
    scrape = await harness.scrape()
    assert scrape.value("taskyard_namespace_oldest_seconds", namespace="default") == 15
    assert scrape.value("taskyard_namespace_queued", namespace="default") == 3


async def test_an_agent_starves_while_it_waits_with_nothing_in_flight(make_harness):
    harness = await make_harness(max_inflight=1)
    for agent in ("ann", "ann", "bob"):
        await harness.submit(agent=agent)
    lease = await harness.claim()
    harness.now += 20
    assert lease.task.agent.id == "ann"
    assert (await standing(harness))[-2:] == (1, 20)
    await harness.complete(lease)
    await harness.claim()
    # Now bob has one in flight, and ann waits.
    assert (await standing(harness))[-2:] == (1, 20)


async def test_who_waits_for_a_key_neither_starves_nor_ages_the_queue(harness):
    await harness.engine.rules.put_limit("default", "site:*", KeyLimit(1))
    for agent in ("ann", "bob"):
        await harness.submit(agent=agent, extras=TaskExtras(concurrency_keys=("site:a",)))
    await harness.claim()
    harness.now += 30
    assert (await standing(harness))[-3:] == (0, 0, 0)


async def test_who_waits_for_a_host_that_is_not_there_does_not_starve_but_is_noticed(make_harness):
    harness = await make_harness(no_host_notice_secs=10)
    await harness.engine.hosts.register("default", "h", None, HostProfile(actions=frozenset({"walk"})), show=live)
    await harness.submit()
    harness.engine.admin.look_for_hosts()
    await harness.pass_time(11)
    assert (await standing(harness))[-2:] == (1, 11)
    harness.engine.admin.look_for_hosts()
    assert (await standing(harness))[-3:] == (11, 0, 0)


async def test_an_empty_namespace_stands_at_nothing(harness):
    task = await harness.submit()
    await harness.engine.tasks.cancel("default", task.id, show=live)
    harness.now += 100
    assert await standing(harness) == QueueHealth()


async def test_open_questions_have_the_age_of_the_oldest_park_that_asks_one(harness):
    async def told():
        scrape = await harness.scrape()
        return [
            scrape.value(f"taskyard_namespace_{name}", namespace="default")
            for name in ("parked", "questions", "oldest_question_seconds")
        ]

    task_ids = []
    for names in (("a", "b"), ("c",), ()):
        await harness.submit()
        waits = [Wait("answer", name) for name in names] or [Wait("time", "t", harness.now + 1_000)]
        lease = await harness.claim()
        await harness.park(lease, *waits)
        task_ids.append(lease.task.id)
        harness.now += 5
    assert await told() == [3, 3, 15]
    await harness.engine.tasks.cancel("default", task_ids[0], show=live)
    assert await told() == [2, 1, 10]
    await harness.engine.tasks.cancel("default", task_ids[1], show=live)
    assert await told() == [1, 0, 0]
