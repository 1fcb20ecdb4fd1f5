"""The time until a new `taskyard up` accepts its first task, by gRPC and by REST, beside a bare server.

It is measured from the start of the process, with default settings, until the first call is answered. The bare server
runs behind the same Envoy.
"""

import http.client
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc
import servers
from rows import Case, Figure, Measure, Row, Side

from taskyard.v1 import task_pb2, task_pb2_grpc

CALL_SECS = 5.0
ROUNDS = 5
BODY = json.dumps({"agentId": "agent", "action": "click"})
JSON_TYPE = {"content-type": "application/json"}


def cases() -> list[Case]:
    """The two rows, which one start fills."""
    rows = (
        Row("start-up to the first task, gRPC", "s", better="less"),
        Row("start-up to the first task, REST", "s", better="less"),
    )
    bare = (sys.executable, str(servers.HERE / "bare.py"))
    return [Case(rows, _starting(servers.up_command), _starting(lambda: bare), rounds=ROUNDS)]


def _starting(command: Callable[[], tuple[str, ...]]) -> Side:
    def measure(secs: float) -> list[Figure]:
        del secs  # A start has no fixed length.
        address, rest = servers.local(servers.free_port()), servers.local(servers.free_port())
        begin = time.perf_counter()
        with servers.running(*command(), "--grpc", address, "--rest", rest) as process:
            servers.wait_for(address, process)
            submit(address)
            by_grpc = time.perf_counter()
            servers.wait_for(rest, process)
            submit_by_rest(rest)
            by_rest = time.perf_counter()
        return [Figure(by_grpc - begin), Figure(by_rest - begin)]

    @contextmanager
    def opened() -> Iterator[Measure]:
        yield measure

    return opened


def submit(address: str) -> None:
    """Submit one task. Raises `grpc.RpcError` if it is not accepted."""
    with grpc.insecure_channel(address) as channel:
        asked = task_pb2.SubmitTaskRequest(agent_id="agent", action="click")
        task_pb2_grpc.TaskServiceStub(channel).SubmitTask(asked, timeout=CALL_SECS)


def submit_by_rest(address: str) -> None:
    """Submit one task. Raises `SystemExit` if it is not accepted."""
    connection = http.client.HTTPConnection(address, timeout=CALL_SECS)
    connection.request("POST", "/tasks", BODY, JSON_TYPE)
    answer = connection.getresponse()
    if answer.status // 100 != 2:
        raise SystemExit(f"POST /tasks: {answer.status} {answer.read().decode()}")
    connection.close()
