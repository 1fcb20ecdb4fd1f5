"""`taskyard tree`: a run as a tree, from a task down or from its root, within a bound."""

import re

import grpc
import pytest

from taskyard.v1 import (
    lease_pb2,
    lease_pb2_grpc,
    park_pb2,
    park_pb2_grpc,
    runtime_host_pb2,
    runtime_host_pb2_grpc,
    step_pb2,
    step_pb2_grpc,
)
from taskyard.v1.wait_pb2 import EndOfTasks, EventWait, NewWait, Question


@pytest.fixture
def claim(address, namespace):
    """Lets the host `h` claim a task; the stub of leases and the fields and options of its reports."""
    call = {"metadata": (("taskyard-namespace", namespace),), "timeout": 20}
    with grpc.insecure_channel(address) as channel:
        hosts = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel)
        hosts.RegisterHost(runtime_host_pb2.RegisterHostRequest(host_id="h"), **call)
        leases = lease_pb2_grpc.LeaseServiceStub(channel)

        def run():
            lease = leases.ClaimTask(lease_pb2.ClaimTaskRequest(host_id="h", wait_ms=10_000), **call)
            fields = {"host_id": "h", "task_id": lease.task.task_id, "fencing_token": lease.fencing_token}
            leases.StartTask(lease_pb2.StartTaskRequest(**fields), **call)
            return fields

        run.leases, run.parks, run.call = leases, park_pb2_grpc.ParkServiceStub(channel), call
        run.steps = step_pb2_grpc.StepServiceStub(channel)
        yield run


@pytest.fixture
def run_of_four(submit, claim):
    """A task that waits for its children: one asks, one failed, which has a child that is held."""
    root = submit("--action", "plan")
    lease = claim()
    asks = submit("--action", "ask", "--parent", root)
    waits = [NewWait(name="deploy", question=Question(text="Deploy?")), NewWait(name="nap", sleep_secs=3_600)]
    waits.append(NewWait(name="pay", event=EventWait(name="paid")))
    claim.parks.ParkTask(park_pb2.ParkTaskRequest(**claim(), waits=waits), **claim.call)
    fails = submit("--action", "fetch", "--parent", root)
    failing = claim()
    held = submit("--action", "later", "--parent", fails, "--hold")
    claim.steps.RecordStep(step_pb2.RecordStepRequest(**failing, name="open"), **claim.call)
    claim.leases.FailTask(lease_pb2.FailTaskRequest(**failing, error="no\nsuch page"), **claim.call)
    waits = [NewWait(name="children", ends=EndOfTasks(task_ids=[asks, fails, held]))]
    claim.parks.ParkTask(park_pb2.ParkTaskRequest(**lease, waits=waits[:1]), **claim.call)
    return root, asks, fails, held


def lines(outcome):
    assert (outcome.code, outcome.err) == (0, "")
    return [re.sub(r"[0-9.]+ m?s\b", "TIME", line) for line in outcome.out.splitlines()]


def test_a_run_is_a_tree_with_what_each_task_does_or_waits_for(taskyard, submit, run_of_four):
    root, asks, fails, held = run_of_four
    submit("--action", "other")
    told = lines(taskyard("tree", root))
    assert re.fullmatch(
        rf"├── ask {asks} parked, TIME, waits for an answer to deploy or 20.+ or the event paid", told.pop(1)
    )
    assert told == [
        f"plan {root} parked, TIME, waits for 3 tasks",
        f"└── fetch {fails} failed, TIME, on h, 1 step, no such page",
        f"    └── later {held} pending, held",
    ]
    assert taskyard("tree", "tsk_1").err == "taskyard: task not found\n"


def test_the_tree_of_a_part_is_that_of_the_run_with_root(taskyard, run_of_four):
    root, _, fails, held = run_of_four
    assert [line.split()[-3] for line in lines(taskyard("tree", held))] == [held]
    assert len(lines(taskyard("tree", fails))) == 2
    assert lines(taskyard("tree", held, "--root")) == lines(taskyard("tree", root))


def test_other_programs_get_the_tasks_depth_first(taskyard, run_of_four):
    root, asks, fails, held = run_of_four
    answer = taskyard("tree", root, "--json").json
    assert [task["taskId"] for task in answer["tasks"]] == [root, asks, fails, held]
    assert answer["tasks"][3]["parentId"] == fails
    assert (answer["leftOut"], answer["notLookedBelow"]) == (0, [])


def test_a_large_tree_says_what_is_left_out(taskyard, submit):
    root = submit()
    children = [submit("--parent", root) for _ in range(3)]
    submit("--parent", children[0])
    shown = lines(taskyard("tree", root, "--limit", "3"))
    assert shown[3:] == ["└── and 1 more", "the first 3 tasks; at least 1 more are left out (--limit)"]
    shown = lines(taskyard("tree", root, "--limit", "4"))
    assert shown[4:] == ["the first 4 tasks; there may be more (--limit)"]
    assert len(lines(taskyard("tree", root, "--limit", "6"))) == 5
    answer = taskyard("tree", root, "--limit", "2", "--json").json
    assert (answer["leftOut"], answer["notLookedBelow"]) == (2, [children[0]])


def test_a_line_ends_where_the_terminal_ends(taskyard, submit, monkeypatch):
    root = submit("--action", "a" * 100)
    submit("--parent", root, "--action", "b")
    monkeypatch.setenv("COLUMNS", "60")
    long, short = lines(taskyard("tree", root))
    assert len(long) == 60
    assert long.endswith("…")
    assert short.startswith("└── b tsk_")
    assert "a" * 100 in taskyard("tree", root, "--wide").out


def test_a_parent_that_nobody_knows_is_no_root(taskyard, submit):
    first = submit("--parent", "tsk_unknown")
    second = submit("--parent", first)
    assert lines(taskyard("tree", second, "--root"))[0].startswith(f"click {first}")
