"""A day's load for an hour: whether memory grows and waiting times stay; by hand.

    python bench/soak.py [--minutes 60] [--rate 1500] [--store URL|sqlite] [--json FILE]

It runs the load of day.py against a new server. After a while, in which that fills what it retains, each window of
ten seconds gives the waiting times of lone tasks, the resident memory and the CPU. A line a minute is printed, and at
the end the first ten minutes beside the last; in a shorter run, the first third beside the last. The 99th percentile of
a part is the median of its windows, as other work of the machine disturbs some of them.

A machine that others share is not as fast at the end as at the beginning. Beside the figures stands what the same work
costs it in each window, work that has nothing to do with the server, and how much of its time others took.
"""

import argparse
import json
import signal
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import servers
from day import RATE, check_rate, day, ended_tasks, lone_waits
from run import machine

WINDOW_SECS = 10.0
PART_SECS = 600.0
FILL_SECS = 900.0
"""Until then memory grows: by the 200,000 tasks that are retained, and by tables that grow after a million tasks."""
ALLOWED_P99 = 1.2
ALLOWED_MEMORY = 1.02


@dataclass(frozen=True, slots=True)
class Window:
    """What was measured in ten seconds, `secs` after the beginning. Memory is of the server, and of its children.

    `same_work_us` is the CPU time of work that is always the same, `stolen` the share of the machine's time that it did
    not get, of 1.
    """

    secs: float
    tasks: float
    cpu_us: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    memory_mb: float
    children_mb: float
    same_work_us: float
    stolen: float


@dataclass(frozen=True, slots=True)
class Part:
    """The first or the last windows."""

    windows: Sequence[Window]

    def median(self, name: str) -> float:
        """The median of a figure of the windows."""
        return statistics.median(float(getattr(window, name)) for window in self.windows)

    def line(self, name: str) -> str:
        names = ("tasks", "cpu_us", "p50_ms", "p99_ms", "p999_ms", "memory_mb", "children_mb", "same_work_us")
        return _line(name, *map(self.median, names), 100 * self.median("stolen"))


def windows(server: servers.Server, minutes: float, rate: float) -> Iterator[Window]:
    """The windows of a run, as they end."""
    with day(server, rate):
        print(f"filling what is retained: {FILL_SECS:.0f} s", file=sys.stderr, flush=True)
        time.sleep(FILL_SECS)
        begin = time.monotonic()
        while (at := time.monotonic() - begin) < minutes * 60:
            tasks, used, since = ended_tasks(server), server.cpu_secs(), time.monotonic()
            stolen = psutil.cpu_times().steal
            p50, p99, p999 = lone_waits(server, WINDOW_SECS)
            secs, tasks = time.monotonic() - since, ended_tasks(server) - tasks
            # A window may have a pause of the machine, after which what is late follows.
            check_rate(tasks, secs, rate / 2)
            used = server.cpu_secs() - used
            stolen = (psutil.cpu_times().steal - stolen) / secs / (psutil.cpu_count() or 1)
            memory, children = server.rss_bytes() / 1e6, _memory_of_children(server) / 1e6
            cpu_us = used / tasks * 1e6
            yield Window(at, tasks / secs, cpu_us, p50, p99, p999, memory, children, same_work_us(), stolen)


def same_work_us() -> float:
    """What work costs that is always the same, in microseconds of CPU time: like the server's, many small objects."""
    began = time.thread_time()
    for _ in range(20):
        rows = {f"task-{number}": [str(number)] for number in range(5_000)}
        sorted(rows, key=lambda name: rows[name])
    return (time.thread_time() - began) * 1e6 / 20


def parts(found: Sequence[Window]) -> tuple[Part, Part]:
    """The first and the last ten minutes, or thirds."""
    count = max(1, min(len(found) // 3, round(PART_SECS / WINDOW_SECS)))
    return Part(found[:count]), Part(found[-count:])


def growth_mb_an_hour(found: Sequence[Window]) -> float:
    """How the memory of the server grows over the whole run, by the straight line that fits best."""
    if len(found) < 2:
        return 0.0
    secs, memory = [each.secs for each in found], [each.memory_mb for each in found]
    return float(statistics.linear_regression(secs, memory).slope) * 3600


def report(found: Sequence[Window]) -> str:
    """The first part beside the last, and whether both limits are kept."""
    first, last = parts(found)
    p99 = last.median("p99_ms") / first.median("p99_ms")
    memory = last.median("memory_mb") / first.median("memory_mb")
    return "\n".join(
        (
            HEADER,
            first.line(f"first {len(first.windows) * WINDOW_SECS / 60:.1f} min"),
            last.line(f"last {len(last.windows) * WINDOW_SECS / 60:.1f} min"),
            "",
            f"p99: {p99:.2f} times (at most {ALLOWED_P99}): {_yes(p99 <= ALLOWED_P99)}",
            f"memory: {memory:.3f} times (at most {ALLOWED_MEMORY}): {_yes(memory <= ALLOWED_MEMORY)};"
            f" {growth_mb_an_hour(found):+.1f} MB an hour",
            f"the same work: {last.median('same_work_us') / first.median('same_work_us'):.2f} times the CPU time",
            f"worst window: p99 {max(each.p99_ms for each in found):.1f} ms",
        )
    )


def _yes(kept: bool) -> str:
    return "yes" if kept else "no"


def _line(name: str, *figures: float) -> str:
    return f"{name:16}" + "".join(f"{_shown(figure):>12}" for figure in figures)


def _shown(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.2f}"


TITLES = ("tasks/s", "CPU us", "p50 ms", "p99 ms", "p99.9 ms", "memory MB", "children", "same work", "stolen %")
HEADER = f"{'':16}" + "".join(f"{title:>12}" for title in TITLES)


def _memory_of_children(server: servers.Server) -> int:
    found = 0
    for child in server.process.children(recursive=True):
        try:
            found += child.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=RATE, help="tasks a second over streams (%(default)s)")
    parser.add_argument("--store", default="memory://", metavar="URL", help="`sqlite` for a file in a temporary folder")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to keep all windows")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(", ".join(f"{name} {value}" for name, value in machine().items()), flush=True)
    print(HEADER, flush=True)
    durable = given.store == "sqlite"
    found: list[Window] = []
    with servers.taskyard(durable=durable, store=None if durable else given.store) as server:
        for window in windows(server, given.minutes, given.rate):
            found.append(window)
            if len(found) % round(60 / WINDOW_SECS) == 0:
                minute = Part(found[-round(60 / WINDOW_SECS) :])
                print(minute.line(f"{window.secs / 60:.0f} min"), flush=True)
                if given.json is not None:
                    given.json.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n")
    print(f"\n{report(found)}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
