"""A control plane that is one of several server processes behind one gateway: what its parent gives it.

(docs/processes.md)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from taskyard_server.process_channel import Channel


@dataclass(frozen=True, slots=True)
class Sibling:
    """The process of this `number`, from 1 on. It listens at `socket`, `unix:PATH`, for the parent's gateway alone.

    `channel` leads to the parent. To its siblings it is a replica of this `name`.
    """

    number: int
    name: str
    socket: str
    channel: Channel

    @property
    def is_first(self) -> bool:
        """Whether it does what one of them does for all."""
        return self.number == 1
