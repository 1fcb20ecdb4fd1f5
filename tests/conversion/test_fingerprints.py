"""Fingerprints of requested tasks (docs/rules.md, Idempotency): equal for equal tasks, and for no others."""

from __future__ import annotations

import pytest

from taskyard.v1.batch_pb2 import BatchTask
from taskyard.v1.task_pb2 import After, Parent, SubmitTaskRequest, Unique
from taskyard_server.conversion.fingerprints import fingerprint
from tests.cases import every_case


def of_task(**fields):
    return fingerprint(SubmitTaskRequest(action="click", **fields), "ann", "", None)


def of_batch_task(**fields):
    return fingerprint(BatchTask(action="click", **fields), "ann", "", None)


@pytest.mark.parametrize(
    ("fields", "same"),
    [
        ({"after": ["a", "b"]}, {"after": ["b", "a", "b"]}),
        ({"after": ["a"]}, {"after": ["a"], "after_policy": After.success}),
        ({"concurrency_keys": ["a", "b"]}, {"concurrency_keys": ["b", "a"]}),
        ({"unique_key": "a"}, {"unique_key": "a", "unique_while": Unique.live, "on_conflict": Unique.existing}),
    ],
)
def test_order_repeats_and_defaults_make_no_other_task(fields, same):
    assert of_task(**fields) == of_task(**same) == of_batch_task(**same)


@every_case(
    "fields",
    [
        {"after": ["a"]},
        {"after": ["a"], "after_policy": After.ended},
        {"unique_key": "a"},
        {"unique_key": "a", "unique_while": Unique.queued},
        {"unique_key": "a", "on_conflict": Unique.reject},
        {"target": "a"},
        {"target": "a", "on_target_failure": "block"},
        {"selector": "a"},
        {"parent_id": "a"},
        {"parent_id": "a", "on_parent_end": Parent.cancel},
        {"concurrency_keys": ["a"]},
    ],
)
def test_each_field_makes_another_task(fields):
    assert of_batch_task(**fields) == of_task(**fields)
    assert of_task(**fields) != of_task()
    for name in fields:
        assert of_task(**fields) != of_task(**{key: value for key, value in fields.items() if key != name})


def test_predecessors_by_place_make_another_task():
    assert of_batch_task(after_indexes=[0, 1]) == of_batch_task(after_indexes=[1, 0, 1])
    assert len({of_batch_task(), of_batch_task(after_indexes=[0]), of_batch_task(after_indexes=[1])}) == 3


def test_a_task_without_them_has_the_fingerprint_of_earlier_versions():
    task = SubmitTaskRequest(action="click", idempotency_key="key", priority=0, requires=["b", "a"])
    assert fingerprint(task, "ann", "", None).hex() == "08bff8f5a77cc5aa92bb1568738e07fb"
