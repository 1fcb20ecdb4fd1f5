"""Every error is one line on standard error, nothing on standard output, and an exit code that says of which kind."""

import json
import os
import subprocess
import sys

import grpc
import pytest

from taskyard.v1.batch_pb2 import BatchTask, SubmitBatchRequest
from taskyard.v1.batch_pb2_grpc import BatchServiceStub
from taskyard_server.cli.failure import FAILED, MISUSED, UNREACHED
from tests.cases import every_case
from tests.ports import free_port


@pytest.fixture
def error_of(taskyard):
    """Runs a command that must fail, and returns the line that it prints."""

    def run(*words):
        failed = taskyard(*words)
        assert failed.code in (FAILED, MISUSED, UNREACHED)
        assert failed.out == ""
        assert failed.err.startswith("taskyard: ")
        assert failed.err.endswith("\n")
        assert failed.err.count("\n") == 1
        return failed.err.removeprefix("taskyard: ").removesuffix("\n")

    return run


SUBMIT = ("submit", "--agent", "ann", "--action", "click")


# The server


@pytest.mark.parametrize("words", [SUBMIT, ("get", "tsk_1"), ("list",), ("cancel", "tsk_1"), ("stats",)])
@pytest.mark.parametrize("as_json", [False, True])
def test_a_server_that_does_not_answer_is_named(error_of, words, as_json):
    nobody = f"127.0.0.1:{free_port()}"
    options = ("--json",) if as_json else ()
    assert error_of(*words, "--server", nobody, *options) == f"no server answers at {nobody}"


@pytest.mark.parametrize("server", ["", "nonsense:::", "http://127.0.0.1:1"])
def test_a_malformed_address_is_one_line_too(error_of, server):
    assert error_of("list", "--server", server)


# The task


@every_case("command", ["get", "cancel"])
@every_case("task_id", ["tsk_a1b2c3d4", "nonsense", ""])
def test_an_unknown_task_is_not_found(error_of, command, task_id):
    assert error_of(command, task_id) == "task not found"
    assert error_of(command, task_id, "--json") == "task not found"


def test_a_task_that_has_ended_cannot_be_cancelled(error_of, taskyard, submit):
    task_id = submit()
    taskyard("cancel", task_id)
    assert error_of("cancel", task_id) == "task is already cancelled"


def test_a_full_queue_is_an_error(error_of, address, namespace):
    tasks = [BatchTask(action="click")] * 50
    with grpc.insecure_channel(address) as channel:
        for _ in range(2):
            BatchServiceStub(channel).SubmitBatch(
                SubmitBatchRequest(agent_id="ann", tasks=tasks), metadata=(("taskyard-namespace", namespace),)
            )
    assert error_of(*SUBMIT) == "rejected: agent queue full"


# Options


@pytest.mark.parametrize("params", ["{", "nonsense", "", "{'x': 1}", '{"x": }'])
def test_params_that_are_not_json_are_an_error(error_of, params):
    assert error_of(*SUBMIT, "--params", params).startswith("--params: ")


def test_a_name_of_params_stands_once(error_of):
    assert error_of(*SUBMIT, "--params", '{"a": {"b": 1, "b": 2}}') == '--params: "b" stands twice in one object'


@pytest.mark.parametrize("params", ["[1]", '"text"', "1", "true"])
def test_params_must_be_an_object(error_of, params):
    assert error_of(*SUBMIT, "--params", params) == "--params: must be a JSON object"


def test_params_that_nest_too_deep_are_an_error(error_of):
    assert "nest" in error_of(*SUBMIT, "--params", '{"x":' * 40 + "1" + "}" * 40)


def test_params_that_are_too_large_are_an_error(error_of):
    assert error_of(*SUBMIT, "--params", '{"x": "' + "x" * 262_144 + '"}').startswith(
        "params: must be at most 262144 bytes"
    )


@pytest.mark.parametrize("deadline", ["tomorrow", "", "12:00", "2126-13-01T00:00:00Z", "99999-01-01T00:00:00Z"])
def test_a_malformed_deadline_is_an_error(error_of, deadline):
    assert error_of(*SUBMIT, "--deadline", deadline).startswith("--deadline: must be a time with its zone, such as ")


