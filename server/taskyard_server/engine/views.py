"""Values that an engine tells of a namespace besides objects of the core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple, TypeAlias

from taskyard_server.core.limits import Limits
from taskyard_server.core.queue.keys import KeyUsage
from taskyard_server.core.rules import LimitInForce
from taskyard_server.core.schedules.schedule import Trigger, TriggerState
from taskyard_server.core.schedules.trigger_store import PageKey
from taskyard_server.core.task import Task

SET_BY_CALLS: Final = "(set by calls)"


class LimitsInForce(NamedTuple):
    """The limits of a namespace by pattern, and some of the keys in use by name."""

    limits: Sequence[LimitInForce]
    keys: Sequence[KeyUsage]


OwnLimits: TypeAlias = Mapping[str, int | float]
"""The limits that a namespace has of its own, by their names in `Limits`; they are among `OWN_LIMITS`."""


class NamespaceTotals(NamedTuple):
    """How much of each kind there is in a namespace. `hosts` are registered ones, without those that are built in."""

    queued: int
    inflight: int
    paused: int
    parked: int
    retained: int
    hosts: int
    schedules: int


class Served(NamedTuple):
    """The knowledge of the engine that serves a namespace. `created_at` is None where it was never noted."""

    created_at: float | None
    totals: NamespaceTotals
    own_limits: OwnLimits
    limits: Limits


class Ownership(NamedTuple):
    """Which replica owns a namespace, by its name, None if none does; and its term."""

    owner: str | None
    term: int


@dataclass(frozen=True, slots=True)
class NamespaceView:
    """A namespace at one moment. `served` is None where another engine serves it, or its records are at fault."""

    name: str
    served: Served | None
    ownership: Ownership | None = None


class ReplicaView(NamedTuple):
    """A replica at one moment. Times are seconds by the store's clock; `died_at` is None while it lives.

    `address` is where the gateways of others reach it, `level` the newest format of records that it writes,
    `namespaces` how many it owns. `is_this` says that it is the one that was asked.
    """

    name: str
    instance: str
    address: str | None
    version: str
    level: int
    started_at: float
    renewed_at: float
    died_at: float | None
    is_draining: bool
    namespaces: int
    is_this: bool


class DueDelivery(NamedTuple):
    """A delivery that is committed and not done."""

    namespace: str
    number: int
    record: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerFilter:
    """Which triggers a listing returns: those due from `due_from` on and before `due_before`; None matches all."""

    schedule_id: str | None = None
    states: frozenset[TriggerState] | None = None
    due_from: float = -inf
    due_before: float = inf


@dataclass(frozen=True, slots=True)
class TriggerPage:
    """One page of a listing, latest due time first. `next_before` starts the next page; None on the last one."""

    triggers: list[Trigger]
    next_before: PageKey | None


@dataclass(frozen=True, slots=True)
class ListedTasks:
    """One page of a listing, in its order. `next_after` starts the next page; None on the last one.

    A page may hold less than was asked for, even nothing, and not be the last.
    """

    tasks: list[Task]
    next_after: int | None


@dataclass(slots=True)
class RunFigures:
    """Counts and bytes of what runs have left behind since the start: chunks of output, artifacts, steps."""

    chunks: int = 0
    chunk_bytes: int = 0
    dropped_bytes: int = 0
    artifacts: int = 0
    artifact_bytes: int = 0
    artifact_bytes_read: int = 0
    failed_objects: int = 0
    steps: int = 0
