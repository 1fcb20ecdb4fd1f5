"""`taskyard batch`: a file of JSON lines becomes batches, which are shown, followed and cancelled."""

import json
import sys
from io import StringIO

import pytest


@pytest.fixture
def file(tmp_path):
    """Writes tasks to a file, one a line, and returns its path."""

    def write(*tasks):
        path = tmp_path / "tasks.jsonl"
        path.write_text("".join(f"{task if isinstance(task, str) else json.dumps(task)}\n" for task in tasks))
        return str(path)

    return write


def test_the_lines_of_a_file_are_submitted_as_a_batch(taskyard, file):
    path = file({"action": "click", "params": {"n": 1}}, "", {"action": "scroll", "priority": 5})
    done = taskyard("batch", "submit", path, "--agent", "ann", "--json").json
    (batch_id,) = done["batchIds"]
    assert done["submitted"] == 2
    tasks = taskyard("list", "--batch", batch_id, "--json").json["tasks"]
    assert [(task["agentId"], task["action"], task["priority"]) for task in tasks] == [
        ("ann", "click", 0),
        ("ann", "scroll", 5),
    ]
    assert [task["taskId"] for task in tasks] == [outcome["taskId"] for outcome in done["tasks"]]


def test_the_standard_input_is_a_file_too(taskyard, monkeypatch):
    monkeypatch.setattr(sys, "stdin", StringIO('{"action": "click"}\n'))
    done = taskyard("batch", "submit", "-", "--agent", "ann")
    assert (done.code, done.out.split(maxsplit=1)[1]) == (0, "has 1 task\n")


def test_more_lines_than_a_batch_may_have_are_several(taskyard, file):
    path = file(*({"action": "click"} for _ in range(5)))
    done = taskyard("batch", "submit", path, "--agent", "ann", "--size", "2", "--json").json
    assert (len(done["batchIds"]), done["submitted"]) == (3, 5)


def test_places_in_a_batch_do_not_reach_over_several(taskyard, file):
    for field, places in (("afterIndexes", [0]), ("inputIndexes", {"page": 0})):
        path = file({"action": "a"}, {"action": "b", field: places}, {"action": "c"})
        assert taskyard("batch", "submit", path, "--agent", "ann").code == 0
        refused = taskyard("batch", "submit", path, "--agent", "ann", "--size", "2")
        assert (refused.code, refused.err.startswith(f"taskyard: {field}: only in one batch")) == (2, True)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "line 2: "),
        ('{"action": "click", "action": "buy"}', 'line 2: "action" stands twice in one object'),
        ("[1]", "line 2: must be a JSON object"),
        ('{"acton": "click"}', "line 2: "),
        ('{"action": "click", "priority": "high"}', "line 2: "),
    ],
)
def test_a_malformed_line_is_named_and_nothing_is_submitted(taskyard, file, line, problem):
    refused = taskyard("batch", "submit", file({"action": "click"}, line), "--agent", "ann")
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert refused.err.startswith(f"taskyard: {problem}")
    assert taskyard("list", "--json").json["count"] == 0


def test_marks_in_front_and_line_ends_within_texts_are_no_lines(taskyard, tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_bytes('\ufeff{"action": "a", "params": {"text": "one\u2028two\x85three"}}\r\n'.encode())
    assert taskyard("batch", "submit", str(path), "--agent", "ann").code == 0
    (task,) = taskyard("list", "--json").json["tasks"]
    assert taskyard("get", task["taskId"], "--json").json["params"] == {"text": "one\u2028two\x85three"}


def test_a_closed_standard_input_holds_no_tasks(taskyard, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    assert taskyard("batch", "submit", "-", "--agent", "ann").err == "taskyard: -: holds no tasks\n"


def test_what_the_server_refuses_is_named_by_its_line_and_what_was_before_by_its_batch(taskyard, file):
    path = file({"action": "a"}, {"action": "b"}, "", {"action": "c"}, {"action": ""})
    refused = taskyard("batch", "submit", path, "--agent", "ann", "--size", "2")
    (task,) = taskyard("list", "--json", "--limit", "1").json["tasks"]
    assert refused.code == 1
    assert refused.err.startswith("taskyard: line 5: action: is required")
    assert refused.err.endswith(f"(submitted before it: {task['batchId']})\n")


def test_a_line_that_is_not_admitted_is_named_and_the_others_are(taskyard, file):
    path = file(*({"action": "click"} for _ in range(101)))
    done = taskyard("batch", "submit", path, "--agent", "ann")
    assert (done.code, done.err) == (1, "taskyard: line 101: rejected: agent queue full\n")
    assert taskyard("list", "--state", "queued", "--json").json["count"] == 100


@pytest.mark.parametrize(
    ("content", "problem"), [("", "holds no tasks"), ("\n \n", "holds no tasks"), (None, "no such")]
)
def test_a_file_without_tasks_is_a_mistake(taskyard, tmp_path, content, problem):
    path = tmp_path / "none.jsonl"
    if content is not None:
        path.write_text(content)
    refused = taskyard("batch", "submit", str(path), "--agent", "ann")
    assert (refused.code, problem in refused.err) == (2, True)


def test_a_batch_is_shown_with_its_tasks(taskyard, file):
    batch_id = taskyard("batch", "submit", file({"action": "a"}, {"action": "b"}), "--agent", "ann", "--json").json[
        "batchIds"
    ][0]
    shown = taskyard("batch", "get", batch_id)
    lines = shown.out.splitlines()
    assert lines[0] == f"{batch_id} has not ended: 2 queued"
    assert [line.split()[1:3] for line in lines[2:]] == [["a", "queued"], ["b", "queued"]]
    assert taskyard("batch", "get", batch_id, "--json").json["states"]["queued"] == 2


def test_a_cancelled_batch_has_ended_badly(taskyard, file):
    batch_id = taskyard("batch", "submit", file({"action": "a"}, {"action": "b"}), "--agent", "ann", "--json").json[
        "batchIds"
    ][0]
    cancelled = taskyard("batch", "cancel", batch_id, "--reason", "wrong site")
    assert cancelled.out == f"{batch_id}: 2 tasks cancelled\n"
    assert taskyard("batch", "get", batch_id).out.count("wrong site") == 2
    waited = taskyard("batch", "wait", batch_id)
    assert (waited.code, waited.out) == (1, f"{batch_id} has ended: 2 cancelled\n")


def test_a_batch_that_does_not_end_in_time_is_an_error(taskyard, file):
    batch_id = taskyard("batch", "submit", file({"action": "a"}), "--agent", "ann", "--json").json["batchIds"][0]
    waited = taskyard("batch", "wait", batch_id, "--timeout", "1ms")
    assert (waited.code, waited.err) == (1, f"taskyard: {batch_id} has not ended: 1 queued\n")


def test_submit_waits_for_the_ends(taskyard, file):
    path = file(*({"action": "click", "tabId": "t", "ref": "e1"} for _ in range(3)))
    done = taskyard("batch", "submit", path, "--agent", "ann", "--wait", "--namespace", "default")
    assert (done.code, done.out.splitlines()[-1].split(maxsplit=1)[1]) == (0, "has ended: 3 done")


def test_an_unknown_batch_is_not_found(taskyard):
    for command in ("get", "wait", "cancel"):
        refused = taskyard("batch", command, "bat_1")
        assert (refused.code, refused.err) == (1, "taskyard: batch not found\n")
