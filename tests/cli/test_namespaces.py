"""`taskyard namespace` against a running control plane."""

import io
import re

import pytest


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    """A terminal on which every row is one line."""
    monkeypatch.setenv("COLUMNS", "300")


@pytest.fixture
def answered(monkeypatch):
    """Answers what a command asks."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


def cells(done):
    return [re.split(" {2,}", line.strip()) for line in done.out.splitlines()]


def fields(done):
    return dict(re.split(" {2,}", line.strip(), maxsplit=1) for line in done.out.splitlines())


def test_a_namespace_is_created_with_limits_and_shown(taskyard, namespace, submit):
    done = taskyard("namespace", "create", namespace, "maxInflight=3", "leaseSecs=7.5")
    assert (done.code, done.err) == (0, "")
    submit()
    shown = fields(taskyard("namespace", "show", namespace))
    assert shown["name"] == namespace
    assert (shown["queued"], shown["inflight"], shown["schedules"]) == ("1", "0", "0")
    assert (shown["maxInflight"], shown["leaseSecs"]) == ("3 (its own)", "7.5 (its own)")
    assert (shown["maxQueueSize"], shown["maxRetainedTasks"]) == ("1000", "200000")


def test_as_json_it_is_the_documented_answer(taskyard, namespace):
    made = taskyard("namespace", "create", namespace, "maxInflight=3", "--json").json["namespace"]
    assert (made["name"], made["limits"]) == (namespace, {"maxInflight": 3})
    assert made["effectiveLimits"]["maxInflight"] == 3
    assert made["totals"]["queued"] == 0
    assert taskyard("namespace", "show", namespace, "--json").json["namespace"] == made


def test_the_list_has_a_row_for_each_with_its_own_limits(taskyard, namespace, submit):
    taskyard("namespace", "create", namespace, "maxInflight=3")
    submit()
    head, *rows = cells(taskyard("namespace", "list"))
    counts = ["queued", "inflight", "paused", "parked", "hosts", "schedules", "retained"]
    assert head == ["namespace", *counts, "limits of its own"]
    assert [namespace, "1", "0", "0", "0", "0", "0", "0", "maxInflight=3"] in rows
    assert namespace in [each["name"] for each in taskyard("namespace", "list", "--json").json["namespaces"]]


def test_a_limit_is_changed_and_given_back(taskyard, namespace):
    taskyard("namespace", "create", namespace, "maxInflight=3", "leaseSecs=7.5")
    taskyard("namespace", "limit", namespace, "maxInflight=default", "maxQueueSize=9")
    assert taskyard("namespace", "show", namespace, "--json").json["namespace"]["limits"] == {
        "leaseSecs": 7.5,
        "maxQueueSize": 9,
    }


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["limit", "x"], "give what is to change, such as maxInflight=50"),
        (["limit", "x", "maxInflight"], "maxInflight: must be LIMIT=NUMBER"),
        (["limit", "x", "maxTasks=3"], "maxTasks=3: must be LIMIT=NUMBER"),
        (["limit", "x", "maxInflight=many"], "maxInflight=many: must be a number, or default"),
        (["limit", "x", "maxInflight=1", "maxInflight=2"], "maxInflight: is given more than once"),
        (["create", "x", "maxInflight=default"], "maxInflight: a new namespace has the server's limits"),
        (["create", "x", "maxInflight=0"], "limits.maxInflight: must be greater than 0"),
        (["show", "never-made"], "namespace not found"),
    ],
)
def test_a_mistake_is_one_line(taskyard, words, problem):
    failed = taskyard("namespace", *words)
    assert (failed.code > 0, failed.out) == (True, "")
    assert failed.err.startswith(f"taskyard: {problem}")
    assert failed.err.count("\n") == 1


def test_a_namespace_is_deleted_once_its_name_is_given_again(taskyard, namespace, answered):
    taskyard("namespace", "create", namespace)
    answered("another\n")
    refused = taskyard("namespace", "delete", namespace)
    assert refused.code == 1
    assert refused.err.endswith(f"taskyard: that is not {namespace}: nothing is deleted\n")
    answered(f"{namespace}\n")
    assert taskyard("namespace", "delete", namespace).out == f"{namespace} is deleted\n"
    assert taskyard("namespace", "show", namespace).code == 1


def test_without_an_answer_nothing_is_deleted(taskyard, namespace, answered):
    taskyard("namespace", "create", namespace)
    answered("")
    assert taskyard("namespace", "delete", namespace).code == 1
    assert taskyard("namespace", "show", namespace).code == 0


def test_one_in_use_is_deleted_by_force_alone(taskyard, namespace, submit):
    submit()
    refused = taskyard("namespace", "delete", namespace, "--yes")
    assert refused.code == 1
    assert "1 queued task" in refused.err
    done = taskyard("namespace", "delete", namespace, "--yes", "--force", "--json")
    assert done.json == {"deleted": True}
