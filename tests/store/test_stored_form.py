"""Records of released versions are read by this one: a record that was written stays as it is here, for good.

A new field is appended with a default: the records here then lack it. Where this test fails, a field was moved, changed
or taken out, in `store/records/records.py` or in a tuple of the core that stands in records.
"""

from __future__ import annotations

from taskyard_server.core.agents import Agent
from taskyard_server.core.history import Attempt, History, RetryPolicy
from taskyard_server.core.hosts import Host
from taskyard_server.core.leases import Lease
from taskyard_server.core.task import TASK_FIELDS, Submission, Task, TaskState
from taskyard_server.core.task_options import IdempotencyKey, TaskOptions
from taskyard_server.store.loading import to_task
from taskyard_server.store.records.records import decode_state, decode_task

TASK = (
    "9ca574736b5f31a56167656e74a6616374696f6ecb402400000000000004cb4051800000000000cb404e000000000000a3746162a37265"
    "66c4027b7dfd9db068747470733a2f2f63616c6c6261636ba770726f6a65637491a36770759192a56c6162656ca576616c7565a5626174"
    "5f31a4646f6f72a5747261636592a36b6579c4057072696e74c3cb3ff8000000000000649503cb4000000000000000cb40080000000000"
    "00cb401000000000000091a5666174616ca57472675f31"
)
STATE = (
    "9fa772756e6e696e67cb4026000000000000cb40518000000000000209a4686f737495a4686f7374cb403e000000000000cb4031000000"
    "000000cb4032000000000000c2cb402e0000000000009902919601a4686f7374cb4028000000000000cb402a000000000000a662726f6b"
    "656ea4636f64650101c2cb402c0000000000000506ccc8c40468616c66a56572726f72c3cb4030000000000000c40131c2"
)


def a_task() -> Task:
    """A task with something in every field."""
    options = TaskOptions(
        "https://callback",
        "project",
        frozenset({"gpu"}),
        (("label", "value"),),
        "bat_1",
        "door",
        "trace",
        IdempotencyKey("key", b"print"),
        True,
        1.5,
        100,
        RetryPolicy(3, 2.0, 3.0, 4.0, frozenset({"fatal"})),
        "trg_1",
    )
    submission = Submission("agent", "action", "tab", "ref", b"{}", -3, None, options)
    task = Task("tsk_1", 7, Agent("agent", 1), submission, 10.0, 70.0, TaskState.RUNNING)
    task.queued_at, task.position, task.token, task.deliveries, task.host_id = 11.0, 4, 9, 2, "host"
    task.history = History(2, (Attempt(1, "host", 12.0, 13.0, "broken", "code"),), 1, 1, False, 14.0, 5, 6, 200)
    task.started_at, task.completed_at, task.progress, task.result = 15.0, 16.0, b"half", b"1"
    task.error, task.expired = "error", True
    task.lease = Lease(task, Host("host", 1, 0.0), 9, 17.0, 30.0)
    task.lease.started_at = 18.0
    return task


def test_a_task_of_version_one_is_read():
    expected = a_task()
    state = decode_state(bytes.fromhex(STATE))
    found = to_task(7, decode_task(bytes.fromhex(TASK)), state, expected.agent)
    for name in TASK_FIELDS:
        if name not in ("lease", "lane", "retained"):
            assert getattr(found, name) == getattr(expected, name), name
    held = state.held
    assert (held.host_id, held.secs, held.claimed_at, held.started_at) == ("host", 30.0, 17.0, 18.0)
    assert held.claim_id is None
