"""The bearer token of a caller: one that was given, or that of a file, which is read anew when the file changes."""

from __future__ import annotations

import logging
import stat
from pathlib import Path
from typing import Final

from .profiles import warn_if_shared

log = logging.getLogger("taskyard")

MAX_BYTES: Final = 16_384
"""More is no token. Servers take headers of about this size."""


class FixedToken:
    """A token that stays as it is.

    Attributes:
        origin: Where it came from, for people.
        may_change: Whether another try may have another token. False.

    Args:
        text: The token.
        origin: Where it came from, for people.

    Raises:
        ValueError: A header cannot hold the text. The error does not show it.
    """

    may_change = False

    def __init__(self, text: str, origin: str) -> None:
        self._text = checked_token(text)
        self.origin = origin

    def current(self) -> str:
        """Give the token to send.

        Returns:
            The token.
        """
        return self._text

    def reread(self) -> None:
        """Do nothing: it stays as it is."""


class FileToken:
    """The token of a file. A file that cannot be read for a while, or is empty, leaves the token as it was.

    Attributes:
        origin: Where it came from, for people.
        may_change: Whether another try may have another token. False for a pipe.

    Args:
        path: The path of the file, which holds the token and perhaps white space around it.
        origin: Where it came from, for people.

    Raises:
        ValueError: The file cannot be read, or holds no token. The error does not show what it holds.
    """

    def __init__(self, path: str, origin: str) -> None:
        try:
            self._path = Path(path).expanduser()
        except RuntimeError:
            self._path = Path(path)
        self.origin = origin
        self._seen = self._look()
        self._text = self._read()
        # A pipe gives its token once, and would block anyone who reads on.
        self.may_change = self._path.is_file()
        warn_if_shared(self._path, stat.S_IRWXO)

    def current(self) -> str:
        """Give the token to send, read anew if the file has changed since.

        Returns:
            The token.
        """
        seen = self._look() if self.may_change else self._seen
        if seen != self._seen:
            self.reread()
            # What was seen before reading: a change in between is seen by the next look.
            self._seen = seen
        return self._text

    def reread(self) -> None:
        """Read the file whatever its times say."""
        try:
            self._text = self._read()
        except ValueError as error:
            log.warning("the token stays as it was: %s", error)

    def _look(self) -> tuple[int, ...] | None:
        """A mark that changes with the file, None where it is away."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev)

    def _read(self) -> str:
        try:
            with self._path.open("rb") as file:
                raw = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise ValueError(f"{self._path}: {error.strerror}") from None
        if len(raw) > MAX_BYTES:
            raise ValueError(f"{self._path}: has over {MAX_BYTES} bytes, which is no token")
        try:
            text = checked_token(raw.decode("ascii", "replace").strip())
        except ValueError as error:
            raise ValueError(f"{self._path}: {error}") from None
        if not text:
            raise ValueError(f"{self._path}: is empty")
        return text


Token = FixedToken | FileToken


def checked_token(text: str) -> str:
    """Check that a header can hold a token.

    Args:
        text: The token.

    Returns:
        The token.

    Raises:
        ValueError: It cannot. The error does not show the text.
    """
    if not (text.isascii() and text.isprintable()):
        raise ValueError("must be printable ASCII, on one line")
    return text
