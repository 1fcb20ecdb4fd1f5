"""Calls that a misspelt field might widen refuse what they do not know, over gRPC too (docs/rules.md, REST)."""

from typing import Any

import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from taskyard.v1 import admin_pb2, agent_pb2, limit_pb2, namespace_pb2, operation_pb2, schedule_pb2, task_pb2, token_pb2
from taskyard_server.core.errors import BadRequest
from taskyard_server.interceptors.unknown_fields import STRICT_SERVICES, is_strict, refusing_unknown
from tests.cases import every_case

MODULES = (admin_pb2, agent_pb2, limit_pb2, namespace_pb2, operation_pb2, schedule_pb2, token_pb2)
SERVICES = {service.name: service for module in MODULES for service in module.DESCRIPTOR.services_by_name.values()}
METHODS = [method for name in sorted(STRICT_SERVICES) for method in SERVICES[name].methods]
UNKNOWN = b"\xfa\x7f\x01x"
"""A field of the number 2047."""


def parsed(message: type[Any], data: bytes) -> Any:
    return refusing_unknown(message.FromString)(data)


@every_case("method", METHODS, ids=lambda method: method.full_name)
def test_each_call_of_these_services_refuses_them(method: MethodDescriptor) -> None:
    message = GetMessageClass(method.input_type)
    assert is_strict(f"/{method.containing_service.full_name}/{method.name}")
    refusal = parsed(message, UNKNOWN)
    assert isinstance(refusal, BadRequest)
    assert refusal.message == "request: has fields that this server does not know"
    assert isinstance(parsed(message, b""), message)


def later(message: Any) -> Any:
    """The same message from a program that knows more."""
    return type(message).FromString(message.SerializeToString() + UNKNOWN)


@pytest.mark.parametrize(
    ("message", "at"),
    [
        (token_pb2.CreateTokenRequest(grants=[token_pb2.Grant(), later(token_pb2.Grant(role="host"))]), "grants[1]"),
        (namespace_pb2.CreateNamespaceRequest(limits=later(namespace_pb2.NamespaceLimits())), "limits"),
        (
            schedule_pb2.CreateScheduleRequest(
                task=schedule_pb2.TaskTemplate(retry_policy=later(task_pb2.RetryPolicy(max_attempts=1)))
            ),
            "task.retryPolicy",
        ),
    ],
)
def test_the_refusal_names_where_they_are(message: Any, at: str) -> None:
    assert (
        parsed(type(message), message.SerializeToString()).message == f"{at}: has fields that this server does not know"
    )


def test_what_the_caller_is_free_to_send_is_no_unknown_field() -> None:
    template = schedule_pb2.TaskTemplate(labels={"colour": "red"})
    template.params.update({"colour": {"a": [1]}})
    request = schedule_pb2.CreateScheduleRequest(task=template)
    assert parsed(schedule_pb2.CreateScheduleRequest, request.SerializeToString()) == request


def test_submissions_and_hosts_ignore_them() -> None:
    for service in ("TaskService/SubmitTask", "BatchService/SubmitBatch", "RuntimeHostService/Connect"):
        assert not is_strict(f"/taskyard.v1.{service}")
