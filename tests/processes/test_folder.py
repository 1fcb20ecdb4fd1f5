"""Processes that share a folder: who owns a namespace, who may write to its file, and what the next owner finds."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from taskyard_server.core.errors import Unavailable
from taskyard_server.store.copying import copy
from taskyard_server.store.folder import file_of
from taskyard_server.store.port import Fence, Group, StoreError, Table, key_of
from taskyard_server.store.sqlite import SqliteStore
from taskyard_server.store.whole_folder import WholeFolder
from tests.store.groups import live, submitted
from tests.store.small_yard import ROWS, make_yard

from .folders import Folder, made

pytestmark = pytest.mark.gate("many processes, whose rules tests/replicas holds in one")


def fenced(group: Group, *, needs_owner: bool = False, **terms: int) -> Group:
    """A group that is the commit of its number in the namespaces, `n3=2` for number 3 under term 2."""
    group.fences = {int(name[1:]): Fence(term, group.number, needs_owner) for name, term in terms.items()}
    return group


async def test_a_namespace_is_made_once_and_taken_by_nobody_while_its_owner_lives(folder: Folder) -> None:
    first, second = await folder.process("a"), await folder.process("b")
    taken = await made(first, "shop", "a")
    assert (taken.number, taken.name, taken.term) == (1, "shop", 1)
    assert await second.create("shop", "b") is None
    assert await second.take(taken.number, "b") is None


async def test_what_was_committed_is_there_for_whoever_takes_it_from_a_dead_process(folder: Folder) -> None:
    first, second = await folder.process("a"), await folder.process("b")
    shop = await made(first, "shop", "a")
    await first.commit(fenced(submitted(1, 1, 2), n1=shop.term))
    await folder.kill(first, "a")
    assert [row.name for row in await second.needing_owner(9)] == ["shop"]
    taken = await second.take(shop.number, "b")
    assert taken is not None
    assert (taken.term, taken.kept.number) == (2, 1)
    assert [row.key for row in await live(second)] == [key_of(1, 1), key_of(1, 2)]


async def test_what_was_released_is_taken_under_the_next_term_and_needs_nobody_if_nothing_is_due(
    folder: Folder,
) -> None:
    first, second = await folder.process("a"), await folder.process("b")
    shop, mail = await made(first, "shop", "a"), await made(first, "mail", "a")
    await first.commit(fenced(submitted(1, 1), n1=shop.term))
    await first.commit(fenced(submitted(1, 1, namespace=2), n2=mail.term, needs_owner=True))
    await first.release({1: 1, 2: 1}, "a", 5e9)
    assert [row.name for row in await second.needing_owner(9)] == ["mail"]
    taken = await second.take(1, "b")
    assert taken is not None
    assert (taken.term, taken.kept.at) == (2, 5e9)


async def test_a_gift_is_for_the_one_it_was_given_to(folder: Folder) -> None:
    first, second, third = [await folder.process(name) for name in "abc"]
    await made(first, "shop", "a")
    await first.release({1: 1}, "a", 1.0, "b")
    assert await third.take(1, "c") is None
    assert await second.take(1, "b") is not None


async def test_a_commit_to_what_is_owned_no_longer_writes_nothing_and_the_rest_is_written(folder: Folder) -> None:
    store = await folder.process("a")
    await made(store, "shop", "a")
    await made(store, "mail", "a")
    await store.release({2: 1}, "a", 1.0)
    group = fenced(submitted(1, 1), n1=1, n2=1)
    group.put(Table.HOSTS, key_of(2, 1), b"host")
    committed = await store.commit(group)
    assert committed.lost == {2}
    assert [row.key for row in await live(store)] == [key_of(1, 1)]
    assert (await store.commit(fenced(submitted(2, 2), n1=7))).lost == {1}


async def test_a_repeated_commit_counts_as_written(folder: Folder) -> None:
    store = await folder.process("a")
    await made(store, "shop", "a")
    for _ in range(2):
        assert (await store.commit(fenced(submitted(1, 1), n1=1))).lost == frozenset()
    assert len(await live(store)) == 1


async def test_a_file_is_opened_under_no_lower_term_than_before(tmp_path: Path) -> None:
    path = str(tmp_path / "shop.db")
    for term in (2, 2, 3):
        store = SqliteStore(path, term=term, ballast_bytes=0)
        await store.open()
        await store.close()
    late = SqliteStore(path, term=2, ballast_bytes=0)
    with pytest.raises(StoreError, match="under the term 3 already"):
        await late.open()


async def test_a_file_that_is_gone_is_not_made_anew(folder: Folder) -> None:
    store = await folder.process("a")
    await made(store, "shop", "a")
    await store.release({1: 1}, "a", 1.0)
    file = Path(file_of(str(folder.path), 1, "shop"))
    await asyncio.to_thread(file.unlink)
    with pytest.raises(Unavailable, match="cannot be opened"):
        await store.take(1, "a")
    assert not await asyncio.to_thread(file.exists)


async def test_a_file_that_cannot_be_opened_costs_only_its_own_namespace(folder: Folder) -> None:
    store = await folder.process("a")
    await made(store, "mail", "a")
    await made(store, "shop", "a")
    await store.release({2: 1}, "a", 1.0)
    await asyncio.to_thread(Path(file_of(str(folder.path), 2, "shop")).write_bytes, b"This is something else.")
    for _ in range(2):
        with pytest.raises(Unavailable, match="cannot be opened"):
            await store.take(2, "a")
    assert (await store.commit(fenced(submitted(1, 1), n1=1))).lost == frozenset()


async def test_a_deleted_namespace_leaves_no_file_and_its_name_is_free(folder: Folder) -> None:
    store = await folder.process("a")
    await made(store, "shop", "a")
    await store.rename(1, None)
    assert not list((folder.path / "namespaces").iterdir())
    assert (await made(store, "shop", "a")).number == 2
    _, rows = await store.owners()
    assert {(row.number, row.name) for row in rows} == {(1, None), (2, "shop")}


async def test_tokens_are_those_of_all_processes_who_hear_of_them(folder: Folder) -> None:
    first, second = await folder.process("a"), await folder.process("b")
    heard = asyncio.ensure_future(anext(second.token_changes()))
    group = Group(1, 1.0)
    group.put(Table.TOKENS, 7, b"token")
    group.put(Table.SECRETS, 1, b"mine")
    await first.commit(group)
    await heard
    late = Group(1, 1.0)
    late.put(Table.SECRETS, 1, b"other")
    await second.commit(late)
    for store in (first, second):
        assert [row async for rows in store.rows(Table.TOKENS) for row in rows] == [(7, b"token")]
        assert [row async for rows in store.rows(Table.SECRETS) for row in rows] == [(1, b"mine")]


async def test_the_next_parent_finds_all_and_gives_terms_that_are_higher(folder: Folder) -> None:
    store = await folder.process("a")
    await made(store, "shop", "a")
    await made(store, "mail", "a")
    await store.release({2: 1}, "a", 1.0)
    await store.commit(fenced(submitted(1, 1), n1=1))
    await folder.close()
    await folder.open()
    store = await folder.process("b")
    assert {row.name for row in await store.needing_owner(9)} == {"shop", "mail"}
    taken = await store.take(1, "b")
    assert taken is not None
    assert taken.term == 2
    assert (await made(store, "test", "b")).number == 3


async def test_a_folder_has_one_parent(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskyard_server.processes.members.WAIT_SECS", 0.0)
    with pytest.raises(StoreError, match="in use by another server"):
        await Folder(folder.path).open()


async def test_a_file_becomes_a_folder_and_a_file_again(tmp_path: Path) -> None:
    await make_yard(tmp_path / "one.db")
    file, other = (SqliteStore(str(tmp_path / name), ballast_bytes=0) for name in ("one.db", "other.db"))
    whole = WholeFolder(str(tmp_path / "yard"))
    for store in (file, whole, other):
        await store.open()
    assert (await copy(file, whole)).rows == ROWS
    assert await whole.check() == []
    assert (await copy(whole, other)).rows == ROWS
    for each in (file, whole, other):
        await each.close()
