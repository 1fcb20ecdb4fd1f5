"""What `taskyard store` does to stores itself, where no server has them open. Importing this takes a second."""

import os
from typing import TYPE_CHECKING, Any, cast

from google.protobuf.message import Message

from taskyard_server.core.errors import Refusal
from taskyard_server.services.store import StoreService
from taskyard_server.store.choosing import store_of
from taskyard_server.store.copying import copy as copy_rows
from taskyard_server.store.folder_copies import restore_folder
from taskyard_server.store.port import BackupFailed, CommitDelayed, Store, StoreError, StoreStats
from taskyard_server.store.sqlite_restore import Restored
from taskyard_server.store.sqlite_restore import restore as put_in_place
from taskyard_server.store_url import SQLITE, is_postgres, sqlite_folder, sqlite_path

from .failure import Failure
from .store_files import new_store_file

if TYPE_CHECKING:
    from taskyard_server.store.postgres import PostgresStore


def restored(backup: str, target: str, *, replace: bool) -> Restored:
    """Make a store, a file or a folder, from a backup. Raises `Failure`."""
    try:
        if os.path.isdir(backup):
            return restore_folder(backup, target, replace=replace)
        return put_in_place(backup, target, replace=replace)
    except StoreError as error:
        raise Failure(str(error)) from None


async def epoch_begun(url: str) -> tuple[StoreStats, int]:
    """The figures of a store in PostgreSQL, and the epoch that begins with its next start. Raises `Failure`."""
    async with Opened(url, must_exist=True) as store:
        return await store.stats(), await _as_postgres(store).begin_epoch()


async def answered(url: str, method: str, request: Message) -> Any:
    """The answer of `StoreService` about a store that no server has open. Raises `Failure`."""
    async with Opened(url, must_exist=True) as store:
        try:
            return await getattr(StoreService(store), method)(request, None)
        except Refusal as refusal:
            raise Failure(refusal.message) from None


async def copied(source: str, target: str) -> StoreStats:
    """Copy a store into a new one, and return the figures of that. Raises `Failure`."""
    async with Opened(source, must_exist=True) as one:
        if is_postgres(source):
            await _as_postgres(one).keep_replicas_out()
        if (folder := sqlite_folder(target)) is not None and folder.exists():
            raise Failure(f"{folder} exists")
        if (file := sqlite_path(target)) is None:
            async with Opened(target) as other:
                return await copy_rows(one, other)
        with new_store_file(file) as new:
            async with Opened(f"{SQLITE}{new}") as other:
                return await copy_rows(one, other)


async def open_once(url: str) -> None:
    """Open a store, which makes or changes its tables. Raises `Failure`."""
    async with Opened(url):
        pass


def _as_postgres(store: Store) -> "PostgresStore":
    return cast("PostgresStore", store)


class Opened:
    """A store that is opened for a while. Errors of stores become `Failure`."""

    def __init__(self, url: str, *, must_exist: bool = False) -> None:
        store = store_of(url, must_exist=must_exist)
        assert store is not None
        self._store: Store = store

    async def __aenter__(self) -> Store:
        try:
            await self._store.open()
        except StoreError as error:
            raise Failure(str(error)) from None
        return self._store

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self._store.close()
        if isinstance(error, StoreError | BackupFailed | CommitDelayed):
            raise Failure(str(error)) from None
