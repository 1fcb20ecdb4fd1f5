"""Namespaces as the server shows them (docs/rules.md, Namespaces).

The fields are those of the proto (`namespace.proto`), under the same names, as in `tasks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from taskyard.v1 import namespace_pb2 as pb
from taskyard.values.convert import optional, optional_time


@dataclass(frozen=True, slots=True)
class NamespaceTotals:
    """How much there is in a namespace.

    Attributes:
        queued: Tasks that wait.
        inflight: Tasks that are assigned or running.
        paused: Tasks that were interrupted and can be resumed.
        retained: Ended tasks in the server's memory.
        hosts: Runtime hosts that are registered.
        schedules: Schedules, paused ones among them.
        parked: Parked tasks, which wait for answers, times or other tasks.
    """

    queued: int
    inflight: int
    paused: int
    retained: int
    hosts: int
    schedules: int
    parked: int = 0


@dataclass(frozen=True, slots=True)
class NamespaceLimits:
    """Limits of a namespace. None is one that it does not have of its own.

    Attributes:
        max_queue_size: Maximum queued tasks.
        max_per_agent: Maximum queued tasks of one agent.
        max_inflight: Maximum tasks in flight.
        max_per_agent_inflight: Maximum tasks of one agent in flight.
        result_ttl_secs: How long an ended task is retained, in seconds.
        max_retained_tasks: Maximum ended tasks that are retained.
        idempotency_secs: How long an idempotency key is known at least, in seconds.
        default_deadline_secs: The time until the deadline of a task that sets none, in seconds.
        lease_secs: The length of a lease where the host asks for none, in seconds.
        max_deliveries: Maximum deliveries of a task whose leases are lost.
        max_schedules: Maximum schedules.
        max_concurrent: Maximum triggers whose task is assigned or running.
        max_queued_triggers: Maximum triggers of one schedule whose task waits.
    """

    max_queue_size: int | None = None
    max_per_agent: int | None = None
    max_inflight: int | None = None
    max_per_agent_inflight: int | None = None
    result_ttl_secs: float | None = None
    max_retained_tasks: int | None = None
    idempotency_secs: float | None = None
    default_deadline_secs: float | None = None
    lease_secs: float | None = None
    max_deliveries: int | None = None
    max_schedules: int | None = None
    max_concurrent: int | None = None
    max_queued_triggers: int | None = None

    @classmethod
    def from_message(cls, message: pb.NamespaceLimits) -> NamespaceLimits:
        """Convert a message.

        Args:
            message: The limits as the server sends them.

        Returns:
            The limits.
        """
        return cls(**{field.name: value for field, value in message.ListFields()})


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace as it was when the server answered.

    Attributes:
        name: Its name.
        limits: The limits that it has of its own.
        effective_limits: The limits in force.
        created_at: When it was made. None if the server did not note it.
        totals: What is in it. None for callers that are only agents or hosts in it.
        owner: The name of the replica that owns it. None if none does, and where there are no replicas.
    """

    name: str
    limits: NamespaceLimits
    effective_limits: NamespaceLimits
    created_at: datetime | None = None
    totals: NamespaceTotals | None = None
    owner: str | None = None

    @classmethod
    def from_message(cls, message: pb.Namespace) -> Namespace:
        """Convert a message.

        Args:
            message: The namespace as the server sends it.

        Returns:
            The namespace.
        """
        totals = message.totals
        return cls(
            name=message.name,
            limits=NamespaceLimits.from_message(message.limits),
            effective_limits=NamespaceLimits.from_message(message.effective_limits),
            created_at=optional_time(message, "created_at"),
            totals=NamespaceTotals(
                totals.queued,
                totals.inflight,
                totals.paused,
                totals.retained,
                totals.hosts,
                totals.schedules,
                totals.parked,
            )
            if message.HasField("totals")
            else None,
            owner=optional(message, "owner"),
        )
