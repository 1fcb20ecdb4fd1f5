"""`taskyard schedule` and `taskyard triggers` against a running control plane."""

import json
import re
from datetime import datetime

import pytest

from tests.cases import every_case


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    """A terminal on which every row is one line."""
    monkeypatch.setenv("COLUMNS", "300")


@pytest.fixture
def create(taskyard):
    """Creates a schedule of the agent `ann`, by default for every hour, and returns the line that is printed."""

    def run(*words):
        cadence = () if {"--cron", "--every", "--at"} & {*words} else ("--every", "1h")
        done = taskyard("schedule", "create", "--agent", "ann", "--action", "note", *cadence, *words)
        assert (done.code, done.err) == (0, "")
        return done

    return run


@pytest.fixture
def shown(taskyard):
    """A schedule as JSON."""
    return lambda schedule_id: taskyard("schedule", "get", schedule_id, "--json").json["schedule"]


@pytest.fixture
def error_of(taskyard):
    """Runs a command that must fail, and returns the line that it prints."""

    def run(*words):
        failed = taskyard(*words)
        assert (failed.code > 0, failed.out) == (True, "")
        assert failed.err.count("\n") == 1
        return failed.err.removeprefix("taskyard: ").removesuffix("\n")

    return run


def local(text):
    """A time of an answer in the form of the tables."""
    return f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M:%S}"


def rows(done):
    """The rows of a table without its head. Two spaces or more separate the cells."""
    return [re.split(" {2,}", line.strip()) for line in done.out.splitlines()[1:]]


# Create


def test_create_prints_when_the_schedule_is_due(create, shown):
    done = create("--id", "s")
    assert done.out == f"s is due at {local(shown('s')['nextDueAt'])}\n"
    assert create("--id", "p", "--paused").out == "p is paused\n"
    assert create().out.startswith("sch_")


def test_create_as_json_is_the_documented_answer(create):
    made = create("--id", "s", "--at", "2100-01-01T10:00:00+01:00", "--json").json["schedule"]
    assert (made.pop("createdAt"), made.pop("updatedAt")) != ("", "")
    assert made == {
        "scheduleId": "s",
        "at": "2100-01-01T09:00:00Z",
        "timeZone": "UTC",
        "task": {"agentId": "ann", "action": "note", "requires": [], "labels": {}, "concurrencyKeys": []},
        "overlap": "skip",
        "catchUp": "last",
        "catchUpWindowSecs": 86_400,
        "status": "active",
        "nextDueAt": "2100-01-01T09:00:00Z",
    }


def test_every_option_of_create_reaches_the_schedule(create, shown):
    params = {"text": "Größe 工 🙂", "n": 400, "deep": [{"x": None}]}
    create(
        *("--cron", "0 9 * * 1-5", "--time-zone", "Europe/Berlin", "--id", "daily", "--name", "Every morning"),
        *("--overlap", "wait", "--catch-up", "all", "--window", "0", "--paused"),
        *("--tab", "t1", "--ref", "e14", "--priority", "-5", "--params", json.dumps(params), "--deadline", "90"),
        *("--callback", "http://127.0.0.1:1/hook", "--target", "tree", "--project", "p"),
        *("--requires", "gpu", "--requires", "x86", "--label", "a=b=c", "--label", "e="),
        *("--token-limit", "0", "--max-attempts", "3"),
    )
    schedule = shown("daily")
    del schedule["createdAt"], schedule["updatedAt"]
    assert schedule == {
        "scheduleId": "daily",
        "displayName": "Every morning",
        "cron": "0 9 * * 1-5",
        "timeZone": "Europe/Berlin",
        "overlap": "wait",
        "catchUp": "all",
        "catchUpWindowSecs": 0,
        "status": "paused",
        "task": {
            "agentId": "ann",
            "action": "note",
            "tabId": "t1",
            "ref": "e14",
            "params": params,
            "priority": -5,
            "deadlineSecs": 90,
            "callbackUrl": "http://127.0.0.1:1/hook",
            "project": "p",
            "requires": ["gpu", "x86"],
            "labels": {"a": "b=c", "e": ""},
            "concurrencyKeys": [],
            "target": "tree",
            "tokenLimit": 0,
            "retryPolicy": {
                "maxAttempts": 3,
                "firstDelayMs": 1000,
                "multiplier": 2,
                "maxDelayMs": 60000,
                "nonRetryableCodes": [],
            },
        },
    }


CREATE = ("schedule", "create", "--agent", "ann", "--action", "note")


