"""Lanes in the order of their agents' ranks, of which the first is at hand at once.

Lanes that came behind all others stand in a dict, in the order in which they came: so an agent just served joins and
leaves without a search. All before them stand in blocks, one after the other, the last rank first: so the first lane
leaves from the end of the last block, which moves nothing. Agents whose task has ended have ranks near the last one
there, and are searched for from there. What such a search reads was read lately, where a heap reads from all
over the memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .lane import Lane

BLOCK: Final = 64


class LaneOrder:
    """Lanes by their `entry`, which is the rank that each had when it was added, and which no two share."""

    __slots__ = ("_blocks", "_from", "_tail", "_until")

    def __init__(self) -> None:
        # None is empty but for the only one.
        self._blocks: list[list[Lane]] = [[]]
        # What came behind all others; if there is any, its entries lie between these, both included.
        self._tail: dict[Lane, None] = {}
        self._from = self._until = 0

    def __iter__(self) -> Iterator[Lane]:
        return iter([*list(self._tail)[::-1], *[lane for block in self._blocks for lane in block]])

    def first(self) -> Lane:
        """The lane with the first rank; there must be one."""
        if not self._blocks[-1]:
            self._line_up()
        return self._blocks[-1][-1]

    def add(self, lane: Lane) -> None:
        """Let a lane join at its `entry`."""
        entry = lane.entry
        if not self._tail:
            block = self._blocks[0]
            if not block or block[0].entry < entry:
                self._tail[lane] = None
                self._from = self._until = entry
                return
        elif entry > self._until:
            self._tail[lane] = None
            self._until = entry
            return
        elif entry > self._from:
            self._line_up()
        self._insert(lane)

    def remove(self, lane: Lane) -> None:
        """Take out a lane that was added, with the `entry` that it had then."""
        if self._tail and lane.entry >= self._from:
            del self._tail[lane]
            return
        number = self._block_of(lane.entry)
        block = self._blocks[number]
        del block[_index_of(block, lane.entry)]
        if not block and len(self._blocks) > 1:
            del self._blocks[number]

    def remove_first(self) -> None:
        """Take out the lane with the first rank, which `first` has just returned."""
        block = self._blocks[-1]
        block.pop()
        if not block and len(self._blocks) > 1:
            self._blocks.pop()

    def clear(self) -> None:
        """Take out all lanes."""
        self._blocks = [[]]
        self._tail.clear()

    def _line_up(self) -> None:
        """Let what came behind all others stand in blocks, too."""
        lanes = list(self._tail)
        self._tail.clear()
        lanes.reverse()
        blocks = [lanes[at : at + BLOCK] for at in range(0, len(lanes), BLOCK)]
        self._blocks = [*blocks, *[block for block in self._blocks if block]] or [[]]

    def _insert(self, lane: Lane) -> None:
        """Let a lane join that stands behind none of the tail."""
        entry = lane.entry
        number = self._block_of(entry)
        block = self._blocks[number]
        if not block or block[-1].entry > entry:
            block.append(lane)
        elif block[0].entry < entry:
            # As of each agent whose task has ended, if tasks end in the order in which they were handed out.
            block.insert(0, lane)
        else:
            block.insert(_index_of(block, entry), lane)
        if len(block) > BLOCK:
            self._blocks.insert(number + 1, block[BLOCK // 2 :])
            del block[BLOCK // 2 :]

    def _block_of(self, entry: int) -> int:
        """The number of the block where a rank stands or belongs."""
        blocks = self._blocks
        last = len(blocks) - 1
        # The first block whose first lane is no later: it is found in steps that double, then by halving.
        low, step = 0, 1
        high = 0
        while high < last and blocks[high][-1].entry > entry:
            low = high + 1
            high = min(last, high + step)
            step *= 2
        while low < high:
            middle = (low + high) // 2
            if blocks[middle][-1].entry > entry:
                low = middle + 1
            else:
                high = middle
        return low


def _index_of(block: list[Lane], entry: int) -> int:
    """The index at which a rank stands or belongs in a block."""
    low, high = 0, len(block)
    while low < high:
        middle = (low + high) // 2
        if block[middle].entry > entry:
            low = middle + 1
        else:
            high = middle
    return low
