"""Each tab is at its own instance, or at the default one (docs/rules.md, Tab executor)."""

import pytest

from taskyard_server.executors.tab_resolver import Endpoint, TabMap, TabNotFound


async def test_a_tab_of_the_map_goes_to_its_instance_and_all_others_to_the_default(start_server, start_instance):
    own, default = await start_instance(), await start_instance()
    server = await start_server(TabMap({"mine": Endpoint(own.url)}, Endpoint(default.url)))
    await server.run(tab_id="mine")
    await server.run(tab_id="any")
    assert [request.target for request in own.requests] == ["/tabs/mine/action"]
    assert [request.target for request in default.requests] == ["/tabs/any/action"]


async def test_a_tab_without_an_instance_fails_the_task(start_server, instance):
    server = await start_server(TabMap({"mine": Endpoint(instance.url)}))
    task = await server.run(tab_id="other")
    assert task.state == "failed"
    assert task.error == "no instance found for tab other"
    assert instance.requests == []


async def test_a_map_without_a_default_knows_its_own_tabs_only():
    tabs = TabMap({"mine": Endpoint("http://a")})
    assert await tabs.resolve("mine") == Endpoint("http://a")
    with pytest.raises(TabNotFound, match="other"):
        await tabs.resolve("other")