def test_a_deadline_in_the_past_is_an_error(error_of):
    assert error_of(*SUBMIT, "--deadline", "2020-03-08T12:05:00Z") == "deadline: must be in the future"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("submit", "--agent", "", "--action", "click"), "agentId: is required"),
        (("submit", "--agent", "ann", "--action", ""), "action: is required"),
        ((*SUBMIT, "--tab", "x" * 1025), "tabId: must be at most 1024 characters"),
        ((*SUBMIT, "--callback", "ftp://example.com"), "callbackUrl: must be an http or https URL"),
        (
            (*SUBMIT, "--namespace", "a b"),
            "taskyard-namespace: must be 1 to 63 letters, digits, dots, dashes or underscores",
        ),
    ],
)
def test_a_refusal_of_the_server_is_printed_with_its_message(error_of, words, message):
    assert error_of(*words) == message


def test_a_priority_beyond_int32_is_an_error(error_of):
    assert "priority" in error_of(*SUBMIT, "--priority", str(2**31))


@pytest.mark.parametrize("label", ["gpu", ""])
def test_a_label_without_a_value_is_an_error(error_of, label):
    assert error_of(*SUBMIT, "--label", label) == "--label: must be KEY=VALUE"


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--token-limit", "-1", "--token-limit"),
        ("--token-limit", str(2**32), "tokenLimit"),
        ("--max-attempts", "0", "--max-attempts"),
        ("--not-before", "tomorrow", "--not-before"),
    ],
)
def test_an_option_out_of_its_range_is_named(error_of, option, value, told):
    assert told in error_of(*SUBMIT, option, value)


def test_an_idempotency_key_of_another_task_is_an_error(error_of, submit):
    submit("--idempotency-key", "k")
    assert error_of(*SUBMIT, "--tab", "t", "--idempotency-key", "k") == "idempotencyKey: is that of another task"


def test_an_unknown_state_is_an_error(error_of):
    assert error_of("list", "--state", "nonsense").startswith('state: unknown state "nonsense"')


def test_a_refused_command_submits_nothing(error_of, taskyard):
    error_of(*SUBMIT, "--deadline", "2020-03-08T12:05:00Z")
    error_of(*SUBMIT, "--params", "{")
    assert taskyard("stats", "--json").json["metrics"]["tasksSubmitted"] == 0


# As a process


def run(*words):
    command = [sys.executable, "-m", "taskyard_server.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_process_ends_with_its_exit_code_and_without_a_traceback():
    nobody = f"127.0.0.1:{free_port()}"
    failed = run("list", "--server", nobody)
    assert failed.returncode == UNREACHED
    assert failed.stdout == ""
    assert failed.stderr == f"taskyard: no server answers at {nobody}\n"


def test_a_full_disk_is_one_line_too(address):
    with open("/dev/full", "w", encoding="utf-8") as full:
        for words in (("list",), ("list", "--json"), ("--help",), ("--version",)):
            command = [sys.executable, "-m", "taskyard_server.cli.main", *words]
            environment = {**os.environ, "TASKYARD_SERVER": address}
            failed = subprocess.run(
                command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False, env=environment
            )
            assert (failed.returncode, failed.stderr) == (FAILED, "taskyard: cannot write: no space left on device\n")


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_names_that_a_terminal_cannot_show_are_no_error(address, taskyard, namespace, form):
    taskyard("submit", "--agent", "J\u00f6rg\U0001f600", "--action", "click")
    environment = {
        **os.environ,
        "PYTHONIOENCODING": "ascii",
        "TASKYARD_SERVER": address,
        "TASKYARD_NAMESPACE": namespace,
    }
    command = [sys.executable, "-m", "taskyard_server.cli.main", "list", *form]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment).stdout
    assert json.loads(shown)["tasks"][0]["agentId"] == "J\u00f6rg\U0001f600" if form else "J?rg?" in shown


@pytest.mark.parametrize(("missing", "words"), [("typer", ()), ("rich", ("list",)), ("structlog", ("up",))])
def test_without_the_server_extra_it_is_one_line_too(missing: str, words: tuple[str, ...]) -> None:
    program = f"import sys; sys.modules['{missing}'] = None; from taskyard_server.cli.script import main; main()"
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"taskyard: {missing} is not installed: pip install 'taskyard[server,gateway]'\n"
