"""Three replicas on one PostgreSQL with one address in front, on this machine: `python -m tools.replica_yard FOLDER`.

`make up-replicas` runs it, until Ctrl-C. All that it needs is made in the folder, and is there at the next start:

    postgres/                 the database, with its log; left out with --store, which names one of yours
    ca.pem, NAME/replica.pem  the certificates by which replicas know one another
    NAME/taskyard.json, NAME/log  the settings and the log of each replica
    front.json                the configuration of the Envoy in front

A replica that ends is started again, as by any supervisor: kill -9 one, and see what happens.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from taskyard_server.cli.up.secure_folder import certify_replica
from tools.front import Way, front_command
from tools.local_postgres import LocalPostgres, PostgresError

Settings = dict[str, Any]
PORTS: Final = {"grpc": 50051, "rest": 9867}
FIRST_PORT: Final = 50060
"""That of the database. Each replica has the next ten, of which it needs four: gRPC, REST, metrics, other gateways."""
START_SECS: Final = 60.0
STOP_SECS: Final = 30.0
AGAIN_SECS: Final = 1.0
POLL_SECS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Place:
    """Where a replica is: its name, its folder, and its addresses, HOST:PORT.

    Other replicas reach it at `advertise`, which is `listen` unless something stands in between.
    """

    name: str
    folder: Path
    grpc: str
    rest: str
    metrics: str
    listen: str
    advertise: str

    def settings(self, authority: Path, store: str, others: Settings) -> Settings:
        """Its settings, with certificates that `certify` has made in the folder of the authority."""
        replica = {
            "name": self.name,
            "advertise": self.advertise,
            "listen": self.listen,
            "cert": str(authority / self.name / "replica.pem"),
            "key": str(authority / self.name / "replica.key"),
            "ca": str(authority / "ca.pem"),
        }
        addresses = {"grpc": self.grpc, "rest": self.rest, "metrics": self.metrics}
        return {**others, **addresses, "store": {**others.get("store", {}), "url": store}, "replicas": replica}


def certify(authority: Path, names: Sequence[str]) -> None:
    """Make an authority in a folder, and certificates for replicas of these names, unless they are there."""
    for name in names:
        certify_replica(authority, name)


def ways_to(places: Sequence[Place], grpc: str, rest: str) -> tuple[Way, Way]:
    """What an Envoy in front of replicas serves on two addresses."""
    behind = ((grpc, [place.grpc for place in places]), (rest, [place.rest for place in places]))
    return tuple(  # type: ignore[return-value]
        Way(name, host_and_port(front), [host_and_port(each) for each in back])
        for name, (front, back) in zip(("grpc", "rest"), behind, strict=True)
    )


def host_and_port(address: str) -> tuple[str, int]:
    """HOST:PORT as a pair."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def main() -> None:
    """Run everything until it is told to stop."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--store", metavar="URL", help="a postgresql:// of yours instead of one that is run here")
    parser.add_argument("--settings", type=Path, metavar="FILE", help="settings for all replicas, as JSON")
    for name in ("grpc", "rest"):
        parser.add_argument(f"--{name}", default=f"127.0.0.1:{PORTS[name]}", metavar="HOST:PORT")
    parser.add_argument("--first-port", type=int, default=FIRST_PORT, help="of those of the database and the replicas")
    given = parser.parse_args()
    folder: Path = given.folder.resolve()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    others = json.loads(given.settings.read_text()) if given.settings else {}
    places = [_place(folder, number, given.first_port) for number in range(given.replicas)]
    certify(folder, [place.name for place in places])
    try:
        asyncio.run(_run(given, folder, places, others))
    except PostgresError as error:
        raise SystemExit(str(error)) from None


async def _run(given: argparse.Namespace, folder: Path, places: Sequence[Place], others: Settings) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with AsyncExitStack() as stack:
        store = given.store or _own_postgres(folder, given.first_port, stack)
        front = await _begin(*front_command(ways_to(places, given.grpc, given.rest), folder), log=folder / "front.log")
        stack.push_async_callback(_end, front)
        served = [asyncio.Event() for _ in places]
        running = [
            asyncio.create_task(_keep_running(place, place.settings(folder, store, others), event, stopping))
            for place, event in zip(places, served, strict=True)
        ]
        all_serve = asyncio.create_task(_wait_for_all(served, given.rest))
        await asyncio.wait({all_serve, *running}, timeout=START_SECS, return_when=asyncio.FIRST_COMPLETED)
        if all_serve.done():
            _announce(given.grpc, given.rest, places, store)
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        all_serve.cancel()
        stopping.set()
        print("Stopping.", flush=True)
        await asyncio.gather(*running)


async def _wait_for_all(events: Sequence[asyncio.Event], rest: str) -> None:
    """Return once all replicas serve, and the address in front answers by one of them."""
    for event in events:
        await event.wait()
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(*host_and_port(rest))
            writer.write(b"GET /tasks HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            status = await reader.readline()
            writer.close()
            if status and not status.startswith(b"HTTP/1.1 5"):
                return
        await asyncio.sleep(POLL_SECS)


def _own_postgres(folder: Path, port: int, stack: AsyncExitStack) -> str:
    postgres = LocalPostgres(folder / "postgres", port)
    postgres.start()
    stack.callback(postgres.stop)
    return postgres.url()


def _place(folder: Path, number: int, first_port: int) -> Place:
    name = f"replica-{number + 1}"
    grpc, rest, metrics, listen = (f"127.0.0.1:{first_port + 10 * number + offset}" for offset in range(1, 5))
    return Place(name, folder / name, grpc, rest, metrics, listen, listen)


def _announce(grpc: str, rest: str, places: Sequence[Place], store: str) -> None:
    print(f"Taskyard serves gRPC at {grpc} and REST at http://{rest}, by {len(places)} replicas on {store}.")
    for place in places:
        print(f"  {place.name}: gRPC at {place.grpc}, REST at http://{place.rest}, logs in {place.folder / 'log'}")
    print("kill -9 one, and see what happens; Ctrl-C ends all.", flush=True)


async def _keep_running(place: Place, settings: Settings, served: asyncio.Event, stopping: asyncio.Event) -> None:
    """Run a replica until it is to stop; one that ends once it has served is started again."""
    place.folder.mkdir(parents=True, exist_ok=True)
    config = place.folder / "taskyard.json"
    config.write_text(json.dumps(settings, indent=2))
    told = asyncio.create_task(stopping.wait())
    while not stopping.is_set():
        command = (sys.executable, "-m", "taskyard_server.cli.main", "up", "--config", str(config))
        process = await _begin(*command, log=place.folder / "log")
        ended, serving = asyncio.create_task(process.wait()), asyncio.create_task(_serves(place.grpc))
        await asyncio.wait({ended, serving, told}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            served.set()
            await asyncio.wait({ended, told}, return_when=asyncio.FIRST_COMPLETED)
        serving.cancel()
        if not ended.done():
            await _end(process)
        elif not served.is_set():
            print(f"{place.name} ended with {process.returncode}: {_last_line(place.folder / 'log')}", flush=True)
            return
        elif not stopping.is_set():
            print(f"{place.name} ended with {process.returncode}, and is started again.", flush=True)
            await asyncio.wait({told}, timeout=AGAIN_SECS)


async def _serves(address: str) -> None:
    """Return once somebody listens."""
    while True:
        try:
            _, writer = await asyncio.open_connection(*host_and_port(address))
        except OSError:
            await asyncio.sleep(POLL_SECS)
        else:
            writer.close()
            return


async def _begin(*command: str, log: Path) -> asyncio.subprocess.Process:
    # Ctrl-C in a terminal signals the whole group, but the database must end after the replicas.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TASKYARD_STORE")}
    with log.open("ab") as file:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=environment,
            start_new_session=True,
        )


async def _end(process: asyncio.subprocess.Process) -> None:
    """Tell a process to stop, and kill it if it does not."""
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOP_SECS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _last_line(log: Path) -> str:
    return (log.read_text(errors="replace").strip().splitlines() or [""])[-1]


if __name__ == "__main__":
    main()
