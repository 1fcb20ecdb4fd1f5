"""The ceilings of calls and of idle streams: a grpc.aio server with no interceptor and nothing behind it.

    python bench/bare.py --grpc HOST:PORT (--rest HOST:PORT | --no-gateway)

It reads each request, builds an answer with the fields and the size of Taskyard's in the cheapest way, and keeps
nothing. With `--rest`, the Envoy of `taskyard up` runs in front of it.
"""

import argparse
import itertools
import os
import time
from collections.abc import AsyncIterator

# As in `taskyard up`: with fork support, the start of Envoy would break connections.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc
import uvloop
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import batch_pb2, batch_pb2_grpc, runtime_host_pb2_grpc, task_pb2, task_pb2_grpc
from taskyard.v1 import runtime_host_pb2 as host_pb2
from taskyard_server.gateway.gateway import Gateway

numbers = itertools.count(1)


def task_id(number: int) -> str:
    """An id as long as Taskyard's."""
    return f"tsk_{number:032x}"


def now() -> Timestamp:
    secs, nanos = divmod(time.time_ns(), 1_000_000_000)
    return Timestamp(seconds=secs, nanos=nanos)


def accepted() -> task_pb2.SubmitTaskResponse:
    number = next(numbers)
    return task_pb2.SubmitTaskResponse(
        task_id=task_id(number), state=task_pb2.Task.queued, position=number, created_at=now()
    )


def outcomes(count: int) -> task_pb2.SubmitTasksResponse:
    """The answer of a stream of submissions to a message of `count` tasks."""
    message = task_pb2.SubmitTasksResponse()
    # The common fields are set once and copied.
    answer = task_pb2.SubmitTaskResponse(state=task_pb2.Task.queued, created_at=now())
    common = task_pb2.SubmitOutcome(accepted=answer)
    add = message.outcomes.add
    for _ in range(count):
        outcome = add()
        outcome.CopyFrom(common)
        number = next(numbers)
        outcome.accepted.task_id = task_id(number)
        outcome.accepted.position = number
    return message


class BareTasks(task_pb2_grpc.TaskServiceServicer):
    async def SubmitTask(  # noqa: N802
        self, request: task_pb2.SubmitTaskRequest, context: object
    ) -> task_pb2.SubmitTaskResponse:
        del request, context
        return accepted()

    async def SubmitTasks(  # noqa: N802
        self, request_iterator: AsyncIterator[task_pb2.SubmitTasksRequest], context: object
    ) -> AsyncIterator[task_pb2.SubmitTasksResponse]:
        del context
        async for request in request_iterator:
            yield outcomes(len(request.tasks))


class BareBatches(batch_pb2_grpc.BatchServiceServicer):
    async def SubmitBatch(  # noqa: N802
        self, request: batch_pb2.SubmitBatchRequest, context: object
    ) -> batch_pb2.SubmitBatchResponse:
        del context
        answer = batch_pb2.SubmitBatchResponse(submitted=len(request.tasks), batch_id=f"bat_{next(numbers):032x}")
        add = answer.tasks.add
        for _ in request.tasks:
            number = next(numbers)
            add(task_id=task_id(number), state=task_pb2.Task.queued, position=number)
        return answer


class BareHosts(runtime_host_pb2_grpc.RuntimeHostServiceServicer):
    """Serves the streams of idle hosts."""

    async def Connect(  # noqa: N802
        self, request_iterator: AsyncIterator[host_pb2.ConnectRequest], context: object
    ) -> AsyncIterator[host_pb2.ConnectResponse]:
        del context
        async for request in request_iterator:
            if request.HasField("hello"):
                welcome = host_pb2.Welcome(session="ses_0", heartbeat_interval_ms=20_000, lease_secs=60)
                yield host_pb2.ConnectResponse(welcome=welcome)
            else:
                ack = host_pb2.HeartbeatAck(sequence=request.heartbeat.sequence)
                yield host_pb2.ConnectResponse(heartbeat_ack=ack)


async def serve(address: str, rest: str | None) -> None:
    server = grpc.aio.server()
    # Only for the type checker a servicer must have every call of its service.
    task_pb2_grpc.add_TaskServiceServicer_to_server(BareTasks(), server)  # type: ignore[abstract]
    batch_pb2_grpc.add_BatchServiceServicer_to_server(BareBatches(), server)  # type: ignore[abstract]
    runtime_host_pb2_grpc.add_RuntimeHostServiceServicer_to_server(BareHosts(), server)  # type: ignore[abstract]
    server.add_insecure_port(address)
    await server.start()
    if rest is not None:
        await Gateway(rest, address).start()
    await server.wait_for_termination()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grpc", required=True, metavar="HOST:PORT")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--rest", metavar="HOST:PORT")
    where.add_argument("--no-gateway", action="store_true")
    given = parser.parse_args()
    uvloop.run(serve(given.grpc, given.rest))


if __name__ == "__main__":
    main()
