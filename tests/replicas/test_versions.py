"""Two versions beside each other: neither writes what the other cannot read (docs/operate/scaling.md, Upgrade)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from taskyard_server.core.errors import NotOwner, Unavailable
from taskyard_server.core.operations.operation import OperationKind, OperationRequest
from taskyard_server.core.reports import Report, ReportKind
from taskyard_server.core.runs.artifacts import Right
from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.core.task import IN_FLIGHT, QUEUED, Submission, Task
from taskyard_server.core.task_options import OnParentEnd, TaskExtras, TaskOptions
from taskyard_server.store.port import (
    ADDED_FIELDS_LEVEL,
    ARTIFACTS_LEVEL,
    EXTRAS_LEVEL,
    FORMAT_LEVEL,
    OUTPUT_LEVEL,
    StoreError,
)
from tests.live import live
from tests.speakers import HOST, Speaker, numbers, speaker
from tests.uploaders import PART_BYTES, content, got, put, send

from .members import FAILOVER_SECS, Member, Yard

OLD, NEW = FORMAT_LEVEL, FORMAT_LEVEL + 1
TYPED = TaskOptions(input=b"payload")
WITH_INPUTS = TaskOptions(extras=TaskExtras(inputs=(("it", ""),)))
WITH_PARENT = TaskOptions(parent_id="tsk_any", extras=TaskExtras(on_parent_end=OnParentEnd.CANCEL))
WITH_EXTRAS = TaskOptions(extras=TaskExtras(concurrency_keys=("site:shop",)))


@pytest.fixture
async def yard() -> AsyncIterator[Yard]:
    async with AsyncExitStack() as stack:
        yield Yard(stack)


async def leave(yard: Yard, member: Member) -> None:
    """A replica ends in order."""
    await member.serving.replica.stop()
    await member.serving.replica.leave()
    yard.members.remove(member)


async def test_a_newer_format_is_not_in_force_while_an_older_version_lives(yard: Yard) -> None:
    old = await yard.member("old", OLD)
    await old.submit("shop", "crawl")
    new = await yard.member("new", NEW)
    await yard.settle()
    assert (old.serving.level, new.serving.level) == (OLD, OLD)


async def test_versions_hand_namespaces_over_in_both_directions(yard: Yard) -> None:
    old = await yard.member("old", OLD)
    await old.submit("shop", "crawl", "mail", "test")
    new = await yard.member("new", NEW)
    await yard.settle()
    assert (len(old.owned()), len(new.owned())) == (2, 2)
    await leave(yard, new)
    await yard.settle()
    assert old.owned() == ["crawl", "mail", "shop", "test"]
    for name in old.owned():
        assert old.engine.admin.totals(name).queued == 1


async def test_it_is_in_force_once_the_last_older_one_has_left(yard: Yard) -> None:
    old = await yard.member("old", OLD)
    await old.submit("shop")
    new = await yard.member("new", NEW)
    await yard.settle()
    await leave(yard, old)
    await yard.settle()
    assert (new.serving.level, new.owned()) == (NEW, ["shop"])
    tasks = await new.engine.tasks.list_tasks("shop", new.everything, 0, 10)
    assert [task.state for task in tasks.tasks] == [QUEUED]


async def test_it_is_in_force_once_an_older_one_was_found_dead(yard: Yard) -> None:
    await yard.member("old", OLD)
    new = await yard.member("new", NEW)
    yard.members = [new]
    yard.secs += FAILOVER_SECS
    await yard.settle()
    assert new.serving.level == NEW


async def submit_new(member: Member, options: TaskOptions) -> Task:
    submission = Submission("ann", "click", options=options)
    task = await member.engine.tasks.submit("shop", submission, show=live)
    assert isinstance(task, Task)
    return task


@pytest.mark.parametrize(
    ("level", "options"),
    [
        (ADDED_FIELDS_LEVEL, TYPED),
        (EXTRAS_LEVEL, WITH_EXTRAS),
        (ARTIFACTS_LEVEL, WITH_INPUTS),
        (ARTIFACTS_LEVEL, WITH_PARENT),
    ],
)
async def test_what_an_older_version_could_not_read_is_refused_while_one_lives(
    yard: Yard, level: int, options: TaskOptions
) -> None:
    """Such a one would get the namespace when this one ends."""
    old = await yard.member("old", level - 1)
    new = await yard.member("new", level)
    await new.submit("shop")
    first = await submit_new(new, TaskOptions())
    if options is WITH_INPUTS:
        options = TaskOptions(extras=TaskExtras(inputs=(("it", first.id),)))
    with pytest.raises(Unavailable, match="not before all replicas of this store are of this version"):
        await submit_new(new, options)
    await leave(yard, old)
    await yard.settle()
    await submit_new(new, options)
    assert new.engine.admin.totals("shop").queued == 3


async def speaker_on(member: Member) -> Speaker:
    await member.submit("shop")
    return await speaker(member.engine, "shop")


async def test_output_is_refused_while_an_older_version_lives_and_hosts_are_told(yard: Yard) -> None:
    old = await yard.member("old", OUTPUT_LEVEL - 1)
    new = await yard.member("new", OUTPUT_LEVEL)
    host = await speaker_on(new)
    assert not new.engine.output.is_taken
    with pytest.raises(Unavailable, match="output: not before all replicas of this store are of this version"):
        await host.say(1)
    await leave(yard, old)
    await yard.settle()
    assert new.engine.output.is_taken
    assert await host.say(1) == 1


async def test_the_next_owner_goes_on_with_the_numbers_of_output(yard: Yard) -> None:
    one = await yard.member("one")
    host = await speaker_on(one)
    assert await host.say(1, 3) == 3
    waits = asyncio.create_task(one.engine.output.wait("shop", host.task_id, 3, 60))
    other = await yard.member("other")
    await leave(yard, one)
    await yard.settle()
    with pytest.raises(NotOwner):
        await waits
    assert other.owned() == ["shop"]
    host.engine = other.engine
    assert await host.say(2, 3) == 4
    assert await numbers(other.engine, host.task_id, namespace="shop") == [1, 2, 3, 4]


async def test_artifacts_are_refused_while_an_older_version_lives_and_hosts_are_told(yard: Yard) -> None:
    old = await yard.member("old", ARTIFACTS_LEVEL - 1)
    new = await yard.member("new", ARTIFACTS_LEVEL)
    host = await speaker_on(new)
    right = Right(host.task_id, HOST, host.token)
    assert not new.engine.artifacts.are_taken
    with pytest.raises(Unavailable, match="artifacts: not before all replicas of this store are of this version"):
        await put(new.engine, right, "data", b"x", namespace="shop")
    await leave(yard, old)
    await yard.settle()
    assert new.engine.artifacts.are_taken
    assert (await put(new.engine, right, "data", b"x", namespace="shop")).artifact is not None


async def test_reasons_are_refused_while_an_older_version_lives(yard: Yard) -> None:
    old = await yard.member("old", ARTIFACTS_LEVEL - 1)
    new = await yard.member("new", ARTIFACTS_LEVEL)
    host, tasks = await speaker_on(new), new.engine.tasks
    request = OperationRequest("op", OperationKind.CANCEL, TaskFilter(), reason="wrong site")
    for call in (
        tasks.cancel("shop", host.task_id, reason="wrong site", show=live),
        tasks.cancel_and_wait("shop", host.task_id, 0, with_children=True, reason="wrong site", show=live),
        tasks.pause("shop", host.task_id, reason="wrong site", show=live),
        tasks.resolve("shop", host.task_id, None, reason="wrong site", show=live),
        new.engine.operations.begin("shop", request, show=lambda operation: operation.status),
    ):
        with pytest.raises(Unavailable, match="reason: not before all replicas of this store are of this version"):
            await call
    assert tasks.state_of("shop", host.task_id) in IN_FLIGHT
    await leave(yard, old)
    await yard.settle()
    task = await tasks.pause("shop", host.task_id, reason="wrong site", show=live)
    assert task.history.reason == "wrong site"


async def test_the_next_owner_goes_on_with_an_upload_and_has_what_is_complete(yard: Yard) -> None:
    one = await yard.member("one")
    host, data = await speaker_on(one), content(2 * PART_BYTES + 5)
    right = Right(host.task_id, HOST, host.token)
    await put(one.engine, right, "whole", data, namespace="shop")
    await send(one.engine, right, "half", data[:PART_BYTES], namespace="shop")
    other = await yard.member("other")
    await leave(yard, one)
    await yard.settle()
    with pytest.raises(NotOwner):
        await send(one.engine, right, "half", data[PART_BYTES:], PART_BYTES, namespace="shop")
    for offset in (PART_BYTES, 2 * PART_BYTES):
        part, of = data[offset : offset + PART_BYTES], data if offset > PART_BYTES else None
        await send(other.engine, right, "half", part, offset, of=of, namespace="shop")
    for name in ("whole", "half"):
        assert await got(other.engine, host.task_id, name, namespace="shop") == data


async def test_the_next_owner_hands_on_what_was_handed_on(yard: Yard) -> None:
    one = await yard.member("one")
    host = await speaker_on(one)
    done = Report(ReportKind.COMPLETED, host.task_id, host.token, payload=b"result")
    await one.engine.leases.report("shop", HOST, [done])
    await submit_new(one, TaskOptions(extras=TaskExtras(inputs=(("it", host.task_id),))))
    other = await yard.member("other")
    await leave(yard, one)
    await yard.settle()
    assert other.owned() == ["shop"]
    leases = await other.engine.leases.claim("shop", HOST, 2, show=live)
    assert [[each and each.result for each in lease.inputs] for lease in leases] == [[], [b"result"]]


async def test_a_replica_alone_takes_all_at_once(yard: Yard) -> None:
    alone = await yard.member("alone")
    await alone.submit("shop")
    await submit_new(alone, WITH_EXTRAS)


async def test_an_older_version_is_refused_from_then_on_by_name(yard: Yard) -> None:
    new = await yard.member("new", NEW)
    await yard.settle()
    assert new.serving.level == NEW
    with pytest.raises(StoreError, match=f"format level {NEW}"):
        await yard.member("old", OLD)
