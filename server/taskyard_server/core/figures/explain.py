"""Why a task waits: every reason by itself, so that all of them have to go and none is there for another's sake.

Nothing is noted for it; all is found when somebody asks. Being behind other tasks is no reason but a number
(docs/rules.md, Why a task waits).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from taskyard_server.core.attempts import HANDOFF_KEY, PERSON_HAS_TAB, TAB_HANDED_OFF
from taskyard_server.core.history import ANSWER, ENDS, EVENT
from taskyard_server.core.hosts import Host, HostProfile
from taskyard_server.core.names import EVERY_NAME, Names
from taskyard_server.core.queue.bucket import Kind, kind_of
from taskyard_server.core.targets import WAITS_FOR, Target, TargetStatus
from taskyard_server.core.task import (
    FAILED,
    NO_EXTRAS,
    PARKED,
    PAUSED,
    PENDING,
    QUEUED,
    TERMINAL,
    WAITING,
    Task,
    TaskState,
)

from .lost_hosts import lost_hosts, lost_text
from .notices import stands_still
from .order_ahead import ahead_of

if TYPE_CHECKING:
    from taskyard_server.core.children import Children
    from taskyard_server.core.history import Wait
    from taskyard_server.core.offers import Offer
    from taskyard_server.core.scheduler import Scheduler


class WaitKind(StrEnum):
    """The kinds of reasons; the values are the names in `WaitReason.Kind`."""

    NOT_DUE = "not_due"
    HELD = "held"
    AFTER = "after"
    TARGET = "target"
    AGENT_LIMIT = "agent_limit"
    MAX_INFLIGHT = "max_inflight"
    KEY_INFLIGHT = "key_inflight"
    KEY_RATE = "key_rate"
    NO_HOST = "no_host"
    NO_ACTION = "no_action"
    NO_CREDIT = "no_credit"
    DEADLOCK = "deadlock"
    MAX_CONCURRENT = "max_concurrent"
    DRAINING = "draining"
    PAUSED = "paused"
    ANSWER = "answer"
    ENDS = "ends"
    TIME = "time"
    EVENT = "event"


class WaitReason(NamedTuple):
    """One reason; the fields are those of `WaitReason` in the proto. `until` is in seconds."""

    kind: WaitKind
    message: str
    name: str | None = None
    until: float | None = None
    task_ids: tuple[str, ...] = ()
    used: float | None = None
    limit: float | None = None
    missing: tuple[str, ...] = ()


class Explanation(NamedTuple):
    """Why a task waits. `ahead` is None where nobody is told, or where it has no meaning."""

    task_id: str
    state: TaskState
    runnable: bool
    reasons: list[WaitReason]
    ahead: int | None
    over_share: bool


class Sight(NamedTuple):
    """The sight of a caller: of tasks of these agents, and of others' figures if it `sees_others`."""

    agents: Names = EVERY_NAME
    sees_others: bool = True

    def ids(self, tasks: Iterable[Task]) -> tuple[str, ...]:
        """The ones of these tasks that may be named."""
        return tuple([task.id for task in tasks if task.agent.id in self.agents])


SEES_ALL: Final = Sight()
MAX_FOLLOWED: Final = 10_000
"""How many tasks are looked at to find that one waits for itself by way of others."""
BEYOND_THE_QUEUE: Final = frozenset(
    {
        WaitKind.NO_HOST,
        WaitKind.NO_ACTION,
        WaitKind.NO_CREDIT,
        WaitKind.DEADLOCK,
        WaitKind.MAX_INFLIGHT,
        WaitKind.DRAINING,
    }
)
"""Reasons that hold for all tasks alike: a task that has no others stands in the order of claims."""


