"""The refusals of the core, and the word for each.

The words are the `code` of the error table (docs/rules.md, Errors). How a code becomes a gRPC status or an HTTP body is
decided in `interceptors/errors.py` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from .task import Task


RETRY_AFTER_MS: Final = 1_000
"""How long callers shall wait before they repeat what was refused for the time being."""


NOT_OWNER_RETRY_MS: Final = 50

NOT_YET: Final = "not before all replicas of this store are of this version"
"""Why a field is refused that a replica of an earlier version could not read."""


class Refusal(Exception):
    """A command that was refused and changed nothing (an admission refusal retains the rejected task, see there)."""

    code: ClassVar[str]
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, details: Mapping[str, str | float] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details = details or {}

    @property
    def reason(self) -> str:
        """The word for programs that tell refusals of one code apart."""
        return self.code.upper()

    @property
    def retry_after_ms(self) -> int:
        """How long callers shall wait before they repeat it, in milliseconds, if it is `retryable`."""
        return RETRY_AFTER_MS


class BadRequest(Refusal):
    """The request itself is wrong; the message names the field."""

    code = "bad_request"


class BatchTooLarge(Refusal):
    """More tasks than `maxBatchSize` in one batch (docs/rules.md, Batches)."""

    code = "batch_too_large"


class TooLarge(Refusal):
    """A message over 4 MiB, or `params` or `result` over `maxPayloadBytes`."""

    code = "too_large"


class Unauthenticated(Refusal):
    """Who calls is not known: no credential, or one that does not hold (docs/operate/security.md, Who)."""

    code = "unauthenticated"


class PermissionDenied(Refusal):
    """Who calls is known, and may not do this; the message names the role that is missing."""

    code = "permission_denied"


class TooManyRequests(Refusal):
    """The caller has used up what it may ask for in a while."""

    code = "too_many_requests"
    retryable = True

    def __init__(self, message: str, retry_after_ms: int) -> None:
        super().__init__(message, {"retryAfterMs": retry_after_ms})

    @property
    def retry_after_ms(self) -> int:
        """When the next call may come, in milliseconds from now."""
        return int(self.details.get("retryAfterMs", RETRY_AFTER_MS))


class NotFound(Refusal):
    """No such task, host or batch, or no longer retained."""

    code = "not_found"


class Conflict(Refusal):
    """The thing exists, but its state does not allow the command."""

    code = "conflict"


class RefusedBefore(Conflict):
    """A task of a batch comes after one there that was refused; the message and `details` name the first such one."""


class LeaseLost(Refusal):
    """A report whose lease has ended: its fencing token is no longer the task's."""

    code = "lease_lost"


class AlreadyExists(Refusal):
    """The name or key belongs to something else."""

    code = "already_exists"


class OutOfRange(Refusal):
    """There are no such bytes of an artifact."""

    code = "out_of_range"


class CursorExpired(Refusal):
    """This position has left the log; a new watch begins with the tasks as they stand (docs/rules.md, Watching)."""

    code = "cursor_expired"


class QueueFull(Refusal):
    """Admission refused the task, which is retained as `rejected` (docs/rules.md, Admission)."""

    code = "queue_full"
    retryable = True

    def __init__(self, message: str, details: Mapping[str, str | float], task: Task) -> None:
        super().__init__(message, details)
        self.task = task

    def of_agent(self) -> QueueFull:
        """The same with the figures of the task's agent alone. Made in the turn of the refusal."""
        own = {name: figure for name, figure in self.details.items() if name != "blockedTargets"}
        if "queued" in own:
            own["queued"] = self.task.agent.queued
        return QueueFull(self.message, own, self.task)


class TooManySchedules(Refusal):
    """The namespace has `maxSchedules` schedules: one must be deleted before another is made."""

    code = "queue_full"
    retryable = True

    def __init__(self, most: int) -> None:
        super().__init__("rejected: too many schedules", {"maxSchedules": most})


class TooManyOperations(Refusal):
    """As many operations are at work as may be: one must end before another begins."""

    code = "queue_full"
    retryable = True

    def __init__(self, most: int) -> None:
        super().__init__("rejected: too many operations are at work", {"maxOperations": most})


class TooManyEvents(Refusal):
    """As many events are kept as may be, or their payloads have as many bytes: some must be over before others come."""

    code = "queue_full"
    retryable = True

    def __init__(self, most: int, most_bytes: int) -> None:
        super().__init__("rejected: too many events are kept", {"maxEvents": most, "maxBytes": most_bytes})


class Unavailable(Refusal):
    """The engine takes no such command now, for example while it drains."""

    code = "unavailable"
    retryable = True


class NotOwner(Unavailable):
    """Another replica serves the namespace. Nothing was done, so that any call may be repeated, at once."""

    def __init__(self, owner: str | None = None) -> None:
        at = "another replica" if owner is None else f"the replica {owner}"
        super().__init__(f"this namespace is served by {at}", None if owner is None else {"owner": owner})

    @property
    def reason(self) -> str:
        """`NOT_OWNER`."""
        return "NOT_OWNER"

    @property
    def retry_after_ms(self) -> int:
        """By then the gateways know the owner."""
        return NOT_OWNER_RETRY_MS


class Internal(Refusal):
    """A fault of the server that stays until an operator has looked at it."""

    code = "internal"
