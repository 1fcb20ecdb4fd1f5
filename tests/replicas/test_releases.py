"""A replica that could not release what it had given up tries on, also where others do so meanwhile."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest

from taskyard_server.store.port import CommitDelayed

from .members import Yard


@pytest.fixture
async def yard() -> AsyncIterator[Yard]:
    async with AsyncExitStack() as stack:
        yield Yard(stack)


async def test_what_is_lost_while_another_is_released_is_released_no_more(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await yard.member("one")
    await yard.member("two")
    await one.submit("a", "b")
    ownership, released = one.serving.replica.ownership, list[Any]()

    async def fail(*_: Any) -> None:
        raise CommitDelayed("the store does not answer")

    async def release_and_lose(fences: dict[int, int], *_: Any) -> None:
        released.append(fences)
        ownership._died()

    monkeypatch.setattr(one.store, "release", fail)
    with suppress(CommitDelayed):
        await one.serving.drain("one", True)
    with suppress(CommitDelayed):
        await one.go_on()
    assert len(ownership._unreleased) == 2
    monkeypatch.setattr(one.store, "release", release_and_lose)
    await ownership.act()
    assert len(released) == 1
