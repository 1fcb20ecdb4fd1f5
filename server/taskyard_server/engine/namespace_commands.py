"""Namespaces as things of their own in the embedded engine: shown, limited, deleted.

(docs/rules.md, Namespaces, Own limits, Deleting a namespace)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import structlog

from taskyard_server.core.errors import AlreadyExists, Conflict, Internal, NotFound
from taskyard_server.core.figures.figures import add_to_totals
from taskyard_server.core.hosts import host_figures
from taskyard_server.core.limits import limits_with
from taskyard_server.core.stats import Totals

from .directories import NamespaceDirectory
from .listeners import DeletionListener
from .namespace_disposal import empty_soon
from .views import NamespaceTotals, NamespaceView, OwnLimits, Served

if TYPE_CHECKING:
    from .namespace import NamespaceState
    from .namespaces import Namespaces
    from .persistence import Persistence

log = structlog.get_logger(__name__)

NO_NAMESPACE: Final = "namespace not found"


class NamespaceCommands:
    """Namespaces as things of their own. `directory` knows those of other replicas, where there are any.

    Where another replica owns one that is named, `NotOwner` is raised.
    """

    def __init__(self, namespaces: Namespaces, persistence: Persistence | None) -> None:
        self.directory: NamespaceDirectory | None = None
        self._namespaces = namespaces
        self._persistence = persistence
        self._barrier = namespaces.barrier
        self._listeners: list[DeletionListener] = []

    async def list_namespaces(
        self, after: str, limit: int, *, is_visible: Callable[[str], bool]
    ) -> Sequence[NamespaceView]:
        """Up to `limit` namespaces with visible names above `after`, in order of their names."""
        names = set(self._namespaces.names())
        if self.directory is not None:
            names.update(self.directory.owners())
        chosen = [name for name in sorted(names) if name > after and is_visible(name)][:limit]
        for name in chosen:
            state = self._namespaces.here(name)
            if state is not None and not state.is_leaving:
                await self._barrier.kept(state)
        views = [self._view(name) for name in chosen]
        # Some may have been deleted while others were waited for.
        return [view for view in views if view.ownership is not None or self._namespaces.here(view.name) is not None]

    async def create(self, name: str, own_limits: OwnLimits) -> NamespaceView:
        """Make a namespace; the one that is there if it has just these limits of its own, else raises `AlreadyExists`.

        Raises `Unavailable` while one of that name is being deleted.
        """
        is_new = self._namespaces.here(name) is None
        if self.directory is not None:
            is_new = name not in self.directory.owners()
        await self._own(name, create=True)
        state = self._namespaces.get_or_create(name)
        if not is_new and dict(state.about.own_limits) != dict(own_limits):
            raise AlreadyExists(f"the namespace {name} is there already, with other limits of its own")
        if is_new:
            log.info("namespace_created", namespace=name)
            self._put_in_force(state, own_limits)
        return await self._barrier.give(state, lambda: self._view(name))

    async def get(self, name: str) -> NamespaceView:
        """One namespace. Raises `NotFound`."""
        await self._own(name, create=False)
        state = self._namespaces.find(name)
        if state is None:
            raise NotFound(NO_NAMESPACE)
        if state.fault is not None:
            raise Internal(state.fault)
        return await self._barrier.give(state, lambda: self._view(name))

    async def update(self, name: str, change: Callable[[OwnLimits], OwnLimits]) -> NamespaceView:
        """Put other limits of its own in force, which `change` makes of the present ones. Raises `NotFound`."""
        await self._own(name, create=False)
        state = self._namespaces.find(name)
        if state is None:
            raise NotFound(NO_NAMESPACE)
        state = self._namespaces.get_for_command(name, "namespace")
        own_limits = change(state.about.own_limits)
        if dict(own_limits) != dict(state.about.own_limits):
            self._put_in_force(state, own_limits)
            log.info("namespace_limited", namespace=name, limits=dict(own_limits))
        return await self._barrier.give(state, lambda: self._view(name))

    async def delete(self, name: str, force: bool) -> None:
        """End a namespace with all that is in it.

        Raises `NotFound`, and without `force` `Conflict` for one with live tasks, hosts that are online, or schedules.
        """
        namespaces = self._namespaces
        await self._own(name, create=False)
        state = namespaces.find(name)
        if state is None:
            raise NotFound(NO_NAMESPACE)
        if not force and (content := self._content(state)):
            raise Conflict(f"the namespace {name} has {content}; with force=true it is deleted with all of that")
        if self._persistence is not None:
            self._persistence.require_answers()
        state.is_deleted = state.is_leaving = True
        if self._persistence is None:
            self._end(state)
        else:
            # Taken first, so that what this turn has changed goes the same way.
            await self._persistence.committer.keep(state, lambda _: self._end(state))
        if self.directory is not None:
            await self.directory.deleted(name, state.number)

    def subscribe(self, listener: DeletionListener) -> Callable[[], None]:
        """Call a listener with all deletions from now on. Returns a function that removes the listener."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def _own(self, name: str, create: bool) -> None:
        if self.directory is not None:
            await self.directory.own(name, create)

    def _put_in_force(self, state: NamespaceState, own_limits: OwnLimits) -> None:
        state.about = state.about._replace(own_limits=dict(own_limits))
        state.about_changed = True
        state.scheduler.reconfigure(limits_with(self._namespaces.limits, own_limits))
        self._namespaces.driver.mark_dirty(state)

    def _end(self, state: NamespaceState) -> None:
        """Serve a namespace no longer, whose deletion is kept."""
        name = state.namespace
        self._namespaces.deleted_at_ms[name] = int(self._namespaces.now() * 1000)
        self._namespaces.remove(state)
        state.leave()
        log.info("namespace_deleted", namespace=name, number=state.number)
        if self._persistence is not None:
            self._persistence.removals.add(state.number)
        for listener in self._listeners:
            try:
                listener(name)
            except Exception:
                # A fault of one listener must not affect the others.
                log.exception("listener_failed", namespace=name)
        empty_soon(state.scheduler, self._namespaces.now())

    def _view(self, name: str) -> NamespaceView:
        ownership = None if self.directory is None else self.directory.owners().get(name)
        state = self._namespaces.here(name)
        # One that is being deleted is there until that is kept.
        if state is None or state.fault is not None or (state.is_leaving and not state.is_deleted):
            return NamespaceView(name, None, ownership)
        return NamespaceView(name, _served(state), ownership)

    def _content(self, state: NamespaceState) -> str:
        """The content of a namespace that somebody may miss, in words; empty if there is none."""
        if state.fault is not None:
            return "records at fault"
        now, limits = self._namespaces.now(), state.scheduler.limits
        online = host_figures(state.scheduler.hosts, now, limits).online
        totals = _served(state).totals
        counts = (
            (totals.queued, "queued task"),
            (totals.inflight, "task in flight"),
            (totals.paused, "paused task"),
            (totals.parked, "parked task"),
            (online, "online host"),
            (totals.schedules, "schedule"),
        )
        return ", ".join(f"{count} {_plural(words, count)}" for count, words in counts if count)


def _served(state: NamespaceState) -> Served:
    totals = Totals()
    add_to_totals(totals, state.scheduler)
    hosts = sum(not host.built_in for host in state.scheduler.hosts)
    counts = NamespaceTotals(
        totals.queued, totals.inflight, totals.paused, totals.parked, totals.retained, hosts, totals.schedules
    )
    return Served(state.about.created_at, counts, state.about.own_limits, state.scheduler.limits)


def _plural(words: str, count: int) -> str:
    if count == 1:
        return words
    return words.replace("task in", "tasks in") if " in " in words else f"{words}s"
