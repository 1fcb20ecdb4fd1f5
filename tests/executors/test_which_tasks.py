"""Which tasks the tab executor takes, and where their tabs live (DESIGN, The tab executor; ManagerResolver)."""

import pytest

from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission
from taskyard_server.engine.memory.engine import MemoryEngine
from taskyard_server.executors.tab_resolver import TabMap, TabNotFound

# Beside runtime hosts


async def test_without_runtime_hosts_it_takes_tasks_without_a_tab_and_fails_them(yard):
    assert (await yard.run(tab_id=None)).error == "tabId is required for task execution"


async def test_while_a_runtime_host_is_online_tasks_without_a_tab_are_left_to_it(yard):
    await yard.engine.hosts.register("default", "host", None, HostProfile())
    plain = await yard.submit(tab_id=None)
    assert (await yard.run()).state == "done", "tasks with a tab are taken all the same"
    assert plain.state == "queued"
    (lease,) = await yard.engine.leases.claim("default", "host")
    assert lease.task is plain


async def test_when_the_last_runtime_host_goes_tasks_without_a_tab_are_taken_again(yard):
    await yard.engine.hosts.register("default", "host", None, HostProfile())
    plain = await yard.submit(tab_id=None)
    await yard.run()
    assert plain.state == "queued"
    await yard.engine.hosts.deregister("default", "host")
    assert (await yard.ended(plain)).error == "tabId is required for task execution"


async def test_when_the_last_runtime_host_falls_silent_tasks_without_a_tab_are_taken_again(start_yard, instance):
    engine = MemoryEngine(Limits(heartbeat_timeout_secs=1))
    yard = await start_yard(instance, engine)
    await engine.hosts.register("default", "host", None, HostProfile())
    plain = await yard.submit(tab_id=None)
    await yard.run()
    assert plain.state == "queued"
    assert (await yard.ended(plain)).error == "tabId is required for task execution"
    await yard.stop()
    await engine.admin.close()


@pytest.mark.parametrize("online", [False, True])
async def test_tasks_that_require_capabilities_are_never_taken_without_them(yard, online):
    if online:
        await yard.engine.hosts.register("default", "host", None, HostProfile())
    with_tab = await yard.submit(requires=frozenset({"gpu"}))
    without = await yard.submit(tab_id=None, requires=frozenset({"gpu"}))
    assert (await yard.run()).state == "done"
    assert (with_tab.state, without.state) == ("queued", "queued")


async def test_tasks_of_other_namespaces_are_not_taken(yard):
    other = await yard.engine.tasks.submit("other", Submission("ann", "click", "tab"))
    assert (await yard.run()).state == "done"
    assert other.state == "queued"


async def test_tasks_of_every_project_are_taken(yard):
    assert (await yard.run(project="red")).state == "done"


# Tab resolvers


async def test_a_tab_of_the_map_goes_to_its_instance_and_others_to_the_rest(start_yard, start_instance):
    own, rest = await start_instance(), await start_instance()
    yard = await start_yard(TabMap({"mine": own.url}, rest.url))
    await yard.run(tab_id="mine")
    await yard.run(tab_id="any")
    assert [request.target for request in own.requests] == ["/tabs/mine/action"]
    assert [request.target for request in rest.requests] == ["/tabs/any/action"]


async def test_a_tab_without_an_instance_fails_the_task(start_yard, instance):
    yard = await start_yard(TabMap({"mine": instance.url}))
    task = await yard.run(tab_id="other")
    assert task.state == "failed"
    assert task.error == "no instance found for tab other"
    assert instance.requests == []


async def test_a_map_answers_base_urls_without_a_closing_slash():
    tabs = TabMap({"mine": "http://a/x/"}, "http://b/")
    assert await tabs.resolve("mine") == "http://a/x"
    assert await tabs.resolve("other") == "http://b"


@pytest.mark.parametrize("otherwise", [None, ""])
async def test_a_map_without_a_rest_knows_its_own_tabs_only(otherwise):
    with pytest.raises(TabNotFound, match="other"):
        await TabMap({"mine": "http://a"}, otherwise).resolve("other")
