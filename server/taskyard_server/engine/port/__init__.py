"""The interface of an engine: the commands of the scheduler as coroutines, grouped into facets.

Each command names the namespace it acts in. Refusals are raised as `core.errors.Refusal`. Callers read returned `Task`
and `Lease` objects before the next await, since the engine keeps changing them. Times are seconds since the epoch,
durations are seconds.
"""

from .engine import AdminPort, Engine, Listener
from .hosts import HostPort, LeasePort
from .schedules import SchedulePort, TriggerFilter, TriggerListener, TriggerPage
from .tasks import TaskFilter, TaskPage, TaskPort

__all__ = [
    "AdminPort",
    "Engine",
    "HostPort",
    "LeasePort",
    "Listener",
    "SchedulePort",
    "TaskFilter",
    "TaskPage",
    "TaskPort",
    "TriggerFilter",
    "TriggerListener",
    "TriggerPage",
]
