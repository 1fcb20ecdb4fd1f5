"""Exactly the tasks that may be claimed now, in claim order.

The order (docs/rules.md, Claim order): among the agents with a task that the host may run,
the one with the fewest in-flight tasks, ties to the one served longest ago; within it the lower `priority`, then the
earlier submission. Where agents have weights, `weights.py` ranks them.

Tasks lie in buckets by what a host must match, and within a bucket in one lane an agent. A bucket holds its lanes in
the order of their agents' ranks (`lane_order.py`). A claim worsens a rank, a task that leaves flight improves it. What
improves is moved at once in every bucket where the agent waits; what worsens is moved when it comes first. So each
waiting lane has an entry that is no worse than its rank, and a first entry that equals its rank is the true minimum: a
claim costs O(eligible buckets + log n) and equals the choice of brute force. Tasks with concurrency keys stand in
strands beside their lane, and those that wait for a key stand aside (`strands.py`).

This file knows nothing of states, leases or time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from taskyard_server.core.agents import Agent
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.task import NO_EXTRAS, NO_OPTIONS, Task

from .bucket import Bucket, Kind, kind_of
from .keys import Keys
from .lane import Lane, Rows
from .strands import Strand, Strands, comes_before
from .weights import TIE_BREAK_MASK, Weights

if TYPE_CHECKING:
    from taskyard_server.core.offers import OfferGroup

# A rank is one integer: in-flight tasks above, when the agent was last served below. Agents that were never served
# come before all that were, in the order of their arrival. No two agents ever have the same rank. While weights are in
# force what is above is wider; the tie-break below stays.
ONE_IN_FLIGHT: Final = 1 << 48
SERVED: Final = 1 << 47

MAX_CACHED_PROFILES: Final = 1024
MIN_ENTRIES_TO_COMPACT: Final = 64


class ReadyQueue:
    """The front door of this file. It owns each agent's `rank`, `lanes` and `inflight`, and `keys` of tasks."""

    def __init__(self) -> None:
        self.keys = Keys()
        self._keyed = Strands(self.keys, self._wake)
        self._buckets: dict[Kind, Bucket] = {}
        self._eligible: dict[HostProfile, list[Bucket]] = {}
        self._groups: dict[OfferGroup, None] = {}
        self._woken: dict[Bucket, None] = {}
        # Agents that came, and tasks that were handed out: the latter are as many as there are fencing tokens.
        self._arrived = 0
        self._served = 0
        self._triggered: dict[Bucket, None] = {}
        self._triggered_held = False
        self._busy_buckets = 0
        self.weights = Weights()

    def new_agent(self, agent_id: str) -> Agent:
        """An agent that was never served."""
        self._arrived += 1
        return self._agent(agent_id, self._arrived)

    def tie_break_of(self, agent: Agent) -> int:
        """The order of an agent among those with as many tasks in flight: when it came, or was last served."""
        return agent.rank & TIE_BREAK_MASK

    def restored_agent(self, agent_id: str, tie_break: int) -> Agent:
        """An agent with the tie-break that it had; as one that was never served if that is 0."""
        return self._agent(agent_id, tie_break) if tie_break else self.new_agent(agent_id)

    def _agent(self, agent_id: str, tie_break: int) -> Agent:
        """An agent without tasks in flight."""
        agent = Agent(agent_id, tie_break)
        if self.weights.in_force:
            agent.weight = self.weights.of(agent_id)
            agent.rank = self.weights.rank(agent, tie_break)
        return agent

    def continue_after(self, tie_breaks: Iterable[int], last_token: int) -> None:
        """Let what comes have tie-breaks after these, and after the last of this many grants."""
        self._arrived = max((tie_break for tie_break in tie_breaks if tie_break < SERVED), default=0)
        self._served = last_token

    def restore_served(self, agent: Agent, last_token: int) -> None:
        """The agent was last served under this token, or later, and has the tasks in flight that it counts.

        This makes its rank worse only, which the orders that hold it allow for.
        """
        agent.rank = self._rank(agent, max(self.tie_break_of(agent), SERVED + last_token))

    def set_weights(self, weights: Mapping[str, int], agents: Iterable[Agent]) -> None:
        """Put weights by pattern in force; these are all agents."""
        agents = list(agents)
        were_in_force = self.weights.in_force
        self.weights.replace(weights, agents)
        if were_in_force or self.weights.in_force:
            self._rank_anew(agents)

    def set_max_per_agent(self, max_per_agent: int, agents: Iterable[Agent]) -> None:
        """Let an agent have this many tasks in flight; these are all agents."""
        self.weights.max_per_agent = max_per_agent
        if self.weights.in_force:
            self._rank_anew(agents)

    def _rank(self, agent: Agent, tie_break: int) -> int:
        """The rank of an agent with this tie-break and what it has in flight."""
        if self.weights.in_force:
            return self.weights.rank(agent, tie_break)
        return agent.inflight * ONE_IN_FLIGHT + tie_break

    def _rank_anew(self, agents: Iterable[Agent]) -> None:
        """Rank all agents, and build all orders anew."""
        for agent in agents:
            agent.rank = self._rank(agent, self.tie_break_of(agent))
        self._keyed.advances.forget()
        for bucket in self._buckets.values():
            bucket.build()

    def add(self, task: Task) -> None:
        """Make a task claimable. One that comes back is where it was in the order."""
        lane = task.agent.lane
        if lane is None or not lane.bucket.is_of(task):
            lane = self._lane_of(task)
        bucket, options = lane.bucket, task.options
        if options is not NO_OPTIONS and options.extras is not NO_EXTRAS and options.extras.concurrency_keys:
            self._busy_buckets += not bucket.waiting and not bucket.strands
            self._keyed.add(lane, task, options.extras.concurrency_keys)
        else:
            task.lane = lane
            lane.add(task)
            if lane.size == 1:
                self._busy_buckets += not bucket.waiting and not bucket.strands
                if lane.keyed is None or not lane.keyed.open.size:
                    bucket.lane_waits(lane)
        if bucket.groups:
            self._woken[bucket] = None

    def _lane_of(self, task: Task) -> Lane:
        """The lane of its agent where a task belongs, which is made if it is not there."""
        kind, agent = kind_of(task), task.agent
        bucket = self._buckets.get(kind) or self._open(kind)
        lane = agent.lane_in(bucket)
        if lane is None:
            lane = Lane(agent, bucket)
            agent.add_lane(lane)
        return lane

    def remove(self, task: Task) -> None:
        """Take out a task that is in the queue, wherever it stands."""
        rows = task.lane
        if isinstance(rows, Strand):
            self._keyed.remove(rows, task)
            self._left(rows.bucket)
        else:
            assert isinstance(rows, Lane)
            rows.remove(task)
            if not rows.size:
                self._emptied(rows)

    def __iter__(self) -> Iterator[Bucket]:
        """The buckets, of which some may be empty."""
        return iter(self._buckets.values())

    def eligible(self, profile: HostProfile) -> Collection[Bucket]:
        """The buckets of which such a host may be handed tasks."""
        return self._eligible.get(profile) or self._select(profile)

    def first(self, buckets: Collection[Bucket], max_per_agent: int) -> Rows | None:
        """The task that leaves next of these buckets is the head of these; None if there is none under the limits.

        The best agent decides alone: since fewest in flight come first, no other can be under a limit that it reached.
        Where weights lead the order, an agent at its limit comes after all others.
        """
        best: Rows | None = None
        for bucket in buckets:
            rows = bucket.front()
            if bucket.triggered and self._triggered_held:
                continue
            if rows is not None and (
                best is None
                or rows.agent.rank < best.agent.rank
                or (rows.agent is best.agent and comes_before(rows.head(), best.head()))
            ):
                best = rows
            if bucket.open_nodes:
                best = self._keyed.best_of_nodes(bucket, best)
        if best is None or best.agent.inflight >= max_per_agent:
            return None
        return best

    def take(self, rows: Rows) -> Task:
        """Hand out the head of a lane or a strand, and serve its agent."""
        agent = rows.agent
        if isinstance(rows, Strand):
            task = self._keyed.take(rows)
            self._left(rows.bucket)
        else:
            task = rows.take_head()
            if not rows.size:
                assert isinstance(rows, Lane)
                self._emptied(rows)
        self._served += 1
        agent.inflight += 1
        if self.weights.in_force:
            self.weights.serve(agent)
            agent.rank = self.weights.rank(agent, SERVED + self._served)
        else:
            agent.rank = agent.inflight * ONE_IN_FLIGHT + SERVED + self._served
        return task

    def release_slot(self, agent: Agent) -> None:
        """One of the agent's tasks left flight: the agent moves ahead in every bucket where it waits."""
        agent.inflight -= 1
        if self.weights.in_force:
            agent.rank = rank = self.weights.rank(agent, self.tie_break_of(agent))
        else:
            agent.rank = rank = agent.rank - ONE_IN_FLIGHT
        if self._keyed.parked:
            self._keyed.advances.add(agent)
        if agent.lane is not None:
            self._move_ahead(agent.lane, rank)
            if agent.more_lanes is not None:
                for lane in agent.more_lanes.values():
                    self._move_ahead(lane, rank)

    def _move_ahead(self, lane: Lane, rank: int) -> None:
        """The agent of a lane has a better rank."""
        if lane.size or (lane.keyed is not None and lane.keyed.open.size):
            if rank < lane.entry:
                lane.bucket.enter(lane)
        elif lane.is_empty:
            return
        # All of its tasks may be parked, perhaps at a key that has room.
        if lane.bucket.groups:
            self._woken[lane.bucket] = None

    def hold_triggered(self, held: bool) -> None:
        """Let no task of a trigger be claimed while this is so: as many are in flight as may be."""
        if held != self._triggered_held:
            self._triggered_held = held
            if not held:
                self._woken.update(self._triggered)

    @property
    def holds_triggered(self) -> bool:
        """True if tasks of triggers wait only because as many are in flight as may be."""
        return self._triggered_held and any(bucket.waiting or bucket.strands for bucket in self._triggered)

    def is_claimable(self, bucket: Bucket) -> bool:
        """True if a task of this bucket may be claimed, as far as triggers are concerned."""
        return bool(bucket.waiting or bucket.strands) and not (bucket.triggered and self._triggered_held)

    # Offer groups, which sleep until something may be dispatched to them

    def subscribe(self, group: OfferGroup) -> None:
        """Tell of this group from now on."""
        self._groups[group] = None
        for bucket in self._buckets.values():
            self._join(group, bucket)

    def unsubscribe(self, group: OfferGroup) -> None:
        """Tell of it no more."""
        del self._groups[group]
        for bucket in group.buckets:
            del bucket.groups[group]

    def take_woken(self) -> list[OfferGroup]:
        """The groups with room for which a task has come, or an agent fell under its limit, since this was called."""
        fresh = self._woken
        if not fresh:
            return []
        self._woken = {}
        return [group for bucket in fresh for group in bucket.groups if group.waiting]

    def _join(self, group: OfferGroup, bucket: Bucket) -> None:
        if group.profile.may_run(*bucket.kind[:4]):
            group.buckets[bucket] = None
            bucket.groups[group] = None

    def _wake(self, bucket: Bucket) -> None:
        if bucket.groups:
            self._woken[bucket] = None

    def _emptied(self, lane: Lane) -> None:
        """A lane has no tasks without keys any more."""
        if lane.keyed is None or not lane.keyed.open.size:
            lane.bucket.waiting -= 1
        self._left(lane.bucket)

    def _left(self, bucket: Bucket) -> None:
        """Tasks have left a bucket, perhaps the last one."""
        self._busy_buckets -= not bucket.waiting and not bucket.strands

    def _open(self, kind: Kind) -> Bucket:
        if len(self._buckets) > 2 * self._busy_buckets + MIN_ENTRIES_TO_COMPACT:
            self._sweep()
        bucket = self._buckets[kind] = Bucket(kind, self._keyed)
        if bucket.triggered:
            self._triggered[bucket] = None
        for profile, buckets in self._eligible.items():
            if profile.may_run(*kind[:4]):
                buckets.append(bucket)
        for group in self._groups:
            self._join(group, bucket)
        return bucket

    def _sweep(self) -> None:
        """Drop the buckets where nothing waits: kinds are made up by callers."""
        for kind, bucket in list(self._buckets.items()):
            if not bucket.waiting and not bucket.strands:
                bucket.build()
                del self._buckets[kind]
                self._woken.pop(bucket, None)
                self._triggered.pop(bucket, None)
                for group in bucket.groups:
                    del group.buckets[bucket]
        self._eligible.clear()

    def _select(self, profile: HostProfile) -> list[Bucket]:
        if len(self._eligible) >= MAX_CACHED_PROFILES:
            self._eligible.clear()
        buckets = [bucket for bucket in self._buckets.values() if profile.may_run(*bucket.kind[:4])]
        self._eligible[profile] = buckets
        return buckets
