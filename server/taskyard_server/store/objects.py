"""The bytes of artifacts: objects in a folder, in memory, or in a bucket of S3, Google or Azure, by obstore.

An object is written once, whole, and is durable then. Its path says of which task it is (`engine/artifacts.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from obstore import ObjectMeta
    from obstore.store import ObjectStore

T = TypeVar("T")

MEMORY: Final = "memory:///"
FILE: Final = "file://"
TIMEOUT_SECS: Final = 20.0
"""How long one object may take to be written or read, its repetitions included."""
REPEATED_FOR_SECS: Final = 10.0
LISTED_AT_ONCE: Final = 1_000


class ObjectsError(Exception):
    """The objects cannot be reached, or something is wrong with them. The text is one line."""


class NoObject(ObjectsError):
    """There is no such object."""


class StoredObject(NamedTuple):
    """An object as it is listed; `modified_at` is seconds since the epoch."""

    path: str
    size: int
    modified_at: float


class Objects:
    """The objects below a URL, which must be of one yard alone. Each call raises `ObjectsError`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._folder = Path(url.removeprefix(FILE)) if url.startswith(FILE) else None
        self._opened: ObjectStore | None = None

    @property
    def has_none(self) -> bool:
        """True if it is plain that there are no objects: their folder is not there, or no memory was used."""
        if self._folder is not None:
            return not self._folder.is_dir()
        return self.url == MEMORY and self._opened is None

    async def put(self, path: str, data: bytes) -> None:
        """Write an object, in the place of the one that is there."""
        import obstore

        await self._call(obstore.put_async(self._store(), path, data, use_multipart=False))
        if self._folder is not None:
            await self._call(asyncio.to_thread(_flush, self._folder, path))

    async def get(self, path: str, start: int, end: int) -> bytes:
        """The bytes of an object from one place to before another. Raises `NoObject`."""
        import obstore

        return bytes(await self._call(obstore.get_range_async(self._store(), path, start=start, end=end)))

    async def listed(self, prefix: str) -> AsyncIterator[list[StoredObject]]:
        """All objects below a folder, in slices, in no order."""
        import obstore

        slices = obstore.list(self._store(), prefix, chunk_size=LISTED_AT_ONCE)
        while True:
            try:
                found: Sequence[ObjectMeta] = await self._call(anext(slices))
            except StopAsyncIteration:
                return
            yield [StoredObject(each["path"], each["size"], each["last_modified"].timestamp()) for each in found]

    async def remove(self, paths: list[str]) -> None:
        """Remove objects, if they are there; at most a slice of them."""
        import obstore

        try:
            await self._call(obstore.delete_async(self._store(), paths))
        except NoObject:
            # A folder refuses all of them for the first that is gone.
            for path in paths:
                with contextlib.suppress(NoObject):
                    await self._call(obstore.delete_async(self._store(), path))

    async def remove_below(self, prefix: str) -> None:
        """Remove all objects below a folder."""
        async for found in self.listed(prefix):
            await self.remove([each.path for each in found])

    def _store(self) -> ObjectStore:
        if self._opened is None:
            from obstore import store

            try:
                if self._folder is not None:
                    self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                    self._opened = store.LocalStore(self._folder, automatic_cleanup=True)
                elif self.url == MEMORY:
                    self._opened = store.MemoryStore()
                else:
                    limit = timedelta(seconds=REPEATED_FOR_SECS)
                    self._opened = store.from_url(
                        self.url,
                        client_options={"timeout": limit, "connect_timeout": limit / 2, "allow_http": True},
                        retry_config={"retry_timeout": limit, "max_retries": 5},
                    )
            except Exception as error:
                raise ObjectsError(_line(error)) from None
        return self._opened

    async def _call(self, call: Coroutine[Any, Any, T] | Any) -> T:
        try:
            async with asyncio.timeout(TIMEOUT_SECS):
                result: T = await call
                return result
        except TimeoutError:
            raise ObjectsError(f"no answer within {TIMEOUT_SECS:.0f} s") from None
        except StopAsyncIteration:
            raise
        except FileNotFoundError:
            raise NoObject("no such object") from None
        except Exception as error:
            raise ObjectsError(_line(error)) from None


def _flush(folder: Path, path: str) -> None:
    """Let a written file, and its name, survive a power cut."""
    file = folder / path
    for each in (file, *file.parents):
        fd = os.open(each, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        if each == folder:
            return


def _line(error: Exception) -> str:
    """The first line of an error's text, without what it quotes of a request."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
