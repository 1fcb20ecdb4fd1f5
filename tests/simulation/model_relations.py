"""How tasks stand to others in the model: what comes after what, what ends with what, who has which unique key or name.

Written from docs/rules.md (Predecessors, Parents, Children, Unique keys) alone; every question is a look at all tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from .model_records import ENDED, WAITING, Job, PastKey, Refused, Wish

if TYPE_CHECKING:
    from .world import World

Verdict = Literal["clear", "waits", "failed"]


class Twin(NamedTuple):
    """The answer to a submission whose unique key is taken."""

    job: Job


class Relations:
    """What follows from the tasks of a world.

    `aside` are tasks that would have been forgotten, had nobody waited for them. `armed` are those followers of which
    the core says that it waits for their time alone.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.aside: list[str] = []
        self.armed: Collection[str] = ()

    # Predecessors

    def check(self, after: tuple[str, ...], inputs: tuple[str, ...], agent: str | None = None) -> None:
        """All that a task names must be there, perhaps of this agent, and not have been rejected."""
        for task_id in after:
            job, field = self._world.tasks.get(task_id), "inputs" if task_id in inputs else "after"
            if job is None or agent not in (None, job.wish.agent):
                raise Refused("not_found", f"{field}: task {task_id} not found")
            if job.state == "rejected":
                raise Refused("conflict", f"{field}: task {task_id} was rejected")

    def follows(self, job: Job) -> bool:
        """True if a task was never queued, and comes after others."""
        return bool(job.after) and job.state == "pending" and not job.retrying

    def verdict(self, job: Job) -> tuple[Verdict, str | None]:
        """What those that a task comes after mean for it now; what is gone had ended well enough."""
        its = [self._world.tasks[task_id] for task_id in job.after if task_id in self._world.tasks]
        any_end = job.wish.after_policy == "ended"
        for each in its:
            if each.state in ("failed", "cancelled") and not any_end and not each.blocks:
                return "failed", each.id
        if all(each.state == "done" or (any_end and each.state in ENDED) for each in its):
            return "clear", None
        return "waits", None

    def waits(self, job: Job) -> bool:
        """True if anything that it comes after keeps a task from being queued."""
        return self.follows(job) and self.verdict(job)[0] != "clear"

    def count(self) -> int:
        """How many tasks wait for others."""
        return sum(self.waits(job) for job in self._world.tasks.values())

    def awaited(self, job: Job) -> bool:
        """True if a task is retained since one that was not queued yet comes after it, or one has it as an input."""
        tasks = self._world.tasks.values()
        is_input = any(job.id in each.inputs for each in tasks if each.state not in ("done", "cancelled", "rejected"))
        is_input = is_input or bool(self.orphans(job)) or self.is_kept_child(job)
        return is_input or any(job.id in each.after for each in tasks if self.follows(each))

    def overdue(self) -> list[Job]:
        """The tasks that have to be queued or cancelled now, for all that they come after have ended, or one failed.

        And those whose parents have ended, and for which ends or events have come.
        """
        its = [job for job in self._world.tasks.values() if self.follows(job)]
        verdicts = [(job, self.verdict(job)[0]) for job in its]
        return [
            job
            for job, verdict in verdicts
            if verdict == "failed" or (verdict == "clear" and not job.held and job.due is None)
        ] + [job for job in self._world.tasks.values() if self.is_orphan(job) or self._world.parks.may_go_on(job)]

    def may_go(self, now: float, job: Job) -> bool:
        """True if a task may be queued or cancelled for what it comes after, ends with, or waited for and has come."""
        parks = self._world.parks
        if self.is_orphan(job):
            return True
        if any(map(self.is_orphan, self._world.tasks.values())) or not parks.is_next(job):
            return False
        if parks.may_go_on(job):
            return True
        if not self.follows(job):
            return False
        verdict, _ = self.verdict(job)
        return verdict == "failed" or (verdict == "clear" and not job.held and (job.due is None or job.due <= now))

    def settle(self, now: float, job: Job) -> None:
        """Queue or cancel it."""
        if self.is_orphan(job):
            self._world.end(now, job, "cancelled", f"parent {job.ends_with} ended", stop="cancelled")
            return
        if self._world.parks.may_go_on(job):
            self._world.parks.wake(now, job)
            return
        verdict, failed = self.verdict(job)
        if verdict == "failed":
            self._world.end(now, job, "cancelled", f"predecessor {failed} failed")
        else:
            self._world.come_due(now, job)

    def release(self, now: float, job: Job) -> None:
        """Let a held task go."""
        job.held = False
        if (job.due is None or job.due <= now) and not self.waits(job):
            self._world.come_due(now, job)

    # Parents

    def check_parent(self, wish: Wish) -> None:
        """What is to end with its parent needs one that has not ended, as far as that is known."""
        parent = self._world.tasks.get(wish.parent or "")
        if wish.on_parent_end == "cancel" and parent is not None and parent.state in ENDED:
            raise Refused("conflict", "parentId: the task has ended")

    def is_orphan(self, job: Job) -> bool:
        """True if a task lives though it was to end with its parent."""
        parent = self._world.tasks.get(job.ends_with or "")
        return parent is not None and parent.state in ENDED and job.state not in ENDED

    def orphans(self, parent: Job) -> list[Job]:
        """Those that were to end with a task."""
        return [job for job in self._world.tasks.values() if job.ends_with == parent.id and self.is_orphan(job)]

    def lives_by_itself(self, job: Job) -> None:
        """A task is resumed: one that had failed ends with its parent only if that is there and lives."""
        parent = self._world.tasks.get(job.ends_with or "")
        if job.state == "failed" and (parent is None or parent.state in ENDED):
            job.ends_with = None

    # Children

    def child(self, parent: Job, name: str) -> Job | None:
        """The last child that a task has submitted under a name, if it is there."""
        its = [self._world.tasks[task_id] for task_id in parent.children if task_id in self._world.tasks]
        return next((job for job in reversed(its) if job.wish.child_name == name), None)

    def held_child(self, parent: Job, name: str) -> Job:
        """The child of a task, to which artifacts may be put."""
        child = self.child(parent, name)
        if child is None:
            raise Refused("not_found", "child not found")
        if not child.held:
            raise Refused("conflict", "child is not held")
        return child

    def submit_again(self, now: float, child: Job, wish: Wish) -> None:
        """A held child gets other params, and is let go unless it is to be held on."""
        if not wish.hold and self._world.draining:
            raise Refused("unavailable")
        child.wish = replace(child.wish, params=wish.params, input=wish.input)
        if not wish.hold:
            self.release(now, child)

    def is_kept_child(self, job: Job) -> bool:
        """True if a task is the child of one that may run again, and whose own time is not over."""
        parent = self._world.tasks.get(job.wish.parent or "")
        if parent is None or job.wish.child_name is None or parent.state in ("done", "cancelled", "rejected"):
            return False
        return not parent.is_over and self.child(parent, job.wish.child_name) is job

    def kept_children(self) -> dict[str, dict[str, str]]:
        """By parents the children that are kept for these, by their names."""
        kept: dict[str, dict[str, str]] = {}
        for job in self._world.tasks.values():
            if self.is_kept_child(job):
                kept.setdefault(job.wish.parent or "", {})[job.wish.child_name or ""] = job.id
        return kept

    # Retention

    def put_aside(self, job: Job) -> bool:
        """Put a task aside whose turn to be forgotten it is, if others wait for it. It keeps no children any more."""
        if not self.awaited(job):
            return False
        self._world.ended.remove(job.id)
        self.aside.append(job.id)
        job.is_over = True
        self.let_go()
        return True

    def seen_aside(self, now: float, aside: Collection[str]) -> None:
        """The core has put these aside, after all that ended before; the time of each must be over."""
        world = self._world
        for task_id in [each for each in aside if each not in self.aside]:
            while task_id in world.ended:
                job = world.tasks[world.ended[0]]
                if job.completed_at + world.limits["result_ttl_secs"] > now or not self.put_aside(job):
                    raise AssertionError(f"{job.id} is put aside, and its time is not over, or nobody waits for it")

    def let_go(self) -> None:
        """Those that nobody waits for any more take their places among the retained ones, by their ends."""
        world = self._world
        for task_id in list(self.aside):
            job = world.tasks[task_id]
            if not self.awaited(job):
                self.aside.remove(task_id)
                ends = [(world.tasks[each].completed_at, world.tasks[each].order) for each in world.ended]
                later = [place for place, end in enumerate(ends) if end > (job.completed_at, job.order)]
                place = later[0] if later else len(ends)
                world.ended.insert(place, task_id)

    def retain_no_more(self, task_id: str) -> None:
        """A task has left its end."""
        self._world.tasks[task_id].is_over = False
        for kept in (self._world.ended, self.aside):
            if task_id in kept:
                kept.remove(task_id)

    # Keys

    def past_keys(self, now: float, job: Job) -> list[PastKey]:
        """The keys that are known longer than a task which is forgotten now."""
        keys = [] if job.state == "rejected" else [(job.wish, job.created_at), *job.bound]
        untils = [(wish, at + self._world.limits["idempotency_secs"]) for wish, at in keys if wish.key is not None]
        return [PastKey(job, wish, until) for wish, until in untils if until > now]

    def holders(self, wish: Wish) -> list[Job]:
        """The live tasks of the agent that have the unique key of a wish."""
        return [
            job
            for job in self._world.tasks.values()
            if (job.wish.agent, job.wish.unique) == (wish.agent, wish.unique)
            and job.state not in ENDED
            and (job.wish.unique_while != "queued" or job.state in WAITING)
        ]

    def conflict(self, now: float, wish: Wish, after: Sequence[str], has_room: bool) -> Twin | list[Job]:
        """The answer if the key of a wish is taken; else those that it replaces, if its target `has_room`.

        None of these is one that it comes `after`.
        """
        holders = self.holders(wish)
        if wish.unique is None or not holders:
            return []
        twin = holders[-1]
        if wish.on_conflict == "reject":
            raise Refused("already_exists", "uniqueKey: another task has it", {"taskId": twin.id})
        if wish.on_conflict != "replaceQueued" or any(job.state not in WAITING for job in holders):
            if wish.key is not None:
                twin.bound.append((wish, now))
            return Twin(twin)
        if any(job.id in after for job in holders):
            raise Refused("bad_request", "after: names a task that this one replaces")
        return holders if has_room else []

    def replace(self, now: float, jobs: list[Job]) -> None:
        """Another task has come in the place of these."""
        for job in jobs:
            self._world.end(now, job, "cancelled", "replaced by a task with the same unique key")
