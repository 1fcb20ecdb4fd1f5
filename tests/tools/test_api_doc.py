"""docs/use/api.md leaves out no call, message, field or enum value, and its links lead somewhere."""

import re
from pathlib import Path

from google.protobuf.descriptor import Descriptor, EnumDescriptor

from taskyard.v1 import (
    admin_pb2,
    batch_pb2,
    lease_pb2,
    runtime_host_pb2,
    schedule_pb2,
    stats_pb2,
    target_pb2,
    task_pb2,
)
from tests.cases import every_case

DOCS = Path(__file__).parents[2] / "docs/use"
PAGE = (DOCS / "api.md").read_text()
FILES = [
    module.DESCRIPTOR
    for module in (admin_pb2, batch_pb2, lease_pb2, runtime_host_pb2, schedule_pb2, stats_pb2, target_pb2, task_pb2)
]
METHODS = [method for file in FILES for service in file.services_by_name.values() for method in service.methods]


def with_inner(message: Descriptor) -> list[Descriptor]:
    inner = [each for nested in message.nested_types for each in with_inner(nested)]
    return [] if message.GetOptions().map_entry else [message, *inner]


MESSAGES = [each for file in FILES for message in file.message_types_by_name.values() for each in with_inner(message)]
ENUMS = [enum for message in MESSAGES for enum in message.enum_types]


def section(heading: str) -> str:
    """What stands below a heading, until the next one."""
    return re.split(r"^#+ .*$", PAGE.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def rows(heading: str) -> list[list[str]]:
    """The rows of the table below a heading, without its head."""
    lines = [line for line in section(heading).splitlines() if line.startswith("| ")]
    return [[cell.strip(" `") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def short(described: Descriptor | EnumDescriptor) -> str:
    return described.full_name.removeprefix("taskyard.v1.")


@every_case("method", METHODS, ids=[method.name for method in METHODS])
def test_each_call_has_its_effect_errors_and_retry_rule(method):
    text = section(method.name)
    assert text.strip().splitlines()[0].endswith(".")
    for part in ("gRPC", "REST", "Errors", "Retry"):
        assert re.search(rf"^- \*\*{part}\*\*: \S", text, re.MULTILINE), part


@every_case("message", MESSAGES, ids=map(short, MESSAGES))
def test_each_message_shows_its_fields_with_type_presence_and_description(message):
    table = rows(short(message))
    assert [row[:2] for row in table] == [[field.name, field.json_name] for field in message.fields]
    assert all(all(row) for row in table)


@every_case("enum", ENUMS, ids=map(short, ENUMS))
def test_each_enum_shows_its_values(enum):
    values = [[value.name, str(value.number)] for value in enum.values if value.name.islower() and value.number]
    assert [row[:2] for row in rows(short(enum))] == values


def test_presence_is_that_of_the_comments():
    presence = {row[0]: row[3] for row in rows("SubmitTaskRequest")}
    assert (presence["agent_id"], presence["tab_id"]) == ("required", "optional")
    presence = {row[0]: row[3] for row in rows("WatchTasksResponse")}
    assert (presence["cursor"], presence["events"]) == ("optional", "optional")
    assert {row[0]: row[3] for row in rows("Task")}["priority"] == "always"
    assert {row[0]: row[3] for row in rows("SubmitOutcome")}["accepted"] == "one of `outcome"
    assert {row[0]: row[3] for row in rows("RuntimeHost")}["online"] == "plain"


def test_each_link_leads_to_one_heading():
    for document, anchor in set(re.findall(r"\]\(([\w./]*)#([^)]*)\)", PAGE)):
        text = (DOCS / document).read_text() if document else PAGE
        headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
        assert anchors.count(anchor) == 1, f"{document}#{anchor}"


def test_comments_for_tools_are_left_out():
    assert "buf:" not in PAGE
