"""Options of a host, and how its slots are divided. `Host` documents the options."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from taskyard.connection.credentials import Credentials

Slots: TypeAlias = int | Mapping[str, int] | Literal["auto"]
"""How many tasks a host runs at once: in all, of each action, or one for each core that this process may use."""

REST: Final = "*"
"""The name for all other actions."""


@dataclass(frozen=True, slots=True)
class HostOptions:
    """Options of a host. `Host` documents the options."""

    credentials: Credentials
    host_id: str
    slots: int | Mapping[str, int]
    capabilities: Sequence[str] = ()
    project: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    lease_secs: int | None = None
    display_name: str | None = None
    drain_grace_secs: float = 30.0
    machine_figures: bool = True


@dataclass(frozen=True, slots=True)
class Part:
    """One stream of a host: its id at the server, its slots, and the only actions that it takes, all if none."""

    host_id: str
    slots: int
    actions: Sequence[str]


def checked_slots(slots: Slots) -> int | Mapping[str, int]:
    """Check what was given as slots.

    Args:
        slots: What was given.

    Returns:
        The slots in all, or by action.

    Raises:
        ValueError: There are none, or a text that is not `auto`.
        TypeError: They are neither a number nor a mapping.
    """
    if slots == "auto":
        return usable_cores()
    if isinstance(slots, str):
        raise ValueError(f'slots: must be a number, a mapping of actions to numbers, or "auto", is {slots!r}')
    numbers = dict(slots) if isinstance(slots, Mapping) else {"": slots}
    for action, number in numbers.items():
        name = f"slots[{action!r}]" if isinstance(slots, Mapping) else "slots"
        if not isinstance(number, int) or isinstance(number, bool):
            raise TypeError(f"{name}: must be a whole number, is {number!r}")
        if number < 1:
            raise ValueError(f"{name}: must be at least 1")
    if not numbers:
        raise ValueError("slots: must name an action, or all by '*'")
    return numbers if isinstance(slots, Mapping) else slots


def usable_cores() -> int:
    """Count the cores that this process may use.

    Returns:
        The number, at least 1.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def parts_of(options: HostOptions, actions: Sequence[str]) -> Iterator[Part]:
    """Divide a host into streams. Where slots are divided by action each has a stream under an id of its own.

    Args:
        options: What the host is.
        actions: The only actions that it has handlers for; empty if it has one for any.

    Yields:
        The parts. That of all other actions, or of all, has the host's own id.

    Raises:
        ValueError: The slots do not fit the handlers.
    """
    slots = options.slots
    if isinstance(slots, int):
        yield Part(options.host_id, slots, actions)
        return
    named = [action for action in slots if action != REST]
    if not actions and named:
        raise ValueError("slots: can only be divided among named actions, not beside a handler for any action")
    if unknown := [action for action in named if action not in actions]:
        raise ValueError(f"slots: there is no handler for {', '.join(map(repr, unknown))}")
    rest = [action for action in actions if action not in slots]
    if rest and REST not in slots:
        raise ValueError(f"slots: none for {', '.join(map(repr, rest))}; '*' is for all that are not named")
    for action in named:
        yield Part(f"{options.host_id}/{action}", slots[action], (action,))
    if REST in slots and (rest or not actions):
        yield Part(options.host_id, slots[REST], rest)
