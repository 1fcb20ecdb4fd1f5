"""What `store.url` may say: where tasks are kept (docs/keeping.md, Where)."""

import re
from pathlib import Path
from typing import Final

from platformdirs import user_state_path

MEMORY: Final = "memory://"
SQLITE: Final = "sqlite:///"
FILE_NAME: Final = "yard.db"
DOCUMENTED_DEFAULT: Final = f"{SQLITE}~/.local/state/taskyard/{FILE_NAME}"
"""The default on Linux, where `XDG_STATE_HOME` names no other folder."""


def default_store_url() -> str:
    """The file in the state folder of the user who runs the server."""
    return f"{SQLITE}{user_state_path('taskyard', appauthor=False) / FILE_NAME}"


def checked_store_url(url: str) -> str:
    """The URL with an absolute path. Raises `ValueError`, which says what is wrong and does not quote the URL."""
    if url == MEMORY:
        return url
    scheme = url.partition(":")[0].lower()
    if scheme in ("postgres", "postgresql"):
        raise ValueError(f"postgresql:// is not supported yet; give {SQLITE}PATH or {MEMORY}")
    if scheme == "memory":
        raise ValueError(f"must be {MEMORY}, with nothing after it")
    if not url.startswith(SQLITE):
        raise ValueError(f"must be {SQLITE}PATH (four slashes in all before an absolute path) or {MEMORY}")
    return f"{SQLITE}{_absolute(url.removeprefix(SQLITE))}"


def sqlite_path(url: str) -> Path | None:
    """The file that a checked URL names; None for `memory://`."""
    return Path(url.removeprefix(SQLITE)) if url.startswith(SQLITE) else None


def _absolute(text: str) -> Path:
    if text == ":memory:":
        raise ValueError(f"a yard that keeps nothing is {MEMORY}")
    if not text or text.endswith("/"):
        raise ValueError(f"must name a file, as in {DOCUMENTED_DEFAULT}")
    # The path is taken as it stands, so that a parameter of other programs would become a part of the name.
    if re.search(r"[?#\x00-\x1f\x7f]", text):
        raise ValueError("must be a path without ?, # and control characters after sqlite:///")
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise ValueError("no such home directory") from None
