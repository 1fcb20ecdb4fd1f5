"""Programs whose own file has the handlers of worker processes, and what becomes of workers whose host is killed."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from taskyard.action import Action
from taskyard.hosting.actions import Actions
from tests.clients.python.host.process_handlers import pid
from tests.clients.python.host.test_processes import until_gone

PROGRAM = """
import asyncio, os, re, sys
from dataclasses import dataclass
from taskyard.action import Action
from taskyard.hosting.actions import Actions
from tests.clients.python.host.handling import handling

@dataclass
class Page:
    url: str

crawl = Action[Page, str]("crawl")
actions = Actions()

def fetch(page: Page) -> str:
    return f"{page.url} in {__name__} of {os.getppid()}"

def hang(task):
    task.progress(message=str(os.getpid()))
    re.match(r"(a+)+$", "a" * 60 + "b")

actions.add("crawl", fetch, action=crawl, runs_in="process")
actions.add("hang", hang, runs_in="process")

async def main():
    async with handling(actions) as work:
        print((await work.run("crawl", params={"url": "a"})).completed.result.string_value, os.getpid())
        work.start("hang")
        print((await work.reported()).progress.message, flush=True)
        await asyncio.Event().wait()
"""
GUARDED = PROGRAM + '\nif __name__ == "__main__":\n    asyncio.run(main())\n'
UNGUARDED = PROGRAM + "\nasyncio.run(main())\n"


@pytest.fixture
def start(tmp_path):
    """Starts a program from a file of its own."""
    begun = []

    def run(text, *command):
        file = tmp_path / "program.py"
        file.write_text(text)
        words = [word.replace("{file}", str(file)) for word in command or ("{file}",)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (*sys.path, str(tmp_path))))}
        process = subprocess.Popen(
            [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        begun.append(process)
        return process

    yield run
    for process in begun:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("command", [("{file}",), ("-m", "program")], ids=["by its path", "as a module"])
async def test_handlers_of_a_guarded_program_run_and_end_with_the_host_that_is_killed(start, command):
    host = start(GUARDED, *command)
    said, worker = host.stdout.readline().split(), int(host.stdout.readline())
    # A worker imports the program under another name, as those of `multiprocessing` do.
    assert said == ["a", "in", "__mp_main__", "of", str(host.pid), str(host.pid)]
    # It holds the interpreter: nothing but the kernel can end it.
    os.kill(host.pid, signal.SIGKILL)
    host.wait()
    await until_gone(worker)


def test_an_unguarded_program_is_refused_at_once(start):
    host = start(UNGUARDED)
    _, error = host.communicate(timeout=30)
    assert "importing program.py would run the program again" in error
    assert 'if __name__ == "__main__":' in error
    assert "TypeError" in error


def test_a_program_without_a_file_is_refused(start):
    host = start("", "-c", textwrap.dedent(GUARDED))
    assert "the main program has no file to import" in host.communicate(timeout=30)[1]


def test_a_worker_runs_no_host(monkeypatch):
    monkeypatch.setattr("taskyard.workers.current_process.is_worker", True)
    from taskyard.host import Host

    host = Host("127.0.0.1:1", "h")
    host.action("pid")(pid)
    with pytest.raises(RuntimeError, match="a worker process runs no host"):
        host.run().send(None)


class Handlers:
    def method(self, task):
        return task.id

    def __call__(self, task):
        return task.id

    @staticmethod
    def static(task):
        return task.id


def closure(task):
    return task.id


REFUSED = {
    "a lambda": (lambda task: task.id, "a lambda has none"),
    "a bound method": (Handlers().method, "must be a function"),
    "an object": (Handlers(), "must be a function"),
    "a builtin": (len, "must be a function"),
}


@pytest.mark.parametrize(("handler", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_a_worker_could_not_find_is_refused_when_it_is_registered(handler, reason):
    with pytest.raises(TypeError, match=reason):
        Actions().add("click", handler, runs_in="process")


def test_a_function_within_another_is_refused():
    def inner(task):
        return task.id

    with pytest.raises(TypeError, match="is made in another function"):
        Actions().add("click", inner, runs_in="process")


def test_types_that_a_worker_could_not_find_are_refused():
    class Local(dict[str, int]):
        pass

    with pytest.raises(TypeError):
        Actions().add("click", pid, action=Action[Local, int]("click"), runs_in="process")


def test_a_static_method_has_a_name():
    Actions().add("click", Handlers.static, runs_in="process")
