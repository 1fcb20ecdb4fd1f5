"""A control plane that is a guest in a process of somebody else: what it is given there, and what it leaves alone."""

from dataclasses import dataclass

from taskyard_server.engine.virtual_clock import VirtualClock


@dataclass(frozen=True, slots=True)
class EmbeddedOptions:
    """Where the control plane is a guest in the process of a test: it goes by this clock and listens at this address.

    It leaves alone what belongs to the process, signals and garbage collector, and opens no other port or socket.
    """

    clock: VirtualClock
    address: str
