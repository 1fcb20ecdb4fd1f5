"""ScheduleService: schedules and their triggers (docs/rules.md, Schedules)."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any, Final, TypeAlias

import grpc
import structlog

from taskyard.v1 import schedule_pb2 as pb
from taskyard.v1.schedule_pb2_grpc import ScheduleServiceServicer
from taskyard_server.conversion import requests
from taskyard_server.conversion.page_tokens import BAD_PAGE_TOKEN, page_size
from taskyard_server.conversion.responses import MAX_PAGE_BYTES
from taskyard_server.conversion.schedules import (
    catch_up_policy,
    changed_spec,
    new_spec,
    schedule_id,
    schedule_message,
    template_reader,
    trigger_message,
)
from taskyard_server.conversion.submissions import DefaultRetry, no_default_retry
from taskyard_server.conversion.timestamps import timestamp
from taskyard_server.core.errors import BadRequest
from taskyard_server.core.schedules.schedule import CatchUp, Schedule, TriggerState
from taskyard_server.core.schedules.trigger_store import PageKey
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.views import TriggerFilter
from taskyard_server.interceptors.callers import current_call

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

DEFAULT_PREVIEW_COUNT: Final = 10
MAX_PREVIEW_COUNT: Final = 1_000

log = structlog.get_logger(__name__)


class ScheduleService(ScheduleServiceServicer):
    """Serves `taskyard.v1.ScheduleService`."""

    def __init__(
        self,
        engine: Engine,
        max_payload_bytes: int,
        default_retry: DefaultRetry = no_default_retry,
    ) -> None:
        self._schedules = engine.schedules
        self._read_template = template_reader(max_payload_bytes, default_retry)

    async def CreateSchedule(  # noqa: N802
        self, request: pb.CreateScheduleRequest, context: Context
    ) -> pb.CreateScheduleResponse:
        del context
        requested_id, spec = schedule_id(request.schedule_id), new_spec(request, self._read_template)
        schedule = await self._schedules.create(
            current_call().namespace, requested_id, spec, request.paused, show=schedule_message
        )
        _log_change("created", schedule)
        return pb.CreateScheduleResponse(schedule=schedule)

    async def GetSchedule(self, request: pb.GetScheduleRequest, context: Context) -> pb.GetScheduleResponse:  # noqa: N802
        del context
        call = current_call()
        show = partial(schedule_message, payloads=call.access.payloads)
        schedule = await self._schedules.get(call.namespace, request.schedule_id, show=show)
        return pb.GetScheduleResponse(schedule=schedule)

    async def ListSchedules(  # noqa: N802
        self, request: pb.ListSchedulesRequest, context: Context
    ) -> pb.ListSchedulesResponse:
        del context
        call = current_call()
        listing = call.listing("schedules")
        after = listing.start(request.page_token)
        limit = page_size(request.page_size)

        def page(schedules: list[Schedule]) -> pb.ListSchedulesResponse:
            response, size, last = pb.ListSchedulesResponse(), 0, 0
            for schedule in schedules:
                message = schedule_message(schedule, call.access.payloads)
                size += message.ByteSize()
                if response.schedules and (len(response.schedules) == limit or size > MAX_PAGE_BYTES):
                    response.next_page_token = listing.token(last)
                    break
                response.schedules.append(message)
                last = schedule.number
            return response

        return await self._schedules.list_schedules(call.namespace, after, show=page)

    async def UpdateSchedule(  # noqa: N802
        self, request: pb.UpdateScheduleRequest, context: Context
    ) -> pb.UpdateScheduleResponse:
        del context
        change = changed_spec(request, self._read_template)
        schedule = await self._schedules.update(
            current_call().namespace, request.schedule_id, change, show=schedule_message
        )
        _log_change("updated", schedule)
        return pb.UpdateScheduleResponse(schedule=schedule)

    async def DeleteSchedule(  # noqa: N802
        self, request: pb.DeleteScheduleRequest, context: Context
    ) -> pb.DeleteScheduleResponse:
        del context
        namespace = current_call().namespace
        await self._schedules.delete(namespace, request.schedule_id)
        log.info("schedule_deleted", schedule_id=request.schedule_id, namespace=namespace)
        return pb.DeleteScheduleResponse(deleted=True)

    async def PauseSchedule(  # noqa: N802
        self, request: pb.PauseScheduleRequest, context: Context
    ) -> pb.PauseScheduleResponse:
        del context
        schedule = await self._schedules.pause(current_call().namespace, request.schedule_id, show=schedule_message)
        _log_change("paused", schedule)
        return pb.PauseScheduleResponse(schedule=schedule)

    async def ResumeSchedule(  # noqa: N802
        self, request: pb.ResumeScheduleRequest, context: Context
    ) -> pb.ResumeScheduleResponse:
        del context
        catch_up = catch_up_policy(request.catch_up) or CatchUp.NONE
        schedule = await self._schedules.resume(
            current_call().namespace, request.schedule_id, catch_up, show=schedule_message
        )
        _log_change("resumed", schedule)
        return pb.ResumeScheduleResponse(schedule=schedule)

    async def TriggerSchedule(  # noqa: N802
        self, request: pb.TriggerScheduleRequest, context: Context
    ) -> pb.TriggerScheduleResponse:
        del context
        call = current_call()
        key = requests.name(request.idempotency_key, "idempotencyKey")
        trigger = await self._schedules.trigger(
            call.namespace, request.schedule_id, key, call.traceparent, show=trigger_message
        )
        return pb.TriggerScheduleResponse(trigger=trigger)

    async def PreviewSchedule(  # noqa: N802
        self, request: pb.PreviewScheduleRequest, context: Context
    ) -> pb.PreviewScheduleResponse:
        del context
        count = request.count if request.HasField("count") else DEFAULT_PREVIEW_COUNT
        if not 1 <= count <= MAX_PREVIEW_COUNT:
            raise BadRequest(f"count: must be 1 to {MAX_PREVIEW_COUNT}, is {count}")
        after = requests.last_before(request, "after", "after")
        times = await self._schedules.preview(current_call().namespace, request.schedule_id, count, after)
        return pb.PreviewScheduleResponse(due_at=map(timestamp, times))

    async def GetTrigger(self, request: pb.GetTriggerRequest, context: Context) -> pb.GetTriggerResponse:  # noqa: N802
        del context
        call = current_call()
        show = partial(trigger_message, payloads=call.access.payloads)
        trigger = await self._schedules.get_trigger(call.namespace, request.trigger_id, show=show)
        return pb.GetTriggerResponse(trigger=trigger)

    async def ListTriggers(self, request: pb.ListTriggersRequest, context: Context) -> pb.ListTriggersResponse:  # noqa: N802
        del context
        due_from, due_before = (
            requests.bound(request, "due_from", "dueFrom"),
            requests.bound(request, "due_before", "dueBefore"),
        )
        trigger_filter = TriggerFilter(
            schedule_id=request.schedule_id or None,
            states=requests.states(request.state, TriggerState),
            due_from=-inf if due_from is None else due_from,
            due_before=inf if due_before is None else due_before,
        )
        # Tokens of earlier versions go on: the times are those that were sent.
        listing = current_call().listing(
            "triggers",
            request.schedule_id,
            request.state,
            -inf if due_from is None else requests.seconds(request.due_from, "dueFrom"),
            inf if due_before is None else requests.seconds(request.due_before, "dueBefore"),
        )
        before = _page_key(listing.start_name(request.page_token))
        limit = page_size(request.page_size)
        page = await self._schedules.list_triggers(current_call().namespace, trigger_filter, before, limit)
        payloads = current_call().access.payloads
        response = pb.ListTriggersResponse(triggers=[trigger_message(each, payloads) for each in page.triggers])
        if page.next_before is not None:
            due_at, number = page.next_before
            response.next_page_token = listing.token(f"{due_at!r}/{number}")
        return response


def _log_change(change: str, schedule: pb.Schedule) -> None:
    log.info(f"schedule_{change}", schedule_id=schedule.schedule_id, namespace=current_call().namespace)


def _page_key(text: str) -> PageKey | None:
    """The position in a listing of triggers that a page token holds."""
    if not text:
        return None
    due_at, _, number = text.partition("/")
    try:
        return float(due_at), int(number)
    except ValueError:
        raise BadRequest(BAD_PAGE_TOKEN) from None
