"""What is done to many tasks at once, by the clients."""

from typing import Any

import pytest

from taskyard import (
    BadRequest,
    Conflict,
    NotFound,
    OperationHandle,
    OperationKind,
    OperationStatus,
    SyncClient,
    SyncOperationHandle,
)
from taskyard.testing import Yard


async def states(yard: Yard) -> list[str]:
    return [task.state async for task in yard.client.list()]


async def submit_three(yard: Yard) -> None:
    for site in ("shop", "shop", "blog"):
        await yard.client.submit("fetch", labels={"site": site})


async def test_all_tasks_that_match_are_cancelled(yard: Yard) -> None:
    await submit_three(yard)
    handle = await yard.client.cancel_tasks(labels="site=shop", states=["queued"], reason="wrong site")
    assert isinstance(handle, OperationHandle)
    assert handle.begun is not None
    assert (handle.begun.id, handle.begun.matched) == (handle.id, 2)
    ended = await handle.wait(timeout=10)
    assert (ended.kind, ended.status, ended.done, ended.skipped) == ("cancel", OperationStatus.DONE, 2, 0)
    assert (ended.ended, ended.fraction, ended.first_error) == (True, 1.0, None)
    assert await states(yard) == ["cancelled", "cancelled", "queued"]
    assert [task.reason async for task in yard.client.list()] == ["wrong site", "wrong site", None]


async def test_progress_is_told_until_the_end(yard: Yard) -> None:
    await submit_three(yard)
    handle = await yard.client.cancel_tasks(all=True)
    steps = [step async for step in handle.progress()]
    assert steps[-1].status is OperationStatus.DONE
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert steps[-1].done == 3


async def test_an_operation_is_one_under_its_id(yard: Yard) -> None:
    await submit_three(yard)
    first = await yard.client.cancel_tasks(operation_id="stop", labels="site=shop")
    await first.wait(10)
    again = await yard.client.cancel_tasks(operation_id="stop", labels="site=shop")
    assert (await again.status()).done == 2
    with pytest.raises(Conflict):
        await yard.client.cancel_tasks(operation_id="stop", labels="site=blog")


async def test_nothing_is_done_by_mistake(yard: Yard) -> None:
    await submit_three(yard)
    with pytest.raises(BadRequest, match="all"):
        await yard.client.cancel_tasks()
    counted = await yard.client.cancel_tasks(labels="site=shop", dry_run=True)
    assert counted.begun is not None
    assert counted.begun.matched == 2
    assert [step.matched async for step in counted.progress()] == [2]
    assert (await counted.wait()).ended
    assert await states(yard) == ["queued"] * 3
    with pytest.raises(TypeError, match="tasks are not selected by colour"):
        await yard.client.cancel_tasks(colour="red")  # type: ignore[call-arg]


async def test_held_tasks_are_resumed_and_failed_ones_resolved(yard: Yard) -> None:
    held = await yard.client.submit("fetch", hold=True)
    await (await yard.client.resume_tasks(states=["pending"])).wait(10)
    assert (await held.task()).state == "queued"

    def fail(_: Any) -> None:
        raise ValueError("no")

    yard.host({"fetch": fail})
    await yard.until_ended(held)
    operation = await (await yard.client.resolve_tasks(error="ValueError", result={"by": "hand"})).wait(10)
    assert operation.kind is OperationKind.RESOLVE
    assert (await held.task()).result == {"by": "hand"}


async def test_priorities_change_for_many_and_tasks_in_flight_are_paused(yard: Yard) -> None:
    await submit_three(yard)
    await (await yard.client.reprioritize_tasks(-5, labels="site=blog")).wait(10)
    assert [task.priority async for task in yard.client.list()] == [0, 0, -5]
    paused = await (await yard.client.pause_tasks(action="fetch")).wait(10)
    assert (paused.kind, paused.done) == ("pause", 0)


async def test_operations_are_listed_picked_up_and_cancelled(yard: Yard) -> None:
    await submit_three(yard)
    handle = await yard.client.cancel_tasks(all=True)
    await handle.wait(10)
    assert [each.id async for each in yard.client.operations.list()] == [handle.id]
    picked = yard.client.operations.handle(handle.id)
    assert picked.begun is None
    assert (await picked.cancel()).status is OperationStatus.DONE
    with pytest.raises(NotFound):
        await yard.client.operations.get("unknown")


def test_the_blocking_client_has_operations_too(sync_yard: Any) -> None:
    client: SyncClient = sync_yard.client
    client.submit("fetch", labels={"site": "shop"})
    handle = client.cancel_tasks(labels="site=shop")
    assert isinstance(handle, SyncOperationHandle)
    assert handle.wait(timeout=10).done == 1
    assert [step.ended for step in handle.progress()] == [True]
    assert [each.id for each in client.operations.list()] == [handle.id]
    assert client.operations.handle(handle.id).status().done == 1
