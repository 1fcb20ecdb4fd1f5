"""The forms of `store.url`: where tasks are kept (docs/operate/durability.md, Where)."""

import re
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from platformdirs import user_state_path

MEMORY: Final = "memory://"
SQLITE: Final = "sqlite:///"
POSTGRES: Final = ("postgresql://", "postgres://")
FOLDER: Final = "file://"
OBJECTS_IN_MEMORY: Final = "memory:///"
BUCKETS: Final = ("s3://", "gs://", "az://")
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
    if url.startswith(POSTGRES):
        return _checked_postgres(url)
    if scheme in ("postgres", "postgresql"):
        raise ValueError("must begin with postgresql://, as in postgresql://USER@HOST/DATABASE?sslmode=verify-full")
    if scheme == "memory":
        raise ValueError(f"must be {MEMORY}, with nothing after it")
    if not url.startswith(SQLITE):
        raise ValueError(
            f"must be {SQLITE}PATH (four slashes in all before an absolute path), postgresql://HOST/DATABASE "
            f"or {MEMORY}"
        )
    path = _absolute(url.removeprefix(SQLITE))
    if url.endswith("/"):
        raise ValueError(f"must name a file; make one of a folder by `taskyard store copy {url} {SQLITE}FILE`")
    return f"{SQLITE}{path}"


def checked_artifacts_url(url: str) -> str:
    """The URL of artifacts, with an absolute path if it is one of a folder. Raises `ValueError`."""
    if url.startswith(f"{FOLDER}/"):
        return f"{FOLDER}{_absolute(url.removeprefix(FOLDER))}"
    if url.startswith(BUCKETS) and not re.search(r"[\x00-\x20\x7f?#@]", url) and url.rstrip("/").count("/") >= 2:
        return url.rstrip("/")
    raise ValueError("must be file:///FOLDER, s3://BUCKET/PATH, gs://BUCKET/PATH or az://ACCOUNT/CONTAINER/PATH")


def sqlite_path(url: str) -> Path | None:
    """The file that a checked URL names; None if it names none."""
    return Path(url.removeprefix(SQLITE)) if url.startswith(SQLITE) else None


def sqlite_folder(url: str) -> Path | None:
    """The folder of files that a URL names by a slash at its end; None if it names none. Raises `ValueError`."""
    return _absolute(url.removeprefix(SQLITE)) if url.startswith(SQLITE) and url.endswith("/") else None


def is_postgres(url: str) -> bool:
    """True if a checked URL names a database of PostgreSQL."""
    return url.startswith(POSTGRES)


def shown_store_url(url: str) -> str:
    """The URL for people: without passwords. Also one that is wrong."""
    if not url.startswith(POSTGRES):
        return url
    try:
        parts = urlsplit(url)
    except ValueError:
        return "postgresql://***"
    user, at, hosts = parts.netloc.rpartition("@")
    user = user.partition(":")[0]
    found = parse_qsl(parts.query, keep_blank_values=True)
    query = urlencode([(name, value) for name, value in found if "password" not in name.lower()], safe="/,")
    return f"{parts.scheme}://{user}{at}{hosts}{parts.path}{'?' if query else ''}{query}"


def _checked_postgres(url: str) -> str:
    """The URL as it is. What PostgreSQL and its server say to it is seen when it is opened."""
    if re.search(r"[\x00-\x20\x7f#]", url):
        raise ValueError("must be without #, spaces and control characters; write them as %23, %20, ...")
    try:
        parts = urlsplit(url)
        parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise ValueError("must be as in postgresql://USER@HOST:PORT/DATABASE?sslmode=verify-full") from None
    if parts.netloc.count("@") > 1:
        raise ValueError("must have one @, before the host; write those of a password as %40")
    for host in parts.netloc.rpartition("@")[2].split(","):
        port = re.search(r":([^:\]]*)$", host)
        if port is not None and not (port[1].isascii() and port[1].isdecimal() and 0 < int(port[1]) < 65_536):
            raise ValueError("must have numbers of 1 to 65535 as ports")
    return url


def _absolute(text: str) -> Path:
    if text == ":memory:":
        raise ValueError(f"a yard that keeps nothing is {MEMORY}")
    if not text.strip("/"):
        raise ValueError(f"must name a file, as in {DOCUMENTED_DEFAULT}")
    # The path is taken as it stands, so that a parameter of other programs would become a part of the name.
    if re.search(r"[?#\x00-\x1f\x7f]", text):
        raise ValueError("must be a path without ?, # and control characters after sqlite:///")
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise ValueError("no such home directory") from None
