"""The metrics of several processes at one port."""

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from taskyard_server.processes.metrics import merged

pytestmark = pytest.mark.gate("many processes, whose rules tests/replicas holds in one")


def of_one_process(count: int) -> bytes:
    registry = CollectorRegistry()
    Counter("yard_tasks", "Tasks.", ["state"], registry=registry).labels("done").inc(count)
    Histogram("yard_seconds", "Seconds.", buckets=(1, 2), registry=registry).observe(count)
    return generate_latest(registry)


class Collected(Collector):
    def __init__(self, *texts: bytes) -> None:
        self.texts = texts

    def collect(self):
        families = {
            str(number): text_string_to_metric_families(text.decode()) for number, text in enumerate(self.texts)
        }
        return merged(families)


def test_each_series_says_whose_it_is_and_keeps_its_name_type_and_labels():
    registry = CollectorRegistry()
    registry.register(Collected(of_one_process(1), of_one_process(2)))
    shown = generate_latest(registry).decode()
    alone = of_one_process(1).decode()
    assert {line for line in shown.splitlines() if "_created" not in line and line.startswith("# TYPE")} == {
        line for line in alone.splitlines() if "_created" not in line and line.startswith("# TYPE")
    }
    assert registry.get_sample_value("yard_tasks_total", {"state": "done", "process": "0"}) == 1
    assert registry.get_sample_value("yard_tasks_total", {"state": "done", "process": "1"}) == 2
    assert registry.get_sample_value("yard_seconds_bucket", {"le": "1.0", "process": "0"}) == 1
    assert registry.get_sample_value("yard_seconds_bucket", {"le": "1.0", "process": "1"}) == 0
