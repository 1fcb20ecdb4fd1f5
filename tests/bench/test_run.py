"""How rounds are measured: ours and the ceiling alternate, and each is opened once."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import servers
from rows import Case, Figure, Measure, Row, Side
from run import measure, measure_all


def side(name: str, calls: list[str]) -> Side:
    @contextmanager
    def opened() -> Iterator[Measure]:
        def take(secs: float) -> list[Figure]:
            calls.append(f"{name} {secs:g}")
            return [Figure(len(calls)), Figure(-len(calls))]

        calls.append(f"open {name}")
        try:
            yield take
        finally:
            calls.append(f"close {name}")

    return opened


ROWS = (Row("first", "s"), Row("second", "s"))


def test_the_sides_alternate_and_each_is_opened_once() -> None:
    calls: list[str] = []
    measure(Case(ROWS, side("ours", calls), side("bare", calls)), rounds=2, secs=3)
    assert calls == [
        *("open ours", "open bare"),
        *("ours 3", "bare 3", "ours 3", "bare 3"),
        *("close bare", "close ours"),
    ]


def test_the_older_version_is_ours_with_servers_from_its_files() -> None:
    started: list[Path | None] = []

    @contextmanager
    def opened() -> Iterator[Measure]:
        started.append(servers.TREE.get())

        def take(_: float) -> list[Figure]:
            started.append(servers.TREE.get())
            return [Figure(len(started))] * 2

        yield take

    tree = Path("/older")
    first, _ = measure(Case(ROWS, opened, side("bare", [])), rounds=1, secs=1, tree=tree)
    assert started == [None, tree, None, tree]
    assert (first.ours, first.older) == ((Figure(3),), (Figure(4),))
    alone, _ = measure(Case(ROWS, opened, older=False), rounds=1, secs=1, tree=tree)
    assert alone.older == ()


def test_each_row_gets_its_figure_of_every_round() -> None:
    first, second = measure(Case(ROWS, side("ours", [])), rounds=2, secs=1)
    assert first.ours == (Figure(2), Figure(3))
    assert second.ours == (Figure(-2), Figure(-3))
    assert first.ceiling == ()


def test_a_case_may_need_its_own_rounds_and_seconds() -> None:
    calls: list[str] = []
    measure(Case(ROWS, side("ours", calls), rounds=1, secs=0.5), rounds=9, secs=9)
    assert calls == ["open ours", "ours 0.5", "close ours"]


def test_both_sides_are_closed_when_a_measurement_fails() -> None:
    calls: list[str] = []

    @contextmanager
    def failing() -> Iterator[Measure]:
        def take(_: float) -> list[Figure]:
            raise SystemExit("the server ended")

        yield take

    with pytest.raises(SystemExit, match="the server ended"):
        measure(Case(ROWS, side("ours", calls), failing), rounds=1, secs=1)
    assert calls[-1] == "close ours"


def test_a_failed_case_is_reported_and_the_others_run(capsys: pytest.CaptureFixture[str]) -> None:
    @contextmanager
    def failing() -> Iterator[Measure]:
        raise SystemExit("Go is missing")
        yield

    results, failures = measure_all([("", Case(ROWS, failing)), ("", Case(ROWS, side("ours", [])))], rounds=1, secs=1)
    assert failures == ["first: failed: Go is missing"]
    assert [len(result.ours) for result in results] == [1, 1]
    assert capsys.readouterr().err.startswith("first ...")
