"""The leases of a host by their keys, and which of them are held and which are overdue."""

import math

from taskyard.v1.runtime_host_pb2 import HeldLease, Report

from .held_lease import Lease
from .outbox import LeaseKey, key_of


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

    def wants_again(self, report: Report) -> bool:
        """Say whether a report that was sent before is worth sending again.

        Args:
            report: The report.

        Returns:
            Whether it is.
        """
        if (lease := self.get(key_of(report))) is None:
            return False
        if report.HasField("started"):
            # It makes no sense for a task that was given back meanwhile.
            return not lease.is_lost and (lease.has_started or lease.assignment is not None)
        return not lease.is_lost or report.HasField("released")


def held_message(key: LeaseKey, tokens_used: int | None = None) -> HeldLease:
    """Name a lease to the server.

    Args:
        key: The lease.
        tokens_used: The tokens that its handler has used so far. Default none stated.

    Returns:
        The message.
    """
    return HeldLease(task_id=key[0], fencing_token=key[1], tokens_used=tokens_used)
