"""Decides what is traced, before any span exists: what is not costs next to nothing."""

from __future__ import annotations

from collections.abc import Mapping
from random import getrandbits
from typing import Final

SAMPLER: Final = "OTEL_TRACES_SAMPLER"
RATIO: Final = "OTEL_TRACES_SAMPLER_ARG"
DEFAULT: Final = "parentbased_traceidratio"
PARENT_BASED: Final = "parentbased_"
ODD: Final = frozenset("13579bdf")
"""The last digits of a trace context whose sender records the trace."""
TRACE_ID: Final = slice(3, 35)
LOW: Final = slice(19, 35)
"""Where the lower half of the trace id stands in a trace context; samplers by ratio compare that alone."""
NO_TRACE: Final = "0" * 32
"""It has the format of a trace id, and is none."""


class Sampler:
    """Takes a share of the traces that begin here and, if it is parent based, those that callers record.

    If it is not, what callers have decided counts for nothing.
    """

    def __init__(self, ratio: float, parent_based: bool = True) -> None:
        self._bound = round(ratio * 2**64)
        self._parent_based = parent_based

    def begin(self) -> int | None:
        """The id of a new trace; None for one that is not taken."""
        low = getrandbits(64)
        if low >= self._bound:
            return None
        return getrandbits(64) << 64 | low or 1

    def takes(self, traceparent: str) -> bool:
        """True if what belongs to this trace context is to be recorded."""
        taken = traceparent[-1] in ODD if self._parent_based else int(traceparent[LOW], 16) < self._bound
        return taken and traceparent[TRACE_ID] != NO_TRACE


def configured_sampler(environment: Mapping[str, str], ratio: float | None = None) -> Sampler:
    """The sampler of the variables of OpenTelemetry, or that of a ratio of our own. Raises ValueError."""
    if ratio is not None:
        return Sampler(ratio)
    given = environment.get(SAMPLER) or DEFAULT
    name = given.removeprefix(PARENT_BASED)
    if name == "always_on":
        ratio = 1.0
    elif name == "always_off":
        ratio = 0.0
    elif name == "traceidratio":
        ratio = _ratio(environment.get(RATIO) or "1")
    else:
        known = "always_on, always_off, traceidratio"
        raise ValueError(f"{SAMPLER}: must be among {known}, or one of them after {PARENT_BASED}; is {given}")
    return Sampler(ratio, given != name)


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise ValueError(f"{RATIO}: must be from 0 to 1, is {text}")
    return ratio
