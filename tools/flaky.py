"""Runs tests again and again beside busy loops, and says which fail: no test is to know how fast the machine is.

    python tools/flaky.py --runs 10 tests/services -k retries

All that it does not know goes to pytest, one run after the other. It exits with 1 if any has failed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

BUSY_LOOPS = 2
ENDLESS = """
import os, threading
threading.Thread(target=lambda: (os.read(0, 1), os._exit(0))).start()
while True:
    pass
"""
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
NOTHING_RAN = 5
"""What pytest exits with where no test was picked."""


@contextmanager
def busy_loop() -> Iterator[None]:
    """A process that takes all the time that it gets, and ends also where this one is killed: its input ends then."""
    with subprocess.Popen([sys.executable, "-c", ENDLESS], stdin=subprocess.PIPE) as process:
        try:
            yield
        finally:
            process.kill()


def run(number: int, arguments: list[str]) -> Counter[str]:
    """Run the tests once, and say how it went. Returns the tests that failed."""
    began = time.monotonic()
    command = [sys.executable, "-m", "pytest", "--quiet", "--color=no", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    secs = time.monotonic() - began
    print(f"run {number}: {'failed' if ended.returncode else 'passed'}, {secs:.1f} s", flush=True)
    if not ended.returncode:
        return Counter()
    # The reason of a failure that comes once in a night must not be lost.
    print(ended.stdout, ended.stderr, sep="\n", flush=True)
    if found := FAILED.findall(ended.stdout):
        return Counter(found)
    if ended.returncode == NOTHING_RAN:
        sys.exit("no test was picked")
    return Counter(["a run that ended early"])


def main() -> int:
    """Run all, and say at the end how often each test failed; 1 if any has."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10, help="how often (%(default)s)")
    parser.add_argument("--busy", type=int, default=BUSY_LOOPS, help="busy loops beside them (%(default)s)")
    given, arguments = parser.parse_known_args()
    failures: Counter[str] = Counter()
    with ExitStack() as cleanup:
        for _ in range(given.busy):
            cleanup.enter_context(busy_loop())
        for number in range(1, given.runs + 1):
            failures += run(number, arguments)
    for test, times in failures.most_common():
        print(f"{times} of {given.runs}: {test}")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
