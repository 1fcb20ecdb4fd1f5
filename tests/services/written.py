"""The context of a call whose messages are kept, for services that are called without a server."""

import asyncio


class Written:
    """What was written, in order."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self._came = asyncio.Event()

    async def write(self, message: bytes) -> None:
        self.messages.append(message)
        self._came.set()

    async def until(self, count: int) -> None:
        """Wait until so many messages are written."""
        while len(self.messages) < count:
            self._came.clear()
            await self._came.wait()
