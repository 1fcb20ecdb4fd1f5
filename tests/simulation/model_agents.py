"""What agents ask of the model, written from docs/rules.md alone (`model.py` says how)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from .model_records import ENDED, FLYING, STOPPED, Agent, Job, Refused, Wish
from .model_relations import Twin
from .model_targets import blocked_targets, has_room_for
from .world import World

TOO_MANY_BLOCKED: Final = (
    "rejected: too many targets are blocked, and new ones are taken once tasks that block some are resumed, resolved "
    "or cancelled"
)


class AgentModel:
    """The commands of agents. `world` is all that is known."""

    def __init__(self, world: World) -> None:
        self.world = world

    def submit(
        self,
        now: float,
        wish: Wish,
        task_id: str,
        batch: str | None = None,
        after: tuple[str, ...] = (),
        inputs: tuple[str, ...] = (),
        known: str | None = None,
    ) -> Job | Twin:
        """Admission; a refused task is kept under the same id. A repeat is answered with the first task.

        It comes `after` these tasks and `inputs`, and those that the wish names, of which those of one agent may be
        `known` alone.
        """
        first = self._first_under(wish)
        if first is not None:
            return first
        self._check(now, wish)
        inputs = (*wish.inputs, *inputs)
        after = tuple(dict.fromkeys([*wish.after, *after, *inputs]))
        self.world.relations.check_parent(wish)
        self.world.relations.check(after, inputs, known)
        replaces = self.world.relations.conflict(now, wish, after, has_room_for(self.world, wish.target))
        if isinstance(replaces, Twin):
            return replaces
        world, limits = self.world, self.world.limits
        world.families.more_come()
        figures = world.figures.setdefault(wish.agent, Counter())
        agent = world.agents.setdefault(wish.agent, Agent(world.number(), counts=figures))
        job = Job(task_id, world.number(), wish, "queued", now, wish.deadline, batch, queued_at=now)
        job.after, job.inputs = after, inputs
        job.ends_with = wish.parent if wish.on_parent_end == "cancel" else None
        job.own_secs = None if wish.deadline is None else wish.deadline - now
        due = wish.not_before if wish.not_before is not None and wish.not_before > now else None
        queued = world.queued()
        full = queued >= limits["max_queue_size"]
        refused = not replaces and (full or world.queued(wish.agent) >= limits["max_per_agent"])
        has_room = bool(replaces) or has_room_for(world, wish.target)
        world.tasks[task_id] = job
        if refused:
            self._reject(now, job, agent, queued, "global" if full else "agent")
        if not has_room:
            self._reject(now, job, agent, queued, None)
        verdict, failed = world.relations.verdict(job)
        if wish.hold or due is not None or verdict != "clear":
            job.state, job.held, job.due = "pending", wish.hold, due
        else:
            world.place(now, job)
        world.tell(now, "submitted", job, None)
        world.counts["submitted"] += 1
        agent.counts["submitted"] += 1
        job.position = world.queued() - len(replaces)
        if verdict == "failed":
            world.end(now, job, "cancelled", f"predecessor {failed} failed")
        world.relations.replace(now, replaces)
        return job

    def submit_batch(self, now: float, wishes: Sequence[Wish], ids: Sequence[str], batch: str) -> list[Any]:
        """One by one; nothing at all where one of them could never be accepted."""
        for wish in wishes:
            if not self._is_known(wish):
                self._check(now, wish)
        outcomes: list[Any] = []
        for wish, task_id in zip(wishes, ids, strict=True):
            earlier = [outcomes[place] for place in (*wish.places, *wish.input_places)]
            try:
                if any(isinstance(each, Refused) for each in earlier) and not self._is_known(wish, strict=True):
                    raise Refused("conflict")
                ids = [each.job.id if isinstance(each, Twin) else getattr(each, "id", "") for each in earlier]
                after, inputs = tuple(ids[: len(wish.places)]), tuple(ids[len(wish.places) :])
                outcomes.append(self.submit(now, wish, task_id, batch, after, inputs))
            except Refused as refused:
                outcomes.append(refused)
        return outcomes

    def batch(self, batch: str) -> list[Job]:
        """The retained tasks of a batch, in the order of the request."""
        jobs = [job for job in self.world.tasks.values() if job.batch == batch]
        if not jobs:
            raise Refused("not_found", "batch not found")
        return jobs

    def cancel_batch(self, now: float, batch: str, reason: str | None = None) -> int:
        live = [job for job in self.batch(batch) if job.state not in ENDED]
        for job in live:
            self._cancel(now, job, reason)
        return len(live)

    def cancel(self, now: float, task_id: str, reason: str | None = None) -> Job:
        job = self.world.get(task_id)
        if job.state in ENDED and not job.blocks:
            raise Refused("conflict")
        self._cancel(now, job, reason)
        return job

    def _cancel(self, now: float, job: Job, reason: str | None) -> None:
        job.reason = reason
        self.world.end(now, job, "cancelled", stop="cancelled")

    def cancel_with_children(self, now: float, task_id: str, reason: str | None = None) -> tuple[Job, int]:
        """What descends from it is cancelled with it, and counted; it may have ended itself if there is any."""
        job, below = self.world.get(task_id), self.world.families.below(task_id)
        if not below or job.state not in ENDED:
            self.cancel(now, task_id, reason)
        for each in below:
            self._cancel(now, each, reason)
        return job, len(below)

    def pause(self, now: float, task_id: str, reason: str | None = None) -> Job:
        job = self.world.get(task_id)
        if job.state not in FLYING:
            raise Refused("conflict")
        job.reason = reason
        self.world.pause(now, job, "paused")
        return job

    def resume(self, now: float, task_id: str, target: str | None, token_limit: int | None) -> Job:
        """Of a held one: let it go."""
        job = self.world.get(task_id)
        if target is not None and job.target != target:
            raise Refused("not_found")
        if not job.held and job.state not in STOPPED:
            raise Refused("conflict")
        if self.world.draining:
            raise Refused("unavailable")
        if self.world.relations.orphans(job):
            raise Refused("unavailable", "the children that end with the task are being cancelled")
        if token_limit is not None:
            if job.tokens_used and token_limit <= job.tokens_used:
                raise Refused("bad_request")
            job.raised_limit = token_limit
        elif job.is_over_budget():
            raise Refused("conflict")
        if not job.held:
            self.world.families.more_come()
            self.world.resume(now, job)
        else:
            self.world.relations.release(now, job)
        return job

    def resolve(self, now: float, task_id: str, result: bytes | None, reason: str | None = None) -> Job:
        job = self.world.get(task_id)
        if job.state not in STOPPED:
            raise Refused("conflict")
        job.reason = reason
        self.world.end(now, job, "done", result=result)
        return job

    def get(self, task_id: str) -> Job:
        return self.world.get(task_id)

    # The rules

    def _first_under(self, wish: Wish) -> Job | Twin | None:
        """The answer to a repeat, or what is known of it; a rejection consumed no key. Another wish is refused."""
        if wish.key is None:
            return None
        name = (wish.agent, wish.key)
        for job in self.world.tasks.values():
            if job.state == "rejected":
                continue
            for known, _ in [(job.wish, 0.0), *job.bound]:
                if (known.agent, known.key) == name:
                    _same(known, wish)
                    return job if known is job.wish else Twin(job)
        past = next((past for past in self.world.past_keys if past.key == name), None)
        if past is None:
            return None
        _same(past.wish, wish)
        return past.answer()

    def _is_known(self, wish: Wish, *, strict: bool = False) -> bool:
        """True if something is known under its key; if `strict`, another wish is refused."""
        try:
            return self._first_under(wish) is not None
        except Refused:
            if strict:
                raise
            return True

    def _check(self, now: float, wish: Wish) -> None:
        if self.world.draining:
            raise Refused("unavailable")
        if wish.deadline is not None and wish.deadline <= now:
            raise Refused("bad_request")

    def _reject(self, now: float, job: Job, agent: Agent, queued: int, which: str | None) -> NoReturn:
        """`which` queue is full; None if too many targets are blocked."""
        world = self.world
        job.state = "rejected"
        job.completed_at = now
        job.error = f"rejected: {which} queue full" if which else TOO_MANY_BLOCKED
        world.tell(now, "submitted", job, None)
        world.counts["rejected"] += 1
        agent.counts["rejected"] += 1
        world.rejected.append(job.id)
        while len(world.rejected) > world.limits["max_queue_size"]:
            world.forget(now, world.rejected[0])
        details = {"agentId": job.wish.agent}
        if which:
            details["queued"] = queued
            details["maxQueue"] = world.limits["max_queue_size"]
            details["maxPerAgent"] = world.limits["max_per_agent"]
        else:
            details["blockedTargets"] = len(blocked_targets(world))
            details["maxBlockedTargets"] = world.limits["max_blocked_targets"]
        raise Refused("queue_full", job.error, details)


def _same(known: Wish, wish: Wish) -> None:
    if known != wish:
        raise Refused("already_exists")
