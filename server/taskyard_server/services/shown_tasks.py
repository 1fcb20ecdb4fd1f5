"""The sight of tasks: payloads, and the figures of a full queue (docs/operate/security.md, Payloads)."""

from __future__ import annotations

from collections.abc import Callable

from taskyard_server.access.grants import Access
from taskyard_server.conversion.task_encoding import encode_task
from taskyard_server.core.errors import QueueFull, Refusal
from taskyard_server.core.task import Task


def task_encoder(access: Access) -> Callable[[Task], bytes]:
    """Encodes tasks as this caller is shown them."""
    payloads = access.payloads
    if payloads is None:
        return encode_task
    return lambda task: encode_task(task, task.agent_id not in payloads)


def shown_refusal(access: Access, refusal: Refusal) -> Refusal:
    """A refusal as this caller is told of it: an agent learns no figures but its own."""
    return refusal.of_agent() if access.agents is not None and isinstance(refusal, QueueFull) else refusal
