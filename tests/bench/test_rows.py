"""The table of the benchmarks, and the file that holds all rounds."""

import json

import pytest
from rows import Aim, Figure, Result, Row, Run, table

from tests.cases import every_case

CALLS = Row("calls", "calls/s")
BUSY_CLIENT = Figure(100, server_share=0.5, client_share=0.95)
BUSY_SERVER = Figure(100, server_share=0.95, client_share=0.5)


def result(*ours: float, ceiling: tuple[float, ...] = (), row: Row = CALLS) -> Result:
    return Result(row, tuple(map(Figure, ours)), tuple(map(Figure, ceiling)))


def test_a_value_is_the_median_of_its_rounds() -> None:
    assert result(1, 100, 3, ceiling=(5, 7, 90)).value == 3
    assert result(1, 100, 3, ceiling=(5, 7, 90)).ceiling_value == 7


def test_a_ratio_compares_the_two_sides_of_one_round() -> None:
    # A machine that is twice as slow in the second round does not change the ratio.
    assert result(80, 40, 80, ceiling=(100, 50, 100)).ratio == pytest.approx(0.8)
    assert result(90, 40, 70, ceiling=(100, 80, 100)).ratio == pytest.approx(0.7)


def test_without_a_ceiling_there_is_no_ratio() -> None:
    assert result(1, 2).ratio is None
    assert result(1, 2).ceiling_value is None


@pytest.mark.parametrize(("ours", "is_met"), [(74.9, False), (75.0, True), (120.0, True)])
def test_an_aim_is_a_minimum_where_more_is_better(ours: float, is_met: bool) -> None:
    assert result(ours, ceiling=(100,), row=Row("r", "calls/s", aim=Aim(0.75))).is_met is is_met


@pytest.mark.parametrize(("ours", "is_met"), [(150.0, True), (200.0, True), (200.1, False)])
def test_an_aim_is_a_maximum_where_less_is_better(ours: float, is_met: bool) -> None:
    assert result(ours, ceiling=(100,), row=Row("r", "ms", better="less", aim=Aim(2))).is_met is is_met


def test_an_aim_of_the_value_ignores_the_ceiling() -> None:
    row = Row("r", "ms", better="less", aim=Aim(20, "value"))
    assert result(19, ceiling=(1,), row=row).is_met is True
    assert result(21, ceiling=(100,), row=row).is_met is False


def test_an_aim_of_the_ratio_is_not_judged_without_a_ceiling() -> None:
    assert result(1, row=Row("r", "calls/s", aim=Aim(0.75))).is_met is None
    assert result(1, ceiling=(1,)).is_met is None


@every_case(
    ("figure", "is_of_the_client"),
    [
        (BUSY_CLIENT, True),
        (BUSY_SERVER, False),
        (Figure(1, server_share=0.95, client_share=0.95), False),
        (Figure(1, server_share=0.5, client_share=0.5), False),
        (Figure(1), False),
    ],
)
def test_the_client_is_the_limit_only_while_the_server_has_cpu_to_spare(figure: Figure, is_of_the_client: bool) -> None:
    assert figure.is_of_the_client is is_of_the_client


def test_the_table_marks_what_the_client_limited_and_says_so() -> None:
    text = table([Result(CALLS, (BUSY_SERVER,) * 3, (BUSY_CLIENT,) * 3)])
    line = next(line for line in text.splitlines() if line.startswith("calls"))
    assert line.split()[1:4] == ["100", "100*", "calls/s"]
    assert "*: the load generator was the limit" in text


def test_one_busy_round_of_three_does_not_make_the_client_the_limit() -> None:
    assert "*" not in table([Result(CALLS, (BUSY_CLIENT, BUSY_SERVER, BUSY_SERVER), (BUSY_SERVER,) * 3)])


def test_a_line_shows_ratio_aim_and_cpu() -> None:
    figures = (Figure(75, server_cpu_us=230.4), Figure(100, server_cpu_us=190))
    text = table([Result(Row("unary", "calls/s", aim=Aim(0.7)), figures[:1], figures[1:])])
    assert text.splitlines()[1].split() == [
        "unary",
        "75.0",
        "100",
        "calls/s",
        "0.75",
        ">=",
        "0.70",
        "yes",
        "230",
        "190",
    ]


def test_an_older_version_and_a_counted_ceiling_have_columns_where_a_row_has_them() -> None:
    figures = [(Figure(value),) for value in (60, 100, 120, 40)]
    both = Result(Row("flow", "tasks/s"), *figures)
    header, flow, calls = table([both, result(1, ceiling=(2,))]).splitlines()[:3]
    titles = ["ours", "older", "ceiling", "counted", "unit", "by", "older", "ratio", "by", "counted"]
    assert header.split()[: len(titles)] == titles
    assert flow.split()[1:] == ["60.0", "40.0", "100", "120", "tasks/s", "1.50", "0.60", "0.50"]
    assert calls.split()[1:] == ["1.00", "2.00", "calls/s", "0.50"]


def test_a_file_of_before_there_were_older_versions_is_read() -> None:
    saved = result(1, ceiling=(2,)).as_json()
    del saved["older"], saved["counted"]
    assert Result.from_json(saved) == result(1, ceiling=(2,))


def test_a_remark_of_several_rows_is_printed_once() -> None:
    rows = [Row(name, "ms", remark="of 5 % of the events") for name in ("one", "two")]
    assert table([result(1, row=row) for row in rows]).splitlines()[-1] == "one; two: of 5 % of the events"


def test_a_file_has_every_round() -> None:
    row = Row("r", "ms", better="less", aim=Aim(3), remark="loaded")
    run = Run(
        {"CPU": "x", "Go": "none"},
        (Result(row, (Figure(1.5, 2.5, 0.3, 0.4), Figure(2)), (Figure(1), Figure(1)), (), (Figure(4), Figure(4))),),
    )
    assert Run.from_json(json.loads(json.dumps(run.as_json()))) == run
