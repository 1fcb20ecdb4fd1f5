"""The figures of this machine: a host reports them, the server keeps its own (scheduler-daemon, Machine Snapshots)."""

from contextlib import suppress
from typing import Final

import psutil

from taskyard.v1.runtime_host_pb2 import Machine

MIB: Final = 1024 * 1024


class MachineFigures:
    """Measures the whole machine. The use of the processors is over a time, which begins when this is made."""

    def __init__(self) -> None:
        with suppress(OSError):
            psutil.cpu_percent(None)

    def look(self, active_workers: int) -> Machine:
        """The figures now; the use of the processors is that since the last look. Takes well under a millisecond.

        What the system does not let this process see is absent.
        """
        machine = Machine(active_workers=active_workers)
        with suppress(OSError):
            machine.cpu_percent = psutil.cpu_percent(None)
        with suppress(OSError):
            machine.memory_mb = round(psutil.virtual_memory().used / MIB, 1)
        return machine
