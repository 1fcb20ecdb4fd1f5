"""The shell completes words, options, their values, and ids that the server knows; whatever goes wrong is silent."""

import os
import subprocess
import sys
from unittest.mock import MagicMock

import pytest

from taskyard_server.cli.completion import _found
from tests.environment import without_settings
from tests.ports import free_port


@pytest.fixture
def completed(address, namespace):
    """What bash is offered for the last word of a line."""

    def run(*words, server=address):
        environment = {
            **without_settings(),
            "TASKYARD_SERVER": server,
            "TASKYARD_NAMESPACE": namespace,
            "COMP_WORDS": " ".join(("taskyard", *words)),
            "COMP_CWORD": str(len(words)),
            "_TASKYARD_COMPLETE": "complete_bash",
        }
        command = [sys.executable, "-m", "taskyard_server"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
        assert done.stderr == ""
        return done.stdout.split()

    return run


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("wa",), ["watch", "wait"]),
        (("schedule", "cr"), ["create"]),
        (("list", "--sta"), ["--state"]),
        (("list", "-o", "j"), ["json"]),
        (("targets", "--status", "b"), ["blocked"]),
    ],
)
def test_words_options_and_values_are_completed(completed, words, offered):
    assert completed(*words) == offered


def test_ids_of_tasks_are_completed_youngest_first(completed, submit):
    ids = [submit(), submit()]
    assert completed("get", "tsk") == ids[::-1]
    assert completed("wait", ids[0], ids[1][:-1]) == [ids[1]]
    assert completed("cancel", "tsk_f") == []


def test_names_of_artifacts_are_completed(completed, submit, tmp_path):
    file = tmp_path / "file"
    file.touch()
    task_id = submit("--hold", "--attach", f"notes.txt={file}", "--attach", f"a.png={file}")
    assert completed("artifacts", task_id, "") == ["notes.txt", "a.png"]
    assert completed("artifacts", task_id.removeprefix("tsk_")[:-1], "a") == ["a.png"]
    assert completed("artifacts", "tsk_f", "") == []


def test_nothing_that_others_named_reaches_the_shell(address, namespace, submit):
    submit("--action", "\\\\$(touch x)`y`'z\"")
    environment = {
        **without_settings(),
        "TASKYARD_SERVER": address,
        "TASKYARD_NAMESPACE": namespace,
        "_TYPER_COMPLETE_ARGS": "taskyard get tsk_",
        "_TASKYARD_COMPLETE": "complete_zsh",
    }
    command = [sys.executable, "-m", "taskyard_server"]
    offered = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "touch x" in offered
    assert not set("\\$`") & set(offered)


@pytest.mark.parametrize("name", ["$(touch x)", "a;b", "a b", "-f", "<b>", "a'b", "~", "*", "a\\b", "a&"])
def test_names_that_a_shell_would_read_are_not_offered(monkeypatch, name):
    pairs = [(name, ""), ("host-1.example:80", "a\\$(b)")]
    monkeypatch.setattr("taskyard_server.cli.completion.connection", lambda: MagicMock())
    assert _found(lambda *_: pairs, "") == [("host-1.example:80", "a???b?")]


def test_ids_of_schedules_are_completed(completed, taskyard):
    words = ("--agent", "ann", "--action", "click", "--every", "1h")
    for name in ("nightly", "noon"):
        taskyard("schedule", "create", "--id", name, *words)
    assert completed("schedule", "trigger", "ni") == ["nightly"]


def test_without_a_server_nothing_is_offered_and_nothing_is_said(completed):
    assert completed("get", "tsk", server=f"127.0.0.1:{free_port()}") == []
    assert completed("get", "tsk", server="nonsense:::") == []


def test_completion_is_installed_for_the_shell_of_the_terminal(tmp_path):
    environment = {**os.environ, "HOME": str(tmp_path)}
    command = f"{sys.executable} -m taskyard_server --install-completion; true"
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=True)
    assert "bash completion installed in" in done.stdout
    script = tmp_path / ".bash_completions" / "taskyard.sh"
    assert "_TASKYARD_COMPLETE=complete_bash" in script.read_text()
    assert str(script) in (tmp_path / ".bashrc").read_text()
