"""Every error is one clear line on standard error, nothing on standard output, and exit code 1."""

import subprocess
import sys

import pytest

from tests.ports import free_port


@pytest.fixture
def says(taskyard):
    """Runs a command that must fail; the one line that it prints."""

    def run(*words):
        failed = taskyard(*words)
        assert failed.code == 1
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
def test_a_server_that_does_not_answer_is_named(says, words, as_json):
    nobody = f"127.0.0.1:{free_port()}"
    options = ("--json",) if as_json else ()
    assert says(*words, "--server", nobody, *options) == f"no server answers at {nobody}"


@pytest.mark.parametrize("server", ["", "nonsense:::", "http://127.0.0.1:1"])
def test_an_address_that_is_none_is_one_line_too(says, server):
    assert says("list", "--server", server)


# The task


@pytest.mark.parametrize("command", ["get", "cancel"])
@pytest.mark.parametrize("task_id", ["tsk_a1b2c3d4", "nonsense", ""])
def test_an_unknown_task_is_not_found(says, command, task_id):
    assert says(command, task_id) == "task not found"
    assert says(command, task_id, "--json") == "task not found"


def test_a_task_that_has_ended_cannot_be_cancelled(says, taskyard, submit):
    task_id = submit()
    taskyard("cancel", task_id)
    assert says("cancel", task_id) == "task is already cancelled"


def test_a_full_queue_is_told(says, submit):
    for _ in range(100):
        submit()
    assert says(*SUBMIT) == "rejected: agent queue full"


# What was asked


@pytest.mark.parametrize("params", ["{", "nonsense", "", "{'x': 1}", '{"x": }'])
def test_params_that_are_not_json_are_told(says, params):
    assert says(*SUBMIT, "--params", params).startswith("--params: ")


@pytest.mark.parametrize("params", ["[1]", '"text"', "1", "true"])
def test_params_must_be_an_object(says, params):
    assert says(*SUBMIT, "--params", params) == "--params: must be a JSON object"


def test_params_that_nest_too_deep_are_told(says):
    assert "nest" in says(*SUBMIT, "--params", '{"x":' * 40 + "1" + "}" * 40)


def test_params_that_are_too_large_are_told(says):
    assert says(*SUBMIT, "--params", '{"x": "' + "x" * 262_144 + '"}').startswith(
        "params: must be at most 262144 bytes"
    )


@pytest.mark.parametrize("deadline", ["tomorrow", "", "12:00", "2126-13-01T00:00:00Z", "99999-01-01T00:00:00Z"])
def test_a_deadline_that_is_no_time_is_told(says, deadline):
    assert "deadline" in says(*SUBMIT, "--deadline", deadline)


def test_a_deadline_in_the_past_is_told(says):
    assert says(*SUBMIT, "--deadline", "2020-03-08T12:05:00Z") == "deadline: must be in the future"


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
def test_what_the_server_refuses_is_told_in_its_words(says, words, message):
    assert says(*words) == message


def test_a_priority_that_is_no_int32_is_told(says):
    assert "priority" in says(*SUBMIT, "--priority", str(2**31))


@pytest.mark.parametrize("label", ["gpu", ""])
def test_a_label_without_a_value_is_told(says, label):
    assert says(*SUBMIT, "--label", label) == "--label: must be KEY=VALUE"


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--token-limit", "-1", "--token-limit"),
        ("--token-limit", str(2**32), "tokenLimit"),
        ("--max-attempts", "0", "--max-attempts"),
        ("--not-before", "tomorrow", "notBefore"),
    ],
)
def test_an_option_out_of_its_range_is_named(says, option, value, told):
    assert told in says(*SUBMIT, option, value)


def test_a_key_of_another_task_is_told(says, submit):
    submit("--idempotency-key", "k")
    assert says(*SUBMIT, "--tab", "t", "--idempotency-key", "k") == "idempotencyKey: is that of another task"


def test_an_unknown_state_is_told(says):
    assert says("list", "--state", "nonsense").startswith('state: unknown state "nonsense"')


def test_nothing_was_submitted_by_a_refused_command(says, taskyard):
    says(*SUBMIT, "--deadline", "2020-03-08T12:05:00Z")
    says(*SUBMIT, "--params", "{")
    assert taskyard("stats", "--json").json["metrics"]["tasksSubmitted"] == 0


# As a process


def run(*words):
    command = [sys.executable, "-m", "taskyard_server.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_process_ends_with_1_and_without_a_traceback():
    nobody = f"127.0.0.1:{free_port()}"
    failed = run("list", "--server", nobody)
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert failed.stderr == f"taskyard: no server answers at {nobody}\n"


@pytest.mark.parametrize("missing", ["typer", "structlog"])
def test_without_the_server_extra_it_is_one_line_too(missing: str) -> None:
    program = f"import sys; sys.modules['{missing}'] = None; from taskyard_server.cli.script import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"taskyard: {missing} is not installed: pip install 'taskyard[server,gateway]'\n"
