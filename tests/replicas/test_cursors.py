"""Cursors of watches that another replica goes on with: they tell no more than their replica knows."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from taskyard_server.core.errors import NotOwner
from taskyard_server.core.events import Event
from taskyard_server.engine.event_feeds import EventFilter, Watcher
from taskyard_server.engine.event_log import EventLogs
from taskyard_server.engine.recent_events import CommitMark, read_cursor

from .members import START, Member, Yard

LOOKED_SECS = 2.0
MADE_SECS = 3.0


@pytest.fixture
async def yard() -> AsyncIterator[Yard]:
    async with AsyncExitStack() as stack:
        yield Yard(stack)


def logs_of(member: Member) -> EventLogs:
    def encode(event: Event, bare: bool) -> bytes:
        raise AssertionError(event, bare)

    logs = member.engine.event_logs(encode)
    member.serving.tell(logs, begun=lambda _: None, left=lambda _: None)
    return logs


def mark_of(watcher: Watcher) -> CommitMark:
    return read_cursor(watcher.cursor).commit


async def test_a_namespace_that_another_replica_makes_unseen_is_absent_until_the_last_look_only(yard: Yard) -> None:
    one, two = await yard.member("one"), await yard.member("two")
    yard.secs = LOOKED_SECS
    for member in yard.members:
        await member.go_on()
    watcher = logs_of(one).watch("a", EventFilter())
    yard.secs = MADE_SECS
    await two.submit("a")
    yard.secs = MADE_SECS + 1.0
    assert START * 1000 < mark_of(watcher).ms <= (START + LOOKED_SECS) * 1000
    await one.go_on()
    assert isinstance(watcher.closing_reason, NotOwner)
    assert START * 1000 < mark_of(watcher).ms <= (START + LOOKED_SECS) * 1000


async def test_the_last_cursor_of_a_namespace_that_has_left_is_of_the_last_commit_here(yard: Yard) -> None:
    one = await yard.member("one")
    await one.submit("a")
    watcher = logs_of(one).watch("a", EventFilter())
    before = mark_of(watcher)
    assert before.number > 0
    one.serving.replica.ownership._died()
    yard.secs += 5.0
    assert isinstance(watcher.closing_reason, NotOwner)
    assert mark_of(watcher) == before
