"""A control plane that is one of several server processes behind one gateway: what its parent gives it.

(docs/processes.md)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from taskyard_server.process_channel import Channel


@dataclass(frozen=True, slots=True)
class Sibling:
    """The process of this `number`, from 1 on. It listens at `socket`, `unix:PATH`, for the parent's gateway alone.

    `channel` leads to the parent. To its siblings it is a replica of this `name`. What listens to news of the parent is
    in `listeners`, by their kinds.
    """

    number: int
    name: str
    socket: str
    channel: Channel
    listeners: dict[str, Callable[[], None]] = field(default_factory=dict)

    @property
    def is_first(self) -> bool:
        """Whether it does what one of them does for all."""
        return self.number == 1
