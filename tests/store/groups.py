"""Groups as tests write them."""

from taskyard_server.store.port import Group, OutputRow, Store, Table, TaskRows, key_of


def submitted(number: int, *seqs: int, namespace: int = 1) -> Group:
    """Tasks that were submitted, with the row of their namespace."""
    group = Group(number, float(number))
    group.put(Table.NAMESPACES, namespace, b"namespace %d" % number)
    for seq in seqs:
        key = key_of(namespace, seq)
        group.put(Table.TASKS, key, b"task %d" % seq)
        group.put(Table.STATES, key, b"")
    return group


def ended(number: int, *seqs: int, at: int, namespace: int = 1) -> Group:
    """Tasks that ended all at one time."""
    group = Group(number, float(number))
    for seq in seqs:
        key = key_of(namespace, seq)
        group.remove(Table.STATES, key)
        group.ended.append((key, at, b"end %d" % seq))
    return group


async def live(store: Store, namespace: int | None = None) -> list[TaskRows]:
    return [row async for rows in store.live_tasks(namespace) for row in rows]


async def ended_since(store: Store, at: int, namespace: int | None = None) -> list[TaskRows]:
    return [row async for rows in store.ended_tasks(at, namespace) for row in rows]


async def rows_of(store: Store, table: Table) -> list[tuple[int, bytes]]:
    return [(key, record) async for rows in store.rows(table) for key, record in rows]


def said(number: int, *rows: tuple[int, int, bytes], namespace: int = 1) -> Group:
    """Output of tasks, by seq and first number; each byte is a number of its own."""
    outputs = [OutputRow(key_of(namespace, seq), first, first - 1, record) for seq, first, record in rows]
    return Group(number, float(number), outputs=outputs)


async def outputs_of(store: Store) -> list[OutputRow]:
    return [row async for rows in store.outputs() for row in rows]
