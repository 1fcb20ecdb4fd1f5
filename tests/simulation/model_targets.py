"""How many targets of the model are blocked, and what that means for new ones, written from docs/rules.md alone."""

from __future__ import annotations

from .model_records import ENDED
from .world import World


def has_room_for(world: World, target: str | None) -> bool:
    """True if a task may be added to a target: to one that is there, or while not too many are blocked."""
    its = [job for job in world.tasks.values() if job.target == target and (job.blocks or job.state not in ENDED)]
    # One that was parked and has released its target comes to it anew.
    its = [job for job in its if job.state != "parked" or job.keeps]
    is_there = bool(its) or any(lease.job.target == target for lease in world.stopping)
    return target is None or is_there or len(blocked_targets(world)) < world.limits["max_blocked_targets"]


def blocked_targets(world: World) -> set[str | None]:
    """The targets that a task blocks."""
    return {job.target for job in world.tasks.values() if job.blocks}
