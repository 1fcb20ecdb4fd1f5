"""Findings: what a check has seen of one thing, and what to do where it is not well."""

from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple


class Status(StrEnum):
    """How well a thing is: a failure keeps a server from its work, a warning may come to that."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


class Finding(NamedTuple):
    """One line of the doctor. None of its texts holds a secret."""

    status: Status
    check: str
    seen: str
    todo: str = ""


Findings = Iterator[Finding]


def ok(check: str, seen: str) -> Finding:
    """A thing that is well."""
    return Finding(Status.OK, check, seen)


def warning(check: str, seen: str, todo: str) -> Finding:
    """A thing that somebody should see to."""
    return Finding(Status.WARNING, check, seen, todo)


def failure(check: str, seen: str, todo: str) -> Finding:
    """A thing that somebody has to see to."""
    return Finding(Status.FAILURE, check, seen, todo)


def failure_of(check: str, error: object, todo: str = "") -> Finding:
    """An error of the server in its own words, which say behind a semicolon what to do; else that is `todo`."""
    seen, _, said = str(error).rpartition("; ")
    return failure(check, seen, said) if seen else failure(check, said, todo)


def reason_of(error: OSError) -> str:
    """The reason of an error of the system, without its path."""
    return (error.strerror or str(error)).lower()


def utc(secs: float) -> str:
    """A time for people."""
    return f"{datetime.fromtimestamp(secs, UTC):%Y-%m-%d %H:%M:%S} UTC"
