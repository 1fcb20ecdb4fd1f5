"""The work of `taskyard store` on stores that no server has open. Importing this takes a second."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from google.protobuf.message import Message

from taskyard_server.cli.failure import Failure
from taskyard_server.core.errors import Refusal
from taskyard_server.services.store import StoreService
from taskyard_server.settings.store_url import SQLITE, is_postgres, sqlite_path
from taskyard_server.store.choosing import store_of
from taskyard_server.store.copying import CopySource
from taskyard_server.store.copying import copy as copy_rows
from taskyard_server.store.folder_source import FolderSource
from taskyard_server.store.port import BackupFailed, CommitDelayed, Store, StoreError, StoreStats
from taskyard_server.store.sqlite.restore import Restored
from taskyard_server.store.sqlite.restore import restore as put_in_place

from .files import new_store_file

if TYPE_CHECKING:
    from taskyard_server.store.postgres.store import PostgresStore


def restored(backup: str, target: str, *, replace: bool) -> Restored:
    """Make a store from a backup. Raises `Failure`."""
    try:
        return put_in_place(backup, target, replace=replace)
    except StoreError as error:
        raise Failure(str(error)) from None


async def epoch_begun(url: str) -> tuple[StoreStats, int]:
    """The figures of a store in PostgreSQL, and the epoch that begins with its next start. Raises `Failure`."""
    async with opened(url, must_exist=True) as store:
        return await store.stats(), await _as_postgres(store).begin_epoch()


async def answered(url: str, method: str, request: Message) -> Any:
    """The answer of `StoreService` about a store that no server has open. Raises `Failure`."""
    async with opened(url, must_exist=True) as store:
        try:
            return await getattr(StoreService(store), method)(request, None)
        except Refusal as refusal:
            raise Failure(refusal.message) from None


async def copied(source: str, target: str, folder: Path | None = None) -> StoreStats:
    """Copy a store, or a `folder` of files, into a new one, and return the figures of that. Raises `Failure`."""
    if folder is not None:
        async with _Opened(FolderSource(str(folder))) as files:
            return await _copied_into(target, files)
    async with opened(source, must_exist=True) as one:
        if is_postgres(source):
            await _as_postgres(one).exclude_replicas()
        return await _copied_into(target, one)


async def _copied_into(target: str, source: CopySource) -> StoreStats:
    if (file := sqlite_path(target)) is None:
        async with opened(target) as other:
            return await copy_rows(source, other)
    with new_store_file(file) as new:
        async with opened(f"{SQLITE}{new}") as other:
            return await copy_rows(source, other)


async def open_once(url: str) -> None:
    """Open a store, which makes or changes its tables. Raises `Failure`."""
    async with opened(url):
        pass


def _as_postgres(store: Store) -> "PostgresStore":
    return cast("PostgresStore", store)


Kind = TypeVar("Kind", bound=CopySource)


class _Opened(Generic[Kind]):
    """A store that is opened for a while. Errors of stores become `Failure`."""

    def __init__(self, store: Kind) -> None:
        self._store = store

    async def __aenter__(self) -> Kind:
        try:
            await self._store.open()
        except StoreError as error:
            raise Failure(str(error)) from None
        return self._store

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self._store.close()
        if isinstance(error, StoreError | BackupFailed | CommitDelayed):
            raise Failure(str(error)) from None


def opened(url: str, *, must_exist: bool = False) -> _Opened[Store]:
    """The store of a checked URL, to be opened for a while."""
    store = store_of(url, must_exist=must_exist)
    assert store is not None
    return _Opened(store)
