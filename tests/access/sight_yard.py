"""A yard with principals who see different things of it, and what they are answered, byte for byte."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import grpc
import httpx

from taskyard.v1 import batch_pb2_grpc, lease_pb2_grpc, runtime_host_pb2_grpc, stats_pb2_grpc, task_pb2_grpc
from tests.access.yards import AGENT, NAMESPACE, OTHER_AGENT, Yard, new_token, yard

SECS: Final = 20.0
ACTION, PROJECT = "click", "web"
PRINCIPALS: Final[Mapping[str, list[dict[str, Any]]]] = {
    "bob": [{"role": "agent", "namespaces": [NAMESPACE], "agents": [OTHER_AGENT]}],
    "an*": [{"role": "agent", "namespaces": [NAMESPACE], "agents": ["an*"]}],
    "every agent": [{"role": "agent", "namespaces": [NAMESPACE], "agents": ["*"]}],
    "viewer who is ann": [
        {"role": "viewer", "namespaces": [NAMESPACE]},
        {"role": "agent", "namespaces": [NAMESPACE], "agents": [AGENT]},
    ],
    "viewer of payloads": [{"role": "viewer", "namespaces": [NAMESPACE], "payloads": True}],
    "narrow host": [
        {"role": "host", "namespaces": [NAMESPACE], "hosts": ["h*"], "projects": [PROJECT], "actions": [ACTION, "t*"]}
    ],
}


@contextmanager
def sight_yard(folder: Path, settings: Mapping[str, Any] | None = None) -> Iterator[Yard]:
    """The yard; `agent` is ann."""
    with yard(folder, settings) as made:
        secrets = {name: new_token(made, grants, name) for name, grants in PRINCIPALS.items()}
        yield Yard(made.plane, {**made.secrets, **secrets})


class Stubs:
    """The services as one principal calls them, each with its metadata."""

    def __init__(self, channel: grpc.Channel, metadata: Any) -> None:
        self.channel = channel
        self.metadata = metadata
        self.tasks = task_pb2_grpc.TaskServiceStub(channel)
        self.batches = batch_pb2_grpc.BatchServiceStub(channel)
        self.stats = stats_pb2_grpc.StatsServiceStub(channel)
        self.hosts = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel)
        self.leases = lease_pb2_grpc.LeaseServiceStub(channel)

    def call(self, method: Any, request: Any) -> Any:
        """The answer of a call; a stream for one that streams."""
        return method(request, metadata=self.metadata, timeout=SECS)


@contextmanager
def stubs(yard: Yard, principal: str) -> Iterator[Stubs]:
    """The services as this principal calls them."""
    with grpc.insecure_channel(yard.address) as channel:
        yield Stubs(channel, yard.metadata(principal))


def refusal(call: Any) -> tuple[Any, ...]:
    """All that a refused gRPC call tells."""
    try:
        call()
    except grpc.RpcError as error:
        return error.code(), error.details(), tuple(sorted(map(tuple, error.trailing_metadata())))
    raise AssertionError("was let in")


def rest_answer(answer: httpx.Response) -> tuple[Any, ...]:
    """All that a REST call tells, but for the time."""
    headers = sorted((key, value) for key, value in answer.headers.raw if key.lower() != b"date")
    return answer.status_code, headers, answer.content
