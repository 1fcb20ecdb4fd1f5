"""Limits of the queue: whether one more task fits, and the text and figures of the refusal if it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .task import NO_OPTIONS

if TYPE_CHECKING:
    from .agents import Agent
    from .limits import Limits
    from .stats import Counts
    from .targets import Targets
    from .task_options import TaskOptions


def has_room(limits: Limits, counts: Counts, targets: Targets, agent: Agent | None, options: TaskOptions) -> bool:
    """True if one more task of an agent, which has none yet if it is None, is within the limits."""
    if counts.queued >= limits.max_queue_size or (agent is not None and agent.queued >= limits.max_per_agent):
        return False
    if options is NO_OPTIONS:
        return True
    target = options.target
    return target is None or targets.has_room(target, limits.max_blocked_targets)


def refusal_of(
    limits: Limits, counts: Counts, targets: Targets, agent: Agent | None, agent_id: str
) -> tuple[str, dict[str, str | float]]:
    """The text and the details of the refusal of a task that was not accepted (docs/rules.md, Admission)."""
    is_full = counts.queued >= limits.max_queue_size
    if not is_full and (agent is None or agent.queued < limits.max_per_agent):
        return (
            "rejected: too many targets are blocked, and new ones are taken once tasks that block some are resumed, "
            "resolved or cancelled",
            {
                "agentId": agent_id,
                "blockedTargets": targets.blocked,
                "maxBlockedTargets": limits.max_blocked_targets,
            },
        )
    return (
        f"rejected: {'global' if is_full else 'agent'} queue full",
        {
            "agentId": agent_id,
            "queued": counts.queued,
            "maxQueue": limits.max_queue_size,
            "maxPerAgent": limits.max_per_agent,
        },
    )
