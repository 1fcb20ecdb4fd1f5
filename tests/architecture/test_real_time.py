"""No test knows how fast the machine is, but for those that stand here, with reasons.

See docs/develop/testing.md, Rules for tests.
"""

from pathlib import Path

from tests.architecture.real_time import real_time
from tests.cases import every_case

TESTS = Path(__file__).parents[1]
SLEEPS, BOUNDS, LIMITS = "sleeps", "bounds real time", "waits with a limit of its own"
STOPS = "stops the time of the event loop"

TRIALS = {
    "durability": "whole yards are killed and upgraded for minutes, by everybody at once, and their rounds are of time",
    "faults": "hosts are killed and suspended for a while, in processes of their own",
    "replicas": "three servers on a database are disturbed for a while, by a seed",
    "simulation": "its event loop has a time that tests make, in which a sleep costs nothing",
}
"""Folders in which real time is the subject, and why."""

LISTED = {
    "access/test_late_messages.py": (SLEEPS, "a token of a second has to expire, of a server in another process"),
    "app/test_secrets.py": (LIMITS, "a process that does not end in time is killed, and no test fails by that"),
    "clients/python/host/busy_host.py": (SLEEPS, "a handler that blocks the event loop of its host is the subject"),
    "clients/python/host/process_handlers.py": (SLEEPS, "a handler in another process waits for a file"),
    "clients/python/host/scripted_server.py": (SLEEPS, "that no heartbeat comes shows only after a while"),
    "clients/python/host/test_draining.py": (SLEEPS, "signals count as one for a time of the machine"),
    "clients/python/host/test_short_heartbeats.py": (SLEEPS, "looks every so often at a host that has to stay online"),
    "clients/python/host/test_signals.py": (SLEEPS, "that a host has begun shows nowhere while no server answers"),
    "clients/python/servers/test_choosing.py": (SLEEPS, "a server is away for a while"),
    "clients/python/test_submission_stream.py": (SLEEPS, "one submission is later than another by part of a patience"),
    "clients/python/test_waiting.py": (SLEEPS, "a wait lasts for several of its pieces"),
    "clients/python/testing/test_time.py": (SLEEPS, "a handler takes some real time while that of the yard stands"),
    "clients/python/typed/conftest.py": (SLEEPS, "a worker that asks again and again, beside what is tested"),
    "clients/python/typed/test_blocking_calls.py": (SLEEPS, "what is read by a thread comes with a pause"),
    "engine/conftest.py": (
        STOPS,
        "nothing there leaves the process: no socket, no thread and no limit of a test waits",
    ),
    "engine/test_alarm.py": (SLEEPS, "a process that stands still is the subject"),
    "executors/test_slow_store.py": (SLEEPS, "a store stands still for longer than calls wait for it"),
    "gateway/test_host_streams.py": (LIMITS, "a stream is quiet for longer than the time-outs of connections"),
    "gateway/test_isolation.py": (SLEEPS, "that no more is sent shows only after a while"),
    "gateway/test_lost_replicas.py": (SLEEPS, "streams are silent for longer than a keepalive; one is asked meanwhile"),
    "gateway/test_slow_and_greedy_callers.py": (
        f"{SLEEPS}, {LIMITS}",
        "callers that send slowly are the subject, and a watch that outlives the time-outs of others",
    ),
    "gateway/test_strict_json.py": (BOUNDS, "the gateway's Lua counts nothing, and a body must not take it for long"),
    "gateway/test_tls.py": (SLEEPS, "files that do not fit together are looked at, and nothing shows it"),
    "gateway/yards.py": (SLEEPS, "a watch on which something comes every so often"),
    "settings/live_config/test_watch.py": (SLEEPS, "stands in for a sleep of the server, which it makes shorter"),
    "services/host_connection/test_hostile_hosts.py": (LIMITS, "sends for a while to who does not read"),
    "services/host_connection/test_stalls.py": (SLEEPS, "a server that stands still is the subject"),
    "store/test_gathering.py": (STOPS, "nothing there leaves the process"),
    "store/sqlite/test_faults.py": (SLEEPS, "a writer is killed before, in and after a commit, by chance"),
    "store/sqlite/test_opening.py": (LIMITS, "that a server waits for another shows only after a while"),
    "stress/executor.py": (SLEEPS, "actions that take a while, by chance"),
    "waiting.py": (f"{SLEEPS}, {BOUNDS}", "the one limit of all"),
    "webhooks/test_deliveries.py": (SLEEPS, "a receiver that answers slowly is the subject"),
}
"""Other files: what they do with real time, and why."""


def found_in(file: Path) -> dict[str, list[str]]:
    """What a file does, with its lines."""
    found: dict[str, list[str]] = {}
    for each in real_time(file.read_text()):
        line, _, what = each.partition(": ")
        found.setdefault(what, []).append(line)
    return found


def test_no_test_knows_how_fast_the_machine_is():
    breaches, seen = [], set()
    for file in sorted(TESTS.rglob("*.py")):
        name = file.relative_to(TESTS).as_posix()
        if name.partition("/")[0] in TRIALS:
            continue
        allowed, _ = LISTED.get(name, ("", ""))
        for what, lines in found_in(file).items():
            seen.add((name, what))
            if what not in allowed:
                breaches.append(
                    f"tests/{name}: {what} at {', '.join(lines)}; wait by tests/waiting.py, or pass time in"
                )
    assert not breaches, "\n".join(breaches)
    outdated = {(name, what) for name, (allowed, _) in LISTED.items() for what in allowed.split(", ")} - seen
    assert not outdated, "these do so no more: take them off the list"


@every_case(
    ("source", "what"),
    [
        ("time.sleep(1)", [SLEEPS]),
        ("async def test(): await asyncio.sleep(0.05)", [SLEEPS]),
        ("async def test(): await asyncio.sleep(secs)", [SLEEPS]),
        ("async def test(): await asyncio.sleep(0)", []),
        ("def test():\n    began = time.monotonic()\n    assert time.monotonic() - began < 5", [BOUNDS]),
        ("def test():\n    began = time.monotonic()\n    assert time.monotonic() - began >= 5", []),
        ("def test():\n    took = loop.time() - began()\n    assert 5 > took > 1", [BOUNDS]),
        ("def test():\n    end = time.time() + 5\n    while time.time() < end: pass", [BOUNDS]),
        ("def test():\n    before = time.time()\n    assert before < told() < time.time()", []),
        ("class C:\n  def a(self): self.at = time.time()\n  def b(self): assert now() - self.at < 1", [BOUNDS]),
        ("SECS = 5\nasync def test():\n    async with asyncio.timeout(SECS): pass", [LIMITS]),
        ("async def test(): await asyncio.wait_for(call(), 5)", [LIMITS]),
        ("async def test(): await asyncio.wait_for(call(), LIMIT_SECS)", []),
        ("async def test(): await asyncio.wait({call}, timeout=0.1)", [LIMITS]),
        ("def fixture(monkeypatch, loop): monkeypatch.setattr(loop, 'time', clock)", [STOPS]),
    ],
)
def test_what_depends_on_real_time_is_found(source: str, what: list[str]):
    assert [each.partition(": ")[2] for each in real_time(source)] == what
