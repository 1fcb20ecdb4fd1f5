"""The calls about schedules and triggers, as `client.schedules` offers them."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypedDict, Unpack
from uuid import uuid4
from zoneinfo import ZoneInfo

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.connection.servers import Servers
from taskyard.errors import AlreadyExists, Conflict, NotFound
from taskyard.new_tasks import NewTask, new_task
from taskyard.records.schedules import CatchUp, Overlap, Schedule, Trigger
from taskyard.v1 import schedule_pb2 as pb
from taskyard.v1.schedule_pb2_grpc import ScheduleServiceStub
from taskyard.values.convert import Span, datetime_from, seconds, state_filter, timestamp_from, whole_seconds
from taskyard.values.payloads import Codec
from taskyard.values.task_fields import TaskFields

from .calls import Calls

TRIES: Final = 3
CADENCES: Final = ("cron", "interval", "at")


class ScheduleParts(TypedDict, total=False):
    """The parts of a schedule that can be changed. `Schedules.create` documents them; None restores the default."""

    cron: str
    interval: str | Span
    at: datetime
    time_zone: str | ZoneInfo | None
    display_name: str | None
    task: str | NewTask
    overlap: Overlap | str | None
    catch_up: CatchUp | str | None
    catch_up_window: Span | None


class Schedules:
    """The schedules of the client's namespace.

    Every method may also raise the errors that `Client` lists for all of its methods.

    Args:
        calls: The calls of the client.
        servers: The servers of the client.
        agent_id: The agent of tasks that name no other.
        codec: Encodes the inputs of tasks. Default none.
    """

    def __init__(self, calls: Calls, servers: Servers, agent_id: str, codec: Codec | None = None) -> None:
        self._codec = codec
        self._calls = calls
        self._stub = ScheduleServiceStub(servers.unary)
        self._agent_id = agent_id

    async def create(
        self,
        task: str | NewTask,
        *,
        cron: str | None = None,
        interval: str | Span | None = None,
        at: datetime | None = None,
        schedule_id: str | None = None,
        time_zone: str | ZoneInfo | None = None,
        display_name: str | None = None,
        overlap: Overlap | str | None = None,
        catch_up: CatchUp | str | None = None,
        catch_up_window: Span | None = None,
        paused: bool = False,
        **fields: Unpack[TaskFields],
    ) -> Schedule:
        """Create a schedule that submits a task each time it is due. Exactly one of `cron`, `interval`, `at` is given.

        The call is repeated while the server is unavailable. The same schedule under the same id is created once.

        Args:
            task: The action, or a task whose fields are the defaults.
            cron: Five cron fields, read in `time_zone`.
            interval: Seconds, a timedelta, or a text such as `10m` or `1.5h`; at least a second.
            at: One time, with a time zone.
            schedule_id: The schedule's id. Default a random one.
            time_zone: The IANA time zone for `cron`, by name or as a ZoneInfo. Default UTC.
            display_name: A name for people. Default none.
            overlap: What happens when a trigger is due while an earlier one has not ended. Default `skip`.
            catch_up: Which missed triggers fire. Default `last`.
            catch_up_window: How far back catch-up `all` goes, in seconds or as a timedelta. Default a day.
            paused: Whether it is created paused. Default False.
            **fields: Fields of the task, see `NewTask`. `deadline` is a span, which each task has from its submission.

        Returns:
            The schedule.

        Raises:
            AlreadyExists: A different schedule has the id.
            TooLarge: The params are too large.
            BadRequest: The cadence is malformed, or has no time left.
            TypeError: An argument has a type that the API cannot express.
            ValueError: There is not exactly one cadence; an argument has a value that the API cannot express, or is for
                a single task only: `hold`, `not_before`, `idempotency_key`, `traceparent`.
        """
        parts = {
            "cron": cron,
            "interval": interval,
            "at": at,
            "time_zone": time_zone,
            "display_name": display_name,
            "task": new_task(task, fields),
            "overlap": overlap,
            "catch_up": catch_up,
            "catch_up_window": catch_up_window,
        }
        if sum(parts[name] is not None for name in CADENCES) != 1:
            raise ValueError("cron, interval, at: exactly one must be given")
        # The id makes the call safe to repeat, so it is chosen here.
        request = pb.CreateScheduleRequest(
            schedule_id=schedule_id or uuid4().hex, paused=paused or None, **self._fields(parts)
        )
        answer, _ = await self._calls.repeated(self._stub.CreateSchedule, request)
        return Schedule.from_message(answer.schedule)

    async def put(
        self,
        schedule_id: str,
        task: str | NewTask,
        *,
        cron: str | None = None,
        interval: str | Span | None = None,
        at: datetime | None = None,
        time_zone: str | ZoneInfo | None = None,
        display_name: str | None = None,
        overlap: Overlap | str | None = None,
        catch_up: CatchUp | str | None = None,
        catch_up_window: Span | None = None,
        **fields: Unpack[TaskFields],
    ) -> Schedule:
        """Create a schedule, or replace all parts of the one that has the id. Exactly one cadence is given.

        So a program that starts says which schedules there are, however often it does. A schedule that is there stays
        paused if it is, keeps its triggers, and counts from now only if its cadence or time zone changes.

        Args:
            schedule_id: The schedule's id.
            task: The action, or a task whose fields are the defaults.
            cron: Five cron fields, read in `time_zone`.
            interval: Seconds, a timedelta, or a text such as `10m` or `1.5h`; at least a second.
            at: One time, with a time zone.
            time_zone: The IANA time zone for `cron`, by name or as a ZoneInfo. Default UTC.
            display_name: A name for people. Default none.
            overlap: What happens when a trigger is due while an earlier one has not ended. Default `skip`.
            catch_up: Which missed triggers fire. Default `last`.
            catch_up_window: How far back catch-up `all` goes, in seconds or as a timedelta. Default a day.
            **fields: Fields of the task, see `create`.

        Returns:
            The schedule.

        Raises:
            TooLarge: The params are too large.
            BadRequest: The cadence is malformed, or has no time left.
            TypeError: An argument has a type that the API cannot express.
            ValueError: There is not exactly one cadence, or an argument has a value that the API cannot express.
        """
        cadence = {"cron": cron, "interval": interval, "at": at}
        given = {name: value for name, value in cadence.items() if value is not None}
        if len(given) != 1:
            raise ValueError("cron, interval, at: exactly one must be given")
        parts: dict[str, Any] = {
            **given,
            "time_zone": time_zone,
            "display_name": display_name,
            "task": new_task(task, fields),
            "overlap": overlap,
            "catch_up": catch_up,
            "catch_up_window": catch_up_window,
        }
        for _ in range(TRIES):
            with contextlib.suppress(NotFound):
                return await self.update(schedule_id, **parts)
            # Somebody else may create it now, or delete it just after.
            with contextlib.suppress(AlreadyExists):
                return await self.create(schedule_id=schedule_id, **parts)
        raise Conflict(f"the schedule {schedule_id} is created and deleted all the time")

    async def get(self, schedule_id: str) -> Schedule:
        """Get one schedule.

        Args:
            schedule_id: The schedule.

        Returns:
            The schedule as it is now.

        Raises:
            NotFound: There is no such schedule.
        """
        request = pb.GetScheduleRequest(schedule_id=schedule_id)
        return await self._schedule(self._stub.GetSchedule, request)

    def list(self, *, page_size: int | None = None) -> AsyncGenerator[Schedule, None]:
        """List the schedules, oldest first, one page after the other.

        Args:
            page_size: Schedules per page, at most 1,000. Default 1,000.

        Returns:
            An iterator over the schedules.
        """
        request = pb.ListSchedulesRequest(page_size=page_size)
        return self._calls.listed(self._stub.ListSchedules, request, "schedules", Schedule.from_message)

    async def update(self, schedule_id: str, **parts: Unpack[ScheduleParts]) -> Schedule:
        """Replace parts of a schedule. None restores the default of a part.

        Tasks that were submitted do not change. `task` is replaced as a whole. A changed cadence or time zone counts
        from now; triggers that came due by the old one and have not fired are skipped.

        Args:
            schedule_id: The schedule.
            **parts: The new values, see `create`.

        Returns:
            The changed schedule.

        Raises:
            NotFound: There is no such schedule.
            TooLarge: The params are too large.
            BadRequest: The cadence is malformed, or has no time left.
            TypeError: A part has a type that the API cannot express.
            ValueError: There are several cadences, or a part has a value that the API cannot express.
        """
        if sum(name in parts for name in CADENCES) > 1:
            raise ValueError("cron, interval, at: at most one can be given")
        mask = FieldMask(paths=["catch_up_window_secs" if name == "catch_up_window" else name for name in parts])
        request = pb.UpdateScheduleRequest(schedule_id=schedule_id, update_mask=mask, **self._fields(parts))
        return await self._schedule(self._stub.UpdateSchedule, request)

    async def delete(self, schedule_id: str) -> None:
        """Delete a schedule and its pending triggers. The tasks that it has submitted go on.

        Args:
            schedule_id: The schedule.

        Raises:
            NotFound: There is no such schedule.
        """

        async def attempt(is_repeat: bool) -> None:
            try:
                await self._calls.single(self._stub.DeleteSchedule, pb.DeleteScheduleRequest(schedule_id=schedule_id))
            except NotFound:
                # An earlier try may have deleted it, and its answer was lost.
                if not is_repeat:
                    raise

        await self._calls.attempted(attempt)

    async def pause(self, schedule_id: str) -> Schedule:
        """Pause a schedule: it fires no more, and its pending triggers are skipped unless `trigger` made them.

        Args:
            schedule_id: The schedule.

        Returns:
            The paused schedule.

        Raises:
            NotFound: There is no such schedule.
        """
        request = pb.PauseScheduleRequest(schedule_id=schedule_id)
        return await self._schedule(self._stub.PauseSchedule, request)

    async def resume(self, schedule_id: str, catch_up: CatchUp | str | None = None) -> Schedule:
        """Resume a paused schedule.

        Args:
            schedule_id: The schedule.
            catch_up: Which triggers fire that were missed since the pause. Default none.

        Returns:
            The resumed schedule.

        Raises:
            NotFound: There is no such schedule.
            ValueError: The catch-up is unknown.
        """
        request = pb.ResumeScheduleRequest(schedule_id=schedule_id, catch_up=_catch_up_number(catch_up))
        return await self._schedule(self._stub.ResumeSchedule, request)

    async def trigger(self, schedule_id: str, idempotency_key: str | None = None) -> Trigger:
        """Fire a schedule now, whatever its cadence and even if it is paused. Its overlap policy applies.

        The call is repeated while the server is unavailable, and fires once.

        Args:
            schedule_id: The schedule.
            idempotency_key: If the schedule has a trigger with this key, that one is returned. Default a random key.

        Returns:
            The trigger.

        Raises:
            NotFound: There is no such schedule.
        """
        request = pb.TriggerScheduleRequest(schedule_id=schedule_id, idempotency_key=idempotency_key or uuid4().hex)
        answer, _ = await self._calls.repeated(self._stub.TriggerSchedule, request)
        return Trigger.from_message(answer.trigger)

    async def preview(
        self, schedule_id: str, count: int = 10, after: datetime | None = None
    ) -> builtins.list[datetime]:
        """Compute the next times at which a schedule is due.

        Args:
            schedule_id: The schedule.
            count: How many times, at most 1,000. Default 10.
            after: The time to begin after, with a time zone. Default now.

        Returns:
            The times, earliest first.

        Raises:
            NotFound: There is no such schedule.
            ValueError: `after` has no time zone.
        """
        request = pb.PreviewScheduleRequest(schedule_id=schedule_id, count=count, after=_optional_timestamp(after))
        answer = await self._calls.sure(self._stub.PreviewSchedule, request)
        return [datetime_from(due_at) for due_at in answer.due_at]

    async def get_trigger(self, trigger_id: str) -> Trigger:
        """Get one trigger.

        Args:
            trigger_id: The trigger.

        Returns:
            The trigger as it is now.

        Raises:
            NotFound: There is no such trigger, or it is no longer retained.
        """
        request = pb.GetTriggerRequest(trigger_id=trigger_id)
        return Trigger.from_message((await self._calls.sure(self._stub.GetTrigger, request)).trigger)

    def triggers(
        self,
        schedule_id: str | None = None,
        *,
        states: Iterable[str] = (),
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        page_size: int | None = None,
    ) -> AsyncGenerator[Trigger, None]:
        """List the triggers that match all given filters, latest due first, one page after the other.

        All that have not ended are retained; of the others, the newest 100 of each schedule.

        Args:
            schedule_id: Only triggers of this schedule. Default all.
            states: Only triggers in these states. Default all.
            due_from: Only triggers that were due at this time or later. Default all.
            due_before: Only triggers that were due before this time. Default all.
            page_size: Triggers per page, at most 1,000. Default 1,000.

        Returns:
            An iterator over the triggers.

        Raises:
            TypeError: `states` is one state instead of several.
            ValueError: A time has no time zone.
        """
        request = pb.ListTriggersRequest(
            schedule_id=schedule_id,
            state=state_filter(states),
            due_from=_optional_timestamp(due_from),
            due_before=_optional_timestamp(due_before),
            page_size=page_size,
        )
        return self._calls.listed(self._stub.ListTriggers, request, "triggers", Trigger.from_message)

    async def _schedule(self, method: Callable[..., Awaitable[Any]], request: Any) -> Schedule:
        """Make a call that answers with a schedule."""
        return Schedule.from_message((await self._calls.sure(method, request)).schedule)

    def _fields(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        """Convert parts to fields of the proto, without those that are None."""
        fields = {name: part for name, part in parts.items() if part is not None}
        if "interval" in fields:
            fields["interval"] = _interval_text(fields["interval"])
        if "at" in fields:
            fields["at"] = timestamp_from(fields["at"])
        if "time_zone" in fields:
            fields["time_zone"] = str(fields["time_zone"])
        if "task" in fields:
            fields["task"] = new_task(fields["task"], {}).to_template(self._agent_id, self._codec)
        if "overlap" in fields:
            fields["overlap"] = pb.Overlap.Policy.Value(Overlap(fields["overlap"]).value)
        if "catch_up" in fields:
            fields["catch_up"] = _catch_up_number(fields["catch_up"])
        if "catch_up_window" in fields:
            fields["catch_up_window_secs"] = whole_seconds(fields.pop("catch_up_window"), "catch_up_window")
        return fields


def _catch_up_number(policy: CatchUp | str | None) -> pb.CatchUp.Policy.ValueType | None:
    return None if policy is None else pb.CatchUp.Policy.Value(CatchUp(policy).value)


def _optional_timestamp(at: datetime | None) -> Timestamp | None:
    return None if at is None else timestamp_from(at)


def _interval_text(interval: str | Span) -> str:
    """An interval as the API writes it, to the microsecond."""
    return interval if isinstance(interval, str) else f"{seconds(interval):.6f}".rstrip("0").rstrip(".") + "s"
