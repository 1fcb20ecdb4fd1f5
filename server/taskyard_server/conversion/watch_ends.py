"""The last messages of watches by REST that are ended by a refusal (docs/rules.md, Watching).

Over HTTP/1.1 an answer that has begun has no status to end with, so that only its last message can say why it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from taskyard.v1.task_pb2 import WatchEnd, WatchTasksResponse


def _of_tasks(why: str) -> bytes:
    end = WatchEnd(reason=WatchEnd.unauthenticated, message=why)
    return WatchTasksResponse(end=end).SerializeToString()


LAST_MESSAGES: Final[Mapping[str, Callable[[str], bytes]]] = {"/taskyard.v1.TaskService/WatchTasks": _of_tasks}
"""By method: the message that says to people why a credential lets in no more."""
