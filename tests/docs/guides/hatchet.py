"""What docs/use/from_hatchet.md says of its example, as tests of that project."""

from datetime import timedelta

from trips import host, trip

from taskyard import Host, TaskState
from taskyard.testing import running_task

TOWNS = {"towns": ["Ulm", "Bonn"]}
LEGS = ["a train to Ulm", "a train to Bonn"]


async def begun(yard, its_host=host):
    yard.host(its_host)
    task = await yard.client.submit("trip", params=TOWNS)
    await yard.advance()
    return task


async def waits_of(task):
    return [wait.name for wait in (await task.task()).park.waits]


async def test_a_trip_waits_for_its_legs_its_pay_and_a_time(yard):
    task = await begun(yard)
    assert await waits_of(task) == ["paid"]
    await yard.client.send_event("paid", {"sum": 3})
    await yard.advance()
    assert await waits_of(task) == ["sleep"]
    await yard.advance(timedelta(hours=1))
    assert await task.result() == {"legs": LEGS, "paid": {"sum": 3}}
    assert (await task.task()).attempts == ()


async def test_legs_are_submitted_once_over_all_runs(yard):
    task = await begun(yard)
    await yard.client.send_event("paid")
    await yard.advance(timedelta(hours=1))
    assert await task.result() == {"legs": LEGS, "paid": None}
    assert sorted([each.child_name async for each in yard.client.list(parent_id=task.id)]) == ["leg-Bonn", "leg-Ulm"]


async def test_an_event_of_a_moment_before_is_there_for_who_begins_to_wait(yard):
    await yard.client.send_event("paid", {"sum": 3})
    assert await waits_of(await begun(yard)) == ["sleep"]


async def test_an_event_that_is_older_than_its_life_is_not(yard):
    await yard.client.send_event("paid", {"sum": 3}, life=timedelta(seconds=1))
    await yard.advance(seconds=2)
    assert await waits_of(await begun(yard)) == ["paid"]


async def test_what_nobody_pays_fails_after_three_days(yard):
    task = await begun(yard)
    await yard.advance(timedelta(days=3))
    assert "TimeoutError" in (await task.task()).error


async def test_who_waits_holds_no_slot(yard):
    task = await begun(yard)
    assert (await task.task()).state is TaskState.PARKED
    other = await yard.client.submit("book", params={"town": "Hof"})
    assert await other.result() == "a train to Hof"


async def test_a_leg_that_fails_fails_the_trip(yard):
    broken = Host(host_id="host-2")
    broken.action("trip")(trip)

    @broken.action()
    async def book(_):
        raise ValueError("no train")

    task = await begun(yard, broken)
    await yard.client.send_event("paid")
    await yard.advance(timedelta(hours=1))
    assert "ValueError: no train" in (await task.task()).error


async def test_it_is_tested_without_a_server():
    results = {f"leg-{town}": leg for town, leg in zip(TOWNS["towns"], LEGS, strict=True)}
    assert (await running_task(TOWNS, children=results).run(trip)).is_parked
    task = running_task(TOWNS, children=results, came=["join", "sleep"], events={"paid": {"sum": 3}})
    assert (await task.run(trip)).result == {"legs": LEGS, "paid": {"sum": 3}}
