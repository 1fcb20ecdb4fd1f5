"""Runtime hosts of the embedded engine, and their streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from taskyard_server.core.errors import Conflict, NotFound
from taskyard_server.core.hosts import Host, HostProfile, HostStatus
from taskyard_server.core.streams import HeldLease, Hello, TokenUse, Welcome

from .sessions import DrainNotice, Session

if TYPE_CHECKING:
    from taskyard_server.core.offers import Offer

    from .namespace import NamespaceState
    from .namespaces import Namespaces

T = TypeVar("T")


class HostCommands:
    """The registry of hosts, and their streams."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._driver = namespaces.driver
        self._now = namespaces.now
        self._barrier = namespaces.barrier

    async def register(
        self,
        namespace: str,
        host_id: str,
        display_name: str | None,
        profile: HostProfile,
        *,
        slots: int | None = None,
        labels: tuple[tuple[str, str], ...] = (),
        built_in: bool = False,
        show: Callable[[Host], T],
    ) -> T:
        """Add a host, or replace the registration of an existing one."""
        state = self._namespaces.get_or_create(namespace)

        def command() -> T:
            return show(
                state.scheduler.register(
                    self._now(), host_id, display_name, profile, slots=slots, labels=labels, built_in=built_in
                )
            )

        return await self._barrier.give(state, command)

    async def heartbeat(
        self,
        namespace: str,
        host_id: str,
        reported_status: HostStatus | None = None,
        machine: bytes | None = None,
        *,
        show: Callable[[Host], T],
    ) -> T:
        """Record a heartbeat. Raises `NotFound`."""
        # Taken also while the store does not answer, since silence would cost the host its leases.
        state = self._namespaces.get_for_command(namespace, "runtime host", patient=True)
        return await self._barrier.give(
            state, lambda: show(state.scheduler.heartbeat(self._now(), host_id, reported_status, machine))
        )

    async def drain(self, namespace: str, host_id: str, secs: float | None = None, *, show: Callable[[Host], T]) -> T:
        """Dispatch nothing more to a host, and pause the tasks it still runs after `secs`. Raises `NotFound`."""
        state = self._get(namespace)

        def command() -> T:
            until = None if secs is None else self._now() + secs
            host = state.scheduler.drain_host(host_id, until)
            if host.stream is not None:
                session, notice = state.sessions[host.stream], DrainNotice(until, "the host is drained")
                self._once_kept(state, lambda: session.drain(notice))
            return show(host)

        return await self._barrier.give(state, command)

    async def deregister(self, namespace: str, host_id: str) -> None:
        """Remove a host and requeue its tasks. Raises `NotFound`."""
        state = self._get(namespace)
        await self._barrier.give(state, lambda: self._deregister(state, host_id))

    async def list_hosts(self, namespace: str, after: int, *, show: Callable[[list[Host]], T]) -> T:
        """The hosts with a registration number above `after`, in order."""
        state = self._namespaces.find(namespace)
        if state is None:
            return show([])
        return await self._barrier.give(
            state, lambda: show([host for host in state.scheduler.hosts if host.number > after])
        )

    async def connect(
        self, namespace: str, hello: Hello, on_ready: Callable[[], None], *, show: Callable[[Welcome], T]
    ) -> tuple[Session, T]:
        """Open the stream of a host. It supersedes an earlier stream. `Session` documents `on_ready`.

        `on_ready` may be called before this returns.

        Raises `AlreadyExists` while another instance of the host is alive, `BadRequest`, and `Unavailable` once the
        engine is closed.
        """
        self._namespaces.refuse_once_closed()
        state = self._namespaces.get_or_create(namespace, patient=True)
        session: Session | None = None

        def command() -> tuple[Session, T]:
            nonlocal session
            session, welcome = self._open(state, hello, on_ready)
            return session, show(welcome)

        try:
            return await self._barrier.give(state, command, patient=True)
        except BaseException:
            if session is not None:
                # Nobody will serve the stream.
                self._close(session)
            raise

    async def give_credit(self, session: Session, count: int) -> None:
        """Allow the engine to dispatch `count` more tasks over the stream."""
        state = self._state_of(session)
        if state is not None:
            state.scheduler.give_credit(self._now(), session.offer, count)
            self._driver.mark_dirty(state)

    async def beat(
        self,
        session: Session,
        held: Sequence[HeldLease],
        reported_status: HostStatus | None = None,
        machine: bytes | None = None,
        tokens: Sequence[TokenUse] = (),
    ) -> Sequence[HeldLease] | None:
        """Record a heartbeat, renew the leases it lists, and record the tokens that their attempts used so far.

        Returns the listed leases that have ended. None if the stream has: then nothing is known of its leases here, and
        the heartbeat is not answered.
        """
        if session.ended is not None:
            return None
        state = self._state_of(session)
        if state is None:
            return ()
        if session.offer.is_suspended:
            # The host was silent, and may get tasks again now.
            self._driver.mark_dirty(state)
        else:
            self._driver.mark_dirty_soon(state)
        lost = state.scheduler.beat(self._now(), session.offer, held, reported_status, machine, tokens)
        # A host must not stop because of an end that is not committed; a stop follows it.
        return lost if state.changes is None else [lease for lease in lost if not state.is_unkept(lease[0])]

    async def disconnect(self, session: Session) -> None:
        """Close the stream. Its leases continue for the reconnect grace."""
        self._close(session)

    def _deregister(self, state: NamespaceState, host_id: str) -> None:
        offers = state.scheduler.offers_of(host_id)
        state.scheduler.deregister(self._now(), host_id)
        for offer in offers:
            if offer.streamed:
                session = state.sessions[offer]
                session.is_ending = True
                reason = Conflict("the host was deregistered", {"cause": "deregistered"})
                self._once_kept(state, partial(session.end, reason))
            else:
                state.claims.pop(offer).refuse(NotFound("runtime host not found"))

    def _once_kept(self, state: NamespaceState, tell: Callable[[], None]) -> None:
        """Tell a stream of what is being done, once that is kept."""
        persistence = self._barrier.persistence
        kept = None if persistence is None else persistence.wait(state, patient=True)
        if kept is None:
            tell()
        else:
            # Where it is never kept the namespace or the server is at its end: the stream may go, too.
            kept.add_done_callback(lambda _: tell())

    def _open(self, state: NamespaceState, hello: Hello, on_ready: Callable[[], None]) -> tuple[Session, Welcome]:
        superseded = [offer for offer in state.scheduler.offers_of(hello.host_id) if offer.streamed]
        welcome = state.scheduler.connect(self._now(), hello)
        return_credit = partial(self._return_credit, state, welcome.offer)
        session = Session(
            state.namespace,
            welcome.offer,
            welcome.heartbeat_secs,
            on_ready,
            return_credit,
            self._namespaces.drain_notice,
        )
        for offer in superseded:
            reason = Conflict("superseded by another stream of this host", {"cause": "superseded"})
            state.sessions.pop(offer).end(reason)
        state.sessions[session.offer] = session
        return session, welcome

    def _close(self, session: Session) -> None:
        session.forget()
        state = self._namespaces.here(session.namespace)
        if state is not None and state.sessions.pop(session.offer, None) is not None:
            state.scheduler.disconnect(self._now(), session.offer)
            self._driver.mark_dirty(state)

    def _get(self, namespace: str) -> NamespaceState:
        return self._namespaces.get_for_command(namespace, "runtime host")

    def _state_of(self, session: Session) -> NamespaceState | None:
        """The namespace of a stream; None if the stream has ended, or does once that is kept."""
        return None if session.is_ending or session.ended is not None else self._namespaces.here(session.namespace)

    def _return_credit(self, state: NamespaceState, offer: Offer, count: int) -> None:
        state.scheduler.return_credit(offer, count)
        self._driver.mark_dirty(state)
