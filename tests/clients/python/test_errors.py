"""Each error code of the API is an exception of its own, however it reaches the client."""

from datetime import timedelta

import grpc
import pytest
from google.protobuf.struct_pb2 import Struct

import taskyard
from taskyard.errors import KINDS, TaskyardError, error_from_message, error_from_rpc
from taskyard.v1 import task_pb2 as pb
from taskyard_server.core.errors import RETRY_AFTER_MS, NotOwner, Refusal
from taskyard_server.interceptors.errors import MAPPINGS, message_of, trailing_metadata
from tests.cases import every_case

STATUSES = {
    grpc.StatusCode.UNAVAILABLE: "unavailable",
    grpc.StatusCode.DEADLINE_EXCEEDED: "deadline_exceeded",
    grpc.StatusCode.CANCELLED: "cancelled",
    grpc.StatusCode.UNIMPLEMENTED: "unimplemented",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "too_large",
    grpc.StatusCode.NOT_FOUND: "not_found",
    grpc.StatusCode.UNKNOWN: "internal",
    grpc.StatusCode.DATA_LOSS: "internal",
}
"""The codes of statuses without an ErrorInfo of Taskyard, as gRPC and proxies send them."""


def rpc_error(status, details="", trailing=()):
    return grpc.aio.AioRpcError(status, grpc.aio.Metadata(), grpc.aio.Metadata(*trailing), details=details)


def refusal(code, retryable=False, details=None):
    kind = type("Refused", (Refusal,), {"code": code, "retryable": retryable})
    return kind("what was wrong", details)


def raised_for(refused):
    """The error that a client raises for a call that the server refuses like this."""
    return error_from_rpc(
        rpc_error(MAPPINGS[refused.code].grpc, message_of(refused), trailing_metadata(refused, by_rest=False))
    )


@every_case("code", MAPPINGS)
def test_every_code_of_the_server_has_a_public_class(code):
    error = raised_for(refusal(code))
    assert (error.code, error.reason, type(error).code) == (code, "what was wrong", code)
    assert type(error) is not TaskyardError
    assert getattr(taskyard, type(error).__name__) is type(error)
    assert type(error_from_message(pb.Error(code=code, error="what was wrong"))) is type(error)


def test_a_call_that_can_be_repeated_says_so_and_when():
    error = raised_for(refusal("queue_full", retryable=True, details={"queued": 2, "agentId": "ann"}))
    assert (error.retryable, error.retry_after) == (True, timedelta(milliseconds=RETRY_AFTER_MS))
    assert error.details == {"queued": "2", "agentId": "ann"}
    error = raised_for(refusal("conflict"))
    assert (error.retryable, error.retry_after, error.details) == (False, None, {})


@every_case("status", STATUSES)
def test_a_status_without_an_error_info_is_mapped_by_its_code(status):
    error = error_from_rpc(rpc_error(status, "why"))
    assert (error.code, error.reason) == (STATUSES[status], "why")
    assert error.retryable == (status is grpc.StatusCode.UNAVAILABLE)


def test_a_call_for_another_replica_is_unavailable_and_names_it():
    error = raised_for(NotOwner("replica-2"))
    assert isinstance(error, taskyard.Unavailable)
    assert (error.code, error.retryable, error.retry_after) == ("unavailable", True, timedelta(seconds=0.05))
    assert error.details == {"owner": "replica-2"}


def test_a_stream_that_ends_while_it_is_written_to_is_unavailable():
    # gRPC says so in the place of the status.
    error = error_from_rpc(rpc_error(grpc.StatusCode.INTERNAL, "Internal error from Core"))
    assert (error.code, error.reason) == ("unavailable", "the stream has ended")


@pytest.mark.parametrize("details", [b"\xff\xff\xff", b""])
def test_details_of_others_are_ignored(details):
    error = error_from_rpc(rpc_error(grpc.StatusCode.NOT_FOUND, "", (("grpc-status-details-bin", details),)))
    assert (error.code, error.reason) == ("not_found", "not found")


def test_an_unknown_code_is_kept():
    error = error_from_message(pb.Error(code="from_a_later_server", error="why", retryable=True))
    assert type(error) is TaskyardError
    assert (error.code, error.reason, error.retryable) == ("from_a_later_server", "why", True)


def test_details_of_one_item_are_json_values():
    details = Struct()
    details.update({"queued": 2, "ratio": 0.5, "agentId": "ann"})
    error = error_from_message(pb.Error(code="queue_full", error="full", details=details), "tsk_1")
    assert error.details == {"queued": 2, "ratio": 0.5, "agentId": "ann"}
    assert type(error.details["queued"]) is int
    assert error.task_id == "tsk_1"


def test_an_item_that_can_be_submitted_again_says_when():
    error = error_from_message(pb.Error(code="queue_full", error="full", retryable=True, retry_after_ms=1_500))
    assert (error.retryable, error.retry_after) == (True, timedelta(seconds=1.5))
    assert error_from_message(pb.Error(code="queue_full", error="full", retryable=True)).retry_after is None
    assert error_from_message(pb.Error(code="bad_request", error="no")).retry_after is None


def test_all_codes_have_classes_of_their_own():
    assert len(KINDS) == len(set(KINDS.values()))
    assert all(KINDS[code].code == code for code in KINDS)
