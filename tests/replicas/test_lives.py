"""What a machine says of the processes on it: which replica has ended, whoever ended it.

See docs/operate/scaling.md, Trust.
"""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from taskyard_server.replicas.lives import ProcessLives, machine_mark
from taskyard_server.store.shared_port import Replica
from tests.ports import free_port

LIVE = "from taskyard_server.replicas.lives import ProcessLives as P; p = P(); print(p.begin(), flush=True); input()"
OWN = Replica("me", "west", "127.0.0.1:1", 1, "1")

pytestmark = pytest.mark.skipif(not machine_mark(), reason="only Linux says so")


class Other:
    """Another replica, by its process, at an address where nobody listens."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            (sys.executable, "-c", LIVE), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        instance = self.process.stdout.readline().strip()
        self.replica = Replica(instance, "east", f"127.0.0.1:{free_port()}", 1, "1")

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        self.process.send_signal(how)
        self.process.wait()


@pytest.fixture
def other() -> Iterator[Other]:
    other = Other()
    yield other
    other.end()


async def test_a_killed_process_has_ended_and_a_stopped_one_has_not(other: Other) -> None:
    lives = ProcessLives()
    assert not await lives.has_ended(other.replica, OWN)
    other.process.send_signal(signal.SIGSTOP)
    assert not await lives.has_ended(other.replica, OWN)
    other.end()
    assert await lives.has_ended(other.replica, OWN)


async def test_where_somebody_listens_nobody_is_known_to_have_ended_but_to_who_listens(other: Other) -> None:
    other.end()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        replica = other.replica._replace(address=f"127.0.0.1:{listening.getsockname()[1]}")
        assert not await ProcessLives().has_ended(replica, OWN)
        assert await ProcessLives().has_ended(replica, OWN._replace(address=replica.address))


@pytest.mark.parametrize("changed", [{"instance": "0123456789abcdef"}, {"instance": "0-f00"}, {"address": None}])
async def test_of_another_machine_or_one_without_an_address_nothing_is_known(
    other: Other, changed: dict[str, str | None]
) -> None:
    other.end()
    assert not await ProcessLives().has_ended(other.replica._replace(**changed), OWN)


async def test_a_life_ends_with_the_next_one_and_in_order() -> None:
    lives, others = ProcessLives(), ProcessLives()
    address = f"127.0.0.1:{free_port()}"
    first, second = (Replica(lives.begin(), "east", address, 1, "1") for _ in range(2))
    assert first.instance != second.instance
    assert await others.has_ended(first, OWN)
    assert not await others.has_ended(second, OWN)
    lives.end()
    assert await others.has_ended(second, OWN)
