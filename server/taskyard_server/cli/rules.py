"""`taskyard limits`, `taskyard weights`, `taskyard fairness`: limits of keys, weights of agents, and what they get."""

from typing import Annotated, Any

import typer
from google.protobuf.message import Message

from taskyard.v1 import agent_pb2, limit_pb2, stats_pb2
from taskyard.v1.agent_pb2_grpc import AgentServiceStub
from taskyard.v1.limit_pb2_grpc import LimitServiceStub
from taskyard.v1.stats_pb2_grpc import StatsServiceStub
from taskyard_server.conversion.payload import message_to_json

from .connection import Connection, with_connection
from .console import out
from .listing import Head, ListingTable, number
from .output_form import print_data, with_output
from .server import shown

limits = typer.Typer(help="Show, set and delete limits of concurrency keys.", no_args_is_help=True)
weights = typer.Typer(help="Show, set and delete weights of agents.", no_args_is_help=True)

KeyPattern = Annotated[
    str, typer.Argument(metavar="PATTERN", help="A key, or the beginning of keys with * at its end.")
]
AgentPattern = Annotated[
    str, typer.Argument(metavar="PATTERN", help="An agent, or the beginning of names with * at its end.")
]
CONFIGURED, SET = "configuration", "set by a call"


@limits.command("list")
@with_output
@with_connection
def list_limits(
    connection: Connection,
    limit: Annotated[int, typer.Option(help="The most keys to show.", min=1, max=1000)] = 100,
    as_json: bool = False,
) -> None:
    """List the limits by pattern, and the keys in use with their usage."""
    with connection.opened() as channel:
        request = limit_pb2.ListLimitsRequest(page_size=limit)
        answer = LimitServiceStub(channel).ListLimits(request, **connection.call())
    if as_json:
        print_data({"limits": [], "keys": [], **message_to_json(answer, zeros=True)})
        return
    heads = ("pattern", number("in flight"), number("per second"), number("burst"), Head("from", 1))
    table = ListingTable(*heads)
    for each in answer.limits:
        numbers = (_given(each, name) for name in ("max_inflight", "per_second", "burst"))
        table.add(shown(each.pattern), *numbers, CONFIGURED if each.configured else SET)
    table.print()
    if answer.keys:
        heads = ("key", number("in flight"), number("waiting"), number("tokens", 1), Head("limited by", 2))
        table = ListingTable(*heads)
        for key in answer.keys:
            tokens = f"{key.tokens:.1f}" if key.HasField("tokens") else ""
            table.add(shown(key.key), str(key.inflight), str(key.waiting), tokens, shown(key.pattern))
        if answer.next_page_token:
            table.note = f"the first {len(answer.keys)}; there are more"
        out.print()
        table.print()


@limits.command("put")
@with_output
@with_connection
def put_limit(
    connection: Connection,
    pattern: KeyPattern,
    max_inflight: Annotated[int | None, typer.Option(help="Maximum tasks of a key in flight.", min=0)] = None,
    per_second: Annotated[float | None, typer.Option(help="Maximum hand-outs of a key a second.")] = None,
    burst: Annotated[
        int | None, typer.Option(help="Hand-outs that may come at once. Default --per-second, at least 1.", min=1)
    ] = None,
    as_json: bool = False,
) -> None:
    """Set the limit of a pattern, at once, in the place of the one of the configuration."""
    request = limit_pb2.PutLimitRequest(pattern=pattern, max_inflight=max_inflight, per_second=per_second, burst=burst)
    with connection.opened() as channel:
        answer = LimitServiceStub(channel).PutLimit(request, **connection.call())
    _done(answer, as_json, "set the limit of", pattern)


@limits.command("delete")
@with_output
@with_connection
def delete_limit(connection: Connection, pattern: KeyPattern, as_json: bool = False) -> None:
    """Delete the limit that was set for a pattern."""
    with connection.opened() as channel:
        request = limit_pb2.DeleteLimitRequest(pattern=pattern)
        answer = LimitServiceStub(channel).DeleteLimit(request, **connection.call())
    _done(answer, as_json, "deleted the limit of", pattern, answer.HasField("limit"))


@weights.command("list")
@with_output
@with_connection
def list_weights(connection: Connection, as_json: bool = False) -> None:
    """List the weights by pattern. Agents that no pattern matches have 1."""
    with connection.opened() as channel:
        request = agent_pb2.ListAgentWeightsRequest()
        answer = AgentServiceStub(channel).ListAgentWeights(request, **connection.call())
    if as_json:
        print_data({"weights": [], **message_to_json(answer, zeros=True)})
        return
    table = ListingTable("pattern", number("weight"), Head("from", 1))
    for each in answer.weights:
        table.add(shown(each.pattern), str(each.weight), CONFIGURED if each.configured else SET)
    table.print()


@weights.command("put")
@with_output
@with_connection
def put_weight(
    connection: Connection,
    pattern: AgentPattern,
    weight: Annotated[int, typer.Argument(metavar="WEIGHT", help="The weight, 1 to 1000.", min=1, max=1000)],
    as_json: bool = False,
) -> None:
    """Set the weight of a pattern, at once, in the place of the one of the configuration."""
    with connection.opened() as channel:
        request = agent_pb2.PutAgentWeightRequest(pattern=pattern, weight=weight)
        answer = AgentServiceStub(channel).PutAgentWeight(request, **connection.call())
    _done(answer, as_json, "set the weight of", pattern)


@weights.command("delete")
@with_output
@with_connection
def delete_weight(connection: Connection, pattern: AgentPattern, as_json: bool = False) -> None:
    """Delete the weight that was set for a pattern."""
    with connection.opened() as channel:
        request = agent_pb2.DeleteAgentWeightRequest(pattern=pattern)
        answer = AgentServiceStub(channel).DeleteAgentWeight(request, **connection.call())
    _done(answer, as_json, "deleted the weight of", pattern, answer.HasField("weight"))


@with_output
@with_connection
def fairness(
    connection: Connection,
    limit: Annotated[int, typer.Option(help="The most agents to show.", min=1, max=1000)] = 100,
    as_json: bool = False,
) -> None:
    """Show what each agent is entitled to by its weight. Beside it is what it received in the last 10 minutes."""
    with connection.opened() as channel:
        request = stats_pb2.GetFairnessRequest(page_size=limit)
        answer = StatsServiceStub(channel).GetFairness(request, **connection.call())
    if as_json:
        print_data({"agents": [], **message_to_json(answer, zeros=True)})
        return
    counted = number("weight", 2), number("in flight"), number("runnable", 1)
    table = ListingTable("agent", *counted, number("entitled"), number("received"))
    for each in answer.agents:
        counts = (each.weight, each.inflight, each.runnable)
        shares = (f"{each.entitled:.1%}", f"{each.received:.1%}")
        table.add(shown(each.agent_id), *map(str, counts), *shares)
    if answer.next_page_token:
        table.note = f"the first {len(answer.agents)}; there are more"
    table.print()


def _given(message: Any, name: str) -> str:
    return f"{getattr(message, name):g}" if message.HasField(name) else ""


def _done(answer: Message, as_json: bool, what: str, pattern: str, configured: bool = False) -> None:
    if as_json:
        print_data(message_to_json(answer, zeros=True))
        return
    then = ", that of the configuration holds" if configured else ""
    out.print(shown(f"{what} {pattern}{then}"))
