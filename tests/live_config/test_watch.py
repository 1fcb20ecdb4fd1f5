"""The watcher looks at the file every `watcherIntervalSec`, and reloads one that changed (ConfigWatcher)."""

import asyncio

import pytest

INTERVAL_SECS = 0.01
PATIENCE_SECS = 5


class Watch:
    """A watcher at work on a file. It tells of each of its looks, once what follows from that look is done."""

    def __init__(self, bench):
        self.bench = bench
        self._looks = asyncio.Queue()
        self.task = None

    def begin(self, **scheduler):
        live = self.bench.start({"scheduler": {"watcherIntervalSec": INTERVAL_SECS, **scheduler}})
        look = live.reload_if_changed

        def look_and_tell():
            look()
            self._looks.put_nowait(None)

        live.reload_if_changed = look_and_tell
        self.task = asyncio.create_task(live.watch())
        return live

    async def looked(self, times=1):
        """After so many further looks."""
        while not self._looks.empty():
            self._looks.get_nowait()
        async with asyncio.timeout(PATIENCE_SECS):
            for _ in range(times):
                await self._looks.get()

    async def end(self):
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
async def watch(bench):
    """A `Watch` that has not begun yet."""
    watch = Watch(bench)
    yield watch
    await watch.end()


async def test_a_file_that_changed_is_reloaded(bench, watch):
    watch.begin()
    bench.write_scheduler(maxInflight=3)
    await watch.looked()
    assert [settings.scheduler.max_inflight for settings in bench.applied] == [3]


async def test_a_file_that_did_not_change_is_not_reloaded(bench, watch):
    live = watch.begin(maxInflight=2)
    loaded_at = live.loaded_at
    await watch.looked(3)
    assert bench.applied == []
    assert live.loaded_at == loaded_at


async def test_a_file_that_was_only_touched_is_not_reloaded(bench, watch):
    watch.begin(maxInflight=2)
    bench.write(bench.file.read_bytes())
    await watch.looked(3)
    assert bench.applied == []


async def test_each_change_is_reloaded_once(bench, watch):
    watch.begin()
    for limit in (3, 4):
        bench.write_scheduler(maxInflight=limit)
        await watch.looked(3)
    assert [settings.scheduler.max_inflight for settings in bench.applied] == [3, 4]


async def test_what_a_signal_reloaded_is_not_reloaded_again(bench, watch):
    live = watch.begin()
    bench.write_scheduler(maxInflight=3)
    live.try_reload()
    await watch.looked(3)
    assert len(bench.applied) == 1


async def test_a_broken_file_is_logged_once_and_the_watcher_goes_on(bench, watch, events):
    live = watch.begin(maxInflight=2)
    bench.write("{")
    await watch.looked(3)
    assert events() == ["config_reload_failed"]
    assert live.settings.scheduler.max_inflight == 2
    bench.write_scheduler(maxInflight=3)
    await watch.looked()
    assert events() == ["config_reload_failed", "config_reloaded"]
    assert live.settings.scheduler.max_inflight == 3


async def test_a_broken_file_that_breaks_in_another_way_is_logged_again(bench, watch, logged):
    watch.begin()
    bench.write("{")
    await watch.looked()
    bench.write_scheduler(maxInflight=-1)
    await watch.looked()
    assert ["maxInflight" in line["error"] for line in logged] == [False, True]


async def test_a_file_that_goes_away_is_logged_once_and_reloaded_when_it_is_back(bench, watch, events):
    live = watch.begin(maxInflight=2)
    content = bench.file.read_bytes()
    bench.file.unlink()
    await watch.looked(3)
    assert events() == ["config_reload_failed"]
    assert live.settings.scheduler.max_inflight == 2
    bench.write(content)
    await watch.looked()
    assert live.error is None


async def test_a_new_interval_is_in_force_from_the_next_look_on(bench, watch, monkeypatch):
    slept = []
    sleep = asyncio.sleep

    async def sleep_and_tell(secs):
        slept.append(secs)
        await sleep(INTERVAL_SECS)

    monkeypatch.setattr(asyncio, "sleep", sleep_and_tell)
    watch.begin()
    bench.write_scheduler(watcherIntervalSec=77)
    await watch.looked(2)
    assert slept[:2] == [INTERVAL_SECS, 77]
