"""How a namespace stands: what waits in it, for how long, and whether some agents get nothing.

See docs/operate/monitoring.md.

It goes by the lanes and strands of the ready queue, so it costs nothing while nobody asks, and never goes by tasks, but
for those with open questions.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from taskyard_server.core.queue.strands import Strand

if TYPE_CHECKING:
    from taskyard_server.core.agents import Agent
    from taskyard_server.core.scheduler import Scheduler


class QueueHealth(NamedTuple):
    """The tasks of a namespace at one moment.

    `oldest_secs` is how long the one of the tasks that could be claimed has been queued that waits longest; those that
    wait at a full concurrency key do not count. An agent starves that has such tasks, which a live host may run, and
    nothing in flight: this many are `starving`, the longest for `starving_secs`. Of the `questions` that are open, one
    is of a task that was parked `oldest_question_secs` ago, the others of later ones.
    """

    queued: int = 0
    inflight: int = 0
    paused: int = 0
    parked: int = 0
    questions: int = 0
    oldest_question_secs: float = 0.0
    oldest_secs: float = 0.0
    starving: int = 0
    starving_secs: float = 0.0

    def plus(self, other: QueueHealth) -> QueueHealth:
        """Two namespaces together."""
        return QueueHealth(
            self.queued + other.queued,
            self.inflight + other.inflight,
            self.paused + other.paused,
            self.parked + other.parked,
            self.questions + other.questions,
            max(self.oldest_question_secs, other.oldest_question_secs),
            max(self.oldest_secs, other.oldest_secs),
            self.starving + other.starving,
            max(self.starving_secs, other.starving_secs),
        )


def health_of(scheduler: Scheduler, now: float) -> QueueHealth:
    """How a namespace stands at this moment."""
    life = scheduler.life
    ready = life.ready
    oldest = inf
    starving: dict[Agent, float] = {}
    for bucket in ready:
        may_run = bucket.notice is None and ready.is_claimable(bucket)
        for rows in bucket.rows():
            if isinstance(rows, Strand) and min([ready.keys.room(key) for key in rows.keys]) < 1:
                continue
            since = rows.queued_since()
            oldest = min(oldest, since)
            if may_run and not rows.agent.inflight:
                starving[rows.agent] = min(since, starving.get(rows.agent, inf))
    hungriest = min(starving.values(), default=inf)
    questions, asked = life.parks.open_questions()
    return QueueHealth(
        life.counts.queued,
        life.counts.inflight,
        life.counts.paused,
        life.counts.parked,
        questions,
        max(0.0, now - asked) if asked < inf else 0.0,
        max(0.0, now - oldest) if oldest < inf else 0.0,
        len(starving),
        max(0.0, now - hungriest) if hungriest < inf else 0.0,
    )
