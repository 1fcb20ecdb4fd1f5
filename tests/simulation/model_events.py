"""What the model tells of: what happens to tasks, the ends of what they waited for, and stops of work on streams."""

from __future__ import annotations

from typing import NamedTuple


class Happened(NamedTuple):
    """One event: what was true of the task just after it, of all that an event tells."""

    at: float
    kind: str
    task: str
    before: str | None
    state: str
    host: str | None
    started_at: float | None
    error: str | None
    progress: bytes | None


class Stop(NamedTuple):
    """Work on a stream that its host is to stop."""

    host: str
    task: str
    token: int
    reason: str
    message: str


class Came(NamedTuple):
    """A step of a task: one that its run recorded, or what came of something that it waited for."""

    task: str
    number: int
    kind: str
    name: str
    result: bytes | None
    by: str | None
    is_expired: bool
    question: bytes | None
    at: float
    run: int
