"""The dashboards for Grafana that are delivered: each question in them is one that a server answers."""

import json
import re

import pytest
import yaml

from tests.cases import every_case

from .exported import DEPLOY, exported, promtool, unknown

BOARDS = {path.name: json.loads(path.read_text()) for path in sorted((DEPLOY / "grafana").glob("*.json"))}
PANELS = {
    f"{name}: {panel['title']}": (board, panel)
    for name, board in BOARDS.items()
    for panel in board["panels"]
    if panel["type"] != "row"
}


def exprs(board):
    return [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]


def filled_in(expr):
    """An expression as Grafana sends it."""
    return expr.replace("$__rate_interval", "5m").replace("$__range", "1h")


def names_of_variables(board):
    return {variable["name"] for variable in board["templating"]["list"]}


@pytest.mark.usefixtures("needs_promtool")
def test_prometheus_takes_every_expression(tmp_path):
    rules = [
        {"record": f"a{number}", "expr": filled_in(expr)}
        for number, expr in enumerate(expr for board in BOARDS.values() for expr in exprs(board))
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}))
    run = promtool("check", "rules", str(file))
    assert run.returncode == 0, run.stdout + run.stderr


async def test_dashboards_ask_for_what_a_server_exports(make_harness):
    labels = await exported(make_harness)
    wrong = {
        name: missing
        for name, board in BOARDS.items()
        if (missing := [each for expr in exprs(board) for each in unknown(expr, labels)])
    }
    assert wrong == {}
    for board in BOARDS.values():
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                asked = re.fullmatch(r"label_values\((\w+)(?:\{.*\})?, (\w+)\)", variable["definition"])
                metric, label = asked.groups()
                assert metric in labels
                assert label in labels[metric] | {"instance"}


@every_case(("board", "panel"), PANELS.values(), ids=PANELS)
def test_each_panel_says_what_it_shows_from_the_data_source_of_the_reader(board, panel):
    assert panel["description"]
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"]["uid"] == "${datasource}"
    used = {name for target in panel["targets"] for name in re.findall(r"\$(\w+)", target["expr"])}
    assert used <= names_of_variables(board) | {"__rate_interval"}


@pytest.mark.parametrize("name", BOARDS)
def test_panels_have_numbers_of_their_own_and_do_not_overlap(name):
    panels = BOARDS[name]["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken
        taken |= cells


def test_boards_have_names_of_their_own():
    assert len({board["uid"] for board in BOARDS.values()}) == len(BOARDS) == 3
