"""Faults of the core that only the random histories showed, each as the shortest history that shows it."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.core.retention import RetainedTasks
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.streams import Hello
from taskyard_server.core.task import Submission
from taskyard_server.core.task_options import TaskOptions

NOW = 1_700_000_000.0


@pytest.fixture
def core():
    return Scheduler(Limits(), partial(Random(1).getrandbits, 40))


def test_what_comes_free_when_a_head_expires_goes_to_whoever_waits_for_it_in_the_same_hand_out(core):
    for project in ("red", "blue"):
        core.register(NOW, project, None, HostProfile(project=project))
    blue = core.offer(NOW, "blue", 1)
    assert core.dispatch(NOW) == {}
    first, second = (
        core.submit(NOW, Submission("a", "x", deadline=at, options=TaskOptions(project=project, target="t")))
        for project, at in (("red", NOW + 1), ("blue", None))
    )
    core.offer(NOW + 2, "red", 1)
    given = core.dispatch(NOW + 2)
    assert first.state == "failed"
    assert [lease.task for lease in given[blue]] == [second]


def test_a_task_that_expires_while_it_waits_and_then_blocks_its_target_shows_its_deadline(core):
    core.register(NOW, "host", None, HostProfile())
    task = core.submit(NOW, Submission("a", "x", options=TaskOptions(target="t")))
    (lease,) = core.claim(NOW, "host")
    core.reports.start(NOW, "host", task.id, lease.token)
    core.reports.release(NOW, "host", task.id, lease.token)
    deadline = task.deadline
    core.advance(NOW + 100)
    assert (task.state, task.deadline) == ("failed", deadline)
    assert deadline is not None
    assert core.targets.blocks(task)


def test_a_stream_that_is_not_too_silent_by_new_time_outs_is_handed_tasks_again(core):
    stream = core.connect(NOW, Hello("host", "red")).offer
    core.give_credit(NOW, stream, 1)
    task = core.submit(NOW, Submission("a", "x"))
    core.reconfigure(Limits(heartbeat_timeout_secs=1, dead_heartbeat_threshold=1))
    assert core.dispatch(NOW + 2) == {}
    core.reconfigure(Limits())
    assert [lease.task for lease in core.dispatch(NOW + 2)[stream]] == [task]


def test_a_task_that_is_retained_again_stands_behind_those_of_its_instant_though_one_between_has_ended_anew(core):
    retained = RetainedTasks()
    first, anew, second, back = [core.submit(NOW, Submission("a", "x")) for _ in range(4)]
    for task in (first, anew, second, back):
        core.cancel(NOW, task.id)
    for task in (first, anew, second):
        retained.add(task)
    retained.remove(anew)
    anew.over_at = NOW + 1
    retained.add(anew)
    retained.put_back(back)
    assert [retained.pop() for _ in range(4)] == [first, second, back, anew]
