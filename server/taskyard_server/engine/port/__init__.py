"""What every engine can do: the scheduler's own commands, awaited, in facets.

Each command names the namespace it acts in. Refusals are raised as `core.errors.Refusal`. `Task` and `Lease` objects
are read before the next await, since the engine goes on changing them. Times are seconds.
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
