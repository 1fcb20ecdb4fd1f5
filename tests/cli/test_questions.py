"""`taskyard questions` and `taskyard answer`: what parked tasks ask is listed, and answered."""

import io
import sys

import grpc
import pytest
from google.protobuf import json_format

from taskyard.v1 import lease_pb2, lease_pb2_grpc, park_pb2, park_pb2_grpc, runtime_host_pb2, runtime_host_pb2_grpc
from taskyard.v1.wait_pb2 import NewWait, Question


@pytest.fixture
def ask(address, submit, namespace):
    """Submits a task that parks with a question `go`, and returns its id."""

    def run(**fields):
        task_id = submit()
        call = {"metadata": (("taskyard-namespace", namespace),), "timeout": 20}
        with grpc.insecure_channel(address) as channel:
            hosts = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel)
            hosts.RegisterHost(runtime_host_pb2.RegisterHostRequest(host_id="h"), **call)
            claim = lease_pb2.ClaimTaskRequest(host_id="h", wait_ms=10_000)
            lease = lease_pb2_grpc.LeaseServiceStub(channel).ClaimTask(claim, **call)
            question = json_format.ParseDict({"text": "Go on?", **fields}, Question())
            request = park_pb2.ParkTaskRequest(
                host_id="h",
                task_id=task_id,
                fencing_token=lease.fencing_token,
                waits=[NewWait(name="go", question=question)],
            )
            park_pb2_grpc.ParkServiceStub(channel).ParkTask(request, **call)
        return task_id

    return run


@pytest.fixture
def typed(monkeypatch):
    """Lets the standard input be a terminal, at which this is typed."""

    def run(line):
        terminal = io.StringIO(line)
        monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(sys, "stdin", terminal)

    return run


def answered(taskyard, task_id):
    (step,) = taskyard("steps", task_id, "--json").json["steps"]
    return step.get("result")


def test_open_questions_are_listed(taskyard, ask):
    task_id = ask(text="Shall\nit go on?", choices=["yes", 2])
    head, row = taskyard("questions", "--wide").out.splitlines()
    assert head.split() == ["task", "question", "text", "agent", "action", "choices", "asked", "until"]
    assert row.startswith(f"{task_id}  go")
    assert '"yes", 2' in row
    assert "Shall it go on?" in row
    (shown,) = taskyard("questions", "-o", "json").json["questions"]
    assert (shown["taskId"], shown["questionId"], shown["question"]["choices"]) == (task_id, "go", ["yes", 2])
    assert taskyard("questions", "--agent", "bob", "--json").json == {"questions": []}


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["yes"], "yes"),
        (["12"], 12),
        (["12", "--text"], "12"),
        (['{"a": [true]}'], {"a": [True]}),
        (["NaN"], "NaN"),
        (["{a"], "{a"),
        ([""], ""),
    ],
)
def test_an_answer_is_json_or_else_a_text(taskyard, ask, words, answer):
    task_id = ask()
    done = taskyard("answer", task_id, "go", *words)
    assert (done.code, done.out, done.err) == (0, f"{task_id} is queued\n", "")
    assert answered(taskyard, task_id) == answer
    assert taskyard("questions", "--json").json == {"questions": []}


def test_a_refused_answer_says_why(taskyard, ask):
    task_id = ask(choices=["yes", "no"])
    refused = taskyard("answer", task_id, "go", "perhaps")
    assert refused.code == 1
    assert refused.err.startswith("taskyard: answer")
    assert taskyard("answer", task_id, "other", "yes").err == "taskyard: question not found\n"
    assert taskyard("answer", task_id, "go", "yes", "--json").json == {"taskId": task_id, "state": "queued"}
    assert taskyard("answer", task_id, "go", "no").code == 1


def test_at_a_terminal_the_question_is_shown_and_the_answer_asked_for(taskyard, ask, typed):
    task_id = ask(choices=["yes", "no"], default="no", url="http://localhost/a", schema={"type": "string"})
    typed("yes\n")
    done = taskyard("answer", task_id, "go")
    assert (done.code, done.out) == (0, f"{task_id} is queued\n")
    assert done.err.splitlines() == [
        "Go on?",
        "http://localhost/a",
        'One of "yes", "no"',
        'JSON for the schema {"type": "string"}',
        'Without an answer in time it is "no"',
        "> ",
    ]
    assert answered(taskyard, task_id) == "yes"


def test_without_an_answer_nothing_is_answered(taskyard, ask, typed):
    task_id = ask()
    typed("")
    assert taskyard("answer", task_id, "go").err.endswith("taskyard: no answer was given\n")
    assert taskyard("answer", task_id, "other").err == "taskyard: question not found\n"
    assert len(taskyard("questions", "--json").json["questions"]) == 1


def test_without_a_terminal_the_answer_has_to_be_given(taskyard, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    missing = taskyard("answer", "tsk_1", "go")
    assert (missing.code, missing.err) == (2, "taskyard: ANSWER: is needed where there is no terminal\n")


def test_parked_tasks_are_counted_and_listed(taskyard, ask):
    assert "parked" not in taskyard("stats").out
    task_id = ask()
    assert "1 parked" in " ".join(taskyard("stats").out.split())
    assert [each["taskId"] for each in taskyard("list", "--state", "parked", "--json").json["tasks"]] == [task_id]


def test_a_link_is_printed_by_which_somebody_else_can_answer(taskyard, ask, namespace):
    task_id = ask()
    assert taskyard("answer", task_id, "go", "--link").out.startswith(f"/ui/#/{namespace}/answer/")
    made = taskyard("answer", task_id, "go", "--link", "--json").json
    assert made["href"].endswith(made["token"])
    assert "--link: takes no answer" in taskyard("answer", task_id, "go", "yes", "--link").err
