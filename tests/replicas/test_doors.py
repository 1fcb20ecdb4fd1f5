"""The door of a replica: which calls bring a namespace that nobody has, and which make one."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from taskyard_server.app.service_set import SERVICES
from taskyard_server.core.runs.events import NewEvent
from taskyard_server.replicas import ownership_check

from .members import Member, Yard

ABOUT_NO_NAMESPACE = {"Admin", "Health", "Namespace", "SignIn", "Token"}
EVENT = NewEvent("paid", "1", b"", 60.0)


@pytest.fixture
async def yard() -> AsyncIterator[Yard]:
    async with AsyncExitStack() as stack:
        yield Yard(stack)


async def enter(member: Member, method: str) -> None:
    """What a call does before it is served."""
    entering = member.serving.door.enter(f"/taskyard.v1.{method}", "shop")
    if entering is not None:
        await entering


async def test_an_event_makes_the_namespace_that_it_is_sent_in(yard: Yard) -> None:
    one = await yard.member("one")
    await enter(one, "EventService/SendEvent")
    assert await one.engine.events.send("shop", EVENT, is_same=lambda _: True) == (0, False)


async def test_each_call_about_a_namespace_brings_one_that_nobody_has(yard: Yard) -> None:
    one = await yard.member("one")
    await enter(one, "TaskService/SubmitTask")
    for method in ("StepService/ListSteps", "ParkService/ListQuestions", "OutputService/ReadOutput"):
        await yard.passes(120, one)
        assert one.owned() == []
        await enter(one, method)
        assert one.owned() == ["shop"]


async def test_a_link_alone_brings_none(yard: Yard) -> None:
    """Whoever has no credential learns of no namespace, nor has one loaded."""
    one = await yard.member("one")
    await enter(one, "TaskService/SubmitTask")
    await yard.passes(120, one)
    for method in ("ParkService/ReadAnswerLink", "ParkService/AnswerByLink"):
        await enter(one, method)
    assert one.owned() == []


def test_of_each_service_it_is_known_if_its_calls_are_about_a_namespace() -> None:
    kinds = {name.rpartition(".")[2].removesuffix("Service") for name in SERVICES}
    assert kinds - ownership_check.SERVICES == ABOUT_NO_NAMESPACE
    assert kinds >= ownership_check.SERVICES
