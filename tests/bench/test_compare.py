"""Which changes between two runs of the benchmarks are significant."""

import json
from pathlib import Path
from typing import Literal

import pytest
from compare import comparison, read, verdict
from rows import Figure, Result, Row, Run


def result(
    *ours: float, ceiling: tuple[float, ...] = (), better: Literal["more", "less"] = "more", name: str = "r"
) -> Result:
    return Result(Row(name, "calls/s", better), tuple(map(Figure, ours)), tuple(map(Figure, ceiling)))


def test_a_change_within_the_spread_of_the_rounds_is_noise() -> None:
    assert verdict(result(100, 110, 120), result(120, 130, 140)) == "within the spread"
    assert verdict(result(100, 140), result(110, 120)) == "within the spread"


def test_more_operations_are_better_and_fewer_worse() -> None:
    assert verdict(result(100, 110), result(111, 120)) == "better"
    assert verdict(result(111, 120), result(100, 110)) == "worse"


def test_less_time_is_better_and_more_worse() -> None:
    assert verdict(result(5, 6, better="less"), result(3, 4, better="less")) == "better"
    assert verdict(result(3, 4, better="less"), result(5, 6, better="less")) == "worse"


def test_a_change_that_the_ceiling_shares_is_attributed_to_both() -> None:
    before, faster_machine = result(10, 11, ceiling=(20, 21)), result(15, 16, ceiling=(30, 31))
    assert verdict(before, faster_machine) == "better, the ceiling too"
    assert verdict(faster_machine, before) == "worse, the ceiling too"
    assert verdict(before, result(15, 16, ceiling=(20, 31))) == "better"
    assert verdict(before, result(15, 16, ceiling=(10, 11))) == "better"


def test_one_round_has_no_spread_and_proves_no_change() -> None:
    assert verdict(result(100), result(200, 210)) == "one round"
    assert verdict(result(100, 110), result(200)) == "one round"


def test_a_line_has_both_figures_their_change_and_that_of_the_ceiling() -> None:
    before, after = result(100, 100, ceiling=(200, 200)), result(150, 150, ceiling=(220, 220))
    line = comparison(Run({}, (before,)), Run({}, (after,))).splitlines()[1]
    assert " ".join(line.split()) == "r calls/s 100 150 +50.0 % +10.0 % 0.50 0.68 better, the ceiling too"


def test_rows_of_one_run_alone_are_named() -> None:
    text = comparison(Run({}, (result(1, name="old"),)), Run({}, (result(1, name="new"),)))
    assert text.splitlines()[1:] == ["old: only before", "new: only after"]


def test_only_a_different_machine_is_reported() -> None:
    text = comparison(Run({"Python": "3.11.7", "cores": "2"}), Run({"Python": "3.12.1", "cores": "2"}))
    assert text.splitlines()[0] == "Python: 3.11.7 -> 3.12.1"
    assert "cores" not in text


def test_a_saved_run_can_be_read(tmp_path: Path) -> None:
    run = Run({"CPU": "x"}, (result(1, 2, ceiling=(3, 4)),))
    file = tmp_path / "run.json"
    file.write_text(json.dumps(run.as_json()))
    assert read(file) == run


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"machine": {}, "rows": [{"name": "x"}]}'])
def test_a_file_that_is_not_a_run_is_refused_by_name(tmp_path: Path, content: str) -> None:
    file = tmp_path / "other.json"
    file.write_text(content)
    with pytest.raises(SystemExit, match=r"other\.json: is not a run"):
        read(file)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"none\.json: no such file"):
        read(tmp_path / "none.json")
