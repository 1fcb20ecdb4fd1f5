"""A stream of submissions keeps to the calls a second of its principal: a message counts as one, and none is lost."""

import time
from collections.abc import Iterator

import grpc
import pytest

from taskyard.v1 import task_pb2, task_pb2_grpc
from tests.access.yards import ADMIN_TOKEN, AGENT, Yard, yard

PER_SEC = 40
MESSAGES = 21
LIMITS = {"agent": {"requestsPerSec": PER_SEC, "burst": 1}}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    settings = {"auth": {"adminToken": ADMIN_TOKEN, "limits": LIMITS}}
    with yard(tmp_path_factory.mktemp("yard"), settings) as made:
        yield made


def test_messages_over_the_rate_wait_and_are_all_accepted(running):
    request = task_pb2.SubmitTasksRequest(tasks=[task_pb2.SubmitTaskRequest(agent_id=AGENT, action="click")])
    began = time.monotonic()
    with grpc.insecure_channel(running.address) as channel:
        stub = task_pb2_grpc.TaskServiceStub(channel)
        answers = list(stub.SubmitTasks(iter([request] * MESSAGES), metadata=running.metadata("agent"), timeout=60))
    assert [outcome.HasField("error") for answer in answers for outcome in answer.outcomes] == [False] * MESSAGES
    # The first was at once, or waited for the call that opened the stream.
    assert time.monotonic() - began >= (MESSAGES - 1) / PER_SEC
