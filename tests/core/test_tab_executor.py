"""What the tab executor, a host in the server's process, may take (docs/rules.md, Tab executor)."""

import pytest


@pytest.fixture
def executor(make_yard):
    """A yard with the tab executor, tasks of every kind, and hosts that are offline after 60 s."""
    yard = make_yard(heartbeat_timeout_secs=60, default_deadline_secs=10_000)
    yard.register("tabs", built_in=True)
    for name, tab_id, requires in [
        ("tab", "tab", ()),
        ("plain", None, ()),
        ("gpu", None, ("gpu",)),
        ("tab and gpu", "tab", ("gpu",)),
    ]:
        yard.submit(action=name, tab_id=tab_id, requires=frozenset(requires))
    return yard


def taken(yard, host="tabs"):
    """The actions of the tasks that the executor may claim now; it releases them."""
    leases = yard.claim(host, 10)
    for lease in leases:
        yard.release(lease)
    return [lease.task.action for lease in leases]


def test_while_no_runtime_host_is_online_the_tab_executor_takes_tabs_and_plain_tasks(executor):
    assert taken(executor) == ["tab", "plain"]


def test_while_a_runtime_host_is_online_the_tab_executor_takes_tabs_only(executor):
    executor.register("host")
    assert taken(executor) == ["tab"]


def test_a_runtime_host_is_online_until_the_time_out_after_its_last_sign_of_life(executor):
    executor.register("host")
    executor.pass_time(60)
    assert taken(executor) == ["tab"]
    executor.pass_time(0.125)
    assert taken(executor) == ["tab", "plain"]
    executor.scheduler.heartbeat(executor.now, "host")
    assert taken(executor) == ["tab"]


def test_one_runtime_host_of_many_is_enough(executor):
    executor.register("one")
    executor.pass_time(50)
    executor.register("two")
    executor.pass_time(50)
    assert taken(executor) == ["tab"]
    executor.deregister("two")
    assert taken(executor) == ["tab", "plain"]


def test_with_the_last_runtime_host_deregistered_the_tab_executor_takes_plain_tasks_again(executor):
    executor.register("one")
    executor.register("two")
    executor.deregister("one")
    assert taken(executor) == ["tab"]
    executor.deregister("two")
    assert taken(executor) == ["tab", "plain"]


def test_the_tab_executor_itself_is_no_runtime_host(executor):
    executor.scheduler.heartbeat(executor.now, "tabs")
    executor.register("other tabs", built_in=True)
    assert taken(executor) == taken(executor, "other tabs") == ["tab", "plain"]


def test_of_plain_tasks_it_takes_only_those_of_its_actions(make_yard):
    yard = make_yard()
    yard.register("tabs", built_in=True, plain_actions=frozenset({"click"}))
    for action, tab_id in (("click", None), ("write", None), ("write", "tab")):
        yard.submit(action=action, tab_id=tab_id)
    assert [(lease.task.action, lease.task.tab_id) for lease in yard.claim("tabs", 10)] == [
        ("click", None),
        ("write", "tab"),
    ]
    yard.register("host")
    assert [lease.task.action for lease in yard.claim("host", 10)] == ["write"]


def test_plain_tasks_are_left_to_runtime_hosts_also_where_none_may_run_them(executor):
    executor.register("host", project="red")
    assert taken(executor) == ["tab"]


def test_a_runtime_host_takes_tasks_with_and_without_a_tab(executor):
    executor.register("host", "gpu")
    assert taken(executor, "host") == ["tab", "plain", "gpu", "tab and gpu"]


def test_a_new_heartbeat_time_out_holds_at_once(executor):
    executor.register("host")
    executor.pass_time(30)
    executor.reconfigure(heartbeat_timeout_secs=10)
    assert taken(executor) == ["tab", "plain"]


# While it waits with a claim


def test_the_tab_executor_that_waits_takes_plain_tasks_while_no_runtime_host_is_online(make_yard):
    yard = make_yard(heartbeat_timeout_secs=60, default_deadline_secs=10_000)
    yard.register("tabs", built_in=True)
    yard.register("host")
    yard.offer("tabs", room=5, lease_secs=3600)
    tab, plain = yard.submit(tab_id="tab"), yard.submit()
    assert [lease.task for lease in yard.dispatch()] == [tab]
    yard.pass_time(60)
    assert yard.dispatch() == []
    yard.now = yard.scheduler.next_due()
    yard.pass_time(0)
    assert [lease.task for lease in yard.dispatch()] == [plain]
    yard.register("host")
    yard.submit()
    assert yard.dispatch() == []


def test_the_tab_executor_that_waits_for_one_project_keeps_to_it(yard):
    yard.register("tabs", built_in=True)
    yard.offer("tabs", room=5, project="red")
    yard.submit(tab_id="tab")
    red = yard.submit(tab_id="tab", project="red")
    assert [lease.task for lease in yard.dispatch()] == [red]
