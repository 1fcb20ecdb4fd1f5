"""Who hears of what has happened: each is called with a namespace, in the turn that tells it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from taskyard_server.core.events import Event
from taskyard_server.core.leases import Loss
from taskyard_server.core.schedules.schedule import TriggerEvent

from .views import DueDelivery

LossListener: TypeAlias = Callable[[str, Sequence[Loss]], None]
"""Called with a namespace and the leases that were lost in it, in order. It must not block or raise."""

Listener: TypeAlias = Callable[[str, Sequence[Event]], None]
"""Called with a namespace and its new events, in order. It must not block or raise."""

DeletionListener: TypeAlias = Callable[[str], None]
"""Called with the name of a namespace whose deletion is kept just now. It must not block or raise."""

DeliveryEncoder: TypeAlias = Callable[[Event], bytes | None]
"""The record by which an event is delivered, without its task; None if nobody is told. Called in the event's turn."""

DeliveryListener: TypeAlias = Callable[[Sequence[DueDelivery]], None]
"""Called with deliveries that have just been committed, in the order of their numbers. It must not block or raise."""

TriggerListener: TypeAlias = Callable[[str, Sequence[TriggerEvent]], None]
"""Called with a namespace and its new trigger events, in order. It must not block or raise."""
