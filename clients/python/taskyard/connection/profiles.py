"""Profiles: named ways to reach a server (docs/rules.md, Credentials of callers)."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

log = logging.getLogger("taskyard")

OWNER_ONLY: Final = stat.S_IRWXG | stat.S_IRWXO
"""The permissions that a private file must not give."""
PATHS: Final = ("token_file", "ca", "cert", "key")


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile. Whatever it does not say is None.

    Attributes:
        name: Its name.
        address: Where the server listens, or several servers do, separated by commas.
        namespace: The namespace to act in.
        token: A token, which `repr` leaves out.
        token_file: The path of a file with a token.
        ca: The path of the certificates that may sign the server's.
        cert: The path of a client certificate.
        key: The path of its key.
    """

    name: str
    address: str | None = None
    namespace: str | None = None
    token: str | None = None
    token_file: str | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    def __repr__(self) -> str:
        return f"Profile({self.name!r}, address={self.address!r})"


KEYS: Final = frozenset(field.name for field in fields(Profile)) - {"name"}


def profiles_file(environment: Mapping[str, str]) -> Path | None:
    """Find the file of the profiles.

    Args:
        environment: The environment variables.

    Returns:
        Its path, whether it exists or not; None where there is no home directory.
    """
    folder = environment.get("XDG_CONFIG_HOME", "")
    if folder and Path(folder).is_absolute():
        return Path(folder, "taskyard", "config.toml")
    try:
        return Path("~/.config/taskyard/config.toml").expanduser()
    except RuntimeError:
        return None


def find_profile(name: str | None, environment: Mapping[str, str]) -> Profile | None:
    """Read a profile.

    Args:
        name: Its name, or None for that which the file names as `default_profile`.
        environment: The environment variables.

    Returns:
        The profile; None if no name is given and the file is not there, cannot be read or has no default.

    Raises:
        ValueError: There is no such profile, or the file is malformed. The text holds no value of the file but names.
    """
    path = profiles_file(environment)
    document = _read(path, is_needed=name is not None)
    if document is None or path is None:
        return None
    profiles = document.get("profiles", {})
    if not isinstance(profiles, dict):
        raise ValueError(f"{path}: profiles: must be tables, such as [profiles.home]")
    name = document.get("default_profile") if name is None else name
    if name is None:
        return None
    if not isinstance(name, str) or not isinstance(profiles.get(name), dict):
        raise ValueError(f"{path}: there is no profile {name!r}; there are: {', '.join(profiles) or 'none'}")
    return _profile(path, name, profiles[name])


def warn_if_shared(path: Path, forbidden: int) -> None:
    """Log a warning of one line if others may read a secret.

    Args:
        path: A file that holds a secret.
        forbidden: The bits of its mode that must not be set.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if os.name == "posix" and mode & forbidden & (stat.S_IRGRP | stat.S_IROTH) and path not in _warned:
        _warned.add(path)
        log.warning("%s holds a secret and can be read by others: chmod 600 %s", path, path)


def _read(path: Path | None, is_needed: bool) -> dict[str, Any] | None:
    if path is None:
        if is_needed:
            raise ValueError("there are no profiles, since there is no home directory")
        return None
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        # Services run without a readable home: they fail only if they ask for a profile.
        if not is_needed:
            return None
        raise ValueError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        # That has the whole file in it.
        raise ValueError(f"{path}: is not UTF-8") from None
    import tomllib  # here, since most programs have no profiles

    try:
        return tomllib.loads(text)
    except ValueError as error:
        # The parser tells the place, not the text.
        problem = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "is malformed"
        raise ValueError(f"{path}: {problem}") from None


def _profile(path: Path, name: str, table: dict[str, Any]) -> Profile:
    given: dict[str, str] = {}
    for key, value in table.items():
        if key not in KEYS:
            raise ValueError(f"{path}: profiles.{name}.{key}: unknown key; there are: {', '.join(sorted(KEYS))}")
        if key == "address" and isinstance(value, list) and all(isinstance(each, str) for each in value):
            value = ",".join(value)
        if not isinstance(value, str) or not value:
            raise ValueError(f"{path}: profiles.{name}.{key}: must be a text that is not empty")
        # Paths are relative to the file that names them, whatever the working directory is.
        given[key] = str(path.parent / Path(value).expanduser()) if key in PATHS else value
    if "token" in given:
        warn_if_shared(path, OWNER_ONLY)
    return Profile(name, **given)


_warned: set[Path] = set()
