"""What callers notice while 100,000 tasks are cancelled at once: submits to start, and the longest wait of a read.

The ceiling is the same server with the same 100,000 tasks, of which none is cancelled meanwhile. Each round has a
server of its own. Latencies include what else the machine does: compare them with those of the ceiling.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import servers
from latency import submit_to_start
from rows import Aim, Case, Figure, Measure, Row, Side

from taskyard.v1 import operation_pb2 as pb
from taskyard.v1 import stats_pb2, task_pb2
from taskyard.v1.operation_pb2_grpc import OperationServiceStub
from taskyard.v1.stats_pb2_grpc import StatsServiceStub
from taskyard.v1.task_pb2_grpc import TaskServiceStub

TASKS = 100_000
A_MESSAGE = 100
SECS = 3.0
ROUNDS = 3
READ_EVERY_SECS = 0.004
POLL_SECS = 0.02
WAIT_SECS = 300.0


def cases() -> list[Case]:
    """Rows with a store and without one."""
    return [_case("", durable=False), _case(", durable", durable=True)]


def _case(kind: str, durable: bool) -> Case:
    beside = f"beside a cancel of {TASKS:,}{kind}"
    rows = (
        Row(f"submit to start {beside}, p50", "ms", better="less"),
        Row(f"submit to start {beside}, p99", "ms", better="less", aim=Aim(2)),
        Row(f"a read {beside}, the longest", "ms", better="less"),
    )
    return Case(
        rows, _side(durable, cancels=True), _side(durable, cancels=False), older=False, rounds=ROUNDS, secs=SECS
    )


def _side(durable: bool, cancels: bool) -> Side:
    @contextmanager
    def opened() -> Iterator[Measure]:
        def measure(secs: float) -> list[Figure]:
            with servers.taskyard(durable=durable) as server, grpc.insecure_channel(server.address) as channel:
                fill(channel)
                with ThreadPoolExecutor(max_workers=2) as beside:
                    cancelled = beside.submit(cancel_all, channel) if cancels else None
                    longest = beside.submit(longest_read, channel, secs)
                    p50, p99, _ = submit_to_start(server, secs)
                    if cancelled is not None:
                        cancelled.result()
                    return [p50, p99, Figure(longest.result())]

        yield measure

    return opened


def fill(channel: grpc.Channel, tasks: int = TASKS) -> None:
    """Submit so many tasks, each of which is told to be accepted."""

    def messages() -> Iterator[task_pb2.SubmitTasksRequest]:
        for first in range(0, tasks, A_MESSAGE):
            yield task_pb2.SubmitTasksRequest(
                tasks=[
                    task_pb2.SubmitTaskRequest(agent_id=f"agent-{number % 1000}", action="click")
                    for number in range(first, first + A_MESSAGE)
                ]
            )

    answers = TaskServiceStub(channel).SubmitTasks(messages())
    accepted = sum(outcome.HasField("accepted") for answer in answers for outcome in answer.outcomes)
    if accepted != tasks:
        raise RuntimeError(f"{accepted} of {tasks} tasks were accepted")


def cancel_all(channel: grpc.Channel) -> None:
    """Cancel what was filled in, and wait until that is done."""
    stub, began = OperationServiceStub(channel), time.perf_counter()
    stub.CancelTasks(pb.CancelTasksRequest(operation_id="all", filter=task_pb2.TaskFilter(action="click")))
    while time.perf_counter() - began < WAIT_SECS:
        operation = stub.GetOperation(pb.GetOperationRequest(operation_id="all")).operation
        if operation.status == pb.Operation.Status.done:
            if operation.done != TASKS:
                raise RuntimeError(f"{operation.done} of {TASKS} tasks were cancelled")
            return
        time.sleep(POLL_SECS)
    raise RuntimeError("the cancel does not end")


def longest_read(channel: grpc.Channel, secs: float) -> float:
    """The milliseconds of the slowest of many reads."""
    stub, until, longest = StatsServiceStub(channel), time.perf_counter() + secs, 0.0
    while (began := time.perf_counter()) < until:
        stub.GetStats(stats_pb2.GetStatsRequest())
        longest = max(longest, time.perf_counter() - began)
        time.sleep(READ_EVERY_SECS)
    return longest * 1000
