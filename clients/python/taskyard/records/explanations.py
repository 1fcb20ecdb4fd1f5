"""Why a task waits, as the server explains it (docs/rules.md, Why a task waits)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from taskyard.v1 import task_pb2 as pb
from taskyard.values.convert import optional, optional_time

from .tasks import STATE_OF_NUMBER, TaskState


class WaitKind(StrEnum):
    """The kind of a reason for which a task waits."""

    NOT_DUE = "not_due"
    """The task is not due: `until`."""
    HELD = "held"
    """The task is held until it is resumed."""
    AFTER = "after"
    """Tasks that it comes after have not ended: `task_ids`."""
    TARGET = "target"
    """Its target is taken, or it is not its turn: `name`, and in `task_ids` the task whose turn it is."""
    AGENT_LIMIT = "agent_limit"
    """Its agent has as many tasks in flight as it may: `name`, `used`, `limit`."""
    MAX_INFLIGHT = "max_inflight"
    """The namespace has as many tasks in flight as it may: `used`, `limit`."""
    KEY_INFLIGHT = "key_inflight"
    """A concurrency key has no place: `name`, `used`, `limit`."""
    KEY_RATE = "key_rate"
    """A concurrency key has no token: `name`, `limit` a second, and `until`."""
    NO_HOST = "no_host"
    """No live host has the project and the capabilities: `name` is the nearest one, `missing` what it lacks."""
    NO_ACTION = "no_action"
    """Live hosts have the project and the capabilities, but none of them offers the action: `name`."""
    NO_CREDIT = "no_credit"
    """Live hosts offer the action, `name`, but none of them has a free slot: `used`, `limit`."""
    DEADLOCK = "deadlock"
    """All hosts that offer its action are full, and something waits below each task that they run."""
    MAX_CONCURRENT = "max_concurrent"
    """As many tasks of triggers are in flight as may be: `used`, `limit`."""
    DRAINING = "draining"
    """The server is draining, or shutting down."""
    PAUSED = "paused"
    """The task is paused: it waits to be resumed or resolved."""
    ANSWER = "answer"
    """The task is parked, and waits for an answer to a question: `name`, `until`."""
    ENDS = "ends"
    """The task is parked, and waits for the end of tasks: `name`, `task_ids`."""
    TIME = "time"
    """The task is parked, and waits for a time: `name`, `until`."""
    EVENT = "event"
    """The task is parked, and waits for an event: `name`, `until`."""
    OTHER = "other"
    """A kind that this version of the SDK does not know; `message` says what it is."""


KIND_OF_NUMBER: Final = {pb.WaitReason.Kind.Value(kind.value): kind for kind in WaitKind if kind is not WaitKind.OTHER}


@dataclass(frozen=True, slots=True)
class WaitReason:
    """One reason for which a task waits. What a kind does not name is None or empty.

    Attributes:
        kind: The kind.
        message: The reason as text for people.
        name: What it is about: a target, a key, an agent, an action, a host.
        until: When it is over at the earliest.
        task_ids: Tasks that it is about.
        used: How much of the limit is in use.
        limit: The limit.
        missing: What the nearest host lacks.
    """

    kind: WaitKind
    message: str
    name: str | None = None
    until: datetime | None = None
    task_ids: tuple[str, ...] = ()
    used: float | None = None
    limit: float | None = None
    missing: tuple[str, ...] = ()

    @classmethod
    def from_message(cls, message: pb.WaitReason) -> WaitReason:
        """Convert a message.

        Args:
            message: The reason as the server sends it.

        Returns:
            The reason.
        """
        return cls(
            kind=KIND_OF_NUMBER.get(message.kind, WaitKind.OTHER),
            message=message.message,
            name=optional(message, "name"),
            until=optional_time(message, "until"),
            task_ids=tuple(message.task_ids),
            used=optional(message, "used"),
            limit=optional(message, "limit"),
            missing=tuple(message.missing),
        )


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a task waits, as it was when the server answered. As text it has a line for each reason.

    Attributes:
        task_id: The task.
        state: Its state.
        runnable: Whether a claim of a live host with a free slot could get it now, were it first.
        reasons: Why it does not run, each reason by itself. Lifting all of them makes it runnable. None if it is
            runnable, in flight, or has ended.
        ahead: How many runnable tasks of the same hosts come first. None while anything but hosts keeps it, and for
            callers that are only agents.
        over_share: Whether its agent has more in flight, by weight, than another with runnable tasks of the same hosts.
    """

    task_id: str
    state: TaskState
    runnable: bool
    reasons: tuple[WaitReason, ...] = ()
    ahead: int | None = None
    over_share: bool = False

    def __str__(self) -> str:
        if self.reasons:
            return "\n".join([f"{self.task_id} is {self.state}:", *(f"- {reason.message}" for reason in self.reasons)])
        behind = f", behind {self.ahead} others" if self.ahead else ""
        return f"{self.task_id} is {self.state}{', runnable' if self.runnable else ''}{behind}"

    @classmethod
    def from_message(cls, message: pb.ExplainTaskResponse) -> Explanation:
        """Convert a message.

        Args:
            message: The explanation as the server sends it.

        Returns:
            The explanation.
        """
        return cls(
            task_id=message.task_id,
            state=STATE_OF_NUMBER[message.state],
            runnable=message.runnable,
            reasons=tuple(WaitReason.from_message(reason) for reason in message.reasons),
            ahead=optional(message, "ahead"),
            over_share=message.over_share,
        )
