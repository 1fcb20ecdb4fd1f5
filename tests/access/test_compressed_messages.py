"""Compressed messages are opened up to the limit of messages alone: anybody may send them, without a credential."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from taskyard.v1 import task_pb2, task_pb2_grpc
from taskyard_server.interceptors.compression import BadCompression, uncompressed
from tests.access.yards import AGENT, Yard, yard

MOST = 1_000
LONG_BYTES = 80_000_000
"""Some 80 kB when they are compressed."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with yard(tmp_path_factory.mktemp("yard")) as made:
        yield made


@pytest.fixture
def tasks(made: Yard) -> Iterator[task_pb2_grpc.TaskServiceStub]:
    with grpc.insecure_channel(made.address, [("grpc.max_send_message_length", -1)], grpc.Compression.Gzip) as channel:
        yield task_pb2_grpc.TaskServiceStub(channel)


def most_memory(made: Yard) -> int:
    """The most memory that the server has had so far, in bytes."""
    status = Path(f"/proc/{made.plane.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


def test_a_compressed_message_is_read(made, tasks):
    request = task_pb2.SubmitTaskRequest(agent_id=AGENT, action="a" * 1_000)
    made_task = tasks.SubmitTask(request, metadata=made.metadata("agent"))
    shown = tasks.GetTask(task_pb2.GetTaskRequest(task_id=made_task.task_id), metadata=made.metadata("agent"))
    assert shown.action == request.action


@pytest.mark.parametrize("role", ["nobody", "agent"])
def test_a_short_message_that_was_long_before_it_was_compressed_takes_no_memory(made, tasks, role):
    before = most_memory(made)
    with pytest.raises(grpc.RpcError) as refused:
        tasks.SubmitTask(task_pb2.SubmitTaskRequest(agent_id="a" * LONG_BYTES), metadata=made.metadata(role))
    assert refused.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNAUTHENTICATED)
    assert most_memory(made) - before < LONG_BYTES / 4


def test_other_compressions_than_gzip_are_refused(made):
    with grpc.insecure_channel(made.address) as channel, pytest.raises(grpc.RpcError) as refused:
        task_pb2_grpc.TaskServiceStub(channel).SubmitTask(
            task_pb2.SubmitTaskRequest(agent_id="a" * 1_000), compression=grpc.Compression.Deflate
        )
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_what_is_not_compressed_stays_as_it_is():
    assert uncompressed(b"\x0a\x01a", 1) == b"\x0a\x01a"


def test_a_message_may_be_as_long_as_the_limit():
    assert uncompressed(gzip.compress(b"a" * MOST), MOST) == b"a" * MOST
    assert uncompressed(gzip.compress(b"a" * (MOST + 1)), MOST) is None


@pytest.mark.parametrize(
    "data",
    [b"\x1f\x8b", gzip.compress(b"abc", mtime=0)[:-1], gzip.compress(b"abc", mtime=0) + b"x", b"\x1f\x8b" + b"x" * 100],
)
def test_what_is_no_whole_gzip_is_malformed(data):
    with pytest.raises(BadCompression):
        uncompressed(data, MOST)
