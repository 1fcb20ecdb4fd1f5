"""The tuples of the core that stand in records as they are, as msgspec reads them.

They are written without a conversion, and have the same fields in the same order. The core is compiled, and what is
compiled does not tell the types of its fields: so these are declared here, and this file is never compiled. As in all
records, new fields are appended, with a default.

A version reads no tuple that has more fields than it knows. So those that came with a format level are written only
where one of them says something (`task_records.py`), which the core allows only once that level is in force
(`Lifecycle.keeps_added_fields`, `Lifecycle.keeps_extras`).
"""

from __future__ import annotations

from typing import NamedTuple

from taskyard_server.core.history import Attempt, Bound, History, RetryPolicy
from taskyard_server.core.hosts import HostProfile, Tabs
from taskyard_server.core.schedules.processed_times import TimeRange
from taskyard_server.core.task import (
    NO_EXTRAS,
    NO_OPTIONS,
    AfterPolicy,
    IdempotencyKey,
    OnConflict,
    OnTargetFailure,
    TaskExtras,
    TaskOptions,
    UniqueWhile,
)


class KeyTuple(NamedTuple):
    """`IdempotencyKey`."""

    key: str
    fingerprint: bytes


class RetryTuple(NamedTuple):
    """`RetryPolicy`."""

    max_attempts: int
    first_delay_secs: float
    multiplier: float
    max_delay_secs: float
    non_retryable_codes: frozenset[str]


class ExtrasTuple(NamedTuple):
    """`TaskExtras`."""

    concurrency_keys: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    after_indexes: tuple[int, ...] = ()
    after_policy: AfterPolicy | None = None
    unique_key: str | None = None
    unique_while: UniqueWhile | None = None
    on_conflict: OnConflict | None = None
    on_target_failure: OnTargetFailure | None = None
    selector: str | None = None


class OptionsTuple(NamedTuple):
    """`TaskOptions`."""

    callback_url: str | None = None
    project: str | None = None
    requires: frozenset[str] = frozenset()
    labels: tuple[tuple[str, str], ...] = ()
    batch_id: str | None = None
    target: str | None = None
    traceparent: str | None = None
    key: KeyTuple | None = None
    hold: bool = False
    not_before: float | None = None
    token_limit: int | None = None
    retry: RetryTuple | None = None
    trigger_id: str | None = None
    run_timeout_secs: float | None = None
    parent_id: str | None = None
    input: bytes | None = None
    extras: ExtrasTuple | None = None


class AttemptTuple(NamedTuple):
    """`Attempt`."""

    number: int
    host_id: str | None
    started_at: float | None
    ended_at: float | None
    error: str | None
    code: str | None


class BoundTuple(NamedTuple):
    """`Bound`."""

    key: str
    fingerprint: bytes
    at: float


class HistoryTuple(NamedTuple):
    """`History`."""

    run: int = 1
    attempts: tuple[AttemptTuple, ...] = ()
    last_number: int = 0
    failed: int = 0
    held: bool = False
    not_before: float | None = None
    tokens_before: int = 0
    tokens_used: int | None = None
    token_limit: int | None = None
    code: str | None = None
    traceback: str | None = None
    output: bytes | None = None
    bound: tuple[BoundTuple, ...] = ()


class ProfileTuple(NamedTuple):
    """`HostProfile`."""

    capabilities: frozenset[str]
    project: str | None
    actions: frozenset[str] | None
    tabs: Tabs


class RangeTuple(NamedTuple):
    """`TimeRange`."""

    first: float
    until: float


def to_options(its: OptionsTuple | None) -> TaskOptions:
    """The options of a task; None are those of most tasks."""
    if its is None:
        return NO_OPTIONS
    return TaskOptions(
        its.callback_url,
        its.project,
        its.requires,
        its.labels,
        its.batch_id,
        its.target,
        its.traceparent,
        None if its.key is None else IdempotencyKey(*its.key),
        its.hold,
        its.not_before,
        its.token_limit,
        None if its.retry is None else RetryPolicy(*its.retry),
        its.trigger_id,
        its.run_timeout_secs,
        its.parent_id,
        its.input,
        NO_EXTRAS if its.extras is None else TaskExtras(*its.extras),
    )


def to_history(its: HistoryTuple) -> History:
    """The course of a task."""
    return History(
        its.run,
        tuple([Attempt(*attempt) for attempt in its.attempts]),
        its.last_number,
        its.failed,
        its.held,
        its.not_before,
        its.tokens_before,
        its.tokens_used,
        its.token_limit,
        its.code,
        its.traceback,
        its.output,
        tuple([Bound(*bound) for bound in its.bound]),
    )


def to_profile(its: ProfileTuple) -> HostProfile:
    """The profile of a host."""
    return HostProfile(*its)


def to_ranges(its: tuple[RangeTuple, ...]) -> tuple[TimeRange, ...]:
    """The due times that were processed."""
    return tuple([TimeRange(*each) for each in its])
