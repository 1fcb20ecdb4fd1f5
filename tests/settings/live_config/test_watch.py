"""The watcher checks the file every `watcherIntervalSec`, and reloads a changed one (docs/rules.md, Reload)."""

import asyncio

import pytest

from tests.waiting import LIMIT_SECS

INTERVAL_SECS = 0.01


class Watch:
    """A watcher of a file, which notifies the test after each check."""

    def __init__(self, config_file):
        self.config_file = config_file
        self._checks = asyncio.Queue()
        self.task = None

    def begin(self, **scheduler):
        live = self.config_file.start({"scheduler": {"watcherIntervalSec": INTERVAL_SECS, **scheduler}})
        check = live.reload_if_changed

        def check_and_notify():
            check()
            self._checks.put_nowait(None)

        live.reload_if_changed = check_and_notify
        self.task = asyncio.create_task(live.watch())
        return live

    async def checks(self, times=1):
        """Wait for this number of further checks."""
        while not self._checks.empty():
            self._checks.get_nowait()
        async with asyncio.timeout(LIMIT_SECS):
            for _ in range(times):
                await self._checks.get()

    async def end(self):
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
async def watch(config_file):
    """A `Watch` that has not begun."""
    watch = Watch(config_file)
    yield watch
    await watch.end()


async def test_a_changed_file_is_reloaded(config_file, watch):
    watch.begin()
    config_file.write_scheduler(maxInflight=3)
    await watch.checks()
    assert [settings.scheduler.max_inflight for settings in config_file.applied] == [3]


async def test_an_unchanged_file_is_not_reloaded(config_file, watch):
    live = watch.begin(maxInflight=2)
    loaded_at = live.loaded_at
    await watch.checks(3)
    assert config_file.applied == []
    assert live.loaded_at == loaded_at


async def test_a_file_with_a_new_time_but_the_same_content_is_not_reloaded(config_file, watch):
    watch.begin(maxInflight=2)
    config_file.write(config_file.file.read_bytes())
    await watch.checks(3)
    assert config_file.applied == []


async def test_each_change_is_reloaded_once(config_file, watch):
    watch.begin()
    for limit in (3, 4):
        config_file.write_scheduler(maxInflight=limit)
        await watch.checks(3)
    assert [settings.scheduler.max_inflight for settings in config_file.applied] == [3, 4]


async def test_the_watcher_does_not_repeat_the_reload_of_a_signal(config_file, watch):
    live = watch.begin()
    config_file.write_scheduler(maxInflight=3)
    live.try_reload()
    await watch.checks(3)
    assert len(config_file.applied) == 1


async def test_the_watcher_logs_a_broken_file_once_and_continues(config_file, watch, events):
    live = watch.begin(maxInflight=2)
    config_file.write("{")
    await watch.checks(3)
    assert events() == ["config_reload_failed"]
    assert live.settings.scheduler.max_inflight == 2
    config_file.write_scheduler(maxInflight=3)
    await watch.checks()
    assert events() == ["config_reload_failed", "config_reloaded"]
    assert live.settings.scheduler.max_inflight == 3


async def test_a_broken_file_with_another_mistake_is_logged_again(config_file, watch, logged):
    watch.begin()
    config_file.write("{")
    await watch.checks()
    config_file.write_scheduler(maxInflight=-1)
    await watch.checks()
    assert ["maxInflight" in line["error"] for line in logged] == [False, True]


async def test_a_missing_file_is_logged_once_and_reloaded_when_it_is_back(config_file, watch, events):
    live = watch.begin(maxInflight=2)
    content = config_file.file.read_bytes()
    config_file.file.unlink()
    await watch.checks(3)
    assert events() == ["config_reload_failed"]
    assert live.settings.scheduler.max_inflight == 2
    config_file.write(content)
    await watch.checks()
    assert live.error is None


async def test_a_new_interval_applies_from_the_next_check_on(config_file, watch, monkeypatch):
    slept = []
    sleep = asyncio.sleep

    async def sleep_and_record(secs):
        slept.append(secs)
        await sleep(INTERVAL_SECS)

    monkeypatch.setattr(asyncio, "sleep", sleep_and_record)
    watch.begin()
    config_file.write_scheduler(watcherIntervalSec=77)
    await watch.checks(2)
    assert slept[:2] == [INTERVAL_SECS, 77]
