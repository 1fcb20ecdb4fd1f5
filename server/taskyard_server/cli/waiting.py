"""`taskyard why` and `taskyard demand`: why a task waits, and what pools of hosts have to do."""

from typing import Annotated

import typer

from taskyard.v1 import stats_pb2, stats_pb2_grpc, task_pb2, task_pb2_grpc
from taskyard_server.conversion.payload import message_to_json

from .connection import Connection, with_connection
from .console import out
from .listing import Head, ListingTable, number
from .output_form import print_data, with_output
from .server import length_text, shown, word
from .task_ids import TaskArgument, whole_id


@with_output
@with_connection
def why(task_id: TaskArgument, connection: Connection, as_json: bool = False) -> None:
    """Say why a task waits: each reason has to go before it runs."""
    with connection.opened() as channel:
        request = task_pb2.ExplainTaskRequest(task_id=whole_id(channel, connection, task_id))
        answer = task_pb2_grpc.TaskServiceStub(channel).ExplainTask(request, **connection.call())
    if as_json:
        print_data({"reasons": [], **message_to_json(answer)})
        return
    state = word(answer.state)
    is_over = not answer.reasons and not answer.runnable
    out.print(shown(f"{answer.task_id} is {state}" + (", and waits for nothing" if is_over else "")))
    if answer.reasons:
        table = ListingTable("reason", "what", Head("until", 1))
        for reason in answer.reasons:
            until = reason.until.ToJsonString() if reason.HasField("until") else ""
            table.add(task_pb2.WaitReason.Kind.Name(reason.kind), reason.message, until)
        table.print()
    elif answer.runnable:
        out.print("it is runnable: the next host that asks may get it")
    if answer.HasField("ahead"):
        out.print(f"{answer.ahead} tasks come first in claim order")
    if answer.over_share:
        out.print("its agent has more in flight, by weight, than another one that waits")


@with_output
@with_connection
def demand(
    connection: Connection,
    pool: Annotated[str, typer.Option(help="Only this pool.")] = "",
    as_json: bool = False,
) -> None:
    """Show what the configured pools of hosts have to do."""
    with connection.opened() as channel:
        answer = stats_pb2_grpc.StatsServiceStub(channel).GetDemand(stats_pb2.GetDemandRequest(), **connection.call())
    pools = [each for each in answer.pools if pool in ("", each.pool)]
    if as_json:
        print_data({"pools": [message_to_json(each, zeros=True) for each in pools]})
        return
    if not pools:
        out.print(f"no {'such ' if pool else ''}pool is configured, see scheduler.pools")
        return
    counts = number("runnable"), number("in flight"), number("oldest"), number("free credit", 2), number("hosts", 1)
    table = ListingTable("pool", *counts)
    for each in pools:
        oldest = length_text(each.oldest_secs) if each.HasField("oldest_secs") else ""
        figures = (each.runnable, each.inflight, oldest, each.free_credit, each.hosts)
        table.add(each.pool, *map(str, figures))
    table.print()
