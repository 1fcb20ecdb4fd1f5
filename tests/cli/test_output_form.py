"""Every command that answers takes --output json, yaml, table and wide, and --json and --wide."""

import json

import pytest
import yaml

from taskyard_server.cli.yaml_text import yaml_text
from tests.cli.every_command import every_command, options_of

WITHOUT_ANSWER = {("host", "run"), ("store", "migrate"), ("up",)}


def test_every_command_takes_the_same_options():
    same = {"--output", "-o", "--json", "--wide"}
    without = {words for words, command in every_command().items() if not same <= options_of(command)}
    assert without == WITHOUT_ANSWER


def test_yaml_says_what_json_says(taskyard, submit):
    submit("--params", '{"text": "yes", "n": 1.5, "deep": [{"x": null}, []]}', "--label", "on=off")
    asked = taskyard("list", "--json").json
    assert yaml.safe_load(taskyard("list", "-o", "yaml").out) == asked
    assert taskyard("list", "--output", "json").json == asked


def test_a_wide_table_has_more_columns_and_whole_ids(taskyard, submit, monkeypatch):
    task_id = submit("--target", "tree")
    monkeypatch.setenv("COLUMNS", "60")
    narrow, wide = taskyard("list").out, taskyard("list", "--wide").out
    assert task_id not in narrow
    assert task_id[:16] in narrow
    assert task_id in wide
    assert "tree" in wide
    assert wide == taskyard("list", "-o", "wide").out
    assert max(map(len, narrow.splitlines())) <= 60


@pytest.mark.parametrize("words", ["list stats hosts targets triggers fairness demand", "limits weights operations"])
def test_tables_fit_60_columns(taskyard, submit, monkeypatch, words):
    submit("--target", "a-target-with-a-name-that-is-rather-long", "--concurrency-key", "site:example.org")
    taskyard("limits", "put", "site:*", "--max-inflight", "3", "--per-second", "2")
    monkeypatch.setenv("COLUMNS", "60")
    for word in words.split():
        shown = taskyard(*((word, "list") if word in ("limits", "weights", "operations") else (word,)))
        assert shown.code == 0
        assert max(map(len, shown.out.splitlines())) <= 60


def test_a_watch_prints_an_event_a_line_or_a_document(taskyard, submit):
    task_id = submit()
    taskyard("cancel", task_id)
    words = ("watch", "--task", task_id, "--until-ended")
    (line,) = taskyard(*words, "--json").out.splitlines()
    (document,) = yaml.safe_load_all(taskyard(*words, "-o", "yaml").out)
    event = json.loads(line)
    assert (document["kind"], document["task"]) == (event["kind"], event["task"])


@pytest.mark.parametrize("words", [("--json", "--wide"), ("-o", "yaml", "--json"), ("-o", "table", "--wide")])
def test_two_forms_at_once_are_a_mistake(taskyard, words):
    refused = taskyard("list", *words)
    assert (refused.code, refused.err) == (2, "taskyard: give only one of --output, --json and --wide\n")


def test_a_form_that_is_none_is_a_mistake(taskyard):
    assert taskyard("list", "-o", "xml").code == 2


VALUES = [
    {},
    [],
    {"a": {}, "b": [], "c": [[], {}, [1, [2, 3]]], "d": {"e": {"f": None}}},
    [{"a": 1, "b": [{"c": "d"}]}, "text"],
    {"": "", " ": " ", "- a": "- a", "a: b": "a: b", "#": "# no comment", "?": "&a *b !c %d @e `f |g >h"},
    {"n": [0, -1, 1.5, 1e300, 10**20, True, False, None]},
    {
        "n": [
            "0",
            "-1",
            "1.5",
            "1e3",
            "0x1f",
            "0o7",
            "1_000",
            "true",
            "Null",
            "~",
            "yes",
            "off",
            "y",
            ".inf",
            "12:30:00",
        ]
    },
    {
        "t": [
            "2026-11-23",
            "2026-11-23T08:00:00Z",
            "a:b",
            "site:example.org",
            "http://x/y",
            "a:",
            "<<",
            "=",
            "---",
            "...",
        ]
    },
    {
        "s": [
            "line\nbreak",
            "tab\t",
            "quote\" and '",
            "back\\slash",
            "Größe 工 🙂",
            "\x1b[2J",
            "\x85",
            "\u2028",
            "\ufeff",
            " x ",
        ]
    },
]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_what_is_written_is_read_again(value):
    assert yaml.safe_load(yaml_text(value)) == value
