"""A bucket of the ready queue: the lanes of all tasks of one kind, in the order of their agents' ranks.

`ready_queue.py` says what ranks are, and in which way a bucket may know better of a lane than is true.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from taskyard_server.core.task import NO_OPTIONS, Task

from .lane import MIN_ENTRIES_TO_COMPACT, Lane, Rows
from .lane_order import LaneOrder
from .strands import Node, Strands

if TYPE_CHECKING:
    from taskyard_server.core.offers import OfferGroup

NOTHING_REQUIRED: Final[frozenset[str]] = NO_OPTIONS.requires

Kind = tuple[str | None, str, frozenset[str], bool, bool]
"""Properties that a host must match: project, action, requires, if there is a tab, if a trigger made the task."""


def kind_of(task: Task) -> Kind:
    """The kind of a task."""
    options = task.options
    if options is NO_OPTIONS:
        return (None, task.action, NOTHING_REQUIRED, task.tab_id is not None, False)
    return (options.project, task.action, options.requires, task.tab_id is not None, options.trigger_id is not None)


class Bucket:
    """The lanes of all tasks of one kind, in `order` of their agents' ranks.

    `waiting` counts the lanes with a task that does not wait for a key, `lanes` all that are in order, `strands` the
    strands that hold a task.
    `notice` is why no live host may run its tasks, and `unserved_since` when it was seen that none may; `Notices` owns
    both.
    """

    __slots__ = (
        "_action",
        "_has_tab",
        "_is_plain",
        "_keyed",
        "groups",
        "kind",
        "lanes",
        "notice",
        "open_nodes",
        "order",
        "strands",
        "triggered",
        "unserved_since",
        "waiting",
    )

    def __init__(self, kind: Kind, keyed: Strands) -> None:
        self._keyed = keyed
        self.kind = kind
        project, self._action, requires, self._has_tab, self.triggered = kind
        self._is_plain = project is None and not requires and not self.triggered
        self.groups: dict[OfferGroup, None] = {}
        self.order = LaneOrder()
        self.waiting = 0
        self.lanes = 0
        self.strands = 0
        self.open_nodes: dict[Node, None] = {}
        self.notice: str | None = None
        self.unserved_since: float | None = None

    def is_of(self, task: Task) -> bool:
        """True if a task is certainly of this kind; of one that has options nothing is said."""
        return (
            self._is_plain
            and task.options is NO_OPTIONS
            and self._action == task.action
            and self._has_tab == (task.tab_id is not None)
        )

    def lane_waits(self, lane: Lane) -> None:
        """A lane has a task again that does not wait for a key."""
        self.waiting += 1
        if not lane.entry or lane.agent.rank < lane.entry:
            self.enter(lane)

    def enter(self, lane: Lane) -> None:
        """Hold the lane under its agent's rank, which is better than the entry that it has, if it has one."""
        if lane.entry:
            self.order.remove(lane)
        else:
            self.lanes += 1
            if self.lanes > 2 * self.waiting + MIN_ENTRIES_TO_COMPACT:
                self.build()
        lane.entry = lane.agent.rank
        self.order.add(lane)

    def front(self) -> Rows | None:
        """The first task of the agent that comes first is the head of these; None if no task waits here.

        Nothing is said of what is parked at keys.
        """
        order = self.order
        while self.waiting:
            lane = order.first()
            rank = lane.agent.rank
            if lane.entry == rank:
                if lane.keyed is not None:
                    if (rows := self._keyed.front(lane)) is not None:
                        return rows
                elif lane.size:
                    return lane
            order.remove_first()
            if lane.size or (lane.keyed is not None and lane.keyed.open.size):
                lane.entry = rank
                order.add(lane)
            else:
                self._forget(lane)
        return None

    def rows(self) -> Iterator[Rows]:
        """Where all tasks stand that may be claimable, in no order that matters: not those at keys that stay full."""
        for lane in self.order:
            if lane.size:
                yield lane
            if lane.keyed is not None:
                yield from lane.keyed.open.strands()
        for node in self.open_nodes:
            for stand in node.lanes.values():
                yield from stand.strands()

    def build(self) -> None:
        """Leave the waiting lanes, under their agents' present ranks, and forget the others."""
        lanes = sorted(self.order, key=_rank_of)
        self.order.clear()
        for lane in lanes:
            if lane.is_waiting:
                lane.entry = lane.agent.rank
                self.order.add(lane)
            else:
                self._forget(lane)

    def _forget(self, lane: Lane) -> None:
        self.lanes -= 1
        lane.entry = 0
        if lane.is_empty:
            lane.agent.forget_lane(lane)


def _rank_of(lane: Lane) -> int:
    return lane.agent.rank
