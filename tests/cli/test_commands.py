"""`taskyard submit | get | list | cancel | stats` against a running control plane."""

import json

import grpc
import pytest

from taskyard.v1 import batch_pb2, batch_pb2_grpc, task_pb2, task_pb2_grpc
from taskyard.v1.lease_pb2 import ClaimTaskRequest, FailTaskRequest
from taskyard.v1.lease_pb2_grpc import LeaseServiceStub
from taskyard.v1.runtime_host_pb2 import RegisterHostRequest
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub
from tests.environment import is_kept


def wait_for(address, task_id):
    """Wait until the task, in the namespace `default`, has ended."""
    with grpc.insecure_channel(address) as channel:
        answer = task_pb2_grpc.TaskServiceStub(channel).WaitTask(task_pb2.WaitTaskRequest(task_id=task_id))
    assert answer.ended


# Submit


def test_submit_prints_the_id_the_state_and_the_position(taskyard):
    done = taskyard("submit", "--agent", "ann", "--action", "click")
    assert (done.code, done.err) == (0, "")
    task_id = done.out.split()[0]
    assert done.out == f"{task_id} is queued at position 1\n"
    assert taskyard("get", task_id).code == 0


def test_submit_as_json_is_the_documented_answer(taskyard):
    shown = taskyard("submit", "--agent", "ann", "--action", "click", "--json").json
    assert list(shown) == ["taskId", "state", "position", "createdAt"]
    assert (shown["state"], shown["position"]) == ("queued", 1)
    assert shown["createdAt"].endswith("Z")


def test_every_option_of_submit_reaches_the_task(taskyard, submit):
    params = {"text": "Größe 工 🙂", "n": 400, "deep": [{"x": None}]}
    task_id = submit(
        *("--tab", "t1", "--ref", "e14", "--priority", "-5", "--params", json.dumps(params)),
        *("--deadline", "2126-03-08T12:05:00Z", "--callback", "http://127.0.0.1:1/hook"),
        *("--target", "tree", "--hold", "--not-before", "2126-03-08T12:00:00Z", "--project", "p"),
        *("--requires", "gpu", "--requires", "x86", "--label", "a=b=c", "--label", "e="),
        *("--token-limit", "0", "--max-attempts", "3", "--idempotency-key", "k"),
        *("--run-timeout", "1.5s", "--parent", "tsk_1", "--input", "[9007199254740993]"),
    )
    task = taskyard("get", task_id, "--json").json
    assert task["createdAt"]
    assert task["state"] == "pending"
    del task["createdAt"], task["state"]
    assert task == {
        "taskId": task_id,
        "agentId": "ann",
        "action": "click",
        "tabId": "t1",
        "ref": "e14",
        "params": params,
        "priority": -5,
        "deadline": "2126-03-08T12:05:00Z",
        "position": 1,
        "callbackUrl": "http://127.0.0.1:1/hook",
        "target": "tree",
        "hold": True,
        "notBefore": "2126-03-08T12:00:00Z",
        "project": "p",
        "requires": ["gpu", "x86"],
        "labels": {"a": "b=c", "e": ""},
        "tokenLimit": 0,
        "retryPolicy": {"maxAttempts": 3, "firstDelayMs": 1000, "multiplier": 2, "maxDelayMs": 60000},
        "idempotencyKey": "k",
        "runTimeoutMs": 1500,
        "parentId": "tsk_1",
        "input": {"data": "WzkwMDcxOTkyNTQ3NDA5OTNd"},
    }


def test_the_same_key_twice_is_one_task(taskyard, submit):
    assert submit("--idempotency-key", "k") == submit("--idempotency-key", "k")
    assert taskyard("list", "--json").json["count"] == 1


def test_a_held_task_is_printed_as_pending(taskyard):
    assert " is pending at position 1\n" in taskyard("submit", "--agent", "ann", "--action", "click", "--hold").out


# Get


def test_get_as_json_is_the_documented_task(taskyard, address):
    words = ("--tab", "t1", "--ref", "e14", "--params", '{"scrollY": 400}', "--namespace", "default")
    task_id = taskyard("submit", "--agent", "ann", "--action", "scroll", *words, "--json").json["taskId"]
    wait_for(address, task_id)
    done = taskyard("get", task_id, "--namespace", "default", "--json")
    shown = done.json
    assert (shown["state"], shown["priority"]) == ("done", 0)
    assert isinstance(shown["latencyMs"], int)
    assert shown["createdAt"] <= shown["startedAt"] <= shown["completedAt"]
    action = {"kind": "scroll", "ref": "e14", "scrollY": 400}
    assert shown["result"] == {"success": True, "tab": "t1", "action": action}
    assert '"scrollY": 400\n' in done.out, "whole numbers are shown as such"