def test_the_earlier_name_of_the_time_zone_holds_and_says_what_it_is_now(taskyard, shown):
    done = taskyard(*CREATE, "--id", "s", "--cron", "0 9 * * *", "--zone", "Asia/Tokyo")
    assert (done.code, done.err) == (0, "taskyard: --zone is now --time-zone, and goes with the next release\n")
    assert shown("s")["timeZone"] == "Asia/Tokyo"
    assert "--zone" not in taskyard("schedule", "create", "--help").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cron", "* * * * *", "--zone", "UTC", "--time-zone", "UTC"), "give only one of --time-zone and --zone"),
        ((), "give one of --cron, --every and --at"),
        (("--every", "1h", "--cron", "* * * * *"), "give only one of --cron, --every and --at"),
        (("--at", "2100-01-01T09:00:00"), "--at: must be a time with its zone, such as 2026-12-01T09:00:00Z"),
        (("--at", "tomorrow"), "--at: must be a time with its zone, such as 2026-12-01T09:00:00Z"),
        (("--at", "2020-01-01T09:00:00Z"), "at: must be in the future"),
        (("--cron", "0 0 30 2 *"), "cron: never comes: none of its months has such a day of the month"),
        (("--cron", "* * * * *", "--time-zone", "Mars/Base"), 'timeZone: unknown time zone "Mars/Base"'),
        (("--every", "1h", "--params", "[1]"), "--params: must be a JSON object"),
        (("--every", "1h", "--label", "gpu"), "--label: must be KEY=VALUE"),
    ],
)
def test_an_invalid_schedule_is_one_line(error_of, taskyard, words, message):
    assert error_of(*CREATE, *words) == message
    assert taskyard("schedule", "list", "--json").json == {"schedules": []}


@every_case(
    ("words", "told"),
    [
        (("--every", "soon"), "interval: must be from 1s to 3650d"),
        (("--every", "1h", "--overlap", "never"), "--overlap"),
        (("--every", "1h", "--window", "-1"), "--window"),
        (("--every", "1h", "--window", str(2**32)), "catchUpWindowSecs"),
        (("--every", "1h", "--deadline", "0"), "--deadline"),
        (("--every", "1h", "--id", "a b"), "scheduleId: must be"),
    ],
)
def test_an_option_out_of_its_range_is_named(error_of, words, told):
    assert told in error_of(*CREATE, *words)


def test_the_id_of_another_schedule_is_an_error(error_of, create):
    create("--id", "s")
    create("--id", "s")
    assert error_of(*CREATE, "--every", "2h", "--id", "s") == "scheduleId: is that of another schedule"


# Get and list


def test_get_shows_every_field_with_its_value(taskyard, create):
    create("--id", "s", "--params", '{"x": 1}')
    lines = taskyard("schedule", "get", "s").out.splitlines()
    fields = {line.split()[0]: line.split(maxsplit=1)[1].strip() for line in lines}
    assert (fields["scheduleId"], fields["interval"], fields["status"]) == ("s", "1h", "active")
    assert fields["task"] == '{"agentId": "ann", "action": "note", "params": {"x": 1}}'


def test_list_shows_when_each_schedule_is_due_and_when_it_fired(taskyard, create, shown):
    create("--id", "often")
    create("--id", "daily", "--cron", "0 9 * * *", "--time-zone", "Europe/Berlin", "--paused")
    create("--id", "once", "--at", "2100-01-01T09:00:00Z")
    taskyard("schedule", "trigger", "daily")
    often, daily, once = map(shown, ("often", "daily", "once"))
    assert rows(taskyard("schedule", "list")) == [
        ["often", "1h", "active", local(often["nextDueAt"])],
        ["daily", "0 9 * * *", "Europe/Berlin", "paused", local(daily["lastFiredAt"])],
        ["once", local(once["at"]), "active", local(once["at"])],
    ]


def test_a_longer_list_of_schedules_says_so(taskyard, create):
    for _ in range(3):
        create()
    assert "the first 2; there are more" in taskyard("schedule", "list", "--limit", "2").out


# Update


def test_update_changes_only_the_given_fields_of_the_schedule_and_its_task(taskyard, create, shown):
    create("--id", "s", "--name", "x", "--params", '{"a": 1, "b": 2}', "--requires", "gpu", "--label", "a=b")
    before = shown("s")
    words = ("--overlap", "replace", "--params", '{"c": 3}', "--requires", "x86", "--deadline", "5")
    done = taskyard("schedule", "update", "s", *words)
    assert done.out == f"s is due at {local(before['nextDueAt'])}\n"
    after = shown("s")
    assert after.pop("updatedAt") > before.pop("updatedAt")
    task = before["task"] | {"params": {"c": 3}, "requires": ["x86"], "deadlineSecs": 5}
    assert after == before | {"overlap": "replace", "task": task}