def explain(scheduler: Scheduler, now: float, task: Task, sight: Sight = SEES_ALL) -> Explanation:
    """Why a task waits; without reasons if it is runnable, in flight, or has ended."""
    if task.state is PARKED:
        waits = task.history.park.waits if task.history.park else ()
        reasons = [_of_a_wait(scheduler, task, wait, sight) for wait in waits]
        return Explanation(task.id, task.state, False, reasons, None, False)
    if task.state not in WAITING and task.state is not PAUSED:
        return Explanation(task.id, task.state, False, [], None, False)
    kind = kind_of(task)
    reasons = [
        *_of_itself(scheduler, now, task, sight),
        *_of_its_target(scheduler, task, sight),
        *_of_limits(scheduler, task, sight),
        *_of_keys(scheduler, now, task, sight),
        *_of_hosts(scheduler, now, kind, sight),
    ]
    ahead, over_share = None, False
    if sight.sees_others and task.state is QUEUED and all(reason.kind in BEYOND_THE_QUEUE for reason in reasons):
        profiles = [profile for _, profile in _live(scheduler, now) if profile.may_run(*kind[:4])]
        ahead, over_share = ahead_of(scheduler.life.ready, scheduler.limits.max_per_agent_inflight, task, profiles)
    return Explanation(task.id, task.state, task.state is QUEUED and not reasons, reasons, ahead, over_share)


def _of_a_wait(scheduler: Scheduler, task: Task, wait: Wait, sight: Sight) -> WaitReason:
    """One of the things that a parked task waits for."""
    ids: tuple[str, ...] = ()
    if wait.kind == ENDS:
        live = _live_of(scheduler, wait)
        ids, what = sight.ids(live), f"{len(live)} of {len(wait.about)} tasks to end"
        if _is_in_a_circle(scheduler, task, live):
            what += ", of which one waits for its end in turn"
    elif wait.kind == ANSWER:
        what = f"an answer to the question {wait.name}"
    elif wait.kind == EVENT:
        what = f"the event {wait.about[0]}"
    else:
        what = f"the time of {wait.name}"
    message = PERSON_HAS_TAB if wait.key.startswith(HANDOFF_KEY) else f"the task is parked, and waits for {what}"
    return WaitReason(WaitKind(wait.kind), message, wait.name, wait.until, ids)


def _live_of(scheduler: Scheduler, wait: Wait) -> list[Task]:
    found = [scheduler.find(each) for each in wait.about]
    return [each for each in found if each is not None and each.state not in TERMINAL]


def _is_in_a_circle(scheduler: Scheduler, task: Task, awaited: list[Task]) -> bool:
    """True if one of these tasks waits for the end of a task, by itself or by others."""
    left, seen = list(awaited), set(awaited)
    while left and len(seen) <= MAX_FOLLOWED:
        each = left.pop()
        others: list[Task] = []
        if each.state is PARKED and each.history.park is not None:
            others = [
                other for wait in each.history.park.waits if wait.kind == ENDS for other in _live_of(scheduler, wait)
            ]
        elif each.state is PENDING and each.options.extras is not NO_EXTRAS:
            others = scheduler.life.predecessors.awaited_by(each)
        if task in others:
            return True
        left += [other for other in dict.fromkeys(others) if other not in seen]
        seen.update(others)
    return False


def _of_itself(scheduler: Scheduler, now: float, task: Task, sight: Sight) -> Iterable[WaitReason]:
    """Its submission, and the tasks that it comes after."""
    if scheduler.dispatcher.is_stopped:
        yield WaitReason(WaitKind.DRAINING, "the server is draining, and hands nothing out")
    if task.state is PAUSED:
        why = "" if task.history.reason is None else f": {task.history.reason}"
        yield WaitReason(WaitKind.PAUSED, f"the task is paused, until it is resumed, resolved or cancelled{why}")
    if task.state is not PENDING:
        return
    history = task.history
    if history.held:
        yield WaitReason(WaitKind.HELD, "the task is held until it is resumed")
    awaited = [] if task.options.extras is NO_EXTRAS else scheduler.life.predecessors.awaited_by(task)
    if awaited:
        count = f"{len(awaited)} tasks" if len(awaited) > 1 else "a task"
        message = f"{count} that it comes after {'have' if len(awaited) > 1 else 'has'} not ended"
        # They are shown as failed, so that one wonders.
        blocking = len([each for each in awaited if each.state is FAILED and each.agent.id in sight.agents])
        if blocking:
            blocks = "blocks its target" if blocking == 1 else "block their targets"
            message += f"; {blocking} failed, and {blocks} until resumed, resolved or cancelled"
        yield WaitReason(WaitKind.AFTER, message, task_ids=sight.ids(awaited))
    if history.not_before is not None and (history.not_before > now or not (history.held or awaited)):
        why = "waits for its next attempt" if task.token else "is not due"
        message = PERSON_HAS_TAB if history.code == TAB_HANDED_OFF else f"the task {why}"
        yield WaitReason(WaitKind.NOT_DUE, message, until=history.not_before)


