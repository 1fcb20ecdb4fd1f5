"""`taskyard store check | backup | restore | copy | stats | migrate`: look after what a yard keeps.

`check`, `backup` and `stats` ask the server that has the file open, by its admin socket, and open the store themselves
where none runs; a database they open beside its servers. `restore` and `copy` need it for themselves.
"""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from google.protobuf.message import Message

from taskyard.v1 import store_pb2 as pb
from taskyard.v1.store_pb2_grpc import StoreServiceStub
from taskyard_server.cli.connection import connected
from taskyard_server.cli.console import out
from taskyard_server.cli.failure import Failure, Misuse
from taskyard_server.cli.output_form import print_data, with_output
from taskyard_server.cli.progress import waiting_line
from taskyard_server.cli.server import fields_table, local_time, shown, size_text
from taskyard_server.cli.settings_options import ConfigOption, StoreOption
from taskyard_server.net.admin_address import address_of, is_served, socket_path
from taskyard_server.settings.store_url import POSTGRES, is_postgres, shown_store_url, sqlite_path

from .choice import existing, folder_named, sqlite_in, store_in, store_named

app = typer.Typer(help="Look after what a yard keeps: check, back up, restore, copy.", no_args_is_help=True)

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The file of the backup.")]


@app.command()
@with_output
def check(config_file: ConfigOption = None, store: StoreOption = None, as_json: bool = False) -> None:
    """Look for damage and contradictions in a store. Exit status 1 if there are any."""
    with waiting_line("checking"):
        answer = _asked(store_in(config_file, store), "CheckStore", pb.CheckStoreRequest())
    if as_json:
        print_data({"problems": list(answer.problems)})
    else:
        for problem in answer.problems:
            out.print(shown(problem))
    if answer.problems:
        raise Failure(f"{len(answer.problems)} problems were found")
    if not as_json:
        out.print("Nothing is wrong.")


@app.command()
@with_output
def backup(
    file: FileArgument,
    config_file: ConfigOption = None,
    store: StoreOption = None,
    as_json: bool = False,
) -> None:
    """Write a copy of a store to a new file, also while a server runs on it."""
    path = str(file.expanduser().absolute())
    with waiting_line("writing"):
        answer = _asked(store_in(config_file, store), "BackupStore", pb.BackupStoreRequest(path=path))
    if as_json:
        print_data({"path": path, "bytes": int(answer.bytes)})
    else:
        out.print(shown(f"{path} holds a backup of {size_text(answer.bytes)}"))
        _tell_of_artifacts(store_in(config_file, store), "backup")


@app.command()
@with_output
def restore(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="The file of the backup; or the postgresql:// URL of what was restored there already."
        ),
    ],
    config_file: ConfigOption = None,
    store: StoreOption = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the store that is there; it stays beside, under another name.")
    ] = False,
    as_json: bool = False,
) -> None:
    """Make a store from a backup, in a new epoch, while no server runs on it."""
    if source.startswith(POSTGRES):
        _begin_epoch(store_named(source, "FILE"), as_json)
        return
    target = sqlite_in(config_file, store)
    _refuse_served(target)
    from .work import restored

    with waiting_line("restoring"):
        done = restored(str(Path(source).expanduser()), str(target), replace=replace)
    if as_json:
        aside = {} if done.set_aside is None else {"setAside": done.set_aside}
        print_data({"path": str(target), "committedAt": _time(done.at), "epoch": done.epoch, **aside})
        return
    out.print(shown(f"{target} is as it was at {_local(done.at)}; epoch {done.epoch} begins with the next start"))
    if done.set_aside is not None:
        out.print(shown(f"What was there is now {done.set_aside}"))


@app.command()
@with_output
def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The URL of the store to copy.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="The URL of the store to make.")],
    as_json: bool = False,
) -> None:
    """Copy a store into another that does not exist yet, while no server runs on it."""
    target = store_named(target, "TO")
    if (folder := folder_named(source, "FROM")) is not None:
        _refuse_served(folder)
    else:
        source = store_named(source, "FROM")
        if (file := sqlite_path(source)) is not None:
            _refuse_served(existing(file))
    from .work import copied

    with waiting_line("copying"):
        stats = asyncio.run(copied(source, target, folder))
    if as_json:
        print_data({"path": _shown(target), "rows": stats.rows})
    else:
        out.print(shown(f"{_shown(target)} holds all {sum(stats.rows.values()):,} rows of {_shown(source)}"))
        _tell_of_artifacts(source, "copy")


@app.command()
def migrate(
    url: Annotated[str, typer.Argument(metavar="URL", help="The postgresql:// URL of a role that may make tables.")],
) -> None:
    """Make or change the tables of a store in PostgreSQL for this version, before a role that may not uses them."""
    url = store_named(url, "URL")
    if not is_postgres(url):
        raise Misuse("URL: a file is migrated by the server that opens it")
    from .work import open_once

    asyncio.run(open_once(url))
    out.print(shown(f"{_shown(url)} has the tables of this version"))


@app.command()
@with_output
def stats(config_file: ConfigOption = None, store: StoreOption = None, as_json: bool = False) -> None:
    """Show the figures of a store."""
    answer = _asked(store_in(config_file, store), "GetStoreStats", pb.GetStoreStatsRequest())
    if as_json:
        print_data(_figures(answer))
        return
    fields: dict[str, Any] = {
        "store": answer.url,
        "size": size_text(answer.used_bytes),
        "free": size_text(answer.free_bytes) if answer.free_bytes else "",
        "last commit": f"{answer.commit_number:.0f}",
        "committed at": local_time(answer.committed_at),
        "epoch": f"{answer.epoch:.0f}",
        "format": str(answer.format_version),
    }
    fields |= {table: f"{rows:,.0f} rows" for table, rows in sorted(answer.rows.items()) if rows}
    out.print(fields_table({name: value for name, value in fields.items() if value}))


# Which store


def _shown(url: str) -> str:
    return str(sqlite_path(url) or shown_store_url(url))


def _refuse_served(path: Path) -> None:
    if is_served(socket_path(path)):
        raise Failure(f"a server runs on {path}; stop it first")


def _tell_of_artifacts(url: str, made: str) -> None:
    """Say what is not in a backup or copy."""
    folder = None if (file := sqlite_path(url)) is None else file.with_name(f"{file.name}.artifacts")
    if folder is not None and folder.is_dir():
        out.print(shown(f"The artifacts in {folder} are not in the {made}: copy that folder, too"))


# What is done


def _asked(url: str, method: str, request: Message) -> Any:
    """The answer of `StoreService`, by the server that has the file open or without one."""
    path = sqlite_path(url)
    admin = None if path is None else socket_path(existing(path))
    if admin is None or not is_served(admin):
        # It imports the server.
        from .work import answered

        return asyncio.run(answered(url, method, request))
    with connected(address_of(admin)) as channel:
        return getattr(StoreServiceStub(channel), method)(request)


def _begin_epoch(url: str, as_json: bool) -> None:
    """Steps that a restore by PostgreSQL's own tools needs besides."""
    from .work import epoch_begun

    before, epoch = asyncio.run(epoch_begun(url))
    if as_json:
        print_data({"path": _shown(url), "committedAt": _time(before.at), "epoch": epoch})
    else:
        out.print(shown(f"{_shown(url)} is as it was at {_local(before.at)}; epoch {epoch} begins with the next start"))


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
