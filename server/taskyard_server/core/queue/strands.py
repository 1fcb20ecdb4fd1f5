"""Ready tasks that have concurrency keys: in strands, of which those before a full key stand aside.

A *strand* holds the tasks of one agent in one bucket that have the same keys: all of them or none wait for keys. A lane
holds its strands in a heap by their heads. When a key fills nothing is moved: a strand that comes to the top of its
lane while a key of it is full is *parked* at that key then. What is parked at one key in one bucket is a *node*, with a
heap for each lane.

When a key has room again its nodes are open, and a claim looks at these beside the order of its bucket. A node holds
its lanes by the ranks of their agents, which it brings up to date when it is looked at: so anyone who waits for a key
costs nothing meanwhile, and a key of which one place comes free at a time costs O(log n) each. A strand whose other key
is full is moved on to that one. A node that was looked at too often is given up, and its strands return to their lanes:
that costs as much as the looking did.

This file knows nothing of states, leases or time.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Final

from taskyard_server.core.task import Task

from .keys import Key, Keys
from .lane import Lane, Rows

if TYPE_CHECKING:
    from taskyard_server.core.agents import Agent

    from .bucket import Bucket

MIN_ENTRIES_TO_COMPACT: Final = 16
MIN_STRANDS_TO_SWEEP: Final = 64
MAX_ADVANCES: Final = 10_000
SEQ_BITS: Final = 40
"""An id has room for no more of the order of submission."""
LOOKS_PER_STRAND: Final = 16
"""How many looks at a node cost as much as it costs to move a strand, at least."""


class Strand(Rows):
    """The tasks of a lane that have the same keys. It is in a `stand` while it holds a task.

    The stand sorts it by `entry`, which is never later than the claim order of its present head.
    """

    __slots__ = ("entry", "keys", "owner", "stand")

    def __init__(self, lane: Lane) -> None:
        super().__init__(lane.agent, lane.bucket)
        self.owner = lane
        self.keys: list[Key] = []
        self.stand: Stand | None = None
        self.entry = 0


class Stand:
    """`size` strands of one lane in a heap by their heads: those of the lane itself, or those parked at a node."""

    __slots__ = ("_heap", "_holders", "node", "size")

    def __init__(self, node: Node | None) -> None:
        self.node = node
        self.size = 0
        self._heap: list[int] = []
        self._holders: dict[int, Strand] = {}

    def add(self, strand: Strand) -> None:
        """A strand, which holds a task, joins."""
        strand.stand = self
        self.size += 1
        entry = strand.entry = claim_order(strand.head())
        self._holders[entry] = strand
        heappush(self._heap, entry)
        if len(self._heap) > 2 * self.size + MIN_ENTRIES_TO_COMPACT:
            self._build()

    def enter(self, strand: Strand) -> None:
        """A strand that stands here has a better head than the entry that it has."""
        self.size -= 1
        self.add(strand)

    def leave(self, strand: Strand) -> None:
        """A strand stands here no longer; its entries are dropped when they come to the top."""
        strand.stand = None
        self.size -= 1

    def first(self) -> Strand | None:
        """The strand whose head comes first, None if none is here."""
        heap = self._heap
        while heap:
            entry = heap[0]
            strand = self._holders.get(entry)
            if strand is None or strand.stand is not self or strand.entry != entry:
                heappop(heap)
                self._holders.pop(entry, None)
                continue
            # A task may come back under another priority.
            order = claim_order(strand.head())
            if order == entry:
                return strand
            del self._holders[entry]
            strand.entry = order
            self._holders[order] = strand
            heapreplace(heap, order)
        return None

    def _build(self) -> None:
        """Put each strand in once, under the head that it has."""
        strands = self.strands()
        self._heap.clear()
        self._holders.clear()
        for strand in strands:
            entry = strand.entry = claim_order(strand.head())
            self._holders[entry] = strand
            self._heap.append(entry)
        heapify(self._heap)

    def strands(self) -> list[Strand]:
        """The strands that stand here, in no order."""
        return [strand for entry, strand in self._holders.items() if strand.stand is self and strand.entry == entry]


class Keyed:
    """The strands of a lane by their keys; `size` of them hold a task. Those that are not parked are `open`."""

    __slots__ = ("open", "size", "strands")

    def __init__(self) -> None:
        self.strands: dict[tuple[str, ...], Strand] = {}
        self.open = Stand(None)
        self.size = 0


class Advances:
    """The agents that moved ahead, in order, as far as those need to know who hold agents in heaps by their ranks.

    `last` is the number of the last one. The oldest are forgotten once they are many, and all of them when other ranks
    hold.
    """

    __slots__ = ("_agents", "_before", "last")

    def __init__(self) -> None:
        self._agents: list[Agent] = []
        self._before = 0
        self.last = 0

    def add(self, agent: Agent) -> None:
        """An agent has moved ahead."""
        self._agents.append(agent)
        self.last += 1
        if len(self._agents) > MAX_ADVANCES:
            self.forget()

    def forget(self) -> None:
        """Anyone who wants to know what was so far has to look at all agents."""
        self._agents.clear()
        self.last += 1
        self._before = self.last

    def after(self, number: int, most: int) -> list[Agent] | None:
        """Who moved ahead after this number; None if these are more than `most`, or are forgotten."""
        if number < self._before or self.last - number > most:
            return None
        return self._agents[number - self._before :]


class Node:
    """The strands parked at one key in one bucket: `size` strands, in a stand for each lane.

    `looks` counts how often it was looked at since the key had room again. Its heap holds the lanes by their agent's
    rank as a bucket does, but for those that moved ahead after `seen`.
    """

    __slots__ = ("_heap", "_holders", "bucket", "key", "lanes", "looks", "seen", "size")

    def __init__(self, key: Key, bucket: Bucket, advances: Advances) -> None:
        self.key = key
        self.bucket = bucket
        self.lanes: dict[Lane, Stand] = {}
        self.looks = 0
        self.size = 0
        self.seen = advances.last
        self._heap: list[int] = []
        self._holders: dict[int, Lane] = {}

    def enter(self, lane: Lane) -> None:
        """Hold a lane under its agent's rank."""
        self._holders[lane.agent.rank] = lane
        heappush(self._heap, lane.agent.rank)

    def front(self, advances: Advances) -> Lane | None:
        """The lane whose agent comes first, None if nothing is parked here."""
        if self.seen != advances.last:
            moved = advances.after(self.seen, len(self.lanes))
            self.seen = advances.last
            if moved is None:
                self._build()
            else:
                for agent in moved:
                    ahead = agent.lane_in(self.bucket)
                    if ahead is not None and ahead in self.lanes:
                        self.enter(ahead)
        if len(self._heap) > 2 * len(self.lanes) + MIN_ENTRIES_TO_COMPACT:
            self._build()
        heap = self._heap
        while heap:
            entry = heap[0]
            lane = self._holders.get(entry)
            if lane is None or lane not in self.lanes:
                heappop(heap)
                self._holders.pop(entry, None)
                continue
            rank = lane.agent.rank
            if rank == entry:
                return lane
            del self._holders[entry]
            self._holders[rank] = lane
            heapreplace(heap, rank)
        return None

    def _build(self) -> None:
        self._holders = {lane.agent.rank: lane for lane in self.lanes}
        self._heap = list(self._holders)
        heapify(self._heap)