def _of_its_target(scheduler: Scheduler, task: Task, sight: Sight) -> Iterable[WaitReason]:
    name = task.options.target
    target = None if name is None else scheduler.targets.find(name)
    if target is None or target.head is task:
        return
    status, other = _in_the_way(target, task)
    if other is None:
        return
    ids = sight.ids([other])
    who = ids[0] if ids else "another task"
    what = WAITS_FOR.get(status, "to be handed out")
    yield WaitReason(WaitKind.TARGET, f"the target {name} waits for {who} {what}", name=name, task_ids=ids)


def _in_the_way(target: Target, task: Task) -> tuple[TargetStatus, Task | None]:
    """Which task of its target a task waits for; None if it would be the next one."""
    if target.running is not None and target.running is not task:
        return TargetStatus.RUNNING, target.running
    for blocker in target.blockers.values():
        if blocker.id != task.id:
            return TargetStatus.BLOCKED, blocker
    for lease in target.stopping:
        return TargetStatus.STOPPING, lease.task
    oldest = target.oldest()
    if oldest is not None and oldest.seq < task.seq:
        return TargetStatus.READY if oldest.state is QUEUED else TargetStatus.WAITING, oldest
    return TargetStatus.READY, None


def _of_limits(scheduler: Scheduler, task: Task, sight: Sight) -> Iterable[WaitReason]:
    life = scheduler.life
    limits = life.limits
    # One that is paused may have left memory, with the agent that it knows.
    agent = life.agents.by_id.get(task.agent.id, task.agent)
    if agent.inflight >= limits.max_per_agent_inflight:
        used, limit = agent.inflight, limits.max_per_agent_inflight
        message = f"the agent has {used} of {limit} tasks in flight (maxPerAgentInflight)"
        yield WaitReason(WaitKind.AGENT_LIMIT, message, name=agent.id, used=used, limit=limit)
    if life.counts.inflight >= limits.max_inflight:
        yield _full(WaitKind.MAX_INFLIGHT, "tasks", "maxInflight", life.counts.inflight, limits.max_inflight, sight)
    if task.options.trigger_id is not None and life.triggered.inflight >= limits.max_concurrent:
        used, limit = life.triggered.inflight, limits.max_concurrent
        yield _full(WaitKind.MAX_CONCURRENT, "tasks of triggers", "daemon.maxConcurrent", used, limit, sight)


def _of_keys(scheduler: Scheduler, now: float, task: Task, sight: Sight) -> Iterable[WaitReason]:
    extras = task.options.extras
    if extras is NO_EXTRAS:
        return
    keys = scheduler.life.ready.keys
    for name in extras.concurrency_keys:
        key = keys.seen(now, name)
        if key.max_inflight is not None and key.inflight >= key.max_inflight:
            what = f"tasks of the key {name}"
            yield _full(WaitKind.KEY_INFLIGHT, what, "maxInflight", key.inflight, key.max_inflight, sight, name)
        if key.rule is None or key.tokens is None:
            continue
        due, rate = key.tokens.due(now), key.rule.limit.per_second
        if due and rate is not None:
            message = f"the key {name} has had its {rate:g} hand-outs a second"
            yield WaitReason(WaitKind.KEY_RATE, message, name=name, until=due, limit=rate)


def _full(
    kind: WaitKind, what: str, key: str, used: int, limit: int, sight: Sight, name: str | None = None
) -> WaitReason:
    if not sight.sees_others:
        return WaitReason(kind, f"as many {what} are in flight as may be ({key})", name=name, limit=limit)
    return WaitReason(kind, f"{used} of {limit} {what} are in flight ({key})", name=name, used=used, limit=limit)


def _of_hosts(scheduler: Scheduler, now: float, kind: Kind, sight: Sight) -> Iterable[WaitReason]:
    """The lack of hosts: one reason at most, since one that comes with all of it ends each of them.

    It says where a host that may run the task was lost and may come back.
    """
    for reason in _lacks(scheduler, now, kind, sight):
        lost = lost_hosts(scheduler.life.liveness, scheduler.hosts, now, scheduler.dispatcher.profile_of)
        able = [host for host in lost if host.profile.may_run(*kind[:4])]
        yield reason._replace(message=reason.message + lost_text(now, able, sight.sees_others))


