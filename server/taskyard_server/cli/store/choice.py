"""Which store commands about one mean, and which server: those of the settings, as `taskyard up` finds them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from taskyard_server.cli.failure import Failure
from taskyard_server.net.admin_address import socket_of
from taskyard_server.settings.store_url import MEMORY, checked_store_url, shown_store_url, sqlite_folder, sqlite_path

if TYPE_CHECKING:
    from taskyard_server.settings.config import Settings


def store_in(config_file: Path | None, store: str | None) -> str:
    """The URL of the store of the settings, which need not be there. Raises `Failure` where nothing is kept."""
    return store_named(_settings(config_file, store).store.url, "store.url")


def admin_socket_in(config_file: Path | None, store: str | None) -> tuple[Path, str]:
    """The admin socket of the server with these settings, and its store in words. Raises `Failure` without a store."""
    settings = _settings(config_file, store)
    path, url = socket_of(settings), settings.store.url
    if path is None:
        raise Failure(f"store.url: {MEMORY} keeps nothing")
    file = sqlite_path(url)
    return path, str(file) if file is not None else f"{shown_store_url(url)} as {settings.replicas.name}"


def _settings(config_file: Path | None, store: str | None) -> Settings:
    # Importing these takes longer than most calls, and the commands that name a server do without.
    from taskyard_server.settings.config import ConfigError
    from taskyard_server.settings.config_sources import load

    try:
        return load(config_file, {} if store is None else {"store": {"url": store}}).settings
    except ConfigError as error:
        raise Failure(str(error)) from None


def sqlite_in(config_file: Path | None, store: str | None) -> Path:
    """The file of the store of the settings, which need not be there. Raises `Failure` where it is none."""
    url = store_in(config_file, store)
    path = sqlite_path(url)
    if path is None:
        raise Failure(f"store.url: {shown_store_url(url)} is no file")
    return path


def store_named(url: str, name: str) -> str:
    """The checked URL of a store that was given under this name. Raises `Failure`."""
    try:
        url = checked_store_url(url)
    except ValueError as error:
        raise Failure(f"{name}: {error}") from None
    if url == MEMORY:
        raise Failure(f"{name}: {MEMORY} keeps nothing")
    return url


def folder_named(url: str, name: str) -> Path | None:
    """The folder of files that a URL names, to be copied out of it; None if it names none. Raises `Failure`."""
    try:
        return sqlite_folder(url)
    except ValueError as error:
        raise Failure(f"{name}: {error}") from None


def existing(path: Path) -> Path:
    """The same file. Raises `Failure` if it is not there."""
    if not path.is_file():
        raise Failure(f"no store at {path}")
    return path
