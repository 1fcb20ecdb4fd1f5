"""Where key sets come from: files, which are looked at every few seconds, and URLs, which are asked in the background.

A call never waits for either. What cannot be read or understood is logged, and the last good keys stay in force.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Final

import httpx
import structlog

from taskyard_server.net.file_marks import FileMark, mark_of
from taskyard_server.settings.security import is_url

from .key_sets import MAX_BYTES, NO_KEYS, KeySetError, read_key_set

log = structlog.get_logger(__name__)

FILE_SECS: Final = 3.0
"""Seconds between two looks at a file."""
URL_SECS: Final = 300.0
"""Seconds between two fetches of a URL while all is well."""
URL_LEAST_SECS: Final = 30.0
"""Seconds between two fetches of a URL at least: after a failure, and where a token names a key that is not known."""
FETCH_SECS: Final = 8.0
"""Seconds that one fetch may take as a whole."""


class KeySource(ABC):
    """The keys of one location. `keys` are those in force: another object once they have changed."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.keys = NO_KEYS
        self._document: bytes | None = None
        self._due_at = float("-inf")
        self._problem: str | None = None

    def is_due(self, now: float) -> bool:
        """True if it is time to look again."""
        return now >= self._due_at

    @abstractmethod
    def want(self) -> None:
        """Note that a token names a key which is not known."""

    async def refresh(self, now: float) -> None:
        """Look again. What is wrong is logged, once for as long as it stays the same."""
        try:
            await self.load(now)
        except KeySetError as problem:
            if str(problem) != self._problem:
                self._problem = str(problem)
                log.warning("keys_not_read", place=self.location, reason=self._problem, keys=len(self.keys))
        else:
            self._problem = None

    async def load(self, now: float) -> None:
        """Look again. Raises `KeySetError`; the keys are then those of before. `now` is in seconds of any clock."""
        self._due_at = now + self._retry_secs
        document = await self._read()
        if document is not None and document != self._document:
            self.keys = read_key_set(document, self.location)
            self._document = document
            log.info("keys_read", place=self.location, keys=len(self.keys))
        self._due_at = now + self._secs

    _secs: float
    _retry_secs: float

    @abstractmethod
    async def _read(self) -> bytes | None:
        """The document; None if it is known to be the last one. Raises `KeySetError`."""


class KeyFile(KeySource):
    """A file. One that is replaced is noticed by its time, size or number."""

    _secs = _retry_secs = FILE_SECS

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self._path = Path(location)
        self._mark: FileMark | None = None

    def want(self) -> None:
        """Nothing: it is looked at often enough."""

    async def _read(self) -> bytes | None:
        return await asyncio.to_thread(self._read_if_changed)

    def _read_if_changed(self) -> bytes | None:
        try:
            if not self._path.is_file() and self._path.exists():
                raise KeySetError("is not a file")
            with self._path.open("rb") as file:
                mark = mark_of(os.stat(file.fileno()))
                if mark == self._mark:
                    return None
                document = file.read(MAX_BYTES + 1)
        except OSError as error:
            self._mark = None
            raise KeySetError((error.strerror or "cannot be read").lower()) from None
        self._mark = mark
        return document


class KeyUrl(KeySource):
    """An https URL, or an http one on loopback. Redirections are not followed."""

    _secs = URL_SECS
    _retry_secs = URL_LEAST_SECS

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self._is_wanted = False
        self._fetched_at = float("-inf")

    def is_due(self, now: float) -> bool:
        return super().is_due(now) or (self._is_wanted and now - self._fetched_at >= URL_LEAST_SECS)

    def want(self) -> None:
        self._is_wanted = True

    async def load(self, now: float) -> None:
        self._fetched_at = now
        self._is_wanted = False
        await super().load(now)

    async def _read(self) -> bytes:
        # Proxies and authorities of the environment count, but what is on loopback stays there.
        is_remote = self.location.startswith("https:")
        try:
            async with (
                asyncio.timeout(FETCH_SECS),
                httpx.AsyncClient(trust_env=is_remote, timeout=FETCH_SECS) as http,
                http.stream("GET", self.location, headers={"accept-encoding": "identity"}) as response,
            ):
                return await _body_of(response)
        except TimeoutError:
            raise KeySetError(f"did not answer within {FETCH_SECS:g} seconds") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            raise KeySetError(str(error) or type(error).__name__) from None


def key_source(location: str) -> KeySource:
    """The source at a location as the settings write it: a URL or the path of a file."""
    return KeyUrl(location) if is_url(location) else KeyFile(location)


async def _body_of(response: httpx.Response) -> bytes:
    if response.status_code != httpx.codes.OK:
        raise KeySetError(f"answered with {response.status_code}")
    # A short answer can unpack to any length.
    if response.headers.get("content-encoding", "identity") != "identity":
        raise KeySetError("answered in an encoding that was not asked for")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_BYTES:
            raise KeySetError(f"is longer than {MAX_BYTES} bytes")
    return bytes(body)
