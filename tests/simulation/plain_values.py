"""What the core and the model hand out, as plain values that can be compared."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from taskyard_server.core.batches import BatchSubmission
from taskyard_server.core.errors import Refusal
from taskyard_server.core.events import Event
from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.hosts import Host as CoreHost
from taskyard_server.core.hosts import HostProfile, Tabs
from taskyard_server.core.leases import Lease
from taskyard_server.core.leases import Stop as CoreStop
from taskyard_server.core.offers import Offer
from taskyard_server.core.runs.events import SentEvent
from taskyard_server.core.runs.steps import TakenStep
from taskyard_server.core.stats import Counters
from taskyard_server.core.streams import Welcome
from taskyard_server.core.task import NO_EXTRAS, Existing, Submission, Task
from taskyard_server.core.task_ids import order_of
from taskyard_server.core.task_options import (
    AfterPolicy,
    IdempotencyKey,
    OnConflict,
    OnParentEnd,
    OnTargetFailure,
    TaskExtras,
    TaskOptions,
    UniqueWhile,
)

from .model_events import Came, Happened, Stop
from .model_records import FLYING, Host, Job, Machine, Refused, Sent, Wish
from .model_relations import Twin

TABS: Final = {"any": Tabs.ANY, "only": Tabs.ONLY, "or plain": Tabs.OR_PLAIN}
COUNTERS: Final = tuple(each.name for each in fields(Counters) if each.name != "dispatch_latency_secs")
AGENT_COUNTERS: Final = ("submitted", "completed", "failed", "cancelled", "rejected", "tokens_used")

FIELDS: Final = (
    "id",
    "state",
    "error",
    "result",
    "progress",
    "token",
    "last host",
    "host",
    "claimed_at",
    "lease length",
    "expires_at",
    "start_by",
    "adopt_by",
    "lease over at",
    "claim_id",
    "deliveries",
    "created_at",
    "queued_at",
    "started_at",
    "completed_at",
    "latency_ms",
    "deadline",
    "position",
    "run",
    "failed attempts",
    "held",
    "not before",
    "tokens before",
    "tokens used",
    "code",
    "traceback",
    "raised token limit",
    "output",
    "artifacts",
    "steps",
    "reason",
    "priority",
    "ends with",
    "park",
    "child name",
    "children",
    "params",
)

NO_LEASE: Final = (None,) * 8


def of_task(task: Task) -> tuple[object, ...]:
    """All that the core knows of a task, as `FIELDS`."""
    lease = task.lease
    return (
        task.id,
        task.state,
        task.error,
        task.result,
        task.progress,
        task.token,
        task.host_id,
        *(NO_LEASE if lease is None else _of_lease(lease)),
        task.deliveries,
        task.created_at,
        task.queued_at,
        task.started_at,
        task.completed_at,
        task.latency_ms,
        task.deadline,
        task.position,
        task.history.run,
        task.history.failed,
        task.history.held,
        task.history.not_before,
        task.history.tokens_before,
        task.history.tokens_used,
        task.history.code,
        task.history.traceback,
        task.history.token_limit,
        task.history.output,
        [(each.name, each.size) for each in task.history.artifacts],
        (task.history.steps, task.history.step_bytes),
        task.history.reason,
        task.priority,
        task.options.parent_id if task.options.extras.on_parent_end == "cancel" else None,
        None if (park := task.history.park) is None else (*park[:2], [*map(tuple, park.waits)], *park[3:]),
        task.options.extras.child_name,
        [*task.history.children],
        (task.params, task.options.input),
    )


def _of_lease(lease: Lease) -> tuple[object, ...]:
    return (
        lease.host.id,
        lease.claimed_at,
        lease.secs,
        lease.expires_at,
        lease.start_by,
        lease.adopt_by,
        lease.due,
        lease.claim_id,
    )


def of_job(job: Job) -> tuple[object, ...]:
    """All that the model knows of a task, as `FIELDS`."""
    held = job.state in FLYING
    return (
        job.id,
        job.state,
        job.error,
        job.result,
        job.progress,
        job.token,
        job.last_host,
        *(_lease_of(job) if held else NO_LEASE),
        job.deliveries,
        job.created_at,
        job.queued_at,
        job.started_at,
        job.completed_at,
        job.latency_ms(),
        job.deadline,
        job.position,
        job.run,
        job.failed,
        job.held,
        job.due,
        job.tokens_before,
        job.tokens_used,
        job.code,
        job.traceback,
        job.raised_limit,
        job.output,
        [*job.artifacts.items()],
        (len(job.steps), sum(job.steps.values())),
        job.reason,
        job.priority,
        job.ends_with,
        _park_of(job),
        job.wish.child_name,
        [*map(order_of, job.children)],
        (job.wish.params, job.wish.input),
    )


def _park_of(job: Job) -> tuple[object, ...] | None:
    if job.parked_at is None:
        return None
    return (
        job.parked_at,
        job.parked_under,
        [*map(tuple, job.waits)],
        job.met,
        job.left,
        job.keeps,
        tuple(job.heard.items()),
    )


def _lease_of(job: Job) -> tuple[object, ...]:
    return (
        job.host,
        job.claimed_at,
        job.lease_secs,
        job.lease_until,
        job.start_by,
        job.adopt_by,
        job.lease_end(),
        job.claim_id,
    )


def of_event(event: Event) -> Happened:
    """All that an event tells."""
    return Happened(
        event.at,
        event.kind,
        event.task.id,
        event.before,
        event.state,
        event.host_id,
        event.started_at,
        event.error,
        event.progress,
    )


def of_step(taken: TakenStep) -> Came:
    """All that a step tells but for its attempt."""
    its, step = taken.task, taken.step
    return Came(
        its.id,
        taken.number,
        step.kind,
        step.name,
        step.result,
        step.by,
        step.is_expired,
        step.question,
        step.at,
        step.run,
    )


def of_stop(stop: CoreStop) -> Stop:
    """Whom it is for, and all that it tells."""
    lease = stop.lease
    return Stop(lease.host.id, lease.task.id, lease.token, stop.reason, stop.message)


def plain(answer: Any) -> Any:
    """An answer of the core or of the model, so that equal answers are equal values."""
    match answer:
        case list():
            return [*map(plain, answer)]
        case (Task() | Job() as first, int(count)):
            return (plain(first), count)
        case Existing() | Twin():
            return ("existing", plain(answer[0]))
        case Task():
            return of_task(answer)
        case Job():
            return of_job(answer)
        case Offer():
            return None
        case Welcome():
            return (plain(answer.kept), answer.lost, answer.heartbeat_secs)
        case Lease():
            return (answer.task.id, answer.token, answer.expires_at)
        case (SentEvent() | Sent() as event, bool(is_repeated)):
            return (plain(event), is_repeated)
        case SentEvent():
            agents = None if answer.agents is None else answer.agents.exact
            sent = (answer.number, answer.name, answer.event_id, answer.payload, answer.at, answer.until, answer.by)
            return (*sent, agents, answer.waited)
        case Sent():
            sent = (answer.number, answer.name, answer.id, answer.payload, answer.at, answer.until, answer.by)
            return (*sent, answer.agents, answer.waited)
        case BatchSubmission():
            return plain(answer.outcomes)
        case Refusal() | Refused():
            return (answer.code, answer.message, answer.details) if answer.code == "queue_full" else answer.code
        case CoreHost():
            return (
                answer.id,
                answer.display_name,
                answer.registered_at,
                answer.last_heartbeat_at,
                answer.profile,
                answer.built_in,
                answer.slots,
                answer.draining,
                answer.reported_status,
                answer.machine,
                answer.instance,
                answer.lost_at,
            )
        case Host():
            return (
                answer.id,
                answer.display_name,
                answer.registered_at,
                answer.heard_at,
                to_profile(answer.machine),
                answer.machine.built_in,
                answer.slots,
                answer.draining,
                answer.reported_status,
                answer.figures,
                answer.instance,
                answer.lost_at,
            )
    return answer


def to_profile(machine: Machine) -> HostProfile:
    """The core's word for what a host may run."""
    tabs = TABS[machine.tabs]
    return HostProfile(machine.capabilities, machine.project, machine.actions, tabs, machine.plain_actions)


