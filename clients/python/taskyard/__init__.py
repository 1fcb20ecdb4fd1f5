"""Taskyard for Python: the SDK, over the gRPC stubs in `taskyard.v1`.

`Client` submits tasks and follows them, with asyncio, and manages namespaces and the schedules that submit tasks by
themselves; `SyncClient` does the same for code without asyncio. `Host` takes tasks and runs them. All errors are
`TaskyardError`s, one class for each error code of the API.
"""

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
from .host import Host
from .hosting.running_task import ActionFailed, RunningTask
from .namespace_calls import Namespaces
from .namespaces import Namespace, NamespaceLimits, NamespaceTotals
from .new_tasks import NewTask, Submitted
from .schedules import CatchUp, Overlap, Schedule, Trigger, TriggerState
from .scheduling import Schedules
from .stats import AgentMetrics, HostStats, QueueStats, SchedulerConfig, SchedulerMetrics, Stats
from .sync import SyncClient, SyncNamespaces, SyncSchedules
from .targets import Target, TargetStatus
from .tasks import Attempt, Progress, RetryPolicy, Task, TaskFailed, TaskState
from .watching import EventKind, TaskEvent

__all__ = [
    "ActionFailed",
    "AgentMetrics",
    "AlreadyExists",
    "Attempt",
    "BadRequest",
    "Batch",
    "BatchOutcome",
    "BatchTooLarge",
    "CallCancelled",
    "CatchUp",
    "Client",
    "ClientClosed",
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
    "Overlap",
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
    "Target",
    "TargetStatus",
    "Task",
    "TaskEvent",
    "TaskFailed",
    "TaskState",
    "TaskyardError",
    "TooLarge",
    "TooManyRequests",
    "Trigger",
    "TriggerState",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
]
