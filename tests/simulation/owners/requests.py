"""The calls that clients of the simulation make, as a replica serves them: commands of the engine, shown as values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from taskyard.v1 import task_pb2 as pb
from taskyard_server.cadence import parse_interval
from taskyard_server.core.errors import Refusal
from taskyard_server.core.hosts import Host, HostProfile
from taskyard_server.core.leases import Lease
from taskyard_server.core.reports import Report
from taskyard_server.core.schedules.schedule import CatchUp, Overlap, ScheduleSpec
from taskyard_server.core.task import Submission, Task
from taskyard_server.interceptors.callers import Call

from .witness import UNSHOWN, Granted, Seen

if TYPE_CHECKING:
    from .replica import Context, SimulatedReplica


def seen(task: Task) -> Seen:
    """A task as it is now."""
    return Seen(task.id, task.state.value, task.token, task.result)


async def submit(replica: SimulatedReplica, namespace: str, submission: Submission, context: Context) -> Seen:
    """A task. One of the past that is repeated is known by its id and its state alone."""
    del context
    task = await replica.engine.tasks.submit(namespace, submission, show=seen)
    return task._replace(result=UNSHOWN)


async def get(replica: SimulatedReplica, namespace: str, task_id: str, context: Context) -> Seen:
    """A task by its id."""
    del context
    return await replica.engine.tasks.get(namespace, task_id, show=seen)


async def cancel(replica: SimulatedReplica, namespace: str, task_id: str, context: Context) -> Seen:
    """The end of a task."""
    del context
    return await replica.engine.tasks.cancel(namespace, task_id, show=seen)


async def register(replica: SimulatedReplica, namespace: str, host_id: str, context: Context) -> str:
    """A host."""
    del context

    def show(host: Host) -> str:
        return host.id

    return await replica.engine.hosts.register(namespace, host_id, None, HostProfile(), show=show)


async def claim(
    replica: SimulatedReplica, namespace: str, request: tuple[str, int, float], context: Context
) -> list[Granted]:
    """Tasks for a host, which waits for some of them for a while."""
    del context
    host_id, count, wait_secs = request

    def show(leases: list[Lease]) -> list[Granted]:
        return [
            Granted(seen(lease.task), lease.token, _until(replica, lease), lease.task.options.target)
            for lease in leases
        ]

    return await replica.engine.leases.claim(namespace, host_id, count, wait_secs=wait_secs, show=show)


def _until(replica: SimulatedReplica, lease: Lease) -> float:
    """Until when a lease holds, by the time of the simulation: the engines' clocks differ a little."""
    return replica.process.time() + lease.expires_at - replica.engine.now()


async def renew(replica: SimulatedReplica, namespace: str, request: tuple[str, str, int], context: Context) -> float:
    """Until when a lease holds."""
    del context
    host_id, task_id, token = request
    return await replica.engine.leases.renew(
        namespace, host_id, task_id, token, show=lambda lease: _until(replica, lease)
    )


async def report(
    replica: SimulatedReplica, namespace: str, request: tuple[str, Report], context: Context
) -> str | Refusal:
    """The state of a task after a report, or why that was refused."""
    del context
    host_id, its = request
    answer = replica.engine.leases.report(namespace, host_id, [its])
    (outcome,) = await answer
    return outcome if isinstance(outcome, Refusal) else outcome.value


async def create_schedule(replica: SimulatedReplica, namespace: str, request: tuple[str, str], context: Context) -> str:
    """A schedule with an interval."""
    del context
    schedule_id, interval = request
    task = Submission(f"agent of {schedule_id}", "work")
    spec = ScheduleSpec(parse_interval(interval), "UTC", task, overlap=Overlap.ALLOW, catch_up=CatchUp.ALL)
    return await replica.engine.schedules.create(namespace, schedule_id, spec, show=lambda schedule: schedule.id)


async def delete_schedule(replica: SimulatedReplica, namespace: str, schedule_id: str, context: Context) -> None:
    """The end of a schedule."""
    del context
    await replica.engine.schedules.delete(namespace, schedule_id)


async def watch(replica: SimulatedReplica, namespace: str, cursor: str, context: Context) -> None:
    """All events of a namespace, from a cursor on or beginning with the tasks as they are."""
    request = pb.WatchTasksRequest(cursor=cursor, include_current=not cursor)
    await replica.watches.watch(Call(namespace), request, context)  # type: ignore[arg-type]


METHODS: Final[dict[str, tuple[str, Callable[..., Awaitable[Any]]]]] = {
    "SubmitTask": ("TaskService", submit),
    "GetTask": ("TaskService", get),
    "CancelTask": ("TaskService", cancel),
    "WatchTasks": ("TaskService", watch),
    "RegisterHost": ("RuntimeHostService", register),
    "ClaimTasks": ("LeaseService", claim),
    "RenewLease": ("LeaseService", renew),
    "Report": ("LeaseService", report),
    "CreateSchedule": ("ScheduleService", create_schedule),
    "DeleteSchedule": ("ScheduleService", delete_schedule),
}
"""The handlers, with their services."""

STATES: Final = {number: name for name, number in pb.Task.State.items() if name.islower()}


@cache
def read_message(message: bytes) -> pb.WatchTasksResponse:
    """A message of a watch."""
    return pb.WatchTasksResponse.FromString(message)


def tasks_in(answer: object) -> Iterable[Seen]:
    """The tasks that an answer or a message tells of."""
    if isinstance(answer, Seen):
        return [answer]
    if isinstance(answer, bytes):
        events = read_message(answer).events
        return [Seen(event.task.task_id, STATES[event.task.state], 0, UNSHOWN) for event in events]
    if isinstance(answer, list):
        return [lease.task for lease in answer]
    return []
