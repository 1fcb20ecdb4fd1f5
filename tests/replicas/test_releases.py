"""A replica that could not release what it had given up tries on, also where others do so meanwhile."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from taskyard_server.replicas.ownership import _Release

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
    # As after a store that did not answer the release of either.
    ownership._unreleased.update({name: _Release(number, 1, 0.0, None) for number, name in enumerate("ab", 1)})

    async def release_and_lose(fences: dict[int, int], *_: Any) -> None:
        released.append(fences)
        ownership._died()

    monkeypatch.setattr(one.store, "release", release_and_lose)
    await ownership.act()
    assert released == [{1: 1}]
