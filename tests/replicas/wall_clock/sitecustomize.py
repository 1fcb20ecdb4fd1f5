"""Shifts the wall clock of a Python process that has this folder on its path, by the seconds in `WALL_CLOCK_FILE`.

The file is read again every half second, so that a test may let the clock jump. The steady clocks stay what they are.
"""

import os
import time

_READ_AGAIN_SECS = 0.5
_file = os.environ["WALL_CLOCK_FILE"]
_time, _time_ns, _clock_gettime, _monotonic = time.time, time.time_ns, time.clock_gettime, time.monotonic
_shift = 0.0
_read_at = float("-inf")


def _offset() -> float:
    global _shift, _read_at
    if (now := _monotonic()) - _read_at > _READ_AGAIN_SECS:
        _read_at = now
        with open(_file) as file:
            _shift = float(file.read() or _shift)
    return _shift


def _shifted_clock(clock: int) -> float:
    return _clock_gettime(clock) + (_offset() if clock == time.CLOCK_REALTIME else 0.0)


time.time = lambda: _time() + _offset()
time.time_ns = lambda: _time_ns() + round(_offset() * 1e9)
time.clock_gettime = _shifted_clock
