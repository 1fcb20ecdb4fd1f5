"""Limits of concurrency keys and weights of agents between messages and the core, with what is refused."""

from __future__ import annotations

from taskyard.v1 import agent_pb2 as agent_pb
from taskyard.v1 import limit_pb2 as limit_pb
from taskyard_server.core.errors import BadRequest
from taskyard_server.core.patterns import check_pattern
from taskyard_server.core.queue.keys import LEAST_PER_SECOND, MOST, KeyLimit, KeyUsage
from taskyard_server.core.queue.token_bucket import default_burst
from taskyard_server.core.queue.weights import MAX_WEIGHT
from taskyard_server.core.rules import LimitInForce, WeightInForce


def pattern_in(pattern: str) -> str:
    """A required pattern. Raises `BadRequest`, as all here."""
    if not pattern:
        raise BadRequest("pattern: is required")
    try:
        check_pattern(pattern)
    except ValueError as fault:
        raise BadRequest(f"pattern: {fault}") from None
    return pattern


def key_limit(request: limit_pb.PutLimitRequest) -> KeyLimit:
    """The limit that a request sets."""
    most = request.max_inflight if request.HasField("max_inflight") else None
    per_second = request.per_second if request.HasField("per_second") else None
    burst = request.burst if request.HasField("burst") else None
    if most is not None and most > MOST:
        raise BadRequest(f"maxInflight: must be from 0 to {MOST:,}")
    # Written so that it refuses what is no number, too.
    if per_second is not None and not LEAST_PER_SECOND <= per_second <= MOST:
        raise BadRequest(f"perSecond: must be from 0.000001 to {MOST:,}")
    if burst is not None and not 1 <= burst <= MOST:
        raise BadRequest(f"burst: must be from 1 to {MOST:,}")
    if burst is not None and per_second is None:
        raise BadRequest("burst: is for perSecond, which is not set")
    return KeyLimit(most, per_second, burst)


def weight_in(weight: int) -> int:
    """A required weight."""
    if not weight:
        raise BadRequest(f"weight: is required, from 1 to {MAX_WEIGHT:,}")
    if weight > MAX_WEIGHT:
        raise BadRequest(f"weight: must be from 1 to {MAX_WEIGHT:,}")
    return weight


def limit_message(found: LimitInForce) -> limit_pb.Limit:
    """A limit."""
    limit = found.limit
    return limit_pb.Limit(
        pattern=found.pattern,
        max_inflight=limit.max_inflight,
        per_second=limit.per_second,
        burst=default_burst(limit.per_second) if limit.burst is None and limit.per_second else limit.burst,
        configured=found.configured,
    )


def usage_message(usage: KeyUsage) -> limit_pb.KeyUsage:
    """A key in use."""
    return limit_pb.KeyUsage(
        key=usage.key,
        pattern=usage.pattern,
        inflight=usage.inflight,
        waiting=usage.waiting,
        tokens=usage.tokens,
    )


def weight_message(found: WeightInForce) -> agent_pb.AgentWeight:
    """A weight."""
    return agent_pb.AgentWeight(pattern=found.pattern, weight=found.weight, configured=found.configured)
