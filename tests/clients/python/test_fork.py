"""Clients and forks: calls that gRPC would let hang, or crash on, raise an error."""

import subprocess
import sys
from textwrap import indent

import pytest

pytestmark = pytest.mark.gate("a fresh interpreter a test")

SECS = 30
NO_SERVER = "127.0.0.1:1"
PROGRAM = """
import asyncio, os, sys
from taskyard import Client, DeadlineExceeded, Host, SyncClient, Unavailable

def in_child(call):
    child = os.fork()
    if child == 0:
        try:
            call()
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0

def make():
    return SyncClient({address!r}, patience=0, timeout=1)

def expect_no_server(client):
    try:
        client.get("tsk_1")
    except (DeadlineExceeded, Unavailable):
        print("no server", flush=True)

async def open_one():
    async with Client({address!r}):
        pass

async def work():
    host = Host({address!r}, "host-1")
    host.any_action(print)
    await host.run()

"""
REFUSED = "RuntimeError this process was forked from one that has used a Taskyard client or host, and gRPC does not "


def printed(body: str) -> list[str]:
    program = PROGRAM.format(address=NO_SERVER) + f"def main():\n{indent(body, '    ')}\n\nmain()\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SECS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "call",
    [
        "client.get('tsk_1')",
        "next(client.list())",
        "client.submit('click', agent_id='ann')",
        "client.schedules.get('s')",
    ],
)
def test_a_client_from_before_the_fork_refuses_calls_in_the_child(call: str) -> None:
    (line,) = printed(f"client = make()\nin_child(lambda: {call})\nclient.close()")
    assert line.startswith(REFUSED)


@pytest.mark.parametrize("make", ["make()", "asyncio.run(open_one())", "asyncio.run(work())"])
@pytest.mark.parametrize("is_closed", [False, True])
def test_no_client_or_host_is_created_in_a_child_of_a_process_that_had_a_client(make: str, is_closed: bool) -> None:
    (line,) = printed(f"client = make()\n{'client.close()' if is_closed else ''}\nin_child(lambda: {make})")
    assert line.startswith(REFUSED)


def test_closing_in_the_child_leaves_the_client_of_the_parent_open() -> None:
    leave = "def leave():\n    with client:\n        sys.exit(3)\n"
    lines = printed(f"client = make()\n{leave}in_child(leave)\nexpect_no_server(client)\nclient.close()")
    assert lines == ["SystemExit 3", "no server"]


def test_each_child_of_a_process_without_a_client_may_create_one() -> None:
    use = "def use():\n    with make() as client:\n        expect_no_server(client)\n    sys.exit(3)\n"
    assert printed(f"{use}in_child(use)\nin_child(use)") == ["no server", "SystemExit 3"] * 2
