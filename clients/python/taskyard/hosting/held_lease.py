"""A lease that a host holds, or held until it was lost, and what an answer of the server means for handlers."""

from typing import NamedTuple

from taskyard.v1.lease_pb2 import Assignment

from .outbox import LeaseKey


class HandlerChanges(NamedTuple):
    """The handlers to start, by assignment, and those to stop, by lease."""

    start: list[Assignment]
    stop: list[LeaseKey]


class Lease:
    """One lease.

    Attributes:
        key: Which lease it is.
        action: The action of its task, empty where it is not known.
        secs: Its length, in seconds.
        expires_at: When it ends unless it is renewed, in seconds.
        assignment: What its handler will be started with, None once it was started or will not be.
        start_sent: Whether the `started` report may have reached the server.
        has_started: Whether its handler was started.
        is_lost: Whether it has ended at the server, or by its time.

    Args:
        key: Which lease it is.
        secs: Its length, in seconds.
        expires_at: When it ends unless it is renewed, in seconds.
        assignment: What its handler will be started with, None if it will not be.
    """

    __slots__ = ("action", "assignment", "expires_at", "has_started", "is_lost", "key", "secs", "start_sent")

    def __init__(self, key: LeaseKey, secs: float, expires_at: float, assignment: Assignment | None) -> None:
        self.key = key
        self.action = "" if assignment is None else assignment.task.action
        self.secs = secs
        self.expires_at = expires_at
        self.assignment = assignment
        self.start_sent = False
        self.has_started = False
        self.is_lost = False

    @property
    def needs_answer(self) -> bool:
        """True if its handler is started only once its `started` report was answered."""
        return self.assignment is not None and bool(self.assignment.task.target)
