"""Which replica a namespace falls to: the same for all who see the same replicas, and evenly spread."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b


def chosen(namespace: str, instances: Iterable[str]) -> str | None:
    """The instance that a namespace falls to; None if there is none.

    Where one comes or goes, only what falls to that one moves ("highest random weight").
    """
    return max(instances, key=lambda instance: _weight(namespace, instance), default=None)


def _weight(namespace: str, instance: str) -> bytes:
    return blake2b(f"{instance}/{namespace}".encode(), digest_size=8).digest()
