"""The engine of the settings, with its store and, where others share that, with what a replica needs."""

from __future__ import annotations

from taskyard_server.engine.engine import Engine
from taskyard_server.engine.persistence import StoreOptions
from taskyard_server.engine.virtual_clock import VirtualClock
from taskyard_server.net.exposure import authentication_is_on
from taskyard_server.replicas.clock import SharedClock
from taskyard_server.replicas.serving import ReplicaServing
from taskyard_server.settings.config import Settings
from taskyard_server.store.choosing import objects_of, store_of
from taskyard_server.store.shared_port import is_shared
from taskyard_server.store.sqlite.store import BALLAST_BYTES
from taskyard_server.webhooks.webhooks import encode_delivery


def configured_engine(
    settings: Settings,
    *,
    accept_clock: bool = False,
    virtual: VirtualClock | None = None,
) -> tuple[Engine, ReplicaServing | None]:
    """The engine, which goes by a clock of its own or by a `virtual` one, and what it shares a store with.

    With a virtual clock what is random is the same each time. Raises `ValueError` for one beside a shared store.
    """
    store = settings.store
    store_options = StoreOptions(
        patience_secs=store.patience_secs,
        history_days=store.history_days,
        min_free_bytes=store.min_free_bytes,
        accept_clock=accept_clock,
    )
    chosen = store_of(
        store.url,
        synchronous=store.synchronous,
        min_free_bytes=store.min_free_bytes,
        ballast_bytes=BALLAST_BYTES if virtual is None else 0,
        failover_secs=store.failover_secs,
    )
    if virtual is not None and is_shared(chosen):
        raise ValueError("store: replicas share no clock that stands still")
    clock = SharedClock() if is_shared(chosen) else None
    engine = Engine(
        settings.limits(),
        virtual if clock is None else clock,
        None if virtual is None else 0,
        None if clock is None else clock.wall,
        store=chosen,
        store_options=store_options,
        encode_delivery=encode_delivery,
        private=authentication_is_on(settings),
        objects=objects_of(store.artifacts_url),
    )
    engine.admin.set_rules(settings.rules())
    if clock is None or not is_shared(chosen):
        return engine, None
    name, address = settings.replicas.name, settings.replicas.advertise
    return engine, ReplicaServing(chosen, engine, clock, name, address, store.failover_secs)
