"""Which handler runs a task, and which mistakes in registering handlers are refused."""

import pytest

from taskyard.host import Host
from tests.clients.python.host.scripted_server import result_of


async def test_an_action_has_the_name_of_its_function_and_is_announced(server, make_host, work):
    host = make_host()

    @host.action()
    async def press(_):
        return "pressed"

    @host.action("click")
    async def other(_):
        return "clicked"

    work(host)
    stream = await server.welcomed()
    assert list(stream.hello.actions) == ["press", "click"]
    stream.assign("t", action="press")
    await stream.report()
    assert result_of(await stream.report()) == "pressed"


async def test_a_host_with_a_handler_for_any_action_announces_none(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: "clicked")
    host.any_action(lambda task: f"any: {task.action}")
    work(host)
    stream = await server.welcomed()
    assert list(stream.hello.actions) == []
    stream.assign("a", action="other")
    await stream.report()
    assert result_of(await stream.report()) == "any: other"
    stream.assign("b", action="click")
    await stream.report()
    assert result_of(await stream.report()) == "clicked"


async def test_a_task_whose_action_has_no_handler_fails(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.welcomed()
    stream.assign("t", action="other")
    assert (await stream.report()).HasField("started")
    failure = (await stream.report()).failed
    assert (failure.error, failure.code) == ("this host has no action 'other'", "unknown_action")
    assert not failure.HasField("retryable")


def test_malformed_arguments_are_refused_at_once():
    host = Host("127.0.0.1:1", "h")
    host.action("click")(lambda _: None)
    with pytest.raises(ValueError, match="has a handler already"):
        host.action("click")(lambda _: None)
    with pytest.raises(TypeError, match=r"@host.action\(\)"):
        host.action(lambda _: None)
    with pytest.raises(ValueError, match="slots"):
        Host("127.0.0.1:1", "h", slots=0)
    with pytest.raises(TypeError, match="capabilities"):
        Host("127.0.0.1:1", "h", capabilities="browser")


async def test_a_host_without_handlers_does_not_run():
    with pytest.raises(ValueError, match="no handlers"):
        await Host("127.0.0.1:1", "h").run()
