"""The leases of a host by their keys, and which of them are held and which are overdue."""

import math

from taskyard.v1.runtime_host_pb2 import HeldLease

from .held_lease import Lease
from .outbox import LeaseKey


class LeaseTable(dict[LeaseKey, Lease]):
    """The leases of a host, the oldest first. Put them in by `note`, and again whenever they are to end earlier."""

    def __init__(self) -> None:
        super().__init__()
        self._none_ends_before = math.inf
        """A lower bound of all ends, so that most questions after overdue leases cost nothing. Renewals leave it as it
        is."""

    def note(self, lease: Lease) -> None:
        """Put in a lease, or note that it ends earlier than before.

        Args:
            lease: The lease.
        """
        self[lease.key] = lease
        if lease.expires_at < self._none_ends_before:
            self._none_ends_before = lease.expires_at

    def held(self) -> list[LeaseKey]:
        """List the leases that are not lost, ended ones too until their final report was answered.

        Returns:
            The leases.
        """
        return [lease.key for lease in self.values() if not lease.is_lost]

    def overdue(self, now: float) -> dict[LeaseKey, str]:
        """List the leases that were not renewed in time and are not lost yet.

        Args:
            now: The time in seconds.

        Returns:
            The actions of their tasks, by lease.
        """
        if now < self._none_ends_before:
            return {}
        overdue = {lease.key: lease.action for lease in self.values() if lease.expires_at <= now and not lease.is_lost}
        if not overdue:
            self._none_ends_before = min(
                (each.expires_at for each in self.values() if not each.is_lost), default=math.inf
            )
        return overdue


def held_message(key: LeaseKey, tokens_used: int | None = None) -> HeldLease:
    """Name a lease to the server.

    Args:
        key: The lease.
        tokens_used: The tokens that its handler has used so far. Default none stated.

    Returns:
        The message.
    """
    return HeldLease(task_id=key[0], fencing_token=key[1], tokens_used=tokens_used)
