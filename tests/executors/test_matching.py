"""Which tasks the tab executor claims (docs/rules.md, Tab executor, Matching)."""

import pytest

from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission
from tests.live import live


async def test_tasks_without_a_tab_are_claimed_and_fail_while_no_runtime_host_is_online(server):
    assert (await server.run(tab_id=None)).error == "tabId is required for task execution"


async def test_a_task_without_a_tab_whose_action_is_none_of_tabs_waits_for_a_host_that_is_yet_to_come(server):
    report = await server.submit(action="write-report", tab_id=None)
    assert (await server.run(action="write-report")).state == "done", "with a tab it is claimed"
    assert (await server.run(tab_id=None)).state == "failed"
    assert report.state == "queued"
    await server.engine.hosts.register("default", "host", None, HostProfile(), show=live)
    (lease,) = await server.engine.leases.claim("default", "host", show=live)
    assert lease.task is report


async def test_tasks_without_a_tab_are_left_to_a_runtime_host_that_is_online(server):
    await server.engine.hosts.register("default", "host", None, HostProfile(), show=live)
    plain = await server.submit(tab_id=None)
    assert (await server.run()).state == "done", "tasks with a tab are claimed all the same"
    assert plain.state == "queued"
    (lease,) = await server.engine.leases.claim("default", "host", show=live)
    assert lease.task is plain


async def test_tasks_without_a_tab_are_claimed_again_when_the_last_runtime_host_deregisters(server):
    await server.engine.hosts.register("default", "host", None, HostProfile(), show=live)
    plain = await server.submit(tab_id=None)
    await server.run()
    assert plain.state == "queued"
    await server.engine.hosts.deregister("default", "host")
    assert (await server.ended(plain)).error == "tabId is required for task execution"


async def test_tasks_without_a_tab_are_claimed_again_when_the_last_runtime_host_is_silent(start_server, instance):
    server = await start_server(instance, Limits(heartbeat_timeout_secs=1))
    await server.engine.hosts.register("default", "host", None, HostProfile(), show=live)
    plain = await server.submit(tab_id=None)
    await server.run()
    assert plain.state == "queued"
    assert (await server.ended(plain)).error == "tabId is required for task execution"


@pytest.mark.parametrize("online", [False, True])
async def test_tasks_that_require_capabilities_are_not_claimed(server, online):
    if online:
        await server.engine.hosts.register("default", "host", None, HostProfile(), show=live)
    with_tab = await server.submit(requires=frozenset({"gpu"}))
    without = await server.submit(tab_id=None, requires=frozenset({"gpu"}))
    assert (await server.run()).state == "done"
    assert (with_tab.state, without.state) == ("queued", "queued")


async def test_tasks_of_other_namespaces_are_not_claimed(server):
    other = await server.engine.tasks.submit("other", Submission("ann", "click", "tab"), show=live)
    assert (await server.run()).state == "done"
    assert other.state == "queued"


async def test_tasks_of_every_project_are_claimed(server):
    assert (await server.run(project="red")).state == "done"
