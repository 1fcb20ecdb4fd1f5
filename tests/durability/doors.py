"""Ways into a yard for callers who want to know what became of each call: nothing is repeated behind their backs."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import grpc
import httpx
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message

from taskyard.errors import NotOwner, error_from_rpc
from taskyard.v1.batch_pb2_grpc import BatchServiceStub
from taskyard.v1.lease_pb2_grpc import LeaseServiceStub
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub
from taskyard.v1.schedule_pb2_grpc import ScheduleServiceStub
from taskyard.v1.stats_pb2_grpc import StatsServiceStub
from taskyard.v1.target_pb2_grpc import TargetServiceStub
from taskyard.v1.task_pb2_grpc import TaskServiceStub

from .history import Json, Outcome

T = TypeVar("T")
M = TypeVar("M", bound=Message)

CALL_SECS: Final = 10.0
AGAIN_SECS: Final = 0.05
UNKNOWN: Final = frozenset({"unavailable", "deadline_exceeded", "cancelled", "internal", "unknown"})
"""Errors that do not say whether the call was done."""
UNKNOWN_STATUSES: Final = frozenset({408, 499, 500, 502, 503, 504})
OPTIONS: Final = (
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 200),
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call: its answer as JSON, or the code of its error."""

    outcome: Outcome
    body: dict[str, Json] = field(default_factory=dict)
    code: str | None = None


class Doors:
    """Connections to a yard for callers of one namespace. Close them."""

    def __init__(self, grpc_address: str, rest_url: str, namespace: str) -> None:
        self.grpc_address = grpc_address
        self.namespace = namespace
        self.metadata = (("taskyard-namespace", namespace),)
        self.channel = grpc.aio.insecure_channel(grpc_address, options=OPTIONS)
        self.http = httpx.AsyncClient(
            base_url=rest_url, timeout=CALL_SECS, trust_env=False, headers={"taskyard-namespace": namespace}
        )
        self.unknown: Counter[str] = Counter()
        """What was said where the outcome is unknown, and how often."""
        self.tasks: Any = TaskServiceStub(self.channel)
        self.batches: Any = BatchServiceStub(self.channel)
        self.leases: Any = LeaseServiceStub(self.channel)
        self.hosts: Any = RuntimeHostServiceStub(self.channel)
        self.schedules: Any = ScheduleServiceStub(self.channel)
        self.targets: Any = TargetServiceStub(self.channel)
        self.stats: Any = StatsServiceStub(self.channel)

    async def close(self) -> None:
        """Close the connections."""
        await self.http.aclose()
        await self.channel.close()

    async def call(
        self, method: Callable[..., Awaitable[Message]], request: Message, secs: float = CALL_SECS
    ) -> Answer:
        """Make a unary call, once; again where it came to one of several replicas that did nothing of it."""
        give_up_at = time.monotonic() + secs
        while True:
            try:
                return Answer(Outcome.ACKNOWLEDGED, plain(await method(request, metadata=self.metadata, timeout=secs)))
            except grpc.aio.AioRpcError as error:
                found = error_from_rpc(error)
            if not isinstance(found, NotOwner) or time.monotonic() > give_up_at:
                if found.code not in UNKNOWN:
                    return Answer(Outcome.REFUSED, code=found.code)
                self.unknown[f"{type(found).__name__}: {found}"] += 1
                return Answer(Outcome.UNKNOWN, code=found.code)
            await asyncio.sleep(AGAIN_SECS)

    async def post(self, path: str, body: Json) -> Answer:
        """Post over REST, once."""
        return await self._rest("POST", path, json=body)

    async def get(self, path: str) -> Answer:
        """Read over REST, once."""
        return await self._rest("GET", path)

    async def _rest(self, verb: str, path: str, **body: Json) -> Answer:
        try:
            answer = await self.http.request(verb, path, **body)
        except httpx.TransportError as error:
            self.unknown[f"REST: {type(error).__name__}"] += 1
            return Answer(Outcome.UNKNOWN, code=type(error).__name__)
        if answer.is_success:
            return Answer(Outcome.ACKNOWLEDGED, answer.json())
        code = str(answer.status_code)
        if answer.status_code not in UNKNOWN_STATUSES:
            return Answer(Outcome.REFUSED, code=code)
        self.unknown[f"REST: {code} {answer.text[:100]}"] += 1
        return Answer(Outcome.UNKNOWN, code=code)


def plain(message: Message) -> dict[str, Json]:
    """A message as its JSON."""
    return MessageToDict(message)


def message(body: Json, kind: type[M]) -> M:
    """A message of its JSON."""
    return ParseDict(body, kind())
