"""Samples of the figures of a namespace over the last hour (docs/rules.md, Samples)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from taskyard.v1 import sample_pb2 as pb
from taskyard.values.convert import datetime_from, optional_span


@dataclass(frozen=True, slots=True)
class Sample:
    """A namespace at one moment, and what has happened in it since the sample before.

    Attributes:
        at: When it was taken, in UTC.
        queued: Tasks that were queued or pending.
        inflight: Tasks that were assigned or running.
        paused: Paused tasks.
        parked: Parked tasks.
        hosts_online: Hosts that were heard of in time.
        submitted: Tasks accepted since the sample before, and so on.
        dispatched: Tasks handed to hosts.
        completed: Tasks that ended as done.
        failed: Tasks that failed.
        cancelled: Tasks that were cancelled.
        rejected: Tasks refused at admission.
        retried: Failed attempts that were retried.
        leases_expired: Leases that were lost.
        avg_dispatch_latency: Average time in the queue before the dispatches since then. None if there were none.
        oldest_queued: For how long the task had been queued that had waited longest for nothing but a host and its
            turn. None if none did.
    """

    at: datetime
    queued: int
    inflight: int
    paused: int
    parked: int
    hosts_online: int
    submitted: int
    dispatched: int
    completed: int
    failed: int
    cancelled: int
    rejected: int
    retried: int
    leases_expired: int
    avg_dispatch_latency: timedelta | None = None
    oldest_queued: timedelta | None = None

    @classmethod
    def from_message(cls, message: pb.Sample) -> Sample:
        """Convert a message.

        Args:
            message: The sample as the server sends it.

        Returns:
            The sample.
        """
        oldest_secs = message.oldest_queued_secs if message.HasField("oldest_queued_secs") else None
        return cls(
            at=datetime_from(message.at),
            queued=message.queued,
            inflight=message.inflight,
            paused=message.paused,
            parked=message.parked,
            hosts_online=message.hosts_online,
            submitted=message.submitted,
            dispatched=message.dispatched,
            completed=message.completed,
            failed=message.failed,
            cancelled=message.cancelled,
            rejected=message.rejected,
            retried=message.retried,
            leases_expired=message.leases_expired,
            avg_dispatch_latency=optional_span(message, "avg_dispatch_latency_ms"),
            oldest_queued=None if oldest_secs is None else timedelta(seconds=oldest_secs),
        )
