"""The replicas that share the store: which live, of which versions, and whether each can be reached by the others."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import grpc

from taskyard.v1 import admin_pb2
from taskyard.v1.admin_pb2_grpc import AdminServiceStub
from taskyard_server.cli.failure import Failure
from taskyard_server.cli.server import length_text
from taskyard_server.gateway.envoy_secrets import GATEWAYS
from taskyard_server.settings.replicas import ReplicaSettings
from taskyard_server.settings.store_url import is_postgres
from taskyard_server.store.port import CommitDelayed, StoreError

from .database import ask
from .examined import CALL_SECS, Examined
from .findings import Finding, Findings, failure, ok, reason_of, warning

CHECK: Final = "replicas"
LATELY_SECS: Final = 86_400.0
REACH_SECS: Final = 3.0


class KnownReplica(NamedTuple):
    """A replica. `silent_secs` is how long the store has not heard of it; `is_dead` that it counts on it no more."""

    name: str
    address: str | None
    version: str
    silent_secs: float
    is_dead: bool


def replicas(on: Examined) -> Findings:
    """Look at all replicas, by the database of the settings or else by the server that answers."""
    found, orphans = _in_database(on) if is_postgres(on.settings.store.url) else (_told(on), 0)
    if not found:
        return
    living = sorted((each for each in found if not each.is_dead), key=lambda each: each.name)
    if not living:
        yield ok(CHECK, "none lives")
    context = _context(on.settings.replicas)
    problems = asyncio.run(_all_reached(living, context))
    for each, problem in zip(living, problems, strict=True):
        namesakes = sum(other.name == each.name for other in living)
        yield _living(each, problem, on.settings.store.failover_secs, namesakes, len(living) > 1, context is not None)
    lost = {each.name: each for each in found if each.name not in {other.name for other in living}}
    for each in lost.values():
        todo = "start it again and see its log; nothing, if it was taken away: the others serve what it had"
        yield warning(f"replica {each.name}", f"has ended, or died, {length_text(each.silent_secs)} ago", todo)
    versions = {each.version: each.name for each in living}
    if len(versions) > 1:
        words = ", ".join(f"{name} has {version}" for version, name in sorted(versions.items()))
        yield warning(CHECK, f"their versions differ: {words}", "end the upgrade: new formats wait for the oldest one")
    if orphans:
        todo = "wait some seconds; then see the logs of the replicas" if living else "start a replica"
        yield (warning if living else failure)(CHECK, f"{orphans} namespaces have work and no living owner", todo)


def _living(
    each: KnownReplica, problem: str | None, failover_secs: float, namesakes: int, has_others: bool, is_certified: bool
) -> Finding:
    """The finding about a living replica, which cannot be reached if there is a problem."""
    check = f"replica {each.name}"
    if namesakes > 1:
        return warning(check, f"{namesakes} live under this name", "give each a replicas.name of its own")
    if each.silent_secs > failover_secs / 2:
        seen = f"the store has not heard of it for {each.silent_secs:.0f} s"
        todo = f"see whether it runs and reaches the database: after {failover_secs:g} s others take over what it owns"
        return warning(check, seen, todo)
    if problem is not None:
        todo = "see its replicas.advertise, the network, and the certificates of both (docs/operate/security.md)"
        return failure(check, f"{each.address}: {problem}", todo)
    if each.address is None and has_others:
        todo = "set its replicas.advertise (--advertise)"
        return warning(check, "has no address: no other replica can carry calls to it", todo)
    how = ", and takes our certificate" if is_certified else ""
    reached = "" if each.address is None else f", answers at {each.address}{how}"
    return ok(check, f"alive, version {each.version}{reached}")


# Who they are


def _in_database(on: Examined) -> tuple[list[KnownReplica], int]:
    """The replicas as the database knows them, and how many namespaces wait for one."""

    async def read(connection: Any, sql: dict[str, str]) -> tuple[list[Any], int]:
        if not (await connection.fetchval(sql["has_meta"]) and await connection.fetchval(sql["may_use"])):
            return [], 0
        orphans = await connection.fetch(sql["needing_owner"], 1_000)
        return await connection.fetch(sql["replicas"], LATELY_SECS), len(orphans)

    try:
        _, (rows, orphans) = ask(on.settings.store.url, read)
    except (CommitDelayed, StoreError):
        # The check of the store says it.
        return [], 0
    return [KnownReplica(row[1], row[2], row[4], max(0.0, row[9]), row[8] is not None) for row in rows], orphans


def _told(on: Examined) -> list[KnownReplica]:
    """The replicas as the server tells them; none where it tells nothing."""
    if not on.reply.is_there:
        return []
    try:
        with on.connection.opened() as channel:
            request = admin_pb2.ListReplicasRequest()
            answer = AdminServiceStub(channel).ListReplicas(request, **on.connection.call(CALL_SECS))
    except (Failure, grpc.RpcError):
        # The check of the server says it.
        return []
    # By the store's clock alone: the newest renewal is of now.
    now = max((each.renewed_at.seconds for each in answer.replicas), default=0)
    return [
        KnownReplica(
            each.name,
            each.address or None,
            each.version,
            now - each.renewed_at.seconds,
            each.HasField("died_at"),
        )
        for each in answer.replicas
    ]


# Whether others reach them


def _context(own: ReplicaSettings) -> ssl.SSLContext | None:
    """TLS as the gateway of a replica with these settings uses it; None where they name no usable files."""
    if own.ca is None or own.cert is None or own.key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # They are known by their URI.
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    try:
        context.load_verify_locations(own.ca)
        context.load_cert_chain(own.cert, own.key, "")
    except OSError:
        # The check of the certificates says it.
        return None
    return context


async def _all_reached(living: Sequence[KnownReplica], context: ssl.SSLContext | None) -> list[str | None]:
    return await asyncio.gather(*(_problem(each, context) for each in living))


async def _problem(each: KnownReplica, context: ssl.SSLContext | None) -> str | None:
    """The reason for which a replica cannot be reached by another one with these files; None if it can."""
    if each.address is None:
        return None
    host, _, port = each.address.rpartition(":")
    try:
        async with asyncio.timeout(REACH_SECS):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=context)
            try:
                if context is None:
                    return None
                shown: Any = writer.get_extra_info("peercert") or {}
                # It speaks first. Where it does not take our certificate, this is when it says so.
                if not await reader.read(1):
                    return "it closes the connection after our certificate"
            finally:
                writer.close()
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is not valid here: {error.verify_message}"
    except ssl.SSLError as error:
        return f"no TLS connection: {(error.reason or 'it failed').lower().replace('_', ' ')}"
    except TimeoutError:
        return f"does not answer within {REACH_SECS:g} s"
    except OSError as error:
        return reason_of(error) if error.strerror else "cannot be reached"
    uris = [text for kind, text in shown.get("subjectAltName", ()) if kind == "URI"]
    return None if uris == [f"{GATEWAYS}{each.name}"] else f"shows the certificate of {', '.join(uris) or 'nobody'}"
