"""`taskyard bulk` and `taskyard operations`: one thing for many tasks (docs/rules.md, Operations)."""

import pytest


def states(taskyard):
    return [task["state"] for task in taskyard("list", "--json").json["tasks"]]


def test_tasks_that_match_are_cancelled(taskyard, submit):
    submit("--label", "site=shop")
    submit("--label", "site=news")
    cancelled = taskyard("bulk", "cancel", "--state", "queued", "--label", "site=shop", "--id", "op")
    assert cancelled.out == "op: cancel is done: 1 of 1 task done\n"
    assert states(taskyard) == ["cancelled", "queued"]


def test_several_labels_must_all_match(taskyard, submit):
    submit("--label", "a=1", "--label", "b=1")
    submit("--label", "a=1")
    counted = taskyard("bulk", "cancel", "--label", "a=1", "--label", "b in (1,2)", "--dry-run")
    assert counted.out == "1 task would be treated\n"
    assert states(taskyard) == ["queued", "queued"]


def test_without_a_filter_all_must_be_meant(taskyard, submit):
    submit()
    refused = taskyard("bulk", "cancel")
    assert (refused.code, "or --all" in refused.err) == (2, True)
    assert taskyard("bulk", "cancel", "--all").code == 0
    assert states(taskyard) == ["cancelled"]


def test_each_verb(taskyard, submit):
    task_id = submit("--hold", "--priority", "3")
    for words, state in (
        (("resume", "--token-limit", "9"), "queued"),
        (("pause",), "queued"),
        (("resolve", "--result", '{"a": 1}'), "queued"),
        (("reprioritize", "--priority", "-4"), "queued"),
        (("cancel", "--reason", "wrong site"), "cancelled"),
    ):
        done = taskyard("bulk", *words, "--agent", "ann", "--json").json["operation"]
        assert (done["kind"], done["status"], done["failed"]) == (words[0], "done", 0)
        assert states(taskyard) == [state]
    task = taskyard("get", task_id, "--json").json
    assert (task["priority"], task["tokenLimit"], task["reason"]) == (-4, 9, "wrong site")


def test_a_result_must_be_json(taskyard):
    refused = taskyard("bulk", "resolve", "--all", "--result", "{")
    assert (refused.code, refused.err.startswith("taskyard: --result: ")) == (2, True)


@pytest.mark.parametrize("waits", [(), ("--no-wait",)])
def test_operations_are_listed_shown_and_cancelled(taskyard, submit, waits):
    submit()
    taskyard("bulk", "cancel", "--agent", "ann", "--id", "first one", *waits)
    assert taskyard("operations", "wait", "first one").out == "first one: cancel is done: 1 of 1 task done\n"
    assert taskyard("operations", "get", "first one").out == "first one: cancel is done: 1 of 1 task done\n"
    taskyard("bulk", "cancel", "--all", "--id", "second")
    listed = taskyard("operations", "list").out
    assert listed.index("second") < listed.index("first one")
    assert "agentId: ann" in listed
    operations = taskyard("operations", "list", "--json").json["operations"]
    assert [operation["operationId"] for operation in operations] == ["second", "first one"]
    assert taskyard("operations", "cancel", "second").out == "second: cancel is done: 0 of 0 tasks done\n"
    assert taskyard("operations", "get", "third").err == "taskyard: operation not found\n"
