"""Clients and forks: what cannot work says so, where gRPC itself would hang or end the process."""

import subprocess
import sys
from textwrap import indent

import pytest

SECS = 30
NOBODY = "127.0.0.1:1"
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

def find_nobody(client):
    try:
        client.get("tsk_1")
    except (DeadlineExceeded, Unavailable):
        print("nobody", flush=True)

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
    program = PROGRAM.format(address=NOBODY) + f"def main():\n{indent(body, '    ')}\n\nmain()\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SECS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "call",
    ["client.get('tsk_1')", "next(client.list())", "client.submit('click', agent='ann')", "client.schedules.get('s')"],
)
def test_a_client_from_before_the_fork_refuses_its_calls(call: str) -> None:
    (said,) = printed(f"client = make()\nin_child(lambda: {call})\nclient.close()")
    assert said.startswith(REFUSED)


@pytest.mark.parametrize("make", ["make()", "asyncio.run(open_one())", "asyncio.run(work())"])
@pytest.mark.parametrize("is_closed", [False, True])
def test_nor_is_a_new_one_made_in_a_child_of_a_process_that_had_one(make: str, is_closed: bool) -> None:
    (said,) = printed(f"client = make()\n{'client.close()' if is_closed else ''}\nin_child(lambda: {make})")
    assert said.startswith(REFUSED)


def test_closing_in_the_child_leaves_the_client_to_its_process() -> None:
    leave = "def leave():\n    with client:\n        sys.exit(3)\n"
    said = printed(f"client = make()\n{leave}in_child(leave)\nfind_nobody(client)\nclient.close()")
    assert said == ["SystemExit 3", "nobody"]


def test_a_client_of_its_own_works_in_each_child_of_a_process_that_had_none() -> None:
    use = "def use():\n    with make() as client:\n        find_nobody(client)\n    sys.exit(3)\n"
    assert printed(f"{use}in_child(use)\nin_child(use)") == ["nobody", "SystemExit 3"] * 2
