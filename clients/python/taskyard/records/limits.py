"""Limits of concurrency keys, and the keys in use (docs/rules.md, Concurrency keys)."""

from __future__ import annotations

from dataclasses import dataclass

from taskyard.v1 import limit_pb2 as pb
from taskyard.values.convert import optional


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit of each concurrency key that matches a pattern, for each key by itself.

    Attributes:
        pattern: A key, or the beginning of keys with a `*` at its end, such as `site:*`. Of several that match a key
            the longest alone holds.
        max_inflight: The most tasks of a key in flight. None if any number may be.
        per_second: The most hand-outs of a key a second. None if they come at any rate.
        burst: How many hand-outs may come at once after a pause. None without `per_second`.
        configured: Whether it comes from the configuration; otherwise a call has set it.
    """

    pattern: str
    max_inflight: int | None = None
    per_second: float | None = None
    burst: int | None = None
    configured: bool = False

    @classmethod
    def from_message(cls, message: pb.Limit) -> Limit:
        """Convert a message.

        Args:
            message: The limit as the server sends it.

        Returns:
            The limit.
        """
        return cls(
            pattern=message.pattern,
            max_inflight=optional(message, "max_inflight"),
            per_second=optional(message, "per_second"),
            burst=optional(message, "burst"),
            configured=message.configured,
        )


@dataclass(frozen=True, slots=True)
class KeyUsage:
    """A concurrency key that has tasks in flight or waiting.

    Attributes:
        key: The key.
        inflight: Its tasks in flight.
        waiting: Its tasks that could be claimed but for this key or another one of theirs.
        pattern: The pattern of the limit that holds for it. None if none does.
        tokens: Hand-outs that it could have at once. None without a rate.
    """

    key: str
    inflight: int
    waiting: int
    pattern: str | None = None
    tokens: float | None = None

    @classmethod
    def from_message(cls, message: pb.KeyUsage) -> KeyUsage:
        """Convert a message.

        Args:
            message: The key as the server sends it.

        Returns:
            The key.
        """
        return cls(
            key=message.key,
            inflight=message.inflight,
            waiting=message.waiting,
            pattern=optional(message, "pattern"),
            tokens=optional(message, "tokens"),
        )
