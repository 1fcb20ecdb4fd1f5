"""The limits and time-outs of the scheduler with their defaults, as one immutable value (docs/operate/settings.md)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from .patterns import PatternTable
from .task_options import OnTargetFailure

NO_POLICIES: Final[PatternTable[OnTargetFailure]] = PatternTable({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Times are in seconds; each namespace has its own counts. `Scheduler.reconfigure` replaces them at any time.

    `on_target_failure` is for tasks without a policy of their own, by the name of their target.
    """

    max_queue_size: int = 1000
    max_per_agent: int = 100
    max_inflight: int = 20
    max_per_agent_inflight: int = 10
    result_ttl_secs: float = 300.0
    max_retained_tasks: int = 200_000
    max_output_bytes: int = 8_388_608
    max_namespace_output_bytes: int = 10_737_418_240
    max_artifact_bytes: int = 1_073_741_824
    max_namespace_artifact_bytes: int = 107_374_182_400
    idempotency_secs: float = 0.0
    default_deadline_secs: float = 60.0
    lease_secs: float = 60.0
    max_deliveries: int = 5
    max_agent_figures: int = 10_000
    max_blocked_targets: int = 10_000
    on_target_failure: PatternTable[OnTargetFailure] = NO_POLICIES
    forget_hosts_secs: float = 86_400.0
    heartbeat_timeout_secs: float = 60.0
    dead_heartbeat_threshold: int = 2
    orphan_check_secs: float = 300.0
    reconnect_grace_secs: float = 5.0
    start_timeout_secs: float = 10.0
    max_concurrent: int = 5
    max_queued_triggers: int = 5
    max_schedules: int = 10_000
    poll_secs: float = 30.0
    max_jitter_secs: float = 30.0
    jitter_threshold: int = 3
    no_host_notice_secs: float = 5.0


DEFAULTS: Final = Limits()
"""The one owner of each limit's default: `config.py` takes its defaults from here."""

OWN_LIMITS: Final = (
    "max_queue_size",
    "max_per_agent",
    "max_inflight",
    "max_per_agent_inflight",
    "result_ttl_secs",
    "max_retained_tasks",
    "idempotency_secs",
    "default_deadline_secs",
    "lease_secs",
    "max_deliveries",
    "max_schedules",
    "max_concurrent",
    "max_queued_triggers",
)
"""The limits that a namespace may have of its own: how much it may hold, and how its tasks are treated.

The others are about hosts and the server as a whole, which do not differ by namespace: how soon a silent host is dead,
how often the clock is looked at, how many figures are retained.
"""


def limits_with(limits: Limits, own: Mapping[str, int | float]) -> Limits:
    """These limits with a namespace's own in their places; names that are not among `OWN_LIMITS` count for nothing."""
    known: dict[str, Any] = {name: own[name] for name in OWN_LIMITS if name in own}
    return replace(limits, **known) if known else limits


RESTART_GRACE_SECS: Final = 15.0
"""The least time that hosts have after a restart to come back on their streams: all of them look for it then."""

MAX_LEASE_SECS: Final = 3600.0
"""The longest lease that a host may ask for (docs/rules.md, Grants)."""
