"""What lies in a database that replicas share, in memory: each method is one transaction, and takes no time.

It does what the tables of PostgreSQL do (store/shared_port.py). The clock is the database's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from taskyard_server.store.port import Committed, Fence, Group, StoreError, StoreMeta, Table, TaskRows, namespace_of
from taskyard_server.store.shared_port import OwnerRow, Renewal, Replica, ReplicaRow, Taken
from tests.store.dict_store import DictStore

LOOK_BACK_SECS: Final = 30.0
"""How much further back than asked `owners` looks, since transactions end out of order."""
DIED_LATELY_SECS: Final = 60.0
FORGOTTEN_AFTER_SECS: Final = 86_400.0
"""A replica that died and owns nothing is forgotten then."""
UNFENCED: Final = frozenset({Table.TOKENS, Table.SECRETS, Table.TOKEN_USES})


@dataclass(slots=True)
class Owner:
    """A row of the table of owners."""

    number: int
    name: str | None
    instance: str | None
    term: int
    commit_no: int
    served_until: float
    needs_owner: bool
    changed_at: float

    def row(self) -> OwnerRow:
        """As the port has it."""
        return OwnerRow(self.number, self.name, self.instance, self.term)


class SharedRows:
    """All tables. `listeners` are called after owners or replicas have changed, `token_listeners` after tokens have.

    `on_commit` is told of each namespace of which a commit wrote something, and `on_take` of each that was taken, for
    those who check what was written.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.kept = DictStore()
        self.replicas: dict[str, ReplicaRow] = {}
        self.owners: dict[int, Owner] = {}
        self.level = 0
        self.listeners: list[Callable[[], None]] = []
        self.token_listeners: list[Callable[[], None]] = []
        self.on_commit: Callable[[str, int, Fence, Group], None] | None = None
        self.on_take: Callable[[OwnerRow], None] | None = None
        self._last_number = 0

    # Replicas

    def join(self, replica: Replica) -> float:
        """See `SharedStore`. One that has died stays dead."""
        now = self.clock()
        if replica.level < self.level:
            raise StoreError(f"the store has the format level {self.level}, this replica knows {replica.level}")
        known = self.replicas.get(replica.instance)
        if known is None:
            self.replicas[replica.instance] = ReplicaRow(replica, now, now, None)
            self._changed()
        elif known.died_at is None:
            self.replicas[replica.instance] = known._replace(replica=replica, renewed_at=now)
        return now

    def renew(self, instance: str, dead_after_secs: float) -> Renewal | None:
        """See `SharedStore`."""
        now = self.clock()
        known = self.replicas.get(instance)
        if known is None or known.died_at is not None:
            return None
        self.replicas[instance] = known._replace(renewed_at=now)
        dead = [
            row
            for row in self.replicas.values()
            if row.died_at is None and now - row.renewed_at > dead_after_secs and row.replica.instance != instance
        ]
        for row in dead:
            self.replicas[row.replica.instance] = row._replace(died_at=now)
        if dead:
            self._changed()
        self._forget(now)
        return Renewal(now, self.level, self.replica_rows(DIED_LATELY_SECS))

    def replica_rows(self, died_within_secs: float) -> list[ReplicaRow]:
        """See `SharedStore.replicas`."""
        since = self.clock() - died_within_secs
        return [row for row in self.replicas.values() if row.died_at is None or row.died_at > since]

    def drain(self, name: str, is_draining: bool) -> bool:
        """See `SharedStore`."""
        living = [row for row in self.replicas.values() if row.died_at is None]
        own = [row for row in living if name in (row.replica.name, row.replica.instance)]
        for row in own:
            replica = row.replica._replace(is_draining=is_draining)
            self.replicas[row.replica.instance] = row._replace(replica=replica)
        if own:
            self._changed()
        return bool(own)

    def raise_level(self, level: int) -> bool:
        """See `SharedStore`."""
        if any(row.died_at is None and row.replica.level < level for row in self.replicas.values()):
            return False
        self.level = max(self.level, level)
        return True

    def leave(self, instance: str) -> None:
        """See `SharedStore`."""
        known = self.replicas.get(instance)
        if known is not None and known.died_at is None:
            self.replicas[instance] = known._replace(died_at=self.clock())
            self._changed()

    def lives(self, instance: str | None) -> bool:
        """True if an instance was not marked dead."""
        row = None if instance is None else self.replicas.get(instance)
        return row is not None and row.died_at is None

    def _forget(self, now: float) -> None:
        owning = {owner.instance for owner in self.owners.values()}
        for row in list(self.replicas.values()):
            if row.died_at is not None and now - row.died_at > FORGOTTEN_AFTER_SECS:
                instance = row.replica.instance
                if instance not in owning:
                    del self.replicas[instance]

    # Owners

    def owner_rows(self, since: float | None) -> tuple[float, Sequence[OwnerRow]]:
        """See `SharedStore.owners`."""
        first = float("-inf") if since is None else since - LOOK_BACK_SECS
        return self.clock(), [owner.row() for owner in self.owners.values() if owner.changed_at >= first]

    def needing_owner(self, limit: int) -> Sequence[OwnerRow]:
        """See `SharedStore`."""
        free = (
            owner
            for owner in self.owners.values()
            if owner.needs_owner and owner.name is not None and not self.lives(owner.instance)
        )
        return [owner.row() for owner, _ in zip(free, range(limit), strict=False)]

    def create(self, name: str, instance: str) -> Taken | None:
        """See `SharedStore`."""
        if not self.lives(instance) or any(owner.name == name for owner in self.owners.values()):
            return None
        now = self.clock()
        self._last_number += 1
        owner = self.owners[self._last_number] = Owner(self._last_number, name, instance, 1, 0, now, False, now)
        self._changed()
        return self._taken(owner)

    def take(self, number: int, instance: str) -> Taken | None:
        """See `SharedStore`. What the owner before did not say, when it last served, is no later than its renewal."""
        owner = self.owners.get(number)
        if owner is None or owner.name is None or not self.lives(instance):
            return None
        if owner.instance != instance and self.lives(owner.instance):
            return None
        before = None if owner.instance in (None, instance) else self.replicas.get(owner.instance)
        if before is not None:
            owner.served_until = max(owner.served_until, before.renewed_at)
        owner.instance, owner.term, owner.changed_at = instance, owner.term + 1, self.clock()
        self._changed()
        return self._taken(owner)

    def release(self, fences: dict[int, int], instance: str, served_until: float, to: str | None) -> None:
        """See `SharedStore`."""
        has_changed = False
        for number, term in fences.items():
            owner = self.owners.get(number)
            if owner is not None and (owner.instance, owner.term) == (instance, term):
                owner.instance, owner.served_until, owner.changed_at = to, served_until, self.clock()
                has_changed = True
        if has_changed:
            self._changed()

    def rename(self, number: int, name: str | None) -> None:
        """See `SharedStore`."""
        owner = self.owners[number]
        if name is not None and any(other.name == name and other is not owner for other in self.owners.values()):
            raise StoreError(f"there is a namespace {name} already")
        owner.name, owner.changed_at = name, self.clock()
        self._changed()

    def adopt(self, names: dict[int, str]) -> None:
        """See `SharedStore`."""
        if any(row.died_at is None for row in self.replicas.values()):
            raise StoreError("replicas use this store")
        meta = self.kept.meta
        for number, name in names.items():
            self.owners.setdefault(number, Owner(number, name, None, 1, meta.number, meta.at, True, self.clock()))
        self._last_number = max(self.owners, default=0)

    def _taken(self, owner: Owner) -> Taken:
        assert owner.name is not None
        if self.on_take is not None:
            self.on_take(owner.row())
        meta = StoreMeta(owner.commit_no, owner.served_until, self.kept.meta.epoch)
        return Taken(owner.number, owner.name, owner.term, meta)

    # Reads

    def live(self, namespace: int | None) -> list[TaskRows]:
        """See `Store.live_tasks`."""
        keys = sorted(key for key in self.kept.tables[Table.STATES] if namespace in (None, namespace_of(key)))
        return [self.kept._of(key) for key in keys]

    def ended(self, since_ms: int, namespace: int | None) -> list[TaskRows]:
        """See `Store.ended_tasks`."""
        found = ((at, key) for key, (at, _) in self.kept.ended.items() if namespace in (None, namespace_of(key)))
        return [self.kept._of(key) for at, key in sorted(found) if at >= since_ms]

    # Commits

    def commit(self, group: Group, instance: str | None) -> Committed:
        """What `Store.commit` writes for an instance; without one the whole store is used by one process."""
        if instance is None:
            if group.fences:
                raise StoreError("nobody has joined")
            if any(row.died_at is None for row in self.replicas.values()):
                raise StoreError("replicas use this store")
            self.kept.write(group)
            return Committed(0.0, 0, 1 << 40)
        written: set[int] = set()
        lost: set[int] = set()
        for number, fence in group.fences.items():
            owner = self.owners.get(number)
            if owner is None or (owner.instance, owner.term) != (instance, fence.term):
                lost.add(number)
            elif owner.commit_no == fence.number - 1:
                owner.commit_no, owner.needs_owner = fence.number, fence.needs_owner
                written.add(number)
            elif owner.commit_no < fence.number:
                lost.add(number)
        self._write(group, written)
        if Table.TOKENS in group.puts or Table.TOKENS in group.removes:
            for listener in tuple(self.token_listeners):
                listener()
        if self.on_commit is not None:
            for number in written:
                self.on_commit(instance, number, group.fences[number], group)
        return Committed(0.0, 0, 1 << 40, frozenset(lost))

    def _write(self, group: Group, written: set[int]) -> None:
        """Write the rows of some namespaces, and those of none."""

        def is_written(table: Table, key: int) -> bool:
            if table in UNFENCED:
                return True
            number = key if table is Table.NAMESPACES else namespace_of(key)
            assert number in group.fences, f"row {key} of {table.name} has no fence"
            return number in written

        kept = self.kept
        kept.cut_output([cut for cut in group.output_cuts if is_written(Table.TASKS, cut.key)])
        kept.put_output([row for row in group.outputs if is_written(Table.TASKS, row.key)])
        for key in group.removes.get(Table.TASKS, ()):
            if is_written(Table.TASKS, key):
                kept.said.pop(key, None)
        for table, keys in group.removes.items():
            rows: dict[int, bytes] | dict[int, tuple[int, bytes]] = (
                kept.ended if table is Table.ENDED else kept.tables[table]
            )
            for key in keys:
                if is_written(table, key):
                    rows.pop(key, None)
        for table, puts in group.puts.items():
            for key, record in puts:
                if is_written(table, key) and not (table is Table.SECRETS and key in kept.tables[table]):
                    kept.tables[table][key] = record
        for key, at, record in group.ended:
            if is_written(Table.ENDED, key):
                kept.ended[key] = (at, record)

    def _changed(self) -> None:
        for listener in tuple(self.listeners):
            listener()
