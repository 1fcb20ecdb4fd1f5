"""`taskyard health`: whether a server answers, or takes tasks, for health checks of containers and supervisors."""

from typing import Annotated

import typer

from taskyard.v1 import health_pb2, health_pb2_grpc

from .connection import Connection, with_connection_to_server

READY_SECS = 5.0

ReadyOption = Annotated[bool, typer.Option("--ready", help="Ask whether it takes tasks, not whether it lives.")]


@with_connection_to_server
def health(connection: Connection, ready: ReadyOption = False) -> None:
    """Say whether the server lives: the exit code is 0 if it does, and 3 if not."""
    with connection.opened() as channel:
        service = health_pb2_grpc.HealthServiceStub(channel)
        # It asks nobody for a credential.
        if ready:
            answer = service.GetReadiness(health_pb2.GetReadinessRequest(), timeout=READY_SECS)
        else:
            answer = service.GetHealth(health_pb2.GetHealthRequest(), timeout=READY_SECS)
    typer.echo(answer.status)
