"""An artifact on its way: parts that come one after the other, whichever of them come twice."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from taskyard_server.core.errors import BadRequest

if TYPE_CHECKING:
    from taskyard_server.core.task import Task

MAX_PART_BYTES: Final = 1 << 20
MIN_PART_BYTES: Final = 1 << 16
"""All parts but the last have the same size, which is at least this."""


class Upload:
    """The parts of an artifact of a task that have come so far, in the folder `place` of those of the task.

    Those that come at once wait for one another by the `lock`.
    """

    def __init__(self, task: Task, token: int, place: str) -> None:
        self.task = task
        self.token = token
        self.place = place
        self.lock = asyncio.Lock()
        self.is_known = False
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.received = 0
        self.part_bytes = 0
        self._hash = sha256()
        # As it was before the last part, which comes again if its answer was lost.
        self._before = (0, sha256())

    @property
    def is_current(self) -> bool:
        """True if the right to upload it lasts."""
        lease = self.task.lease
        if not self.token:
            return self.task.is_held
        return lease is not None and lease.token == self.token

    @property
    def sha256(self) -> bytes:
        """The hash of what has come."""
        return self._hash.digest()

    def seek(self, offset: int, size: int) -> int:
        """Go to where a part of this size begins; its number. Raises `BadRequest`, and nothing is changed then."""
        before, hash_before = self._before
        begins = 0 if offset == 0 else self.received
        if offset not in (0, before, self.received):
            raise BadRequest(f"offset: must be {self.received}, since so much has come, or 0 to begin anew")
        if offset == before and offset:
            begins = before
        if size > MAX_PART_BYTES:
            raise BadRequest(f"content: must have at most {MAX_PART_BYTES} bytes in each call")
        if begins and size:
            if begins % self.part_bytes or size > self.part_bytes:
                raise BadRequest(f"content: must have {self.part_bytes} bytes as the first part, or fewer in the last")
            if self.part_bytes < MIN_PART_BYTES:
                raise BadRequest(f"content: must have at least {MIN_PART_BYTES} bytes in each part but the last")
        if begins == 0:
            self._begin_anew()
        elif begins < self.received:
            self.received, self._hash = before, hash_before.copy()
        return begins // self.part_bytes if begins else 0

    def add(self, data: bytes) -> None:
        """A part has been written where `seek` was."""
        if not data:
            return
        self._before = (self.received, self._hash.copy())
        self.part_bytes = self.part_bytes or len(data)
        self.received += len(data)
        self._hash.update(data)
