"""`taskyard health` and `taskyard stats`: whether a server is well, and the scheduler's figures."""

from typing import Annotated, Final

import typer
from rich.text import Text

from taskyard.v1 import health_pb2, health_pb2_grpc, stats_pb2, stats_pb2_grpc
from taskyard_server.conversion.payload import message_to_json

from .connection import Connection, with_connection, with_connection_to_server
from .listing import ListingTable, number
from .output_form import print_data, with_output
from .server import size_text

HEALTH_SECS: Final = 5.0

ReadyOption = Annotated[bool, typer.Option("--ready", help="Ask whether it takes tasks, not whether it lives.")]


@with_output
@with_connection_to_server
def health(connection: Connection, ready: ReadyOption = False, as_json: bool = False) -> None:
    """Say whether the server lives, for health checks: the exit code is 0 if it does, and 3 if not."""
    with connection.opened() as channel:
        service = health_pb2_grpc.HealthServiceStub(channel)
        # Neither call asks for a credential.
        if ready:
            status = service.GetReadiness(health_pb2.GetReadinessRequest(), timeout=HEALTH_SECS).status
        else:
            status = service.GetHealth(health_pb2.GetHealthRequest(), timeout=HEALTH_SECS).status
    if as_json:
        print_data({"status": status})
    else:
        typer.echo(status)


@with_output
@with_connection
def stats(
    connection: Connection,
    as_json: bool = False,
) -> None:
    """Show the scheduler's figures."""
    with connection.opened() as channel:
        request = stats_pb2.GetStatsRequest()
        answer = stats_pb2_grpc.StatsServiceStub(channel).GetStats(request, **connection.call())
    if as_json:
        print_data(message_to_json(answer, zeros=True))
        return
    counted = number("submitted", 1), number("completed"), number("failed"), number("cancelled", 2)
    table = ListingTable("agent", number("queued"), *counted, number("rejected", 3))
    metrics, queue = answer.metrics, answer.queue
    for name, agent in sorted(metrics.agents.items()):
        counts = (agent.submitted, agent.completed, agent.failed, agent.cancelled, agent.rejected)
        table.add(name, f"{queue.agent_counts.get(name, 0):.0f}", *(f"{count:.0f}" for count in counts))
    totals = (
        metrics.tasks_submitted,
        metrics.tasks_completed,
        metrics.tasks_failed,
        metrics.tasks_cancelled,
        metrics.tasks_rejected,
    )
    table.add(Text("all", "bold"), f"{queue.total_queued:.0f}", *(f"{count:.0f}" for count in totals), last=True)
    table.note = f"{queue.total_inflight:.0f} in flight, {metrics.avg_dispatch_latency_ms:.1f} ms to hand-out"
    if queue.total_paused:
        table.note += f", {queue.total_paused:.0f} paused"
    if queue.total_parked:
        table.note += f", {queue.total_parked:.0f} parked"
    if queue.targets.waiting:
        table.note += f", {queue.targets.waiting:.0f} wait for their target (see: taskyard targets)"
    if answer.HasField("hosts"):
        table.note += f", {answer.hosts.online:.0f} of {answer.hosts.registered:.0f} hosts online"
        if answer.hosts.lost:
            table.note += f", {answer.hosts.lost:.0f} lost"
    if answer.HasField("store"):
        table.note += f", {size_text(answer.store.used_bytes)} kept"
        if answer.store.free_bytes:
            table.note += f", {size_text(answer.store.free_bytes)} free"
    if queue.limited_by:
        table.note += f", tasks wait: raise scheduler.{queue.limited_by}"
    table.print()
