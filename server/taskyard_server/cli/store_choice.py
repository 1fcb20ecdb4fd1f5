"""Which file commands about a store mean: that of the settings, as `taskyard up` finds it."""

from pathlib import Path

from taskyard_server.config import ConfigError
from taskyard_server.config_sources import load
from taskyard_server.store_url import MEMORY, checked_store_url, sqlite_path

from .failure import Failure


def sqlite_in(config_file: Path | None, store: str | None) -> Path:
    """The file of the store of the settings, which need not be there. Raises `Failure` where nothing is kept."""
    try:
        url = load(config_file, {} if store is None else {"store": {"url": store}}).settings.store.url
    except ConfigError as error:
        raise Failure(str(error)) from None
    return sqlite_of(url, "store.url")


def sqlite_of(url: str, name: str) -> Path:
    """The file of a URL, which was given under this name. Raises `Failure`."""
    try:
        path = sqlite_path(checked_store_url(url))
    except ValueError as error:
        raise Failure(f"{name}: {error}") from None
    if path is None:
        raise Failure(f"{name}: {MEMORY} keeps nothing")
    return path


def existing(path: Path) -> Path:
    """The same file. Raises `Failure` if it is not there."""
    if not path.is_file():
        raise Failure(f"no store at {path}")
    return path
