"""What operators see of replicas, and let them do: who lives, who owns how much, who drains."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from taskyard_server.core.errors import NotFound, NotOwner, Unavailable
from taskyard_server.replicas.serving import SHOWN_SECS

from .members import FAILOVER_SECS, START, Yard
from .shared_dict_store import CUT_OFF


@pytest.fixture
async def yard() -> AsyncIterator[Yard]:
    async with AsyncExitStack() as stack:
        yield Yard(stack)


async def test_each_replica_is_listed_with_what_it_owns(yard: Yard) -> None:
    one, two = [await yard.member(name) for name in ("one", "two")]
    await one.submit("a", "b", "c")
    listed = await two.serving.replicas()
    assert [(each.name, each.namespaces, each.is_this) for each in listed] == [("one", 3, False), ("two", 0, True)]
    assert (listed[0].instance, listed[0].address, listed[0].died_at) == (one.instance, "one.example:443", None)
    assert listed[0].started_at == START


async def test_the_dead_are_listed_for_a_day_without_namespaces(yard: Yard) -> None:
    one, two = [await yard.member(name) for name in ("one", "two")]
    await one.submit("a")
    await one.store.leave(one.instance)
    dead = (await two.serving.replicas())[0]
    assert (dead.name, dead.namespaces, dead.died_at) == ("one", 0, START)
    yard.secs += SHOWN_SECS
    assert [each.name for each in await two.serving.replicas()] == ["two"]


async def test_one_that_drains_gives_all_up_and_takes_none_until_it_is_resumed(yard: Yard) -> None:
    one, two = [await yard.member(name) for name in ("one", "two")]
    await one.submit("a", "b", "c", "d")
    await yard.settle()
    assert (len(one.owned()), len(two.owned())) == (2, 2)
    (drained,) = await two.serving.drain("one", True)
    assert (drained.name, drained.is_draining) == ("one", True)
    await yard.settle()
    assert (one.owned(), two.owned()) == ([], ["a", "b", "c", "d"])
    with pytest.raises(NotOwner):
        await one.submit("new")
    await one.serving.drain("one", False)
    await yard.settle()
    assert (len(one.owned()), len(two.owned())) == (2, 2)


async def test_what_needs_an_owner_and_finds_none_is_in_the_metrics(yard: Yard) -> None:
    one, two = [await yard.member(name) for name in ("one", "two")]
    await one.submit("a")
    await yard.settle()
    for member in (one, two):
        await two.serving.drain(member.instance, True)
    (owner,) = [member for member in (one, two) if member.owned() == ["a"]]
    (other,) = {one, two} - {owner}
    assert other.value("namespaces_without_owner") == 0
    await owner.store.leave(owner.instance)
    yard.members.remove(owner)
    await yard.settle()
    assert (other.owned(), other.value("namespaces_without_owner")) == ([], 1)
    await other.serving.drain(other.instance, False)
    await yard.settle()
    assert (other.owned(), other.value("namespaces_without_owner")) == (["a"], 0)


async def test_what_was_given_to_one_that_drains_by_then_is_passed_on(yard: Yard) -> None:
    one, two = [await yard.member(name) for name in ("one", "two")]
    await yard.settle()
    await two.submit("a")
    await one.serving.drain("one", True)
    # The giver has not heard of it.
    await two.serving.replica.ownership._give_up("a", one.instance)
    await yard.settle()
    assert (one.owned(), two.owned()) == ([], ["a"])


async def test_a_drain_outlasts_the_death_of_its_replica(yard: Yard) -> None:
    one, two = [await yard.member(name) for name in ("one", "two")]
    await one.serving.drain("one", True)
    await one.go_on()
    before = one.instance
    await yard.passes(FAILOVER_SECS, two)
    await one.go_on()
    await one.serving.replica.membership.join()
    assert one.instance != before
    living = [each for each in await two.serving.replicas() if each.died_at is None]
    assert [(each.name, each.is_draining) for each in living] == [("one", True), ("two", False)]


async def test_an_instance_can_be_named_where_several_have_one_name(yard: Yard) -> None:
    one, other = await yard.member("same"), await yard.member("same")
    (drained,) = await one.serving.drain(other.instance, True)
    assert drained.instance == other.instance
    assert len(await one.serving.drain("same", False)) == 2


async def test_nobody_of_a_name_is_not_found(yard: Yard) -> None:
    one = await yard.member("one")
    with pytest.raises(NotFound):
        await one.serving.drain("two", True)


async def test_while_the_store_does_not_answer_both_are_unavailable(yard: Yard) -> None:
    one = await yard.member("one")
    one.store.fates = lambda _: CUT_OFF
    with pytest.raises(Unavailable):
        await one.serving.replicas()
    with pytest.raises(Unavailable):
        await one.serving.drain("one", True)


# Metrics


async def test_metrics_tell_what_is_owned_and_what_changed_hands(yard: Yard) -> None:
    one, two = [await yard.member(name) for name in ("one", "two")]
    await one.submit("a", "b", "c", "d")
    await yard.settle()
    assert [member.value("owned_namespaces") for member in (one, two)] == [2, 2]
    assert (one.value("namespaces_made"), one.value("namespaces_given_up")) == (4, 2)
    assert (two.value("namespaces_taken"), two.value("highest_term")) == (2, 2)
    assert (one.value("give_up_seconds"), two.value("take_seconds")) == (2, 2)
    assert (one.value("replicas_alive"), one.value("trust_seconds")) == (2, FAILOVER_SECS / 2)
    await two.serving.drain("one", True)
    await one.go_on()
    assert (one.value("replica_draining"), one.value("owned_namespaces")) == (1, 0)


async def test_metrics_tell_pauses_from_deaths(yard: Yard) -> None:
    one, two = [await yard.member(name) for name in ("one", "two")]
    await one.submit("a")
    yard.secs += 6
    assert one.value("trust_seconds") == 0
    await one.go_on()
    assert (one.value("replica_pauses"), one.value("replica_paused_seconds")) == (1, 1)
    await yard.passes(14, two)
    await one.go_on()
    assert (one.value("replica_deaths"), one.value("namespaces_lost"), one.value("replica_pauses")) == (1, 1, 1)


async def test_after_an_outage_of_the_store_nobody_is_dead_before_it_could_renew_itself(yard: Yard) -> None:
    one, two, three = [await yard.member(name) for name in ("one", "two", "three")]
    await yard.settle()
    await yard.passes(8)
    await two.go_on()
    await yard.passes(5, two)
    assert [member.serving.replica.membership.deaths for member in (one, two)] == [0, 0]
    await one.go_on()
    assert one.serving.replica.membership.deaths == 0
    await yard.passes(2, one, two)
    living = {each.name for each in await two.serving.replicas() if each.died_at is None}
    assert living == {"one", "two"}, "three did not come back"
    assert three.serving.replica.membership.deaths == 0, "it does not know yet"
