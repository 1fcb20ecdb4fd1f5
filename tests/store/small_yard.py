"""A store with some rows in each table, for tests of what is done with stores as a whole."""

from pathlib import Path

from taskyard_server.store.port import Group, OutputRow, Table, key_of
from taskyard_server.store.records.records import NamespaceRecord
from taskyard_server.store.records.tasks import encode
from taskyard_server.store.sqlite.store import SqliteStore

AT = 1_700_000_000.0
COMMITS = 3
NAMESPACE = NamespaceRecord("yard", 200, 7, 0, 0, 0, 0, 0, 0.0, (), ())
ROWS = {
    "namespaces": 1,
    "tasks": 6,
    "states": 3,
    "ended": 3,
    "stopping": 3,
    "hosts": 3,
    "agents": 3,
    "schedules": 3,
    "triggers": 3,
    "outbox": 3,
    "tokens": 3,
    "secrets": 3,
    "token_uses": 3,
    "operations": 3,
    "rules": 3,
    "events": 3,
    "output": 9,
}
OTHERS = (
    Table.STOPPING,
    Table.HOSTS,
    Table.AGENTS,
    Table.SCHEDULES,
    Table.TRIGGERS,
    Table.OUTBOX,
    Table.TOKENS,
    Table.SECRETS,
    Table.TOKEN_USES,
    Table.OPERATIONS,
    Table.RULES,
    Table.EVENTS,
)


def group(number: int) -> Group:
    """A live task, an ended one, and a row of each other table."""
    made = Group(number, AT + number)
    live, ended = key_of(1, number), key_of(1, 100 + number)
    made.put(Table.NAMESPACES, 1, encode(NAMESPACE))
    made.put(Table.TASKS, live, b"live %d" % number)
    made.put(Table.STATES, live, b"" if number == 1 else b"state %d" % number)
    made.put(Table.TASKS, ended, b"ended %d" % number)
    made.ended.append((ended, 1_000 * number, b"result %d" % number))
    for key in (live, ended):
        made.outputs.append(OutputRow(key, number, 60 * number, b"short %d" % number))
    made.outputs.append(OutputRow(live, number + 1, 60 * number + 60, b"long" * 1000))
    for table in OTHERS:
        made.put(table, key_of(1, number), b"%d in %d" % (number, table))
    return made


async def make_yard(path: Path) -> None:
    """Make the store."""
    store = SqliteStore(str(path), ballast_bytes=0)
    await store.open()
    for number in range(1, COMMITS + 1):
        await store.commit(group(number))
    await store.close()
