"""The environment without the settings of Taskyard, so that no test depends on those of the person who runs it.

A server that starts in it keeps its tasks as `--store` says: the default of the server would be one file of that person
for all tests.
"""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

SETTINGS = ("TASKYARD_", "GENIE_", "SHUTDOWN_GRACE_PERIOD_SECONDS")
STORES = ("memory", "dict", "sqlite")
"""Nothing that survives; a dict, for which the rules of a store hold without a process that writes; files of SQLite.

A server that is a process has a file in place of a dict.
"""


class _Run:
    """What one run of tests keeps its tasks in, and the folder of its files, which is made for the first."""

    store = STORES[0]
    folder: tempfile.TemporaryDirectory[str] | None = None


def keep_in(store: str) -> None:
    """Let the engines and servers of this run use one of `STORES`."""
    _Run.store = store


def is_dict() -> bool:
    """True if engines of this run commit to a dict."""
    return _Run.store == "dict"


def is_kept() -> bool:
    """True if what the engines and servers of this run know survives them."""
    return _Run.store != "memory"


def new_store_file() -> Path:
    """A path for a yard that nobody has used, in a folder of its own."""
    if _Run.folder is None:
        _Run.folder = tempfile.TemporaryDirectory(prefix="taskyard-tests-")
    return Path(tempfile.mkdtemp(dir=_Run.folder.name)) / "yard.db"


def new_store_url() -> str:
    """A store that nobody has used, of the kind that this run has."""
    return f"sqlite:///{new_store_file()}" if is_kept() else "memory://"


def remove_stores() -> list[str]:
    """Remove all files of this run, and return the commands of those writers that still work on one, where /proc is."""
    if _Run.folder is None:
        return []
    name, commands = _Run.folder.name.encode(), []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = file.read_bytes()
        except OSError:
            continue  # it has ended
        if name in command:
            commands.append(command.replace(b"\0", b" ").decode(errors="replace"))
    _Run.folder.cleanup()
    _Run.folder = None
    return commands


def settings_in(names: Iterable[str]) -> list[str]:
    """Those of the names that are settings."""
    return [name for name in names if name.upper().startswith(SETTINGS)]


def without_settings() -> dict[str, str]:
    """The environment of this process without them, for a server that knows nothing yet."""
    rest = {name: value for name, value in os.environ.items() if name not in settings_in(os.environ)}
    return rest | {"TASKYARD_STORE__URL": new_store_url()}