def test_update_replaces_one_kind_of_cadence_by_another(taskyard, create):
    create("--id", "s")
    words = ("--cron", "0 9 * * *", "--time-zone", "Asia/Tokyo", "--name", "", "--catch-up", "none", "--window", "7")
    changed = taskyard("schedule", "update", "s", *words, "--json").json["schedule"]
    assert "interval" not in changed
    assert (changed["cron"], changed["timeZone"], changed["catchUp"]) == ("0 9 * * *", "Asia/Tokyo", "none")
    assert changed["catchUpWindowSecs"] == 7
    at = taskyard("schedule", "update", "s", "--at", "2100-01-01T09:00:00Z", "--json").json["schedule"]["nextDueAt"]
    assert at == "2100-01-01T09:00:00Z"


def test_an_invalid_update_is_an_error(error_of, create):
    create("--id", "s")
    assert error_of("schedule", "update", "s") == "give what is to change"
    assert error_of("schedule", "update", "s", "--every", "1h", "--at", "2100-01-01T09:00:00Z").startswith(
        "give only one"
    )
    assert error_of("schedule", "update", "s", "--agent", "") == "task.agentId: is required"


# Pause, resume, delete, preview


def test_a_schedule_is_paused_resumed_and_deleted(taskyard, create, shown):
    create("--id", "s")
    assert taskyard("schedule", "pause", "s").out == "s is paused\n"
    assert shown("s")["status"] == "paused"
    assert taskyard("schedule", "resume", "s", "--catch-up", "last", "--json").json["schedule"]["status"] == "active"
    assert taskyard("schedule", "resume", "s").out == f"s is due at {local(shown('s')['nextDueAt'])}\n"
    assert taskyard("schedule", "delete", "s").out == "s is deleted\n"
    create("--id", "s")
    assert taskyard("schedule", "delete", "s", "--json").json == {"deleted": True}
    assert taskyard("schedule", "list", "--json").json == {"schedules": []}


def test_preview_shows_the_next_times(taskyard, create):
    create("--id", "s", "--cron", "30 8 * * *", "--time-zone", "Asia/Kolkata")
    words = ("schedule", "preview", "s", "--count", "2", "--after", "2100-01-01T09:00:00Z")
    times = ["2100-01-02T03:00:00Z", "2100-01-03T03:00:00Z"]
    assert taskyard(*words, "--json").json == {"dueAt": times}
    assert taskyard(*words).out.splitlines() == list(map(local, times))
    assert len(taskyard("schedule", "preview", "s").out.splitlines()) == 10


def test_a_preview_after_a_malformed_time_is_an_error(error_of, create):
    create("--id", "s")
    assert error_of("schedule", "preview", "s", "--after", "noon").startswith("--after: must be a time with its zone")
    assert "--count" in error_of("schedule", "preview", "s", "--count", "0")


@every_case("command", ["get", "delete", "pause", "resume", "trigger", "preview"])
@every_case("schedule_id", ["nobody", "", "a/b"])
def test_an_unknown_schedule_is_not_found(error_of, command, schedule_id):
    assert error_of("schedule", command, schedule_id) == "schedule not found"
    assert error_of("schedule", "update", schedule_id, "--priority", "1") == "schedule not found"
    assert error_of("schedule", "update", schedule_id, "--name", "x") == "schedule not found"


# Triggers


def test_trigger_prints_the_task_or_why_it_was_skipped(taskyard, create):
    create("--id", "s", "--paused")
    done = taskyard("schedule", "trigger", "s", "--idempotency-key", "k")
    (trigger,) = taskyard("triggers", "--json").json["triggers"]
    assert done.out == f"{trigger['triggerId']} is executing as {trigger['taskId']}\n"
    assert taskyard("get", trigger["taskId"], "--json").json["action"] == "note"
    assert taskyard("schedule", "trigger", "s", "--idempotency-key", "k").out == done.out
    skipped = taskyard("schedule", "trigger", "s").out
    assert " is skipped: an earlier trigger of the schedule has not ended" in skipped
    assert skipped.count("\n") == 1


