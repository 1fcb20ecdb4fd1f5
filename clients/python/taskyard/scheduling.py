"""The calls about schedules and triggers, as `client.schedules` offers them."""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypedDict, Unpack
from uuid import uuid4
from zoneinfo import ZoneInfo

import grpc
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import schedule_pb2 as pb
from taskyard.v1.schedule_pb2_grpc import ScheduleServiceStub

from .calls import Calls
from .errors import NotFound
from .schedules import CatchUp, Overlap, Schedule, Trigger
from .tasks import NewTask, TaskFields, new_task
from .values import Span, datetime_from, seconds, timestamp_from, whole_seconds, words

CADENCES: Final = ("cron", "interval", "at")


class ScheduleParts(TypedDict, total=False):
    """What can be changed of a schedule; see `Schedules.create` for what each part means. None is the default again."""

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

    Every method raises what the methods of `Client` raise for what the server refuses, and is as safe to repeat.
    """

    def __init__(self, calls: Calls, channel: grpc.aio.Channel, agent: str) -> None:
        self._calls = calls
        self._stub = ScheduleServiceStub(channel)
        self._agent = agent

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
        """Create a schedule that submits this task: an action and its fields, or a `NewTask`, as for `submit`.

        Exactly one says when it is due: `cron` (five fields, read in the IANA `time_zone`, a name or a ZoneInfo, by
        default UTC), `interval` (seconds, a timedelta, or a text such as `10m` or `1.5h`; at least a second), or `at`,
        one point in time with a time zone. `deadline` is a span, which each task has from its submission.

        `overlap` is by default `skip`, `catch_up` is `last`; `catch_up_window` is a day, and counts with `all`. Without
        a `schedule_id` one is chosen. The same schedule again under the same id is the first.

        Raises `AlreadyExists` for the id of a different schedule, `TooLarge` for the params, `BadRequest` for a cadence
        that is malformed or never comes. Raises TypeError or ValueError for what the API cannot express, and for what
        a schedule cannot give to its tasks: `hold`, `not_before`, `idempotency_key`, `traceparent`.
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
        # An id makes the call safe to repeat, so it is chosen here.
        request = pb.CreateScheduleRequest(
            schedule_id=schedule_id or uuid4().hex, paused=paused or None, **self._fields(parts)
        )
        answer, _ = await self._calls.repeated(self._stub.CreateSchedule, request)
        return Schedule.from_message(answer.schedule)

    async def get(self, schedule_id: str) -> Schedule:
        """One schedule as it stands. Raises `NotFound`."""
        request = pb.GetScheduleRequest(schedule_id=schedule_id)
        return await self._schedule(self._stub.GetSchedule, request)

    async def list(self, *, page_size: int | None = None) -> AsyncGenerator[Schedule, None]:
        """The schedules, oldest first, page after page. `page_size` is at most 1,000, the default."""
        request = pb.ListSchedulesRequest(page_size=page_size)
        while True:
            page = await self._calls.once(self._stub.ListSchedules, request)
            for message in page.schedules:
                yield Schedule.from_message(message)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def update(self, schedule_id: str, **parts: Unpack[ScheduleParts]) -> Schedule:
        """Replace the given parts of a schedule; None gives a part its default again.

        What is submitted already stays as it is. `task` is replaced as a whole. A changed cadence or time zone counts
        from now, and skips the triggers that came due by the old one and have not fired.

        Raises `NotFound`, and what `create` does for parts that are wrong.
        """
        if sum(name in parts for name in CADENCES) > 1:
            raise ValueError("cron, interval, at: at most one can be given")
        mask = FieldMask(paths=["catch_up_window_secs" if name == "catch_up_window" else name for name in parts])
        request = pb.UpdateScheduleRequest(schedule_id=schedule_id, update_mask=mask, **self._fields(parts))
        return await self._schedule(self._stub.UpdateSchedule, request)

    async def delete(self, schedule_id: str) -> None:
        """Delete a schedule and its pending triggers; the tasks that it has submitted go on. Raises `NotFound`."""
        tries = 0

        async def attempt() -> None:
            nonlocal tries
            tries += 1
            try:
                await self._calls.once(self._stub.DeleteSchedule, pb.DeleteScheduleRequest(schedule_id=schedule_id))
            except NotFound:
                # After a lost answer it may be the call's own doing.
                if tries == 1:
                    raise

        await self._calls.attempted(attempt)

    async def pause(self, schedule_id: str) -> Schedule:
        """Let a schedule fire no more, and skip its pending triggers unless `trigger` made them. Raises `NotFound`."""
        request = pb.PauseScheduleRequest(schedule_id=schedule_id)
        return await self._schedule(self._stub.PauseSchedule, request)

    async def resume(self, schedule_id: str, catch_up: CatchUp | str | None = None) -> Schedule:
        """Let a paused schedule go on, after those of the times since the pause that `catch_up` says, by default none.

        Raises `NotFound`.
        """
        request = pb.ResumeScheduleRequest(schedule_id=schedule_id, catch_up=_catch_up_number(catch_up))
        return await self._schedule(self._stub.ResumeSchedule, request)

    async def trigger(self, schedule_id: str, idempotency_key: str | None = None) -> Trigger:
        """Let a schedule fire now, whatever its cadence says and even if it is paused. Its overlap policy applies.

        Without an `idempotency_key` it is given one, and fires once, however often the connection breaks. With a key
        that the schedule has a trigger of, the answer is that trigger. Raises `NotFound`.
        """
        request = pb.TriggerScheduleRequest(schedule_id=schedule_id, idempotency_key=idempotency_key or uuid4().hex)
        answer, _ = await self._calls.repeated(self._stub.TriggerSchedule, request)
        return Trigger.from_message(answer.trigger)

    async def preview(
        self, schedule_id: str, count: int = 10, after: datetime | None = None
    ) -> builtins.list[datetime]:
        """The next `count` times, at most 1,000, that a schedule will be due after now or `after`, earliest first.

        Raises `NotFound`.
        """
        request = pb.PreviewScheduleRequest(schedule_id=schedule_id, count=count, after=_instant(after))
        answer = await self._calls.once(self._stub.PreviewSchedule, request)
        return [datetime_from(due_at) for due_at in answer.due_at]

    async def get_trigger(self, trigger_id: str) -> Trigger:
        """One trigger as it stands. Raises `NotFound`."""
        request = pb.GetTriggerRequest(trigger_id=trigger_id)
        return Trigger.from_message((await self._calls.once(self._stub.GetTrigger, request)).trigger)

    async def triggers(
        self,
        schedule_id: str | None = None,
        *,
        states: Iterable[str] = (),
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        page_size: int | None = None,
    ) -> AsyncGenerator[Trigger, None]:
        """The triggers that match all given filters, latest due first, page after page.

        All that have not ended are there, of the others the newest 100 of each schedule. `page_size` is at most 1,000,
        the default.
        """
        request = pb.ListTriggersRequest(
            schedule_id=schedule_id,
            state=words(states),
            due_from=_instant(due_from),
            due_before=_instant(due_before),
            page_size=page_size,
        )
        while True:
            page = await self._calls.once(self._stub.ListTriggers, request)
            for message in page.triggers:
                yield Trigger.from_message(message)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def _schedule(self, method: Callable[..., Awaitable[Any]], request: Any) -> Schedule:
        """The call's answer, where that is a schedule."""
        return Schedule.from_message((await self._calls.once(method, request)).schedule)

    def _fields(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        """The parts as the proto has them, without those that are None."""
        fields = {name: part for name, part in parts.items() if part is not None}
        if "interval" in fields:
            fields["interval"] = _interval_text(fields["interval"])
        if "at" in fields:
            fields["at"] = timestamp_from(fields["at"])
        if "time_zone" in fields:
            fields["time_zone"] = str(fields["time_zone"])
        if "task" in fields:
            fields["task"] = new_task(fields["task"], {}).to_template(self._agent)
        if "overlap" in fields:
            fields["overlap"] = pb.Overlap.Policy.Value(Overlap(fields["overlap"]).value)
        if "catch_up" in fields:
            fields["catch_up"] = _catch_up_number(fields["catch_up"])
        if "catch_up_window" in fields:
            fields["catch_up_window_secs"] = whole_seconds(fields.pop("catch_up_window"), "catch_up_window")
        return fields


def _catch_up_number(policy: CatchUp | str | None) -> pb.CatchUp.Policy.ValueType | None:
    return None if policy is None else pb.CatchUp.Policy.Value(CatchUp(policy).value)


def _instant(at: datetime | None) -> Timestamp | None:
    return None if at is None else timestamp_from(at)


def _interval_text(interval: str | Span) -> str:
    """An interval in the words of the API, to the microsecond."""
    return interval if isinstance(interval, str) else f"{seconds(interval):.6f}".rstrip("0").rstrip(".") + "s"
