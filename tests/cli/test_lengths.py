"""Lengths of time read alike in every table, and as in the console."""

import pytest

from taskyard.v1 import task_pb2
from taskyard_server.cli.server import length_text, took_text


@pytest.mark.parametrize(
    ("secs", "text"),
    [
        (0.0, "0 ms"),
        (0.3209, "320 ms"),
        (0.9999, "999 ms"),
        (1.0, "1 s"),
        (13.58, "13.5 s"),
        (59.99, "59.9 s"),
        (60.0, "1 min"),
        (200.9, "3 min 20 s"),
        (3_599.9, "59 min 59 s"),
        (18_120.0, "5 h 2 min"),
        (86_399.0, "23 h 59 min"),
        (273_600.0, "3 d 4 h"),
    ],
)
def test_a_length_has_its_largest_unit_or_two(secs, text):
    assert length_text(secs) == text


def test_what_is_not_known_is_empty():
    assert took_text(task_pb2.Task()) == ""
    assert took_text(task_pb2.Task(latency_ms=8)) == "8 ms"
