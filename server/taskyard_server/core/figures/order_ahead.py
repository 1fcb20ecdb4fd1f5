"""How many tasks come before one in the order of claims, if nothing ends meanwhile (docs/rules.md, Why a task waits).

The task is handed out when its agent has had as many hand-outs as it has tasks that go first. Until then each other
agent has had those hand-outs that come earlier by the order of claims, which are counted by agents. Where weights are
in force the first hand-outs are played, since agents of different weights seldom stand at the very same share.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING, Final

from taskyard_server.core.queue.ready_queue import SERVED, ReadyQueue
from taskyard_server.core.queue.weights import PASS_UNIT, SHARE_BITS

from .runnable import Room, Waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from taskyard_server.core.agents import Agent
    from taskyard_server.core.hosts import HostProfile
    from taskyard_server.core.queue.bucket import Bucket
    from taskyard_server.core.task import Task


MAX_PLAYED: Final = 5_000
"""This many hand-outs take some milliseconds. What lies further ahead is counted by shares alone."""


def ahead_of(ready: ReadyQueue, max_per_agent: int, task: Task, profiles: Sequence[HostProfile]) -> tuple[int, bool]:
    """How many claimable tasks that hosts of these profiles may run come before a claimable task, at these hosts.

    And whether its agent has more in flight, by weight, than another agent that has such tasks. Without profiles those
    of the kind of the task count.
    """
    assert task.lane is not None
    buckets: dict[Bucket, None] = {task.lane.bucket: None}
    for profile in profiles:
        buckets.update(dict.fromkeys(ready.eligible(profile)))
    claimable = [bucket for bucket in buckets if ready.is_claimable(bucket)]
    agent, cap, room = task.agent, max_per_agent, Room(ready.keys)
    handouts = 0
    present = dict.fromkeys(claimable)
    for lane in agent.lanes:
        if lane.bucket in present:
            handouts += lane.count_before(task)
            if lane.keyed is not None:
                for strand in lane.keyed.strands.values():
                    handouts += room.take(strand, strand.count_before(task))
    waiting = Waiting()
    waiting.add(claimable, cap, room, {})
    ahead, over_share = handouts, False
    others: dict[Agent, int] = {}
    for other, count in waiting.by_agent.items():
        if other is agent:
            continue
        others[other] = count
        over_share = over_share or other.inflight * agent.weight < agent.inflight * other.weight
    if ready.weights.in_force:
        played = _play(ready, agent, handouts, others)
        if played is not None:
            return played, over_share
    for other, most in others.items():
        ahead += min(most, _handouts_before(ready, other, agent, handouts))
    return ahead, over_share


def _play(ready: ReadyQueue, agent: Agent, handouts: int, others: dict[Agent, int]) -> int | None:
    """How many tasks are handed out before an agent has its next one after this many; None if these are too many.

    `others` are how many tasks each other agent may be handed.
    """
    left = {**others, agent: handouts + 1}
    passed = {each: each.passed for each in left}
    inflight = {each: each.inflight for each in left}
    # As `Weights.rank` orders them; tie-breaks go on with the hand-outs.
    served = SERVED << 1
    heap = [
        ((each.inflight << SHARE_BITS) // each.weight, each.passed, ready.tie_break_of(each), each.id) for each in left
    ]
    by_id = {each.id: each for each in left}
    heapify(heap)
    front = ready.weights.front
    for ahead in range(MAX_PLAYED):
        each = by_id[heap[0][3]]
        if each is agent and left[agent] == 1:
            return ahead
        left[each] -= 1
        before = max(passed[each], front - PASS_UNIT)
        front = max(front, before)
        passed[each] = before + PASS_UNIT // each.weight
        inflight[each] += 1
        if left[each]:
            share = (inflight[each] << SHARE_BITS) // each.weight
            heapreplace(heap, (share, passed[each], served + ahead, each.id))
        else:
            heappop(heap)
    return None


def _handouts_before(ready: ReadyQueue, other: Agent, agent: Agent, handouts: int) -> int:
    """How many tasks another agent is handed before an agent has its next one after this many.

    An agent has its next one with `level / weight` in flight by weight. The other one has all hand-outs that begin
    below that; and one that begins at the very same if it goes first then: who was served on the way there has been
    served later than who was not, and of those that were, who came from further below was served later.
    """
    level = agent.inflight + handouts
    below = -(-level * other.weight // agent.weight) - other.inflight
    if below < 0:
        return 0
    if (other.inflight + below) * agent.weight != level * other.weight:
        return below
    if below == handouts:
        goes_first = (other.passed, ready.tie_break_of(other)) < (agent.passed, ready.tie_break_of(agent))
    else:
        goes_first = below < handouts
    return below + goes_first