def test_get_shows_every_field_with_its_value(taskyard, submit):
    task_id = submit("--tab", "t1", "--params", '{"x": 1}')
    shown = taskyard("get", task_id)
    assert shown.code == 0
    fields = {line.split()[0]: line.split(maxsplit=1)[1].strip() for line in shown.out.splitlines()}
    assert fields["taskId"] == task_id
    assert fields["state"] == "queued"
    assert fields["params"] == '{"x": 1}'
    assert set(fields) == set(taskyard("get", task_id, "--json").json)


def test_get_shows_a_typed_input_as_its_json_and_a_traceback_line_by_line(taskyard, submit, address, namespace):
    task_id = submit("--input", "[9007199254740993]")
    metadata = (("taskyard-namespace", namespace),)
    with grpc.insecure_channel(address) as channel:
        hosts, leases = RuntimeHostServiceStub(channel), LeaseServiceStub(channel)
        hosts.RegisterHost(RegisterHostRequest(host_id="h"), metadata=metadata)
        claimed = leases.ClaimTask(ClaimTaskRequest(host_id="h"), metadata=metadata)
        failure = FailTaskRequest(host_id="h", task_id=task_id, fencing_token=claimed.fencing_token, error="no")
        failure.traceback = "Traceback:\n  in \x1b[31mcrawl\n"
        leases.FailTask(failure, metadata=metadata)
    lines = [line.rstrip() for line in taskyard("get", task_id).out.splitlines()]
    assert [line.split() for line in lines if "input" in line] == [["input", "[9007199254740993]"]]
    assert [line.split() for line in lines[-2:]] == [["traceback", "Traceback:"], ["in", "\ufffd[31mcrawl"]]


@pytest.mark.parametrize("span", ["0s", "soon", "-1s"])
def test_a_span_that_is_none_is_one_line(taskyard, span):
    done = taskyard("submit", "--agent", "ann", "--action", "click", f"--run-timeout={span}")
    assert done.err == "taskyard: --run-timeout: must be a span such as 500ms, 30s, 10m or 1.5h\n"


def test_an_input_that_is_no_json_is_one_line(taskyard):
    done = taskyard("submit", "--agent", "ann", "--action", "click", "--input", "{")
    assert (done.code, done.err.count("\n"), done.err.startswith("taskyard: --input: ")) == (2, 1, True)


# List


def test_list_as_json_is_the_documented_answer(taskyard, submit):
    ids = [submit("--priority", priority) for priority in ("9", "1")]
    shown = taskyard("list", "--json").json
    assert [task["taskId"] for task in shown["tasks"]] == ids
    assert shown["count"] == 2
    assert shown["tasks"][0] == taskyard("get", ids[0], "--json").json


def test_list_shows_one_line_per_task(taskyard, submit):
    ids = [submit() for _ in range(3)]
    lines = taskyard("list").out.splitlines()
    assert lines[0].split() == ["task", "agent", "action", "state", "duration", "error"]
    assert [line.split() for line in lines[1:]] == [[task_id, "ann", "click", "queued"] for task_id in ids]


def test_list_filters_by_agent_and_state(taskyard, submit):
    mine = submit()
    taskyard("submit", "--agent", "bob", "--action", "click")
    cancelled = submit()
    taskyard("cancel", cancelled)

    def ids(*words):
        return [task["taskId"] for task in taskyard("list", "--json", *words).json.get("tasks", [])]

    assert ids("--agent", "ann") == [mine, cancelled]
    assert ids("--agent", "ann", "--state", "cancelled,done") == [cancelled]
    assert ids("--agent", "nobody") == []


def test_list_filters_by_target_and_batch(taskyard, submit, address, namespace):
    mine = submit("--target", "t")
    submit("--target", "u")
    tasks = [batch_pb2.BatchTask(action="click"), batch_pb2.BatchTask(action="click", target="t")]
    request = batch_pb2.SubmitBatchRequest(agent_id="ann", tasks=tasks)
    with grpc.insecure_channel(address) as channel:
        stub = batch_pb2_grpc.BatchServiceStub(channel)
        batch = stub.SubmitBatch(request, metadata=(("taskyard-namespace", namespace),))
    first, second = (outcome.task_id for outcome in batch.tasks)

    def ids(*words):
        return [task["taskId"] for task in taskyard("list", "--json", *words).json["tasks"]]

    assert ids("--target", "t") == [mine, second]
    assert ids("--batch", batch.batch_id) == [first, second]
    assert ids("--batch", batch.batch_id, "--target", "t") == [second]
    assert ids("--target", "none") == []


def test_list_filters_by_parent(taskyard, submit):
    parent = submit()
    child = submit("--parent", parent)
    shown = taskyard("list", "--parent", parent, "--json").json
    assert [task["taskId"] for task in shown["tasks"]] == [child]


