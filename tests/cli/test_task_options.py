"""The options of a task are the same in every command that takes them, and there is one for each field."""

from inspect import signature

import pytest

from taskyard.v1.schedule_pb2 import TaskTemplate
from taskyard.v1.task_pb2 import SubmitTaskRequest
from taskyard_server.cli import task_options

OF_ONE_TASK = {
    "deadline",
    "hold",
    "not_before",
    "idempotency_key",
    "parent_id",
    "after",
    "after_policy",
    "inputs",
    "unique_key",
    "unique_while",
    "on_conflict",
    "on_parent_end",
}
"""Fields that the tasks of schedules do not have, or have as a span."""
WITHOUT_OPTION = {"traceparent"}
EXAMPLES = {
    "params": '{"a": 1}',
    "priority": 1,
    "requires": ["gpu"],
    "label": ["a=b"],
    "token_limit": 1,
    "max_attempts": 2,
    "run_timeout": "30s",
    "input": "1",
    "concurrency_key": ["site:shop"],
}
"""Values of the options that take no plain text."""


def test_each_field_of_a_task_has_an_option():
    options = signature(task_options.task_fields).parameters
    fields = task_options.task_fields(**{name: EXAMPLES.get(name, "x") for name in options})
    of_template = {field.json_name for field in TaskTemplate.DESCRIPTOR.fields} - {"deadlineSecs"}
    assert set(fields) == of_template
    of_one = {field.name for field in SubmitTaskRequest.DESCRIPTOR.fields} - WITHOUT_OPTION
    assert of_one == OF_ONE_TASK | {field.name for field in TaskTemplate.DESCRIPTOR.fields} - {"deadline_secs"}


@pytest.mark.parametrize("command", [["submit"], ["schedule", "create"], ["schedule", "update"]], ids=" ".join)
def test_a_command_that_takes_a_task_has_all_of_its_options(taskyard, command):
    shown = taskyard(*command, "--help").out
    for name in signature(task_options.task_fields).parameters:
        assert f" --{name.replace('_', '-')} " in shown


@pytest.mark.parametrize(("command", "required"), [("create", True), ("update", False)])
def test_agent_and_action_are_required_of_a_new_schedule_only(taskyard, command, required):
    assert ("[required]" in taskyard("schedule", command, "--help").out.split("Options")[-1]) is required


@pytest.mark.parametrize(
    ("command", "default"),
    [("up", "127.0.0.1:50051"), ("up", "127.0.0.1:9867"), ("schedule create", "skip when created")],
)
def test_the_help_shows_defaults(taskyard, command, default):
    shown = taskyard(*command.split(), "--help").out.replace("│", " ")
    assert f"[default: ({default})]" in " ".join(shown.split())
