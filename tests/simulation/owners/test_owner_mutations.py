"""The simulation of owners finds what it is for: rules of the replicas and of their store are broken one by one.

Where the store that is broken is the one in memory, the rule is one of `store/postgres/commit.py` and its like, too.
"""

import pytest

from taskyard_server.replicas.membership import Membership
from taskyard_server.replicas.ownership import OwnershipTable
from taskyard_server.replicas.ownership_check import OwnershipCheck
from taskyard_server.replicas.ownership_lease import OwnershipLease
from taskyard_server.replicas.serving import ReplicaServing
from tests.replicas.shared_rows import SharedRows
from tests.simulation.breach_histories import note, soonest_first
from tests.simulation.test_mutations import Edit, mutate

from .simulation import Failure, OwnersSimulation

pytestmark = [pytest.mark.python_core, pytest.mark.mutation]

SEEDS = [1011, 1037, 1014, 1015, 1076, 1003, *range(1000, 1100)]
"""A breach must be seen within half as many histories as CI runs. The first show what others seldom do."""
SOUND = 10

MUTATIONS: dict[str, list[Edit]] = {
    "a commit needs no term": [
        (SharedRows, "commit", "(owner.instance, owner.term) != (instance, fence.term)", "owner.instance != instance"),
    ],
    "a commit needs no number": [
        (SharedRows, "commit", "owner.commit_no == fence.number - 1", "True"),
    ],
    "a commit that was written before is lost": [
        (SharedRows, "commit", "owner.commit_no < fence.number", "True"),
    ],
    "a commit that is lost counts as written": [(SharedRows, "commit", "frozenset(lost)", "frozenset()")],
    "who is dead renews itself": [
        (SharedRows, "renew", "known is None or known.died_at is not None", "known is None"),
    ],
    "a take keeps the term": [(SharedRows, "take", "owner.term + 1", "owner.term")],
    "what a living replica owns is taken": [
        (SharedRows, "take", "owner.instance != instance and self.lives(owner.instance)", "False"),
    ],
    "who is not known to have ended is found dead at once": [
        (Membership, "_bury_ended", "await self._lives.has_ended(replica, self.me)", "True"),
    ],
    "others are found dead at once": [
        (Membership, "renew", "DEAD_AFTER * self._failover_secs", "0.2 * self._failover_secs"),
    ],
    "trust never ends": [(OwnershipLease, "__init__", "self._secs = secs", "self._secs = 1e9")],
    "trust counts from the answer": [
        (Membership, "renew", "self._trust.renewed(began_at)", "self._trust.renewed(self._trust.now())")
    ],
    "answers need no trust": [
        (OwnershipCheck, "may_tell", "life == self._trust.life and self._trust.holds", "True"),
    ],
    "what was begun in a life is told in the next": [
        (OwnershipCheck, "may_tell", "life == self._trust.life and self._trust.holds", "self._trust.holds"),
        (OwnershipCheck, "_trusted", "life == self._trust.life and ", ""),
    ],
    "what is published needs no trust": [
        (ReplicaServing, "_may_tell", "None if trust.holds else asyncio.ensure_future(trust.regained())", "None"),
    ],
    "who is found dead serves on": [(OwnershipTable, "_died", "self._lost(name)", "pass")],
}


def run(seeds: list[int], breach: str | None = None) -> None:
    """Histories, until one fails."""
    for count, seed in enumerate(soonest_first(breach, seeds), 1):
        try:
            OwnersSimulation(seed).run()
        except Failure as failure:
            failure.add_note(f"caught by history {count}")
            if breach is not None:
                note(breach, seed)
            raise


@pytest.mark.parametrize("breach", MUTATIONS)
def test_a_broken_rule_is_caught(monkeypatch, breach):
    for edit in MUTATIONS[breach]:
        mutate(monkeypatch, *edit)
    with pytest.raises(Failure) as caught:
        run(SEEDS, breach)
    print(caught.value.__notes__[0], caught.value.why)


def test_the_same_histories_pass_with_no_rule_broken(monkeypatch):
    rewritten = {(owner, name): words for edits in MUTATIONS.values() for owner, name, words, _ in edits}
    for (owner, name), words in rewritten.items():
        mutate(monkeypatch, owner, name, words, words)
    run(SEEDS[:SOUND])
