"""The environment variables of a process that does the work of a task."""

from __future__ import annotations

import os
from typing import Final

TRACE_VARIABLES: Final = frozenset({"TRACEPARENT", "TRACESTATE", "TASKYARD_TRACE_ID"})
"""The environment variables of a trace. Those of the host's own process are not the task's."""


def environment_of(task_id: str, attempt: int, fencing_token: int, traceparent: str | None) -> dict[str, str]:
    """Build them, see `RunningTask.environment`.

    Args:
        task_id: The task.
        attempt: The number of its attempt.
        fencing_token: The fencing token of its lease.
        traceparent: Its trace context, None if it has none.

    Returns:
        The environment variables by name.
    """
    variables = {name: value for name, value in os.environ.items() if name not in TRACE_VARIABLES}
    variables["TASKYARD_TASK_ID"] = task_id
    variables["TASKYARD_ATTEMPT"] = str(attempt)
    variables["TASKYARD_FENCING_TOKEN"] = str(fencing_token)
    if traceparent is not None:
        variables["TRACEPARENT"] = traceparent
        variables["TASKYARD_TRACE_ID"] = traceparent.split("-")[1]
    return variables
