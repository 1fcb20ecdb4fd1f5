"""Taskyard for Python: the SDK, over the gRPC stubs in `taskyard.v1`.

`Client` submits tasks and follows them, with asyncio, and manages namespaces and the schedules that submit tasks by
themselves; `SyncClient` does the same for code without asyncio. `Host` takes tasks and runs them. All errors are
`TaskyardError`s, one class for each error code of the API.

A name is imported when it is used: worker processes of hosts need little of this, and no grpc.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

# Its log would show what goes wrong in the middle of retries, raw; errors say what has gone wrong in the end.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

if TYPE_CHECKING:
    from .action import Action
    from .batches import Batch, BatchOutcome, SubmittedBatch
    from .client import Client
    from .codecs import FernetCodec
    from .demand import PoolDemand
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
    from .explanations import Explanation, WaitKind, WaitReason
    from .failures import TaskCancelled, TaskFailed, TaskLost
    from .handles import TaskHandle, as_completed
    from .host import Host
    from .hosting.running_task import ActionFailed, NotRetryable, Retry, RunningTask
    from .limits import KeyUsage, Limit
    from .mapping import TaskMap
    from .namespace_calls import Namespaces
    from .namespaces import Namespace, NamespaceLimits, NamespaceTotals
    from .new_tasks import NewTask, task_of
    from .operation_calls import OperationHandle, Operations
    from .operations import Operation, OperationKind, OperationStatus
    from .outcomes import Outcome
    from .payloads import BadValue, Codec, Payload
    from .retry_policy import RetryPolicy
    from .rule_calls import Agents, Limits
    from .samples import Sample
    from .schedules import CatchUp, Overlap, Schedule, Trigger, TriggerState
    from .scheduling import Schedules
    from .stats import AgentMetrics, HostStats, QueueStats, SchedulerConfig, SchedulerMetrics, Stats
    from .stopping import Stopping
    from .submitted import Submitted
    from .sync import SyncClient
    from .sync_parts import SyncAgents, SyncLimits, SyncNamespaces, SyncOperationHandle, SyncOperations, SyncSchedules
    from .sync_submit_calls import SyncTaskHandle, SyncTaskMap
    from .targets import Target, TargetStatus
    from .tasks import Attempt, Progress, Task, TaskState
    from .watching import EventKind, TaskEvent
    from .weights import AgentShare, AgentWeight

_PLACES: Final = {
    "action": ("Action",),
    "batches": ("Batch", "BatchOutcome", "SubmittedBatch"),
    "client": ("Client",),
    "codecs": ("FernetCodec",),
    "demand": ("PoolDemand",),
    "errors": (
        "AlreadyExists",
        "BadRequest",
        "BatchTooLarge",
        "CallCancelled",
        "ClientClosed",
        "Conflict",
        "CursorExpired",
        "DeadlineExceeded",
        "Internal",
        "LeaseLost",
        "NotFound",
        "PermissionDenied",
        "QueueFull",
        "TaskyardError",
        "TooLarge",
        "TooManyRequests",
        "Unauthenticated",
        "Unavailable",
        "Unimplemented",
    ),
    "explanations": ("Explanation", "WaitKind", "WaitReason"),
    "failures": ("TaskCancelled", "TaskFailed", "TaskLost"),
    "handles": ("TaskHandle", "as_completed"),
    "host": ("Host",),
    "hosting.running_task": ("ActionFailed", "NotRetryable", "Retry", "RunningTask"),
    "limits": ("KeyUsage", "Limit"),
    "mapping": ("TaskMap",),
    "namespace_calls": ("Namespaces",),
    "namespaces": ("Namespace", "NamespaceLimits", "NamespaceTotals"),
    "new_tasks": ("NewTask", "task_of"),
    "operation_calls": ("OperationHandle", "Operations"),
    "operations": ("Operation", "OperationKind", "OperationStatus"),
    "outcomes": ("Outcome",),
    "payloads": ("BadValue", "Codec", "Payload"),
    "retry_policy": ("RetryPolicy",),
    "rule_calls": ("Agents", "Limits"),
    "schedules": ("CatchUp", "Overlap", "Schedule", "Trigger", "TriggerState"),
    "scheduling": ("Schedules",),
    "samples": ("Sample",),
    "stats": ("AgentMetrics", "HostStats", "QueueStats", "SchedulerConfig", "SchedulerMetrics", "Stats"),
    "stopping": ("Stopping",),
    "submitted": ("Submitted",),
    "sync": ("SyncClient",),
    "sync_parts": (
        "SyncAgents",
        "SyncLimits",
        "SyncNamespaces",
        "SyncOperationHandle",
        "SyncOperations",
        "SyncSchedules",
    ),
    "sync_submit_calls": ("SyncTaskHandle", "SyncTaskMap"),
    "targets": ("Target", "TargetStatus"),
    "tasks": ("Attempt", "Progress", "Task", "TaskState"),
    "watching": ("EventKind", "TaskEvent"),
    "weights": ("AgentShare", "AgentWeight"),
}
"""The names that each module has, as above."""
_MODULE_OF: Final = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "Action",
    "ActionFailed",
    "AgentMetrics",
    "AgentShare",
    "AgentWeight",
    "Agents",
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
    "Explanation",
    "FernetCodec",
    "Host",
    "HostStats",
    "Internal",
    "KeyUsage",
    "LeaseLost",
    "Limit",
    "Limits",
    "Namespace",
    "NamespaceLimits",
    "NamespaceTotals",
    "Namespaces",
    "NewTask",
    "NotFound",
    "NotRetryable",
    "Operation",
    "OperationHandle",
    "OperationKind",
    "OperationStatus",
    "Operations",
    "Outcome",
    "Overlap",
    "Payload",
    "PermissionDenied",
    "PoolDemand",
    "Progress",
    "QueueFull",
    "QueueStats",
    "Retry",
    "RetryPolicy",
    "RunningTask",
    "Sample",
    "Schedule",
    "SchedulerConfig",
    "SchedulerMetrics",
    "Schedules",
    "Stats",
    "Stopping",
    "Submitted",
    "SubmittedBatch",
    "SyncAgents",
    "SyncClient",
    "SyncLimits",
    "SyncNamespaces",
    "SyncOperationHandle",
    "SyncOperations",
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
    "WaitKind",
    "WaitReason",
    "as_completed",
    "task_of",
]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        found = getattr(import_module(f"taskyard.{_MODULE_OF[name]}"), name)
        globals()[name] = found
        return found
    if name in _PLACES:
        return import_module(f"taskyard.{name}")
    raise AttributeError(f"module 'taskyard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
