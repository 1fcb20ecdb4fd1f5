"""The figures of this machine: a host reports them, the server records its own (docs/rules.md, Machine figures)."""

from contextlib import suppress
from typing import Final

import psutil

from taskyard.v1.runtime_host_pb2 import Machine

MIB: Final = 1024 * 1024


class MachineFigures:
    """Measures the whole machine. The use of the processors is measured from when this is created."""

    def __init__(self) -> None:
        with suppress(OSError):
            psutil.cpu_percent(None)

    def look(self, active_workers: int) -> Machine:
        """Measure now. It takes well under a millisecond.

        Args:
            active_workers: How many tasks run, to put into the figures.

        Returns:
            The figures. The use of the processors is that since the last call. Figures that the system does not reveal
            to this process are absent.
        """
        machine = Machine(active_workers=active_workers)
        with suppress(OSError):
            machine.cpu_percent = psutil.cpu_percent(None)
        with suppress(OSError):
            machine.memory_mb = round(psutil.virtual_memory().used / MIB, 1)
        return machine
