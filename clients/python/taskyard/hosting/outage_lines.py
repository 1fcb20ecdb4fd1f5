"""Lines of a host about its connection in the log: one line for each thing that has changed, with what it means.

What gRPC said is in the log on the level of debugging.
"""

import logging

from taskyard.errors import TaskyardError
from taskyard.streams.reconnecting import MAX_DELAY_SECS, MAX_DELAY_WITH_LEASES_SECS

log = logging.getLogger("taskyard")


class OutageLines:
    """The lines of one stream of a host.

    Args:
        host_id: The id of the host at the server.
    """

    def __init__(self, host_id: str) -> None:
        self._host_id = host_id
        self._was_connected = False
        self._logged: str | None = None
        """The code of the error that was logged last."""

    def connected(self, address: str, session: str) -> None:
        """Say that the host is connected.

        Args:
            address: The address of the server.
            session: What the server calls the session.
        """
        verb = "is back at" if self._was_connected else "connected to"
        log.info("host %s %s %s (session %s)", self._host_id, verb, address, session)
        self._was_connected, self._logged = True, None

    def moved(self, error: TaskyardError) -> None:
        """Say that the host goes where its namespace is served, unless it has trouble with that.

        Args:
            error: How the stream has ended.
        """
        if error.code != self._logged:
            log.info("host %s goes where its namespace is served: %s", self._host_id, error.reason)

    def not_connected(self, error: TaskyardError, stalled_secs: float, culprits: str, running: int) -> None:
        """Say that the host is not connected, once for each code.

        Args:
            error: Why.
            stalled_secs: How long the connection had no turn shortly before, in seconds.
            culprits: Who has stalled it.
            running: How many tasks run.
        """
        log.debug("host %s: %s", self._host_id, error.details.get("raw", error.reason))
        if error.code == self._logged:
            return
        self._logged = error.code
        if error.code == "already_exists":
            log.warning("host %s: another instance holds this id; trying until it is gone", self._host_id)
            return
        if stalled_secs:
            what = f"has to connect anew, since it sent nothing for {stalled_secs:.1f} s: {culprits}"
        else:
            verb = "lost its connection" if self._was_connected else "is not connected yet"
            what = f"{verb}: {error.reason}"
        pause = MAX_DELAY_WITH_LEASES_SECS if running else MAX_DELAY_SECS
        log.warning("host %s %s. It tries until it is, with pauses of at most %g s", self._host_id, what, pause)

    def leases_ended(self, tasks: str, count: int, silent_secs: float, culprits: str, *, is_connected: bool) -> None:
        """Say that leases have ended since they were not renewed.

        Args:
            tasks: The tasks and their actions.
            count: How many there are.
            silent_secs: How long ago the server was heard, in seconds.
            culprits: Who has stalled this process meanwhile, empty for nobody.
            is_connected: Whether there is a stream.
        """
        if culprits:
            why = f"this host could not renew them: {culprits}"
        elif is_connected:
            why = f"no heartbeat was answered for {silent_secs:.1f} s"
        else:
            why = f"no server could be reached for {silent_secs:.1f} s"
        leases = "a lease has" if count == 1 else f"{count} leases have"
        log.warning("host %s: %s ended, of %s: %s", self._host_id, leases, tasks, why)
