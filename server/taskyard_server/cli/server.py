"""How the commands read what they are given, and how they print what a server answers."""

import json
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from rich.table import Table
from rich.text import Text

from taskyard.v1 import task_pb2

from .failure import Misuse

KIB: Final = 1024
UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")
AGO: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd])")
UNIT_SECS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
SPAN: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhd])")
UNIT_MS: Final = {"ms": 1} | {unit: secs * 1_000 for unit, secs in UNIT_SECS.items()}


COLOURS: Final = {
    "queued": "cyan",
    "assigned": "blue",
    "running": "yellow",
    "paused": "magenta",
    "parked": "bright_blue",
    "done": "green",
    "failed": "red",
    "rejected": "red",
    "cancelled": "bright_black",
}

M = TypeVar("M", bound=Message)


def given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the options that were given."""
    return {name: value for name, value in fields.items() if value is not None}


def filled(message: M, fields: dict[str, Any]) -> M:
    """The message with these JSON fields. Raises `Misuse` for values that do not fit."""
    try:
        return json_format.ParseDict(fields, message)
    except (json_format.ParseError, OverflowError, ValueError) as error:
        raise Misuse(" ".join(str(error).split())) from None


def instant(text: str | None, option: str) -> str | None:
    """A time that was given as an option. Raises `Misuse` for a malformed one."""
    if text is not None:
        try:
            Timestamp().FromJsonString(text)
        except ValueError:
            raise Misuse(f"{option}: must be a time with its zone, such as 2026-12-01T09:00:00Z") from None
    return text


def moment(text: str | None, option: str) -> Timestamp | None:
    """A time that was given as an option: so long ago, or a date or time, a local one if it names no zone.

    Raises `Misuse` for anything else.
    """
    if text is None:
        return None
    found = Timestamp()
    try:
        if match := AGO.fullmatch(text):
            found.FromDatetime(datetime.now(UTC) - timedelta(seconds=float(match[1]) * UNIT_SECS[match[2]]))
        else:
            found.FromDatetime(datetime.fromisoformat(text).astimezone(UTC))
    except (ValueError, OverflowError):
        raise Misuse(
            f"{option}: must be a duration such as 30m, 2h or 7d, or a time such as 2026-12-01 or 2026-12-01T09:00:00Z"
        ) from None
    return found


def milliseconds(text: str, option: str) -> int:
    """A span that was given as an option, at least 1 ms. Raises `Misuse` for anything else."""
    match = SPAN.fullmatch(text)
    ms = 0 if match is None else round(float(match[1]) * UNIT_MS[match[2]])
    if not ms:
        raise Misuse(f"{option}: must be a span such as 500ms, 30s, 10m or 1.5h")
    return ms


def shown(text: str) -> Text:
    """A text from a caller, without markup and without control characters."""
    return Text("".join(char if char.isprintable() else "\ufffd" for char in text))


def shown_lines(text: str) -> Text:
    """A text of several lines from a caller, likewise."""
    return Text("\n").join(map(shown, text.expandtabs().splitlines()))


def fields_table(fields: Mapping[str, Any]) -> Table:
    """A table with one line per field."""
    table = Table(show_header=False, box=None)
    for field, value in fields.items():
        table.add_row(Text(field, "bold"), shown_lines(value if isinstance(value, str) else json.dumps(value)))
    return table


def local_time(at: Timestamp) -> str:
    """A time in the time zone of the terminal, empty if it is absent."""
    return f"{at.ToDatetime(UTC).astimezone():%Y-%m-%d %H:%M:%S}" if at.seconds else ""


def time_ago(at: Timestamp) -> str:
    """How long ago a time was, for people: `5 s ago`."""
    secs = max(0.0, time.time() - at.seconds - at.nanos / 1e9)
    if secs < UNIT_SECS["m"]:
        return f"{secs:.0f} s ago"
    unit, name = (UNIT_SECS["m"], "min") if secs < UNIT_SECS["h"] else (UNIT_SECS["h"], "h")
    return f"{secs / unit:.0f} {name} ago"


def length_text(secs: float) -> str:
    """A length of time for people, as the console has it: `320 ms`, `13.5 s`, `3 min 20 s`, `5 h 2 min`, `3 d 4 h`."""
    if secs < 1:
        return f"{int(1_000 * secs)} ms"
    if secs < UNIT_SECS["m"]:
        return f"{int(10 * secs) / 10:g} s"
    unit, less = ("m", "s") if secs < UNIT_SECS["h"] else ("h", "m") if secs < UNIT_SECS["d"] else ("d", "h")
    whole, rest = divmod(int(secs), UNIT_SECS[unit])
    parts = (whole, unit), (rest // UNIT_SECS[less], less)
    return " ".join([f"{count} {'min' if name == 'm' else name}" for count, name in parts if count])


def took_text(task: task_pb2.Task) -> str:
    """How long a task took, empty while that is not known."""
    return length_text(task.latency_ms / 1_000) if task.HasField("latency_ms") else ""


def why_text(task: task_pb2.Task) -> str:
    """Why a task is in its state: its error, and the reason that somebody gave; empty if there is neither."""
    return ": ".join([text for text in (task.error, task.reason) if text])


def size_text(count: float) -> str:
    """Bytes for people: `52 KiB`."""
    for unit in UNITS[:-1]:
        if count < KIB:
            return f"{count:.0f} {unit}"
        count /= KIB
    return f"{count:.1f} {UNITS[-1]}"


def word(state: int) -> str:
    """The lower-case name of a task's state."""
    return task_pb2.Task.State.Name(state)  # type: ignore[arg-type]


def state_cell(state: int) -> Text:
    """The same in the colour of the state."""
    name = word(state)
    return Text(name, COLOURS.get(name, ""))