def test_trigger_as_json_is_the_documented_answer(taskyard, create):
    create("--id", "s")
    trigger = taskyard("schedule", "trigger", "s", "--json").json["trigger"]
    assert (trigger["scheduleId"], trigger["state"]) == ("s", "executing")
    assert trigger["dueAt"] <= trigger["firedAt"]
    assert taskyard("triggers", "--json").json == {"triggers": [trigger]}


@pytest.fixture
def fired(taskyard, create):
    """Three triggers, oldest first: a completed and a skipped one of one schedule, and a failed one of another."""
    create("--id", "one")
    create("--id", "other")
    names = ("one", "one", "other")
    made = [taskyard("schedule", "trigger", name, "--json").json["trigger"] for name in names]
    assert taskyard("cancel", made[2]["taskId"]).code == 0
    return made


def test_triggers_show_their_outcome_latest_first(taskyard, fired):
    running, skipped, failed = fired
    shown = rows(taskyard("triggers"))
    for row, trigger, state, end in zip(
        shown,
        (failed, skipped, running),
        ("failed", "skipped", "executing"),
        ("cancelled", skipped["reason"], running["taskId"]),
        strict=True,
    ):
        assert row[:4] == [trigger["triggerId"], trigger["scheduleId"], local(trigger["dueAt"]), state]
        assert end in row[-1]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("--schedule", "one"), [1, 0]),
        (("--state", "executing,failed"), [2, 0]),
        (("--schedule", "one", "--state", "skipped"), [1]),
        (("--from", "2020-01-01T00:00:00Z", "--before", "2100-01-01T01:00:00+01:00"), [2, 1, 0]),
        (("--from", "2100-01-01T00:00:00Z"), []),
        (("--before", "2020-01-01T00:00:00Z"), []),
        (("--schedule", "nobody"), []),
    ],
)
def test_triggers_are_filtered(taskyard, fired, words, wanted):
    found = taskyard("triggers", *words, "--json").json["triggers"]
    assert [trigger["triggerId"] for trigger in found] == [fired[number]["triggerId"] for number in wanted]


def test_a_longer_list_of_triggers_says_so(taskyard, fired):
    done = taskyard("triggers", "--limit", "2")
    assert "the latest 2; there are more" in done.out
    assert fired[0]["triggerId"] not in done.out


def test_lines_for_a_program_are_not_cut(taskyard, fired, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    (_, line) = taskyard("triggers", "--state", "skipped").out.splitlines()
    assert line.split()[0] == fired[1]["triggerId"]
    assert line.rstrip().endswith(fired[1]["reason"])


def test_a_narrow_terminal_does_not_cut_reasons(taskyard, fired, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    head, *lines, note = taskyard("triggers", "--state", "skipped").out.splitlines()
    assert len(lines) > 1
    reasons = slice(head.index("reason"), None)
    assert " ".join(line[reasons].strip() for line in lines).strip() == fired[1]["reason"]
    assert note.startswith("not shown: id")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--state", "nonsense"), 'state: unknown state "nonsense"'),
        (("--from", "noon"), "--from: must be a time with its zone"),
        (("--before", "2100-01-01"), "--before: must be a time with its zone"),
        (("--limit", "0"), "--limit"),
    ],
)
def test_an_invalid_filter_is_an_error(error_of, words, told):
    assert told in error_of("triggers", *words)


def test_help_alone_prints_no_error(taskyard):
    done = taskyard("schedule")
    assert "preview" in done.out
    assert done.err == ""


# Put


def test_put_creates_a_schedule_and_then_replaces_all_of_its_parts(taskyard, shown):
    put = ("schedules", "put", "nightly", "--agent", "ann")
    assert (
        taskyard(*put, "--action", "note", "--cron", "0 3 * * *", "--time-zone", "Asia/Tokyo", "--name", "n").err == ""
    )
    first = shown("nightly")
    assert (first["cron"], first["timeZone"], first["displayName"]) == ("0 3 * * *", "Asia/Tokyo", "n")
    taskyard("schedule", "pause", "nightly")
    assert taskyard(*put, "--action", "other", "--every", "1h", "--json").json["schedule"]["scheduleId"] == "nightly"
    second = shown("nightly")
    assert (second["interval"], second["timeZone"], second["task"]["action"]) == ("1h", "UTC", "other")
    assert {"cron", "displayName"} & set(second) == set()
    assert (second["status"], second["createdAt"]) == ("paused", first["createdAt"])


def test_put_needs_a_cadence(error_of):
    problem = error_of("schedule", "put", "s", "--agent", "ann", "--action", "note")
    assert problem == "give one of --cron, --every and --at"
