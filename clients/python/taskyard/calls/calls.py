"""The unary calls of a client: in its namespace, with its timeout, repeated where that is safe."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeVar

from taskyard.connection.channel import answer_of, check_process
from taskyard.connection.credentials import Credentials
from taskyard.errors import ClientClosed, DeadlineExceeded, Unauthenticated

from .retrying import Notice, call_persistently

T = TypeVar("T")


class Calls:
    """The calls of one client.

    Attributes:
        closed: Whether the client is closed.
        timeout_secs: How long an answer may take, in seconds.

    Args:
        credentials: How to reach the server, and what is sent with every call.
        timeout_secs: How long an answer may take, in seconds.
        patience_secs: How long `repeated` tries while the server is unavailable, in seconds.
        notice: Tells people of an outage. Default nobody is told.

    The calls are made by stubs of `Servers`.
    """

    def __init__(
        self, credentials: Credentials, timeout_secs: float, patience_secs: float, notice: Notice | None = None
    ) -> None:
        self._notice = notice
        self._credentials = credentials
        self._are_several = len(credentials.addresses) > 1
        self.timeout_secs = timeout_secs
        self._patience = patience_secs
        self.closed = False

    async def once(self, method: Callable[..., Awaitable[T]], request: Any) -> T:
        """Make a call that must not be repeated once it may have had an effect.

        It is repeated while it comes to servers that do not own what it names, since it has none there.

        Args:
            method: The method of a stub.
            request: Its request.

        Returns:
            The answer.

        Raises:
            TaskyardError: The call failed; `ClientClosed` once the client is closed.
        """
        return (await call_persistently(lambda _: self.single(method, request), self._patience, False, self._notice))[0]

    async def single(self, method: Callable[..., Awaitable[T]], request: Any, timeout_secs: float | None = None) -> T:
        """Call once, see `call_once`.

        Args:
            method: The method of a stub.
            request: Its request.
            timeout_secs: How long the answer may take, in seconds. Default that of the client.

        Returns:
            The answer.

        Raises:
            TaskyardError: The call failed; `ClientClosed` once the client is closed.
        """
        self.check_open()
        return await call_once(method, request, self._credentials, timeout_secs or self.timeout_secs)

    async def repeated(
        self, method: Callable[..., Awaitable[T]], request: Any, waits_secs: float = 0.0
    ) -> tuple[T, bool]:
        """Call, and repeat the call while the server is unavailable.

        Where there are several servers, each of two may take half the timeout: one may hang.

        Args:
            method: The method of a stub.
            request: Its request.
            waits_secs: How much longer than the client's timeout the answer may take, since the server waits by
                request, in seconds. Default 0.

        Returns:
            The answer, and whether an earlier try may have had an effect.

        Raises:
            TaskyardError: The call failed; `Unavailable` only after the client's patience.
        """
        if not self._are_several:
            return await self.attempted(lambda _: self.single(method, request, self.timeout_secs + waits_secs))
        hung = False

        async def attempt(_: bool) -> T:
            nonlocal hung
            try:
                return await self.single(method, request, self.timeout_secs / 2 + waits_secs)
            except DeadlineExceeded:
                if hung:
                    raise
                hung = True
            return await self.single(method, request, self.timeout_secs / 2 + waits_secs)

        answer, repeated = await self.attempted(attempt)
        return answer, repeated or hung

    async def sure(self, method: Callable[..., Awaitable[T]], request: Any) -> T:
        """Make a call that may be repeated at any time, and repeat it while the server is unavailable.

        Args:
            method: The method of a stub.
            request: Its request.

        Returns:
            The answer.

        Raises:
            TaskyardError: The call failed; `Unavailable` only after the client's patience.
        """
        return (await self.repeated(method, request))[0]

    async def attempted(self, attempt: Callable[[bool], Awaitable[T]]) -> tuple[T, bool]:
        """Repeat an attempt of one or more calls while the server is unavailable.

        Args:
            attempt: Makes the calls, each by `single`. It is told whether an earlier try may have had an effect.

        Returns:
            What the attempt returns, and whether an earlier try may have had an effect.

        Raises:
            TaskyardError: The attempt failed; `Unavailable` only after the client's patience.
        """
        return await call_persistently(attempt, self._patience, notice=self._notice)

    async def listed(
        self, method: Callable[..., Awaitable[Any]], request: Any, field: str, convert: Callable[[Any], T]
    ) -> AsyncGenerator[T, None]:
        """Call for one page after the other.

        Args:
            method: The method of a stub, which answers with a `next_page_token`.
            request: Its request for the first page. It is changed.
            field: The field of a page that holds its items.
            convert: Converts an item.

        Yields:
            The converted items of all pages.

        Raises:
            TaskyardError: A call failed.
        """
        while True:
            page = await self.sure(method, request)
            for item in getattr(page, field):
                yield convert(item)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def check_open(self) -> None:
        """Check that calls can be made.

        Raises:
            ClientClosed: The client is closed.
            RuntimeError: This process was forked from the one that made the client.
        """
        check_process()
        if self.closed:
            raise ClientClosed("the client is closed")


async def call_once(
    method: Callable[..., Awaitable[T]], request: Any, credentials: Credentials, timeout_secs: float
) -> T:
    """Call once; twice if the server refuses a token whose file holds another one by then.

    Args:
        method: The method of a stub.
        request: Its request.
        credentials: How to reach the server, and what is sent with the call.
        timeout_secs: How long an answer may take, in seconds.

    Returns:
        The answer.

    Raises:
        TaskyardError: The call failed.
    """
    sent = credentials.metadata()
    try:
        return await answer_of(method(request, metadata=sent, timeout=timeout_secs))
    except Unauthenticated:
        if not credentials.changed_since(sent):
            raise
    # What was refused has had no effect.
    return await answer_of(method(request, metadata=credentials.metadata(), timeout=timeout_secs))
