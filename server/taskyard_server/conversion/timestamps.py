"""Times and durations in answers. Times have microseconds."""

from google.protobuf.timestamp_pb2 import Timestamp

from .wire import micros


def timestamp(at: float) -> Timestamp:
    """Seconds since the epoch, to the microsecond."""
    seconds, rest = divmod(micros(at), 1_000_000)
    return Timestamp(seconds=seconds, nanos=rest * 1000)


def go_duration(secs: float) -> str:
    """A duration as the documents print it, such as 5m0s (scheduler-reference, Scheduler Stats)."""
    if 0 < secs < 1:
        return f"{secs * 1000:g}ms"
    hours, rest = divmod(secs, 3600)
    minutes, seconds = divmod(rest, 60)
    text = f"{seconds:g}s"
    if hours or minutes:
        text = f"{minutes:g}m{text}"
    return f"{hours:g}h{text}" if hours else text
