"""Concurrency keys of the core, recounted from its tasks: keys, strands, nodes and stands of waiting tasks.

And the figures of keys that are handed out, which must be the model's.
"""

from __future__ import annotations

from collections import Counter
from math import inf

from taskyard_server.core.queue.keys import Key, KeyLimit, KeyUsage, KeyWaits
from taskyard_server.core.queue.strands import Stand, Strand, claim_order
from taskyard_server.core.scheduler import Scheduler
from tests.core.queue.naive_keys import RateLimit

from .indexes import FLYING, is_heap, same
from .world import World


def for_core(limits: dict[str, RateLimit]) -> dict[str, KeyLimit]:
    return {pattern: KeyLimit(each.places, each.rate, each.burst) for pattern, each in limits.items()}


def recount_keys(core: Scheduler) -> None:
    """Raise AssertionError, naming the structure, if anything about keys is not what the tasks say."""
    keys, ready = core._life.ready.keys, core._life.ready
    tasks = list(core.tasks_after(0))
    flying = Counter(name for task in tasks if task.state in FLYING for name in task.options.extras.concurrency_keys)
    waiting = Counter(name for task in tasks if task.lane is not None for name in task.options.extras.concurrency_keys)
    same("keys in use that are not known", (flying.keys() | waiting.keys()) - keys._by_name.keys(), set())
    same("keys are few", len(keys._by_name) <= keys._sweep_at, True)
    is_heap("dues of keys", keys._dues)
    strands = {task.lane for task in tasks if isinstance(task.lane, Strand)}
    for name, key in keys._by_name.items():
        same(f"name of {name}", key.name, name)
        same(f"in flight of {name}", key.inflight, flying[name])
        same(f"waiting of {name}", key.waiting, waiting[name])
        same(
            f"shared strands of {name}",
            {*key.shared},
            {each for each in strands if key in each.keys and len(each.keys) > 1},
        )
        _opening(core, key)
    for bucket in ready._buckets.values():
        same("strands of a bucket", bucket.strands, sum(strand.bucket is bucket for strand in strands))
        for node in bucket.open_nodes:
            same("bucket of a node", node.bucket is bucket, True)
    for strand in strands:
        _strand(core, strand)
    for lane in {lane for agent in core._life.agents.by_id.values() for lane in agent.lanes}:
        if lane.keyed is not None:
            its = [strand for strand in strands if strand.owner is lane]
            same("strands of a lane", lane.keyed.size, len(its))
            same("open strands of a lane", lane.keyed.open.size, sum(each.stand is lane.keyed.open for each in its))
            same("empty strands are few", len(lane.keyed.strands) <= 2 * lane.keyed.size + 66, True)
            _stand(lane.keyed.open)


def _opening(core: Scheduler, key: Key) -> None:
    """When it has room again, and that those who wait for that learn of it."""
    keys = core._life.ready.keys
    at = 0.0
    if key.max_inflight is not None and key.inflight >= key.max_inflight:
        at = inf
    elif key.tokens is not None:
        at = key.tokens.copy().due(keys.now)
    is_open = key.opens_at <= keys.now
    same(f"opening of {key.name}", 0.0 if is_open else key.opens_at, at)
    for bucket, node in key.nodes.items():
        same("node of a key", (node.key is key, node.bucket is bucket), (True, True))
        same("strands of a node", node.size, sum(stand.size for stand in node.lanes.values()))
        same("an empty node", bool(node.lanes), True)
        if is_open:
            same(f"open node of {key.name}", node in bucket.open_nodes, True)
        for lane, stand in node.lanes.items():
            same("node of a stand", stand.node is node, True)
            same("lane of a stand", {strand.owner for strand in stand.strands()}, {lane})
            _stand(stand)
    if key.nodes and not is_open and at != inf:
        same(f"{key.name} is to open", (key.due, (at, key.name) in keys._dues), (at, True))


def _strand(core: Scheduler, strand: Strand) -> None:
    lane, bucket = strand.owner, strand.bucket
    same("lane of a strand", (lane.bucket is bucket, strand.agent is lane.agent), (True, True))
    same("lane of an agent", lane.agent.lane_in(bucket) is lane, True)
    names = strand.head().options.extras.concurrency_keys
    same("keys of a strand", tuple(key.name for key in strand.keys), names)
    same("keys that are known", [core._life.ready.keys.find(name) for name in names], strand.keys)
    same("strand of a lane", lane.keyed.strands.get(names) is strand, True)
    stand = strand.stand
    assert stand is not None
    same("a strand stands where it is found", strand in stand.strands(), True)
    if stand.node is not None:
        same("a strand is parked at a key of its own", stand.node.key in strand.keys, True)


def _stand(stand: Stand) -> None:
    is_heap("strands of a stand", stand._heap)
    same("strands of a stand", len(stand.strands()), stand.size)
    same("entries of a stand are few", len(stand._heap) <= 2 * stand.size + 18 + len(stand._heap) // 2, True)
    for strand in stand.strands():
        same("an entry of a strand", strand.entry in stand._heap, True)
        same("a strand stands no further behind than its head", strand.entry <= claim_order(strand.head()), True)


def keys_agree(core: Scheduler, world: World, now: float) -> None:
    """The figures of keys are the model's."""
    if core._life.ready.keys.has_rates and core._life.ready.keys.now < now:
        return
    jobs = [job for job in world.tasks.values() if job.wish.keys]
    claimable = [job for job in jobs if job.state == "queued" and (job.target is None or job.is_head)]
    flying = Counter(name for job in jobs if job.state in FLYING for name in job.wish.keys)
    free = {job.id for job in world.without_full_keys(now, claimable)}
    held = [job for job in claimable if job.id not in free]
    waits = Counter(name for job in held for name in job.wish.keys)
    used = {name for job in claimable for name in job.wish.keys} | {*flying}
    expected = [
        KeyUsage(
            name,
            world.keys.pattern(name),
            flying[name],
            waits[name],
            None if (tokens := world.keys.tokens(now, name)) is None else float(tokens),
        )
        for name in sorted(used)
    ]
    same("usage of keys", core.keys.usage(now, "", 10_000), expected)
    if len(expected) > 2:
        same("a page of keys", core.keys.usage(now, expected[0].key, 1), expected[1:2])
    full = {name: count for name, count in waits.items() if world.keys.is_full(now, name, flying)}
    same("waits for keys", core.keys.waits(now, 10_000), KeyWaits(len(held), full))
