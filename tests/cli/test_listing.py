"""Tables fit the terminal: ids are shortened as far as they stay apart, lesser columns left out, texts folded."""

import pytest
from rich.console import Console
from rich.text import Text

from taskyard_server.cli.console import Output
from taskyard_server.cli.listing import Head, ListingTable, number, short_ids, task_id
from tests.cases import every_case

IDS = ["tsk_01a206ede947000000000176a81ccbca", "tsk_01a206ede980000000000251427388eb"]


def printed(table, width):
    console = Console(width=1000 if width is None else width, color_system=None)
    with console.capture() as capture:
        console.print(table.table(width))
    return [line.rstrip() for line in capture.get().splitlines()]


@pytest.fixture
def tasks():
    table = ListingTable(task_id("task"), "agent", "state", number("ms", 2), Head("error", 1))
    table.add(IDS[0], "ann", "failed", "12", "it took too long to open the page")
    table.add(IDS[1], "bob", "done", "3", "")
    return table


def test_with_room_everything_is_whole(tasks):
    assert printed(tasks, None) == [
        "task                                  agent  state   ms  error",
        f"{IDS[0]}  ann    failed  12  it took too long to open the page",
        f"{IDS[1]}  bob    done     3",
    ]


def test_without_room_ids_are_shortened_first(tasks):
    assert printed(tasks, 78) == [
        "task              agent  state   ms  error",
        "tsk_01a206ede947  ann    failed  12  it took too long to open the page",
        "tsk_01a206ede980  bob    done     3",
    ]


def test_then_the_widest_text_is_folded(tasks):
    lines = printed(tasks, 60)
    assert lines[0] == "task              agent  state   ms  error"
    assert [line[37:] for line in lines[1:3]] == ["it took too long to", "open the page"]


def test_then_lesser_columns_are_left_out_and_named(tasks):
    lines = printed(tasks, 40)
    assert lines[0] == "task              agent  state"
    assert lines[-1] == "not shown: error, ms (--wide)"


@pytest.mark.parametrize("width", range(30, 120, 7))
def test_no_line_is_longer_than_the_terminal(tasks, width):
    tasks.note = "the first 2; there are more"
    assert max(map(len, printed(tasks, width))) <= width


def test_a_sum_stands_below_the_others():
    table = ListingTable("agent", number("queued"))
    table.add("ann", "1")
    table.add(Text("all"), "1", last=True)
    assert printed(table, None) == ["agent  queued", "ann         1", "all         1"]


def test_ids_are_shortened_to_their_millisecond_and_no_further():
    assert short_ids(IDS) == {IDS[0]: "tsk_01a206ede947", IDS[1]: "tsk_01a206ede980"}


def test_ids_of_one_millisecond_are_told_apart():
    ids = ["tsk_01a206ede947000000000176a81ccbca", "tsk_01a206ede947000000000276a81ccbca"]
    assert list(short_ids(ids).values()) == ["tsk_01a206ede9470000000001", "tsk_01a206ede9470000000002"]


@every_case("ids", [[], [""], ["", IDS[0]], [IDS[0], IDS[0]], ["tsk_1"]])
def test_short_ids_are_beginnings_of_them(ids):
    short = short_ids(ids)
    assert set(short) == set(ids)
    assert all(each.startswith(begin) for each, begin in short.items())
    assert len(set(short.values())) == len(short)


def test_texts_of_callers_cannot_control_the_terminal():
    table = ListingTable("agent")
    table.add("[red]\x1b[2J\n")
    assert printed(table, None)[1] == "[red]\ufffd[2J\ufffd"


@pytest.mark.parametrize(("said", "width"), [("0", 80), ("1", 20), ("40", 40)])
def test_a_terminal_without_a_size_is_of_the_usual_one(monkeypatch, said, width):
    monkeypatch.setenv("COLUMNS", said)
    assert Output().width == width


def test_what_goes_to_a_program_or_is_wide_is_not_fitted(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    out = Output(width=60)
    assert not out.is_fitted
    monkeypatch.setenv("COLUMNS", "60")
    assert out.is_fitted
    out.is_wide = True
    assert not out.is_fitted
