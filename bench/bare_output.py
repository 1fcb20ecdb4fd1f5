"""What tasks say, in the server of bare_streams.py: it is acknowledged, and passed on to those who follow the task.

Nothing is checked or kept. A chunk that somebody follows is encoded once, as in the answers of Taskyard.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

from bare import now

from taskyard.v1 import output_pb2, task_pb2
from taskyard.v1 import runtime_host_pb2 as host_pb2

WINDOW_BYTES = 1 << 20
"""What Taskyard lets a host have sent that is not acknowledged."""
OPEN = output_pb2.ReadOutputResponse(
    next_after=0, state=task_pb2.Task.running, first_sequence=1, dropped_bytes=0
).SerializeToString()


class Followers:
    """The streams that follow tasks, by task."""

    def __init__(self) -> None:
        self._of: defaultdict[str, list[asyncio.Queue[bytes]]] = defaultdict(list)

    async def read(self, request: output_pb2.ReadOutputRequest, _: Any) -> AsyncIterator[bytes]:
        """OutputService.ReadOutput: chunks that are queued together are sent together."""
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        others = self._of[request.task_id]
        others.append(queue)
        try:
            yield OPEN
            while True:
                message = await queue.get()
                while not queue.empty():
                    message += queue.get_nowait()
                yield message
        finally:
            others.remove(queue)

    def take(self, output: output_pb2.Output) -> host_pb2.ConnectResponse:
        """Pass on what somebody follows, and acknowledge all of it."""
        answer = host_pb2.ConnectResponse()
        add = answer.output_acks.acks.add
        for said in output.leases:
            add(task_id=said.task_id, fencing_token=said.fencing_token, taken=said.number + len(said.chunks) - 1)
            if queues := self._of.get(said.task_id):
                message = encoded(said)
                for queue in queues:
                    queue.put_nowait(message)
        return answer


def encoded(said: output_pb2.LeaseOutput) -> bytes:
    """The chunks of a task in an answer to those who follow it."""
    answer = output_pb2.ReadOutputResponse(
        next_after=said.number + len(said.chunks) - 1, state=task_pb2.Task.running, first_sequence=1, dropped_bytes=0
    )
    at, add = now(), answer.chunks.add
    for number, chunk in enumerate(said.chunks, said.number):
        add(sequence=number, channel=chunk.channel or "output", text=chunk.text, attempt=1, taken_at=at)
    return answer.SerializeToString()
