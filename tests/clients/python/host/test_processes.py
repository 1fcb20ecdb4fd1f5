"""Handlers in worker processes: what they are given, what they report, how they are stopped and how they die."""

import logging
import os
from pathlib import Path

import pytest

from taskyard.hosting.actions import Actions
from taskyard.v1.task_pb2 import Progress
from taskyard.values.convert import plain_value, struct_from
from taskyard.values.payloads import decode_value, encode_value
from tests.clients.python.host import plain_handlers, process_handlers
from tests.clients.python.host.handling import handling
from tests.waiting import until


def process_actions(*names: str, **options) -> Actions:
    """Actions of this kind, each with the handler of its name."""
    actions = Actions(**options)
    for name in names:
        actions.add(name, getattr(process_handlers, name), runs_in="process")
    return actions


def result_of(report):
    assert report.HasField("completed"), report
    return plain_value(report.completed.result)


def lives(pid: int) -> bool:
    """True if a process runs. One that has ended counts as gone before its parent has looked."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until_gone(pid: int) -> None:
    await until(lambda: not lives(pid))


async def test_a_worker_process_is_used_again_and_again():
    async with handling(process_actions("pid")) as work:
        pids = {result_of(await work.run("pid", task_id)) for task_id in "abc"}
    assert len(pids) == 1
    assert os.getpid() not in pids


async def test_tasks_at_the_same_time_have_a_process_each(tmp_path):
    file = tmp_path / "go on"
    async with handling(process_actions("entered_and_waits")) as work:
        for task_id in "ab":
            work.start("entered_and_waits", task_id, params={"file": str(file)})
        entered = {(await work.reported()).progress.message for _ in "ab"}
        assert work.handlers.running() == {("a", 1): "entered_and_waits", ("b", 1): "entered_and_waits"}
        file.touch()
        pids = {str(int(result_of((await work.ended())[1]))) for _ in "ab"}
    assert pids == entered
    assert len(pids) == 2


async def test_a_typed_handler_takes_its_input_and_gives_its_output():
    actions = Actions()
    actions.add("crawl", process_handlers.fetch, action=process_handlers.crawl, runs_in="process")
    async with handling(actions) as work:
        report = await work.run("crawl", params={"url": "a", "serial": 7})
        assert result_of(report)["serial"] == 8
        misfit = (await work.run("crawl", params={"url": "a", "serial": "x"})).failed
        assert (misfit.code, misfit.retryable) == ("bad_input", False)
        assert "serial" in misfit.error
        # What no double holds travels as bytes.
        page = process_handlers.Page("a", 2**60)
        payload = encode_value(page, process_handlers.Page, None, is_object=True).payload
        output = (await work.run("crawl", input=payload)).completed.output
        assert decode_value(process_handlers.Links, None, output, None).serial == 2**60 + 1


async def test_progress_tokens_and_checkpoint_go_over_the_pipe():
    before = Progress(details=struct_from({"page": 1}))
    async with handling(process_actions("reports")) as work:
        work.start("reports", progress=before)
        progress = await work.reported()
        assert (progress.progress.fraction, progress.progress.message, progress.tokens_used) == (0.5, "half way", 41)
        assert plain_value(progress.progress.details.fields["page"]) == 2
        _, report = await work.ended()
    assert report.tokens_used == 42
    assert result_of(report) == {"checkpoint": {"page": 1}, "parent of what it submits": "t"}


async def test_a_failure_carries_the_traceback_of_the_handler_alone():
    async with handling(process_actions("fails")) as work:
        failure = (await work.run("fails")).failed
    assert failure.error == "KeyError: 'no such thing'"
    assert "in fails" in failure.traceback
    assert failure.traceback.count("File ") == 1


async def test_retry_and_not_retryable_do_what_they_say():
    async with handling(process_actions("wants_another_attempt", "wants_no_other")) as work:
        again = (await work.run("wants_another_attempt")).failed
        never = (await work.run("wants_no_other")).failed
    assert (again.error, again.retry_after_ms, again.HasField("retryable")) == ("busy", 90_000, False)
    assert (never.error, never.code, never.retryable) == ("no such page", "gone", False)


async def test_lifespan_and_middleware_run_in_the_worker():
    actions = process_actions("sees_its_state", lifespan=process_handlers.resources)
    actions.middleware.append(process_handlers.notes_its_process)
    async with handling(actions) as work:
        found = result_of(await work.run("sees_its_state"))
    assert found["result"]["opened_by"] == found["result"]["in"] == found["in"] != os.getpid()


async def test_a_worker_that_cannot_be_set_up_is_known_at_the_start():
    with pytest.raises(RuntimeError, match="OSError: no database"):
        async with handling(process_actions("pid", lifespan=process_handlers.broken_resources)):
            pass


async def test_what_a_worker_could_not_import_is_refused_at_the_start():
    async def local(task, call_next):
        return await call_next(task)

    actions = process_actions("pid")
    actions.middleware.append(local)
    with pytest.raises(TypeError, match="middleware: cannot be sent to worker processes"):
        async with handling(actions):
            pass


async def test_a_worker_imports_no_grpc_for_a_module_of_handlers():
    actions = Actions()
    actions.add("look_up", plain_handlers.is_imported, action=plain_handlers.look_up, runs_in="process")
    async with handling(actions) as work:
        found = {name: result_of(await work.run("look_up", params={"name": name})) for name in ("asyncio", "grpc")}
    assert found == {"asyncio": True, "grpc": False}


# How they are stopped


@pytest.mark.parametrize("handler", ["holds_the_interpreter", "ignores_sigterm"])
async def test_a_stopped_handler_is_gone_whatever_it_does(handler):
    async with handling(process_actions(handler, "pid")) as work:
        key = work.start(handler)
        worker = int((await work.reported()).progress.message)
        work.handlers.stop([key])
        assert await work.ended() == ("t", None)
        assert not lives(worker)
        # The host goes on with another worker.
        assert result_of(await work.run("pid")) != worker


@pytest.mark.parametrize("handler", ["cleans_up", "cleans_up_async"])
async def test_a_stopped_handler_has_time_to_clean_up(handler, tmp_path):
    file = tmp_path / "cleaned"
    async with handling(process_actions(handler)) as work:
        key = work.start(handler, params={"file": str(file)})
        await work.reported()
        work.handlers.stop([key])
        assert await work.ended() == ("t", None)
    assert file.read_text() == "cancelled: True"


async def test_what_a_handler_has_started_ends_with_it():
    async with handling(process_actions("starts_a_child")) as work:
        key = work.start("starts_a_child")
        child = int((await work.reported()).progress.message)
        assert lives(child)
        work.handlers.stop([key])
        await work.ended()
        await until_gone(child)


async def test_the_workers_of_a_host_that_leaves_are_gone():
    async with handling(process_actions("holds_the_interpreter", "pid")) as work:
        idle = int(result_of(await work.run("pid")))
        work.start("holds_the_interpreter")
        busy = int((await work.reported()).progress.message)
        work.start("holds_the_interpreter", "second")
        second = int((await work.reported()).progress.message)
    assert busy == idle
    assert not lives(busy)
    assert not lives(second)


# How they die


@pytest.mark.parametrize("how", process_handlers.DEATHS)
async def test_a_worker_that_dies_fails_its_task_alone_and_says_how(how, tmp_path):
    file = tmp_path / "go on"
    async with handling(process_actions("dies", "entered_and_waits", "pid")) as work:
        work.start("entered_and_waits", "other", params={"file": str(file)})
        other = int((await work.reported()).progress.message)
        work.start("dies", "dying", params={"how": how})
        task_id, report = await work.ended()
        assert (task_id, report.failed.code) == ("dying", "worker_died")
        assert not report.failed.HasField("retryable")
        assert process_handlers.DEATHS[how][1] in report.failed.error
        file.touch()
        assert result_of((await work.ended())[1]) == other
        assert result_of(await work.run("pid"))


async def test_the_fork_of_a_handler_neither_reports_nor_takes_tasks():
    async with handling(process_actions("comes_back_from_a_fork", "pid")) as work:
        worker = result_of(await work.run("pid"))
        assert result_of(await work.run("comes_back_from_a_fork")) == "parent"
        assert result_of(await work.run("pid")) == worker


async def test_a_keyboard_interrupt_of_a_handler_fails_its_task_alone():
    async with handling(process_actions("interrupts", "pid")) as work:
        worker = result_of(await work.run("pid"))
        assert (await work.run("interrupts")).failed.error == "RuntimeError: the handler raised KeyboardInterrupt"
        assert result_of(await work.run("pid")) == worker


async def test_a_crash_of_the_interpreter_has_a_traceback():
    async with handling(process_actions("dies")) as work:
        failure = (await work.run("dies", params={"how": "segfault"})).failed
    assert "Segmentation fault" in failure.traceback
    assert "process_handlers.py" in failure.traceback


async def test_a_worker_that_died_while_it_was_idle_fails_no_task():
    async with handling(process_actions("pid")) as work:
        idle = int(result_of(await work.run("pid")))
        os.kill(idle, 9)
        assert int(result_of(await work.run("pid"))) != idle


async def test_what_a_worker_logs_and_prints_comes_out_at_the_host(caplog, capfd):
    caplog.set_level(logging.INFO, logger="of.the.handler")
    async with handling(process_actions("logs")) as work:
        await work.run("logs")
    (record,) = [each for each in caplog.records if each.name == "of.the.handler"]
    assert (record.getMessage(), record.levelname, record.page) == ("said in the worker", "INFO", 1)
    assert record.process != os.getpid()
    assert "printed in the worker" in capfd.readouterr().out
