"""The operations of a worker without a host loop, by the raw stubs, and how payloads stand in steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from taskyard.connection.channel import answer_of
from taskyard.connection.credentials import Credentials
from taskyard.errors import error_from_rpc
from taskyard.records.tasks import STATE_OF_NUMBER
from taskyard.v1 import lease_pb2, lease_pb2_grpc, runtime_host_pb2, runtime_host_pb2_grpc, task_pb2
from taskyard.values.convert import value_from

Outcome = dict[str, Any]


class Workers:
    """Each public method is an operation of the scenario, and returns the outcome of the step."""

    def __init__(self, credentials: Credentials, channel: grpc.aio.Channel) -> None:
        self._credentials = credentials
        self._leases = lease_pb2_grpc.LeaseServiceStub(channel)
        self._registry = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel)

    async def register(self, host: str) -> Outcome:
        request = runtime_host_pb2.RegisterHostRequest(host_id=host)
        return {"host": (await self._call(self._registry.RegisterHost, request)).host.id}

    async def claim(
        self, host: str, lease_secs: int | None = None, ms: int | None = None, claim_id: str | None = None
    ) -> Outcome:
        request = lease_pb2.ClaimTaskRequest(host_id=host, lease_secs=lease_secs, wait_ms=ms, claim_id=claim_id)
        answer = await self._call(self._leases.ClaimTask, request)
        if not answer.claimed:
            return {"claimed": False}
        given = answer.task.input if answer.task.HasField("input") else None
        claimed = {"claimed": True, "task": answer.task_id, "token": int(answer.fencing_token)}
        return claimed | payload_fields("input", given)

    async def claim_many(
        self,
        host: str,
        count: int,
        lease_secs: int | None = None,
        ms: int | None = None,
        claim_id: str | None = None,
    ) -> Outcome:
        request = lease_pb2.ClaimTasksRequest(
            host_id=host, max_tasks=count, lease_secs=lease_secs, wait_ms=ms, claim_id=claim_id
        )
        leases = [each.lease for each in (await self._call(self._leases.ClaimTasks, request)).assignments]
        return {"tasks": [lease.task_id for lease in leases], "tokens": [int(lease.fencing_token) for lease in leases]}

    async def start(self, host: str, task: str, token: int) -> Outcome:
        request = lease_pb2.StartTaskRequest(host_id=host, task_id=task, fencing_token=token)
        return _state(await self._call(self._leases.StartTask, request))

    async def complete(
        self,
        host: str,
        task: str,
        token: int,
        result: Any = None,
        tokens: int | None = None,
        output: str | None = None,
        output_encoding: str | None = None,
    ) -> Outcome:
        request = lease_pb2.CompleteTaskRequest(
            host_id=host,
            task_id=task,
            fencing_token=token,
            result=None if result is None else value_from(result),
            tokens_used=tokens,
            output=payload_from(output, output_encoding),
        )
        return _state(await self._call(self._leases.CompleteTask, request))

    async def fail(self, host: str, task: str, token: int, error: str, **details: Any) -> Outcome:
        request = lease_pb2.FailTaskRequest(host_id=host, task_id=task, fencing_token=token, error=error, **details)
        return _state(await self._call(self._leases.FailTask, request))

    async def deregister(self, host: str) -> Outcome:
        request = runtime_host_pb2.DeregisterHostRequest(host_id=host)
        return {"deregistered": (await self._call(self._registry.DeregisterHost, request)).deregistered}

    async def drain(self, host: str, grace_secs: int | None = None) -> Outcome:
        request = runtime_host_pb2.DrainHostRequest(host_id=host, grace_period_secs=grace_secs)
        return {"draining": (await self._call(self._registry.DrainHost, request)).host.draining}

    async def _call(self, method: Callable[..., Awaitable[Any]], request: Any) -> Any:
        call = method(request, metadata=self._credentials.metadata(), timeout=30)
        return await answer_of(call, error_from_rpc)


def payload_from(text: str | None, encoding: str | None) -> task_pb2.Payload | None:
    """Make the payload whose bytes are this text in UTF-8."""
    return None if text is None else task_pb2.Payload(data=text.encode(), encoding=encoding)


def payload_fields(name: str, payload: task_pb2.Payload | None) -> Outcome:
    """Show a payload as an outcome does: its bytes as a text, and its encoding."""
    if payload is None:
        return {name: None, f"{name}_encoding": None}
    return {name: payload.data.decode(), f"{name}_encoding": payload.encoding or None}


def _state(answer: Any) -> Outcome:
    return {"state": STATE_OF_NUMBER[answer.state]}
