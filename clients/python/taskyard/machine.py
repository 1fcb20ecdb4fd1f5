"""The figures of this machine that a host reports with its heartbeats (scheduler-daemon, Machine Snapshots)."""

from typing import Final

import psutil

from taskyard.v1.runtime_host_pb2 import Machine

MIB: Final = 1024 * 1024


class MachineFigures:
    """Measures the whole machine. The first look finds no use of the processors, since use is over a time."""

    def __init__(self) -> None:
        psutil.cpu_percent(None)

    def look(self, active_workers: int) -> Machine:
        """The figures now; the use of the processors is that since the last look. Takes well under a millisecond."""
        return Machine(
            cpu_percent=psutil.cpu_percent(None),
            memory_mb=round(psutil.virtual_memory().used / MIB, 1),
            active_workers=active_workers,
        )
