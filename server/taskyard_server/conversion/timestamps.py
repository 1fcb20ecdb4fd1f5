"""Times and durations in responses. Times have microsecond precision."""

from math import inf, nextafter

from google.protobuf.timestamp_pb2 import Timestamp

from .wire import to_microseconds


def timestamp(at: float) -> Timestamp:
    """A Timestamp for seconds since the epoch, rounded to the microsecond."""
    seconds, microseconds = divmod(to_microseconds(at), 1_000_000)
    return Timestamp(seconds=seconds, nanos=microseconds * 1000)


def earliest_shown(microseconds: int) -> float:
    """The earliest time, in seconds since the epoch, that is shown as this many microseconds or more.

    It bounds times as their readers saw them. The half of a microsecond before is not always a float, and times beside
    it are rounded either way.
    """
    at = (microseconds - 0.5) / 1e6
    while to_microseconds(at) >= microseconds:
        at = nextafter(at, -inf)
    while to_microseconds(at) < microseconds:
        at = nextafter(at, inf)
    return at


def go_duration(secs: float) -> str:
    """A duration in Go's format, such as 5m0s (docs/rules.md, Figures)."""
    if 0 < secs < 1:
        return f"{secs * 1000:g}ms"
    hours, remainder = divmod(secs, 3600)
    minutes, seconds = divmod(remainder, 60)
    text = f"{seconds:g}s"
    if hours or minutes:
        text = f"{minutes:g}m{text}"
    return f"{hours:g}h{text}" if hours else text
