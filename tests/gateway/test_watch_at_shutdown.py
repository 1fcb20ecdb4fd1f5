"""A REST watcher when the server goes: HTTP has sent its 200 long before, so the last line is the only sign."""

import asyncio
import json
import signal
import subprocess
import sys

import httpx

from tests.ports import free_port

WATCHERS = 20
SECS = 20


async def test_each_rest_watch_ends_with_a_line_that_says_why_and_where_to_resume() -> None:
    ports = {name: free_port() for name in ("grpc", "rest", "metrics")}
    addresses = [word for name, port in ports.items() for word in (f"--{name}", f"127.0.0.1:{port}")]
    command = [sys.executable, "-m", "taskyard_server.cli.main", "up", *addresses]
    server = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        async with asyncio.timeout(SECS):
            assert server.stdout is not None
            assert b"serves" in await server.stdout.readline()
        rest = httpx.AsyncClient(base_url=f"http://127.0.0.1:{ports['rest']}", timeout=SECS, trust_env=False)
        begun = asyncio.Semaphore(0)

        async def last_line() -> dict[str, object]:
            line = "{}"
            async with rest.stream("GET", "/tasks:watch") as answer:
                async for line in answer.aiter_lines():
                    if json.loads(line).get("bookmark"):
                        begun.release()
            last: dict[str, object] = json.loads(line)
            return last

        async with rest, asyncio.timeout(SECS):
            watches = [asyncio.create_task(last_line()) for _ in range(WATCHERS)]
            for _ in watches:
                await begun.acquire()
            server.send_signal(signal.SIGTERM)
            for last in await asyncio.gather(*watches):
                assert last["end"] == {"reason": "shutdown", "message": "the server shuts down"}
                assert last["cursor"]
            assert await server.wait() == 0
    finally:
        if server.returncode is None:
            server.kill()
            await server.wait()
