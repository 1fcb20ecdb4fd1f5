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
    from .blocking.parts import (
        SyncAgents,
        SyncLimits,
        SyncNamespaces,
        SyncOperationHandle,
        SyncOperations,
        SyncSchedules,
    )
    from .blocking.submit_calls import SyncTaskHandle, SyncTaskMap
    from .calls.namespaces import Namespaces
    from .calls.operations import OperationHandle, Operations
    from .calls.rules import Agents, Limits
    from .calls.schedules import Schedules
    from .client import Client
    from .codecs import FernetCodec
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
        OutOfRange,
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
    from .hosting.child_work import Child, ChildFailed
    from .hosting.failing import ActionFailed, NotRetryable, Retry
    from .hosting.inputs import TaskInput
    from .hosting.park_work import Parked
    from .hosting.running_task import RunningTask
    from .mapping import TaskMap
    from .new_tasks import NewTask, task_of
    from .records.artifacts import Artifact
    from .records.batches import Batch, BatchOutcome, SubmittedBatch
    from .records.demand import PoolDemand
    from .records.explanations import Explanation, WaitKind, WaitReason
    from .records.limits import KeyUsage, Limit
    from .records.namespaces import Namespace, NamespaceLimits, NamespaceTotals
    from .records.operations import Operation, OperationKind, OperationStatus
    from .records.outcomes import Outcome
    from .records.output import OutputChunk
    from .records.questions import OpenQuestion, Park, Question, Wait, WaitFor
    from .records.samples import Sample
    from .records.schedules import CatchUp, Overlap, Schedule, Trigger, TriggerState
    from .records.stats import AgentMetrics, HostStats, QueueStats, SchedulerConfig, SchedulerMetrics, Stats
    from .records.steps import Step, StepKind
    from .records.stopping import Stopping
    from .records.submitted import Submitted
    from .records.targets import Target, TargetStatus
    from .records.tasks import Attempt, Progress, Task, TaskState
    from .records.weights import AgentShare, AgentWeight
    from .retry_policy import RetryPolicy
    from .streams.watching import EventKind, TaskEvent
    from .sync import SyncClient
    from .values.payloads import BadValue, Codec, Payload

_PLACES: Final = {
    "action": ("Action",),
    "records.batches": ("Batch", "BatchOutcome", "SubmittedBatch"),
    "client": ("Client",),
    "codecs": ("FernetCodec",),
    "records.demand": ("PoolDemand",),
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
        "OutOfRange",
        "PermissionDenied",
        "QueueFull",
        "TaskyardError",
        "TooLarge",
        "TooManyRequests",
        "Unauthenticated",
        "Unavailable",
        "Unimplemented",
    ),
    "records.explanations": ("Explanation", "WaitKind", "WaitReason"),
    "failures": ("TaskCancelled", "TaskFailed", "TaskLost"),
    "handles": ("TaskHandle", "as_completed"),
    "host": ("Host",),
    "hosting.failing": ("ActionFailed", "NotRetryable", "Retry"),
    "hosting.inputs": ("TaskInput",),
    "hosting.child_work": ("Child", "ChildFailed"),
    "hosting.park_work": ("Parked",),
    "hosting.running_task": ("RunningTask",),
    "records.limits": ("KeyUsage", "Limit"),
    "mapping": ("TaskMap",),
    "calls.namespaces": ("Namespaces",),
    "records.namespaces": ("Namespace", "NamespaceLimits", "NamespaceTotals"),
    "new_tasks": ("NewTask", "task_of"),
    "calls.operations": ("OperationHandle", "Operations"),
    "records.operations": ("Operation", "OperationKind", "OperationStatus"),
    "records.outcomes": ("Outcome",),
    "records.artifacts": ("Artifact",),
    "records.output": ("OutputChunk",),
    "values.payloads": ("BadValue", "Codec", "Payload"),
    "retry_policy": ("RetryPolicy",),
    "calls.rules": ("Agents", "Limits"),
    "records.schedules": ("CatchUp", "Overlap", "Schedule", "Trigger", "TriggerState"),
    "calls.schedules": ("Schedules",),
    "records.samples": ("Sample",),
    "records.stats": ("AgentMetrics", "HostStats", "QueueStats", "SchedulerConfig", "SchedulerMetrics", "Stats"),
    "records.questions": ("OpenQuestion", "Park", "Question", "Wait", "WaitFor"),
    "records.steps": ("Step", "StepKind"),
    "records.stopping": ("Stopping",),
    "records.submitted": ("Submitted",),
    "sync": ("SyncClient",),
    "blocking.parts": (
        "SyncAgents",
        "SyncLimits",
        "SyncNamespaces",
        "SyncOperationHandle",
        "SyncOperations",
        "SyncSchedules",
    ),
    "blocking.submit_calls": ("SyncTaskHandle", "SyncTaskMap"),
    "records.targets": ("Target", "TargetStatus"),
    "records.tasks": ("Attempt", "Progress", "Task", "TaskState"),
    "streams.watching": ("EventKind", "TaskEvent"),
    "records.weights": ("AgentShare", "AgentWeight"),
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
    "Artifact",
    "Attempt",
    "BadRequest",
    "BadValue",
    "Batch",
    "BatchOutcome",
    "BatchTooLarge",
    "CallCancelled",
    "CatchUp",
    "Child",
    "ChildFailed",
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
    "OpenQuestion",
    "Operation",
    "OperationHandle",
    "OperationKind",
    "OperationStatus",
    "Operations",
    "OutOfRange",
    "Outcome",
    "OutputChunk",
    "Overlap",
    "Park",
    "Parked",
    "Payload",
    "PermissionDenied",
    "PoolDemand",
    "Progress",
    "Question",
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
    "Step",
    "StepKind",
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
    "TaskInput",
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
    "Wait",
    "WaitFor",
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
