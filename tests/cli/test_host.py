"""`taskyard host run`: the host of a program, in one process or in several that are started again."""

import os
import re
import signal
import subprocess
import sys
import uuid
from contextlib import contextmanager

import grpc
import pytest

from taskyard.v1.runtime_host_pb2 import ListHostsRequest
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub
from taskyard_server.cli.failure import Failure
from taskyard_server.cli.host.command import parse_slots
from tests.cases import every_case
from tests.environment import without_settings
from tests.waiting import until_in_thread

PROGRAM = """
import os, pathlib
from taskyard import Host

host = Host(host_id="h", slots=3)

@host.action("work")
def work(task):
    return os.getpid()

def make():
    return host

number = 5
pathlib.Path(f"pid-{os.getpid()}").touch()
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "shop.py").write_text(PROGRAM)
    (tmp_path / "broken.py").write_text("import os\n\n1 / 0\n")
    return tmp_path


@pytest.fixture
def run(program, address):
    """Runs the command until the test is over."""
    namespace = uuid.uuid4().hex

    @contextmanager
    def begin(*arguments):
        environment = {**without_settings(), "TASKYARD_ADDRESS": address, "TASKYARD_NAMESPACE": namespace}
        process = subprocess.Popen(
            [sys.executable, "-m", "taskyard_server.cli.main", "host", "run", *arguments],
            cwd=program,
            env=environment | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    begin.namespace = namespace
    return begin


@pytest.fixture
def until(run, address):
    """Waits until exactly these hosts are connected. Returns their slots by id."""
    with grpc.insecure_channel(address) as channel:
        stub = RuntimeHostServiceStub(channel)

        def wait(*ids):
            return until_in_thread(connected, lambda found: sorted(found) == sorted(ids))

        def connected():
            answer = stub.ListHosts(ListHostsRequest(), metadata=(("taskyard-namespace", run.namespace),))
            return {host.id: host.slots for host in answer.hosts if host.HasField("instance")}

        yield wait


def ended(process, number=signal.SIGTERM):
    process.send_signal(number)
    _, log = process.communicate(timeout=60)
    return process.returncode, log


def test_it_runs_the_host_of_a_module_until_a_signal(run, until):
    with run("shop:host", "--slots", "7") as process:
        assert until("h") == {"h": 7}
        code, log = ended(process)
    assert code == 0
    assert "host h has left" in log


def test_a_function_may_make_the_host_and_slots_may_be_divided(run, until):
    with run("shop:make", "--slots", "work=2") as process:
        assert until("h/work") == {"h/work": 2}
        assert ended(process, signal.SIGINT)[0] == 0


def test_several_processes_have_ids_of_their_own_and_end_by_one_signal(run, until):
    with run("shop:host", "--processes", "2") as process:
        assert until("h/1", "h/2") == {"h/1": 3, "h/2": 3}
        code, log = ended(process)
    assert code == 0
    assert "host h/1 has left" in log
    assert "host h/2 has left" in log


def pids(program):
    return {int(path.name.removeprefix("pid-")) for path in program.glob("pid-*")}


def test_a_process_that_dies_is_started_again(run, until, program):
    with run("shop:host", "--processes", "1") as process:
        until("h/1")
        (pid,) = pids(program)
        os.kill(pid, signal.SIGKILL)
        until_in_thread(lambda: len(pids(program)) >= 2)
        until("h/1")
        code, log = ended(process)
    assert code == 0
    assert "taskyard: host process 1 was ended by SIGKILL; it is started again in 0.5 s" in log


def test_processes_end_with_their_parent(run, until):
    with run("shop:host", "--processes", "2") as process:
        until("h/1", "h/2")
        process.kill()
        until()


MISTAKES = {
    "nowhere:host": "'nowhere' cannot be imported: ModuleNotFoundError: No module named 'nowhere'",
    "broken:host": r"'broken' cannot be imported: ZeroDivisionError: division by zero \(.*broken.py:3\)",
    "shop:other": "shop:other: there is no 'other' in shop; write MODULE:HOST",
    "shop:number": "shop:number: must be a Host or a function that makes one, is int",
}


@pytest.mark.parametrize(
    ("target", "processes"), [*((target, ()) for target in MISTAKES), ("broken:host", ("--processes", "3"))]
)
def test_what_cannot_start_is_said_in_one_line(run, target, processes):
    with run(target, *processes) as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert re.fullmatch(f"taskyard: {MISTAKES[target]}\n", errors)


@pytest.mark.parametrize("processes", [(), ("--processes", "2")], ids=["one", "several"])
def test_slots_that_do_not_fit_the_handlers_are_said_in_one_line(run, processes):
    with run("shop:host", "--slots", "other=1,*=1", *processes) as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert re.fullmatch(r"(taskyard: host h(/[12])?: slots: there is no handler for 'other'\n)+", errors)


def test_slots_are_a_number_auto_or_numbers_by_action():
    assert parse_slots("8") == 8
    assert parse_slots("auto") == "auto"
    assert parse_slots("crawl=8, render=2,*=1") == {"crawl": 8, "render": 2, "*": 1}


@every_case("text", ["", "0", "-1", "x", "a=", "a=0", "=1", "a=1,a=2", "a=1,", "1,a=2"])
def test_other_slots_are_refused(text):
    with pytest.raises(Failure, match="--slots: must be"):
        parse_slots(text)
