"""The histories with restarts find what they are for: what is not kept, or not put back, is missed.

As in `test_mutations`, a few words of the source are replaced for the length of a test.
"""

from __future__ import annotations

import pytest

from taskyard_server.core.changes import Changes
from taskyard_server.core.dispatcher import Dispatcher
from taskyard_server.core.grants import Grants
from taskyard_server.core.lifecycle import Lifecycle
from taskyard_server.core.liveness import Liveness
from taskyard_server.core.pending import Pending
from taskyard_server.core.queue.ready_queue import ReadyQueue
from taskyard_server.core.reports import Reports
from taskyard_server.core.restoring import Restoring
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.stopping_leases import StoppingLeases
from taskyard_server.core.streams import Streams
from taskyard_server.core.targets import Targets
from taskyard_server.store import loading, rows

from .breach_histories import Histories
from .restarts import RestartingSimulation
from .simulator import Mismatch
from .test_mutations import Edit, mutate

# They rewrite the core.
pytestmark = [pytest.mark.python_core, pytest.mark.mutation]

SEEDS, STEPS = [448, *range(400, 440)], 500
HISTORIES = Histories(RestartingSimulation, SEEDS, STEPS)

MUTATIONS: dict[str, list[Edit]] = {
    "a hold that is released before its time is not kept": [(Pending, "release_hold", "self._life.note(task)", "pass")],
    "the deadline of a new head is not kept": [(Lifecycle, "_offer", "self.note(task)", "pass")],
    "a deadline that stops is not kept": [(Lifecycle, "_withdraw", "self.note(task)", "pass")],
    "another length of a lease is not kept": [(Reports, "renew", "self._life.note(lease.task)", "pass")],
    "a lease that a stream takes over is kept as a claim's": [(Streams, "_adopt", "life.note(lease.task)", "pass")],
    "progress is not kept": [(Changes, "see", "elif kind is EventKind.PROGRESSED:", "elif False:")],
    "figures after an end are not kept": [(Changes, "see", "state is DONE or", "")],
    "figures after a failure that is taken back are not kept": [
        (Changes, "see", "self.reopened[task] = None\n                self.agents[task.agent.figures] = None", "pass"),
    ],
    "a failed task that is resumed has still ended": [
        (rows, "_add_tasks", "group.remove(Table.ENDED, key)", "pass"),
    ],
    "a task that ends is still live": [(rows, "_add_tasks", "removed.append(key)", "pass")],
    "a blocking task has ended": [(rows, "_add_tasks", "or not targets.blocks(task)", "or True")],
    "a host that drains is not kept": [(Scheduler, "drain_host", "self._life.changes.hosts[host] = None", "pass")],
    "the end of a drain is not kept": [(Liveness, "_end_drain", "self._life.changes.hosts[host] = None", "pass")],
    "the id of a claim is not kept": [(Restoring, "lease", "claimed_at, secs, claim_id)", "claimed_at, secs)")],
    "a removed host comes back": [(Dispatcher, "forget", "life.changes.host_gone(host)", "pass")],
    "a host that connects is not kept": [(Streams, "connect", "self._life.changes.hosts[host] = None", "pass")],
    "a lease that stops is not kept": [(StoppingLeases, "add", "self._changes.stopping[lease] = None", "pass")],
    "a lease that has stopped comes back": [
        (StoppingLeases, "remove", "self._changes.stopping_lease_gone(lease)", "pass"),
    ],
    "a restart forgets who was served last": [
        (ReadyQueue, "restore_served", "SERVED + last_token)", "0)"),
    ],
    "a restart forgets what is in flight": [
        (ReadyQueue, "_rank", "agent.inflight * ONE_IN_FLIGHT + tie_break", "tie_break"),
    ],
    "all agents come anew": [(ReadyQueue, "restored_agent", "if tie_break else", "if False else")],
    "a default deadline goes on while nobody serves": [
        (Restoring, "__init__", "stood_still_secs + max(0.0, now - kept_at)", "stood_still_secs"),
    ],
    "every deadline stands still": [(Restoring, "live", " and task.deadline_secs is None", "")],
    "a lease has its full length from its grant": [
        (Grants, "restore", "now + lease.secs", "lease.claimed_at + lease.secs")
    ],
    "a stream need not come back": [
        (Grants, "restore", "lease.adopt_by = now + max(life.limits.reconnect_grace_secs, RESTART_GRACE_SECS)", "pass"),
    ],
    "a started lease has to be started again": [(Grants, "restore", "if lease.started_at is None:", "if True:")],
    "leases of the process before live on": [
        (Scheduler, "recover", "self._life.grants.lose(now, lease, RESTARTED)", "pass")
    ],
    "fencing tokens begin anew": [(Restoring, "numbers", "life.grants.last_token = token", "pass")],
    "a held task comes due": [(Restoring, "live", " and not task.history.held", "")],
    "a task that waits for a retry has no place in its target": [
        (Targets, "restore", "task.state is QUEUED or task.token", "task.state is QUEUED"),
    ],
    "what fails does not block after a restart": [(Targets, "restore", "self._add_blocker(target, task)", "pass")],
    "a task has no key after a restart": [(Restoring, "_index_key", "self._life.tasks.by_key[name] = task", "pass")],
    "no history is put back": [(loading, "to_task", "task.history = state.history", "pass")],
}


@pytest.mark.parametrize("breach", MUTATIONS)
def test_what_is_not_kept_is_missed(monkeypatch, breach):
    for edit in MUTATIONS[breach]:
        mutate(monkeypatch, *edit)
    with pytest.raises(Mismatch) as caught:
        HISTORIES.play(breach)
    print(caught.value.__notes__[0], caught.value.why)


def test_the_same_histories_pass_with_all_kept(monkeypatch):
    rewritten = {(owner, name): words for edits in MUTATIONS.values() for owner, name, words, _ in edits}
    for (owner, name), words in rewritten.items():
        mutate(monkeypatch, owner, name, words, words)
    assert HISTORIES.play() == len(SEEDS) * STEPS