def test_list_filters_by_labels_action_key_and_error(taskyard, submit):
    shop = submit("--label", "site=shop", "--label", "team=a", "--concurrency-key", "site:1")
    news = submit("--label", "site=news")
    taskyard("submit", "--agent", "ann", "--action", "scroll")
    taskyard("cancel", news)

    def ids(*words):
        return [task["taskId"] for task in taskyard("list", "--json", *words).json["tasks"]]

    assert ids("--label", "site=shop") == ids("--label", "site!=news", "--label", "team in (a,b)") == [shop]
    assert ids("--label", "site") == ids("--action", "click") == [shop, news]
    assert ids("--concurrency-key", "site:1") == [shop]
    assert ids("--ended-since", "1h") == [news]
    assert ids("--ended-until", "1h") == ids("--error", "ink") == ids("--host", "host-1") == []
    refused = taskyard("list", "--label", "site in shop")
    assert (refused.code, refused.err) == (
        1,
        'taskyard: labels: expected "(" after in, found "shop" at character 9\n',
    )


def test_a_cut_list_says_that_there_is_more(taskyard, submit):
    first, _ = submit(), submit()
    cut = taskyard("list", "--limit", "1")
    assert first in cut.out
    assert "the first 1; there are more" in cut.out
    assert "there are more" not in taskyard("list", "--limit", "2").out
    assert taskyard("list", "--limit", "1", "--json").json["nextPageToken"]


def test_an_empty_list_is_not_an_error(taskyard):
    assert taskyard("list").code == 0
    assert taskyard("list", "--json").json["count"] == 0


# Cancel


def test_cancel_prints_the_new_state(taskyard, submit):
    task_id = submit()
    assert taskyard("cancel", task_id).out == f"{task_id} is cancelled\n"


def test_the_reason_of_a_cancel_is_shown(taskyard, submit):
    task_id = submit()
    taskyard("cancel", task_id, "--reason", "wrong site")
    assert taskyard("get", task_id, "--json").json["reason"] == "wrong site"
    assert ["reason", "wrong", "site"] in [line.split() for line in taskyard("get", task_id).out.splitlines()]
    assert "wrong site" in taskyard("list").out
    assert taskyard("wait", task_id).out.endswith("is cancelled: wrong site\n")


def test_cancel_as_json_is_the_documented_answer(taskyard, submit):
    task_id = submit()
    assert taskyard("cancel", task_id, "--json").json == {"status": "cancelled", "taskId": task_id}


def test_cancel_with_children_tells_how_many_there_were(taskyard, submit):
    parent = submit()
    submit("--parent", submit("--parent", parent))
    assert (
        taskyard("cancel", parent, "--cancel-children").out == f"{parent} is cancelled, and 2 below it are cancelled\n"
    )


# Stats


def test_stats_as_json_are_the_documented_answer(taskyard, submit):
    submit()
    taskyard("cancel", submit())
    stats = taskyard("stats", "--json").json
    assert ("store" in stats) is is_kept()
    stats.pop("store", None)
    assert stats == {
        "queue": {"totalQueued": 1, "totalInflight": 0, "agentCounts": {"ann": 1}},
        "metrics": {
            "tasksSubmitted": 2,
            "tasksCompleted": 0,
            "tasksFailed": 0,
            "tasksCancelled": 1,
            "tasksRejected": 0,
            "tasksExpired": 0,
            "dispatchCount": 0,
            "avgDispatchLatencyMs": 0,
            "agents": {"ann": {"submitted": 2, "completed": 0, "failed": 0, "cancelled": 1, "rejected": 0}},
        },
        "config": {
            "strategy": "fair-fifo",
            "maxQueueSize": 1000,
            "maxPerAgent": 100,
            "maxInflight": 20,
            "maxPerAgentFlight": 10,
            "workerCount": 4,
            "resultTTL": "5m0s",
        },
    }


def test_stats_show_one_line_per_agent_and_the_sum(taskyard, submit):
    submit()
    taskyard("cancel", submit())
    taskyard("submit", "--agent", "bob", "--action", "click")
    lines = [line.split() for line in taskyard("stats").out.splitlines()]
    assert lines[0] == ["agent", "queued", "submitted", "completed", "failed", "cancelled", "rejected"]
    assert ["ann", "1", "2", "0", "0", "1", "0"] in lines
    assert ["bob", "1", "1", "0", "0", "0", "0"] in lines
    assert ["all", "2", "3", "0", "0", "1", "0"] in lines


# Server and namespace


def test_namespaces_do_not_mix(taskyard, submit):
    submit()
    assert taskyard("list", "--namespace", "somewhere-else", "--json").json["count"] == 0
    assert taskyard("list", "--json").json["count"] == 1


def test_an_option_overrides_the_environment(taskyard, address, monkeypatch, submit):
    submit()
    monkeypatch.setenv("TASKYARD_SERVER", "127.0.0.1:1")
    assert taskyard("list").code == 3
    assert taskyard("list", "--server", address, "--json").json["count"] == 1


COMMANDS = "up submit get list cancel pause resume resolve targets watch stats hosts drain"


def test_every_command_is_listed(anywhere):
    listed = anywhere("--help").out
    assert [command for command in COMMANDS.split() if f" {command} " not in listed] == []
