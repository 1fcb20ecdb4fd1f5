"""Taskyard for Python: the SDK, over the gRPC stubs in `taskyard.v1`.

`Client` submits tasks and follows them, with asyncio, and manages namespaces and the schedules that submit tasks by
themselves; `SyncClient` does the same for code without asyncio. `Host` takes tasks and runs them. All errors are
`TaskyardError`s, one class for each error code of the API.
"""

import os

# Its log would show what goes wrong in the middle of retries, raw; errors say what has gone wrong in the end.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from .action import Action
from .batches import Batch, BatchOutcome, SubmittedBatch
from .client import Client
from .errors import (
    AlreadyExists,
    BadRequest,
    BatchTooLarge,
    CallCancelled,
    ClientClosed,
    Conflict,
    CursorExpired,
    DeadlineExceeded,
    Internal,
    LeaseLost,
    NotFound,
    PermissionDenied,
    QueueFull,
    TaskyardError,
    TooLarge,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)
from .failures import TaskCancelled, TaskFailed, TaskLost
from .handles import TaskHandle, as_completed
from .host import Host
from .hosting.running_task import ActionFailed, RunningTask
from .mapping import TaskMap
from .namespace_calls import Namespaces
from .namespaces import Namespace, NamespaceLimits, NamespaceTotals
from .new_tasks import NewTask, task_of
from .outcomes import Outcome
from .payloads import BadValue, Codec, Payload
from .retry_policy import RetryPolicy
from .schedules import CatchUp, Overlap, Schedule, Trigger, TriggerState
from .scheduling import Schedules
from .stats import AgentMetrics, HostStats, QueueStats, SchedulerConfig, SchedulerMetrics, Stats
from .submitted import Submitted
from .sync import SyncClient, SyncNamespaces, SyncSchedules
from .sync_submit_calls import SyncTaskHandle, SyncTaskMap
from .targets import Target, TargetStatus
from .tasks import Attempt, Progress, Task, TaskState
from .watching import EventKind, TaskEvent

__all__ = [
    "Action",
    "ActionFailed",
    "AgentMetrics",
    "AlreadyExists",
    "Attempt",
    "BadRequest",
    "BadValue",
    "Batch",
    "BatchOutcome",
    "BatchTooLarge",
    "CallCancelled",
    "CatchUp",
    "Client",
    "ClientClosed",
    "Codec",
    "Conflict",
    "CursorExpired",
    "DeadlineExceeded",
    "EventKind",
    "Host",
    "HostStats",
    "Internal",
    "LeaseLost",
    "Namespace",
    "NamespaceLimits",
    "NamespaceTotals",
    "Namespaces",
    "NewTask",
    "NotFound",
    "Outcome",
    "Overlap",
    "Payload",
    "PermissionDenied",
    "Progress",
    "QueueFull",
    "QueueStats",
    "RetryPolicy",
    "RunningTask",
    "Schedule",
    "SchedulerConfig",
    "SchedulerMetrics",
    "Schedules",
    "Stats",
    "Submitted",
    "SubmittedBatch",
    "SyncClient",
    "SyncNamespaces",
    "SyncSchedules",
    "SyncTaskHandle",
    "SyncTaskMap",
    "Target",
    "TargetStatus",
    "Task",
    "TaskCancelled",
    "TaskEvent",
    "TaskFailed",
    "TaskHandle",
    "TaskLost",
    "TaskMap",
    "TaskState",
    "TaskyardError",
    "TooLarge",
    "TooManyRequests",
    "Trigger",
    "TriggerState",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "as_completed",
    "task_of",
]
