"""The figures of concurrency keys, by the patterns of the configuration (docs/operate/monitoring.md)."""

from taskyard_server.core.queue.keys import PatternUsage
from taskyard_server.metrics.families import key_families


def test_each_pattern_has_its_keys_in_use_their_tasks_in_flight_and_those_that_wait() -> None:
    families = key_families({"site:*": PatternUsage(keys=3, inflight=2, waiting=7), "tab:*": PatternUsage()})
    shown = {(sample.name, sample.labels["pattern"]): sample.value for each in families for sample in each.samples}
    assert shown == {
        ("taskyard_keys", "site:*"): 3,
        ("taskyard_keys_inflight", "site:*"): 2,
        ("taskyard_keys_waiting", "site:*"): 7,
        ("taskyard_keys", "tab:*"): 0,
        ("taskyard_keys_inflight", "tab:*"): 0,
        ("taskyard_keys_waiting", "tab:*"): 0,
    }
