"""`taskyard store check | backup | restore | copy | stats`: look after what a yard keeps.

The first, the second and the last ask the server that has the store open, by its admin socket, and open the store
themselves where none runs. The other two need it for themselves.
"""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from google.protobuf.message import Message

from taskyard.v1 import store_pb2 as pb
from taskyard.v1.store_pb2_grpc import StoreServiceStub
from taskyard_server.admin_socket import address_of, is_served, socket_path
from taskyard_server.core.errors import Refusal
from taskyard_server.services.store import StoreService
from taskyard_server.store.choosing import store_of
from taskyard_server.store.copying import copy as copy_rows
from taskyard_server.store.port import BackupFailed, CommitDelayed, Store, StoreError, StoreStats
from taskyard_server.store.sqlite_restore import restore as put_in_place
from taskyard_server.store_url import SQLITE

from .connection import connected
from .failure import Failure
from .server import JsonOption, fields_table, local_time, out, print_json, shown, size_text
from .store_choice import existing, sqlite_in, sqlite_of
from .store_files import new_store_file
from .up import ConfigOption, StoreOption

app = typer.Typer(help="Look after what a yard keeps: check, back up, restore, copy.", no_args_is_help=True)

M = TypeVar("M", bound=Message)

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The file of the backup.")]


@app.command()
def check(config_file: ConfigOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Look for damage and contradictions in a store. Exit status 1 if there are any."""
    answer = _asked(_file_in(config_file, store), "CheckStore", pb.CheckStoreRequest())
    if as_json:
        print_json({"problems": list(answer.problems)})
    else:
        for problem in answer.problems:
            out.print(shown(problem))
    if answer.problems:
        raise Failure(f"{len(answer.problems)} problems were found")
    if not as_json:
        out.print("Nothing is wrong.")


@app.command()
def backup(
    file: FileArgument,
    config_file: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a copy of a store to a new file, also while a server runs on it."""
    path = str(file.expanduser().absolute())
    answer = _asked(_file_in(config_file, store), "BackupStore", pb.BackupStoreRequest(path=path))
    if as_json:
        print_json({"path": path, "bytes": int(answer.bytes)})
    else:
        out.print(shown(f"{path} holds a backup of {size_text(answer.bytes)}"))


@app.command()
def restore(
    file: FileArgument,
    config_file: ConfigOption = None,
    store: StoreOption = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the store that is there; it stays beside, under another name.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a store from a backup, in a new epoch, while no server runs on it."""
    target = sqlite_in(config_file, store)
    _refuse_served(target)
    try:
        done = put_in_place(str(file.expanduser()), str(target), replace=replace)
    except StoreError as error:
        raise Failure(str(error)) from None
    if as_json:
        aside = {} if done.set_aside is None else {"setAside": done.set_aside}
        print_json({"path": str(target), "committedAt": _time(done.at), "epoch": done.epoch, **aside})
        return
    out.print(shown(f"{target} is as it was at {_local(done.at)}; epoch {done.epoch} begins with the next start"))
    if done.set_aside is not None:
        out.print(shown(f"What was there is now {done.set_aside}"))


@app.command()
def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The URL of the store to copy.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="The URL of the store to make.")],
    as_json: JsonOption = False,
) -> None:
    """Copy a store into another that does not exist yet, while no server runs on it."""
    source_file, target_file = (sqlite_of(each, name) for each, name in ((source, "FROM"), (target, "TO")))
    _refuse_served(existing(source_file))
    stats = asyncio.run(_copied(source_file, target_file))
    if as_json:
        print_json({"path": str(target_file), "rows": stats.rows})
    else:
        out.print(shown(f"{target_file} holds all {sum(stats.rows.values()):,} rows of {source_file}"))


@app.command()
def stats(config_file: ConfigOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show the figures of a store."""
    answer = _asked(_file_in(config_file, store), "GetStoreStats", pb.GetStoreStatsRequest())
    if as_json:
        print_json(_figures(answer))
        return
    fields: dict[str, Any] = {
        "store": answer.url,
        "size": size_text(answer.used_bytes),
        "free": size_text(answer.free_bytes),
        "last commit": f"{answer.commit_number:.0f}",
        "committed at": local_time(answer.committed_at),
        "epoch": f"{answer.epoch:.0f}",
        "format": str(answer.format_version),
    }
    fields |= {table: f"{rows:,.0f} rows" for table, rows in sorted(answer.rows.items()) if rows}
    out.print(fields_table({name: value for name, value in fields.items() if value}))


# Which store


def _file_in(config_file: Path | None, store: str | None) -> Path:
    """The file of the store of the settings. Raises `Failure` where there is none."""
    return existing(sqlite_in(config_file, store))


def _refuse_served(path: Path) -> None:
    if is_served(socket_path(path)):
        raise Failure(f"a server runs on {path}; stop it first")


# What is done


def _asked(path: Path, method: str, request: Message) -> Any:
    """The answer of `StoreService`, by the server that has the store open or without one."""
    admin = socket_path(path)
    if not is_served(admin):
        return asyncio.run(_answered(path, method, request))
    with connected(address_of(admin)) as channel:
        return getattr(StoreServiceStub(channel), method)(request)


async def _answered(path: Path, method: str, request: Message) -> Any:
    async with _Opened(path) as store:
        try:
            return await getattr(StoreService(store), method)(request, None)
        except Refusal as refusal:
            raise Failure(refusal.message) from None


async def _copied(source: Path, target: Path) -> StoreStats:
    with new_store_file(target) as new:
        async with _Opened(source) as one, _Opened(new) as other:
            return await copy_rows(one, other)


class _Opened:
    """A store that is opened for a while. Errors of stores become `Failure`."""

    def __init__(self, path: Path) -> None:
        store = store_of(f"{SQLITE}{path}")
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


# How it is shown


def _figures(stats: pb.GetStoreStatsResponse) -> dict[str, Any]:
    at = {"committedAt": stats.committed_at.ToJsonString()} if stats.HasField("committed_at") else {}
    return {
        "url": stats.url,
        "usedBytes": int(stats.used_bytes),
        "freeBytes": int(stats.free_bytes),
        "rows": {table: int(rows) for table, rows in sorted(stats.rows.items())},
        "commitNumber": int(stats.commit_number),
        **at,
        "epoch": int(stats.epoch),
        "formatVersion": stats.format_version,
    }


def _time(secs: float) -> str:
    return datetime.fromtimestamp(secs, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _local(secs: float) -> str:
    return f"{datetime.fromtimestamp(secs):%Y-%m-%d %H:%M:%S}"
