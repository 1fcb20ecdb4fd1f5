"""Where unix sockets lie that only the server's own user may reach, for as long as a process has use for them."""

import fcntl
import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

MAX_PATH_BYTES: Final = 107
"""The longest path of a socket."""
PLAIN: Final = re.compile(r"[A-Za-z0-9._/~+@=,-]+")
"""grpc reads the path of a socket as a part of a URL."""
PREFIX: Final = "taskyard-"
MAX_NAME_BYTES: Final = len(f"/{PREFIX}12345678/") + 16
"""The folder and the longest name of a socket in it."""
SHORT: Final = "/tmp"
IN_USE: Final = "in-use"
"""The file that the owner of a folder has locked, until it ends by whatever cause."""

_locks: dict[Path, int] = {}


def new_private_folder() -> Path:
    """A new folder that only this user can enter, with a path that is short enough for sockets. Raises `OSError`.

    Folders that killed processes of this user have left are removed.
    """
    temporary = tempfile.gettempdir()
    fits = len(os.fsencode(temporary)) + MAX_NAME_BYTES <= MAX_PATH_BYTES and PLAIN.fullmatch(temporary)
    within = temporary if fits else SHORT
    for path in Path(within).glob(f"{PREFIX}*/{IN_USE}"):
        with suppress(OSError):
            _remove_if_abandoned(path)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=within))
    # It has its name once it is locked, so that nobody finds it without its owner.
    new = folder / f"{IN_USE}.new"
    lock = os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    new.rename(folder / IN_USE)
    _locks[folder] = lock
    return folder


def remove_private_folder(folder: Path) -> None:
    """Remove a folder that this process has made, with all that is in it."""
    shutil.rmtree(folder, ignore_errors=True)
    if (lock := _locks.pop(folder, None)) is not None:
        os.close(lock)


def _remove_if_abandoned(path: Path) -> None:
    if path.stat(follow_symlinks=False).st_uid != os.getuid():
        return
    lock = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path.parent, ignore_errors=True)
    finally:
        os.close(lock)
