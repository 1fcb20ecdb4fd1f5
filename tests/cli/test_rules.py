"""`taskyard limits`, `taskyard weights` and `taskyard fairness` against a running control plane."""

import re

import pytest


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    """A terminal on which every row is one line."""
    monkeypatch.setenv("COLUMNS", "300")


def cells(done):
    return [re.split(" {2,}", line.strip()) for line in done.out.splitlines() if line.strip()]


def test_a_limit_is_set_listed_and_deleted(taskyard, namespace):
    done = taskyard("limits", "put", "site:*", "--max-inflight", "3", "--per-second", "2.5", "--namespace", namespace)
    assert (done.code, done.out.strip(), done.err) == (0, "set the limit of site:*", "")
    assert cells(taskyard("limits", "list", "--namespace", namespace)) == [
        ["pattern", "in flight", "per second", "burst", "from"],
        ["site:*", "3", "2.5", "2", "set by a call"],
    ]
    shown = taskyard("limits", "list", "--json", "--namespace", namespace).json
    limit = {"pattern": "site:*", "maxInflight": 3, "perSecond": 2.5, "burst": 2, "configured": False}
    assert shown == {"limits": [limit], "keys": []}, "as REST answers it"
    done = taskyard("limits", "delete", "site:*", "--namespace", namespace)
    assert (done.code, done.out.strip()) == (0, "deleted the limit of site:*")
    done = taskyard("limits", "delete", "site:*", "--namespace", namespace)
    assert (done.code, "no limit was set for site:*" in done.err) == (1, True)


def test_a_weight_is_set_listed_and_deleted(taskyard, namespace):
    done = taskyard("weights", "put", "team-a/*", "3", "--namespace", namespace)
    assert (done.code, done.out.strip()) == (0, "set the weight of team-a/*")
    assert cells(taskyard("weights", "list", "--namespace", namespace)) == [
        ["pattern", "weight", "from"],
        ["team-a/*", "3", "set by a call"],
    ]
    weight = {"pattern": "team-a/*", "weight": 3, "configured": False}
    assert taskyard("weights", "list", "--json", "--namespace", namespace).json == {"weights": [weight]}
    assert taskyard("weights", "delete", "team-a/*", "--json", "--namespace", namespace).json == {}
    done = taskyard("weights", "put", "a*b", "3", "--namespace", namespace)
    assert (done.code, "pattern: may hold a * only at its end" in done.err) == (1, True)


def test_fairness_has_a_row_for_each_agent(taskyard, namespace, submit):
    submit()
    rows = cells(taskyard("fairness", "--namespace", namespace))
    assert rows[0] == ["agent", "weight", "in flight", "runnable", "entitled", "received"]
    assert rows[1][1:] == ["1", "0", "1", "100.0%", "0.0%"]