def to_extras(wish: Wish) -> TaskExtras:
    """The core's word for how a task stands to others."""
    policy = None if wish.on_target_failure is None else OnTargetFailure(wish.on_target_failure)
    extras = TaskExtras(
        concurrency_keys=wish.keys,
        after=wish.after,
        after_indexes=wish.places,
        after_policy=None if wish.after_policy is None else AfterPolicy(wish.after_policy),
        unique_key=wish.unique,
        unique_while=None if wish.unique_while is None else UniqueWhile(wish.unique_while),
        on_conflict=None if wish.on_conflict is None else OnConflict(wish.on_conflict),
        on_target_failure=policy,
        inputs=tuple([(f"n{number}", task_id) for number, task_id in enumerate(wish.inputs)]),
        input_indexes=tuple([(f"p{number}", place) for number, place in enumerate(wish.input_places)]),
        on_parent_end=None if wish.on_parent_end is None else OnParentEnd(wish.on_parent_end),
        child_name=wish.child_name,
    )
    return NO_EXTRAS if extras == NO_EXTRAS else extras


def to_submission(wish: Wish) -> Submission:
    """The core's word for what an agent asks for."""
    key = None if wish.key is None else IdempotencyKey(wish.key, _fingerprint(wish))
    retry = None if wish.retry is None else RetryPolicy(*wish.retry)
    options = TaskOptions(
        project=wish.project,
        requires=wish.requires,
        target=wish.target,
        key=key,
        hold=wish.hold,
        not_before=wish.not_before,
        token_limit=wish.token_limit,
        retry=retry,
        run_timeout_secs=wish.run_timeout,
        parent_id=wish.parent,
        input=wish.input,
        extras=to_extras(wish),
    )
    return Submission(
        wish.agent,
        wish.action,
        tab_id=wish.tab,
        params=wish.params,
        priority=wish.priority,
        deadline=wish.deadline,
        options=options,
    )


def _fingerprint(wish: Wish) -> bytes:
    """Every wish's own, and the same in each process: the order of a set is not."""
    values = [getattr(wish, each.name) for each in fields(wish)]
    return repr([sorted(value) if isinstance(value, frozenset) else value for value in values]).encode()