class Strands:
    """The front door of this file. `wake` is called with a bucket where a strand may have become runnable.

    `parked` counts the strands that stand aside; while there are any, `advances` has to learn who moved ahead.
    """

    def __init__(self, keys: Keys, wake: Callable[[Bucket], None]) -> None:
        self._keys = keys
        self._wake = wake
        self.advances = Advances()
        self.parked = 0
        keys.on_open = self._open

    def add(self, lane: Lane, task: Task, names: tuple[str, ...]) -> None:
        """Make a task with these keys claimable."""
        keyed = lane.keyed
        if keyed is None:
            keyed = lane.keyed = Keyed()
        strand = keyed.strands.get(names)
        if strand is None:
            if len(keyed.strands) > 2 * keyed.size + MIN_STRANDS_TO_SWEEP:
                keyed.strands = {names: strand for names, strand in keyed.strands.items() if strand.size}
            strand = keyed.strands[names] = Strand(lane)
        task.lane = strand
        strand.add(task)
        if strand.size > 1:
            stand = strand.stand
            if strand.head() is task and stand is not None:
                stand.enter(strand)
        else:
            # An empty one may know keys that were forgotten since.
            strand.keys = [self._keys.of(name) for name in names]
            if len(names) > 1:
                for key in strand.keys:
                    key.shared[strand] = None
            keyed.size += 1
            lane.bucket.strands += 1
            self._add_open(lane, strand)
        for key in strand.keys:
            key.waiting += 1

    def remove(self, strand: Strand, task: Task) -> None:
        """Take out a task that is in a strand, wherever it stands."""
        strand.remove(task)
        for key in strand.keys:
            key.waiting -= 1
        if not strand.size:
            self._emptied(strand)

    def take(self, strand: Strand) -> Task:
        """Hand out the head of a strand, which takes the places and tokens of all its keys."""
        task = strand.take_head()
        for key in strand.keys:
            key.waiting -= 1
            self._keys.took(key)
        if not strand.size:
            self._emptied(strand)
        return task

    def front(self, lane: Lane) -> Rows | None:
        """Where the first runnable task of a lane stands, but for those that are parked; None if there is none."""
        keyed = lane.keyed
        assert keyed is not None
        plain = lane.head() if lane.size else None
        while (strand := keyed.open.first()) is not None:
            if plain is not None and comes_before(plain, strand.head()):
                return lane
            key = self._keys.full_key(strand)
            if key is None:
                return strand
            self._park(strand, key)
        return None if plain is None else lane

    def best_of_nodes(self, bucket: Bucket, best: Rows | None) -> Rows | None:
        """The next to leave, of `best` and of what is parked in the open nodes of a bucket."""
        over: list[Node] = []
        tired: list[Node] = []
        for node in bucket.open_nodes:
            if not node.lanes or node.key.opens_at > self._keys.now:
                over.append(node)
                continue
            best = self._best_of_node(node, best)
            if node.looks > LOOKS_PER_STRAND * node.size:
                tired.append(node)
        for node in tired:
            self._unpark(node)
        for node in [*over, *tired]:
            del bucket.open_nodes[node]
        return best

    def _best_of_node(self, node: Node, best: Rows | None) -> Rows | None:
        node.looks += 1
        while (lane := node.front(self.advances)) is not None:
            if best is not None and best.agent.rank < lane.agent.rank:
                return best
            strand = self._front_of_node(node, lane)
            if strand is not None:
                if best is None or strand.agent is not best.agent or comes_before(strand.head(), best.head()):
                    return strand
                return best
        return best

    def _front_of_node(self, node: Node, lane: Lane) -> Strand | None:
        """The first strand of a lane at an open node; those before it that another full key holds back move there."""
        stand = node.lanes[lane]
        while (strand := stand.first()) is not None:
            key = self._keys.full_key(strand)
            if key is None:
                return strand
            self._park(strand, key)
        return None

    def _open(self, key: Key) -> None:
        """A key has room again."""
        for bucket, node in key.nodes.items():
            node.looks = 0
            bucket.open_nodes[node] = None
            self._wake(bucket)

    def _park(self, strand: Strand, key: Key) -> None:
        """Let a strand wait at a full key, and nowhere else."""
        self._leave(strand)
        bucket, lane = strand.bucket, strand.owner
        node = key.nodes.get(bucket)
        if node is None:
            node = key.nodes[bucket] = Node(key, bucket, self.advances)
        stand = node.lanes.get(lane)
        if stand is None:
            stand = node.lanes[lane] = Stand(node)
            node.enter(lane)
        stand.add(strand)
        node.size += 1
        self.parked += 1
        self._keys.note_due(key)

    def _unpark(self, node: Node) -> None:
        """Let the strands of a node return to their lanes."""
        for lane, stand in list(node.lanes.items()):
            for strand in stand.strands():
                self._leave(strand)
                self._add_open(lane, strand)

    def _add_open(self, lane: Lane, strand: Strand) -> None:
        """A strand that holds a task and stands nowhere joins those of its lane that are not parked."""
        keyed = lane.keyed
        assert keyed is not None
        was_waiting = lane.size or keyed.open.size
        keyed.open.add(strand)
        if not was_waiting:
            lane.bucket.lane_waits(lane)

    def _leave(self, strand: Strand) -> None:
        """A strand leaves where it stands."""
        stand, lane, bucket = strand.stand, strand.owner, strand.bucket
        assert stand is not None
        stand.leave(strand)
        node = stand.node
        if node is None:
            # What it leaves are the open ones of its lane.
            if not lane.size and not stand.size:
                bucket.waiting -= 1
            return
        node.size -= 1
        self.parked -= 1
        if not stand.size:
            del node.lanes[lane]
            if not node.lanes:
                del node.key.nodes[bucket]

    def _emptied(self, strand: Strand) -> None:
        self._leave(strand)
        lane, bucket = strand.owner, strand.bucket
        keyed = lane.keyed
        assert keyed is not None
        keyed.size -= 1
        bucket.strands -= 1
        if len(strand.keys) > 1:
            for key in strand.keys:
                del key.shared[strand]
        if not lane.entry and lane.is_empty:
            # The bucket does not hold it, and so would not forget it.
            lane.agent.forget_lane(lane)


def comes_before(one: Task, other: Task) -> bool:
    """True if a task comes before another one of its agent."""
    return claim_order(one) < claim_order(other)


def claim_order(task: Task) -> int:
    """The order of a task among those of its agent, as one number: these compare fastest."""
    return (task.priority << SEQ_BITS) + task.seq
