"""The server that answers: whether it takes tasks, who it takes one for, its settings and its clock."""

from __future__ import annotations

import time
from typing import Any, Final

import grpc
from google.protobuf import json_format

from taskyard.errors import PermissionDenied, Unauthenticated, error_from_rpc
from taskyard.v1 import admin_pb2, sample_pb2, token_pb2
from taskyard.v1.admin_pb2_grpc import AdminServiceStub
from taskyard.v1.stats_pb2_grpc import StatsServiceStub
from taskyard.v1.token_pb2_grpc import TokenServiceStub
from taskyard_server.cli.failure import Failure
from taskyard_server.cli.server import length_text
from taskyard_server.engine.persistence import MAX_AHEAD_SECS
from taskyard_server.settings.config import by_key

from .examined import CALL_SECS, Examined
from .findings import Finding, Findings, failure, ok, warning
from .ports import addresses_of

CHECK: Final = "server"
CREDENTIAL: Final = "credential"
ADMIN: Final = "give the token of an admin by --token-file"


def server(on: Examined) -> Findings:
    """Ask the server, if there is one."""
    reply = on.reply
    if not reply.is_there:
        if on.is_named:
            yield failure(CHECK, reply.problem, "start it, or correct --server")
        elif (elsewhere := addresses_of(on.processes())) and not _has_port(elsewhere, on.address):
            seen = f"{reply.problem}; the running server, process {on.server}, listens at {', '.join(elsewhere)}"
            yield warning(CHECK, seen, "it was started with other settings or flags: name its gRPC port by --server")
        elif on.runs:
            todo = "see its log; if it does nothing more, stop it and start it again: what it keeps is safe"
            who = f"process {on.server}" if on.server else "somebody"
            yield failure(CHECK, f"{who} serves the admin socket, but {reply.problem}", todo)
        else:
            yield ok(CHECK, reply.problem)
        return
    if reply.problem:
        yield failure(CHECK, f"the one at {on.address} takes no tasks: {reply.problem}", "see the other lines, its log")
    else:
        yield ok(CHECK, f"the one at {on.address} takes tasks")
    try:
        with on.connection.opened() as channel:
            yield from _asked(on, channel)
    except Failure as error:
        yield warning(CREDENTIAL, str(error), "see the line above")


def _has_port(addresses: list[str], address: str) -> bool:
    port = address.rpartition(":")[2]
    return any(each.rpartition(":")[2] == port for each in addresses)


def _asked(on: Examined, channel: grpc.Channel) -> Findings:
    call = on.connection.call(CALL_SECS)
    try:
        who = TokenServiceStub(channel).WhoAmI(token_pb2.WhoAmIRequest(), **call)
        if who.authentication or on.is_named:
            yield _principal(who)
        config = AdminServiceStub(channel).GetConfig(admin_pb2.GetConfigRequest(), **call)
    except grpc.RpcError as error:
        problem = error_from_rpc(error)
        if not isinstance(problem, PermissionDenied | Unauthenticated):
            raise
        yield warning(CREDENTIAL, f"not all was asked: {problem.reason}", ADMIN)
        return
    yield from _config(on, config)
    yield from _clock(StatsServiceStub(channel).ListSamples(sample_pb2.ListSamplesRequest(), **call))


def _principal(who: token_pb2.WhoAmIResponse) -> Finding:
    if not who.authentication:
        return ok(CREDENTIAL, "none is needed: authentication is off, anyone who reaches the server is admin")
    return ok(CREDENTIAL, f"the server takes us for {who.name}")


def _config(on: Examined, config: admin_pb2.GetConfigResponse) -> Findings:
    if config.HasField("error"):
        todo = "correct the file; until then the settings of before are in force"
        yield failure("settings in force", f"the last reload failed: {' '.join(config.error.split())}", todo)
    if on.is_named:
        return
    answer: dict[str, Any] = json_format.MessageToDict(config)
    flat = {
        key if section == key else f"{section}.{key}": value
        for section, part in answer.get("config", {}).items()
        for key, value in (part.items() if isinstance(part, dict) and section != "tabs" else [(section, part)])
    }
    own = by_key(on.settings)
    differ = [key for key in own if key in flat and own[key] != flat[key] and config.sources.get(key) != "flag"]
    if differ:
        todo = "send SIGHUP for those that reload, and start it again for the rest (docs/operate/settings.md)"
        yield warning("settings in force", f"the server has others of {', '.join(differ)}", todo)


def _clock(answer: sample_pb2.ListSamplesResponse) -> Findings:
    """Samples come at a known pace: so the newest tells the server's time within that."""
    if not answer.samples:
        return
    at = answer.samples[-1].at
    behind = time.time() - (at.seconds + at.nanos / 1e9)
    if not -MAX_AHEAD_SECS <= behind <= answer.interval_secs + MAX_AHEAD_SECS:
        text = (
            f"that of the server is {length_text(abs(behind))} {'behind' if behind > 0 else 'ahead of'} this machine's"
        )
        yield warning("clock", text, "let NTP set both clocks")
