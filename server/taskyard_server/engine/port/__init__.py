"""The interface of an engine: the commands of the scheduler as coroutines, grouped into facets.

Each command names the namespace it acts in. Refusals are raised as `core.errors.Refusal`. Times are seconds since the
epoch, durations are seconds.

No command answers an object of the core, which the engine keeps changing. A command that has one to tell of takes
`show`, calls it in the command's turn, and returns what it made: bytes, a message, or values that no longer change.
`show` must not await, and must not keep the object.
"""

from taskyard_server.core.search.task_filter import TaskFilter

from .answers import Answer
from .engine import AdminPort, Engine, Listener
from .hosts import HostPort, LeasePort, LossListener
from .namespaces import (
    DeletionListener,
    NamespaceDirectory,
    NamespacePort,
    NamespaceTotals,
    NamespaceView,
    Ownership,
    OwnLimits,
    Served,
)
from .operations import OperationPort
from .outbox import DeliveryEncoder, DeliveryListener, DueDelivery, OutboxPort
from .replicas import ReplicaDirectory, ReplicaView
from .rules import LimitsInForce, RulePort
from .schedules import SchedulePort, TriggerFilter, TriggerListener, TriggerPage
from .tasks import ListedTasks, TaskPort

__all__ = [
    "AdminPort",
    "Answer",
    "DeletionListener",
    "DeliveryEncoder",
    "DeliveryListener",
    "DueDelivery",
    "Engine",
    "HostPort",
    "LeasePort",
    "LimitsInForce",
    "ListedTasks",
    "Listener",
    "LossListener",
    "NamespaceDirectory",
    "NamespacePort",
    "NamespaceTotals",
    "NamespaceView",
    "OperationPort",
    "OutboxPort",
    "OwnLimits",
    "Ownership",
    "ReplicaDirectory",
    "ReplicaView",
    "RulePort",
    "SchedulePort",
    "Served",
    "TaskFilter",
    "TaskPort",
    "TriggerFilter",
    "TriggerListener",
    "TriggerPage",
]