def _lacks(scheduler: Scheduler, now: float, kind: Kind, sight: Sight) -> Iterable[WaitReason]:
    project, action, requires, has_tab, _ = kind
    live = list(_live(scheduler, now))
    able = [each for each in live if each[1]._replace(actions=None).may_run(project, action, requires, has_tab)]
    offering = [host for host, profile in able if profile.may_run(project, action, requires, has_tab)]
    if offering:
        if not any(_has_room(scheduler, now, offer, kind) for host in offering for offer in host.offers):
            yield _no_credit(scheduler.life.children, offering, action, sight)
    elif able:
        hosts = f"{len(able)} live host{'s' * (len(able) != 1)}"
        message = f"{hosts} with its project and capabilities, and none offers the action {action}"
        yield WaitReason(WaitKind.NO_ACTION, message, name=action)
    elif not live:
        yield WaitReason(WaitKind.NO_HOST, "no host is live", missing=tuple(_wanted(kind)))
    else:
        lacks = [(what_is_missing(profile, kind), host) for host, profile in live]
        missing, nearest = min(lacks, key=lambda each: (len(each[0]), each[1].built_in, each[1].number))
        whose = nearest.id if sight.sees_others and not nearest.built_in else None
        near = "the nearest host" if whose is None else f"the nearest, {whose},"
        message = f"no live host may run it: {near} lacks {', '.join(missing)}"
        yield WaitReason(WaitKind.NO_HOST, message, name=whose, missing=tuple(missing))


def _no_credit(children: Children, offering: list[Host], action: str, sight: Sight) -> WaitReason:
    hosts = f"{len(offering)} live host{'s' * (len(offering) != 1)}"
    message = f"{hosts} with the action {action}, and none has credit or waits for tasks"
    used = limit = None
    if sight.sees_others:
        used = sum([len(host.leases) for host in offering])
        if all(host.slots is not None for host in offering):
            limit = sum([host.slots or 0 for host in offering])
            message = f"{message}; {used} of {limit} slots are in use"
        draining = sum([host.draining for host in offering])
        resting = sum([host.rests_until is not None for host in offering])
        counted = [f"{count} {word}" for count, word in ((draining, "draining"), (resting, "resting")) if count]
        if counted:
            message = f"{message} ({', '.join(counted)})"
    if not all(stands_still(children, host) for host in offering):
        return WaitReason(WaitKind.NO_CREDIT, message, name=action, used=used, limit=limit)
    message = f"{message}; all that they run has children waiting: where it waits for these, nothing ends"
    return WaitReason(WaitKind.DEADLOCK, message, name=action, used=used, limit=limit)


def _has_room(scheduler: Scheduler, now: float, offer: Offer, kind: Kind) -> bool:
    """True if a task of this kind could be handed out by this offer now, were it first."""
    host = offer.host
    rests = offer.streamed and host.rests_until is not None
    if offer.room <= 0 or host.draining or rests or scheduler.life.liveness.is_silent(now, offer):
        return False
    return scheduler.dispatcher.profile_of(now, host).narrowed(offer.project).may_run(*kind[:4])


def _live(scheduler: Scheduler, now: float) -> Iterable[tuple[Host, HostProfile]]:
    """The hosts that are live, each with what it may run now."""
    for host in scheduler.hosts:
        if scheduler.life.liveness.is_live(now, host):
            yield host, scheduler.dispatcher.profile_of(now, host)


def what_is_missing(profile: HostProfile, kind: Kind) -> list[str]:
    """The things that a host lacks to run tasks of a kind, for people; empty if it may run them."""
    project, action, requires, has_tab, _ = kind
    missing = [f"capability {name}" for name in sorted(requires - profile.capabilities)]
    if profile.project not in (None, project):
        missing.append("tasks without a project" if project is None else f"project {project}")
    if profile.actions is not None and action not in profile.actions:
        missing.append(f"action {action}")
    if not (has_tab or profile.takes_plain(action, requires)):
        missing.append("tasks without a tab")
    return missing


def _wanted(kind: Kind) -> list[str]:
    """All that a host must have for tasks of a kind."""
    project, action, requires, _, _ = kind
    capabilities = [f"capability {name}" for name in sorted(requires)]
    projects = [] if project is None else [f"project {project}"]
    return [*capabilities, *projects, f"action {action}"]
