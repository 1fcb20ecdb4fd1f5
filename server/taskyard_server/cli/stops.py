"""The options of commands that stop tasks: the reason, to wait until the host has stopped, and what is said then."""

from typing import Annotated, Final

import typer

from taskyard.v1 import task_pb2 as pb

from .connection import TIMEOUT_SECS
from .server import milliseconds

WaitOption = Annotated[
    str | None,
    typer.Option(metavar="SPAN", help="Wait so long, at most 60s, until its host says that nothing runs any more."),
]
ReasonOption = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Why, for people, up to 1,000 characters: tasks and logs of hosts show it."),
]
TEXTS: Final = {
    pb.Stopping.released: "nothing of it runs any more",
    pb.Stopping.presumed: "it may still run, its host has said nothing",
    pb.Stopping.not_running: "no host had it",
    pb.Stopping.waiting: "it may still run, its host has not stopped yet",
}


def wait_ms(wait: str | None) -> int | None:
    """How long the server shall wait; None if it was not asked to. Raises `Failure` for what is no span."""
    return None if wait is None else milliseconds(wait, "--wait")


def timeout_secs(wait_ms: int | None) -> float:
    """How long the answer may take."""
    return TIMEOUT_SECS + (wait_ms or 0) / 1000


def stop_text(answer: pb.CancelTaskResponse | pb.PauseTaskResponse) -> str:
    """The state of the host, behind what was done; nothing if it was not waited for."""
    return f", {TEXTS[answer.stopping]}" if answer.stopping in TEXTS else ""
