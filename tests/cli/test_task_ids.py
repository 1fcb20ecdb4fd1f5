"""A task is named by its id, or by a beginning that no other task's id has."""

import pytest


@pytest.mark.parametrize("begin", [slice(0, 20), slice(0, 35), slice(4, 24), slice(4, 36)], ids=str)
def test_the_beginning_of_an_id_will_do(taskyard, submit, begin):
    task_id = submit()
    assert taskyard("get", task_id[begin], "--json").json["taskId"] == task_id
    assert taskyard("why", task_id[begin], "--json").json["taskId"] == task_id
    assert taskyard("cancel", task_id[begin]).out == f"{task_id} is cancelled\n"
    assert taskyard("wait", task_id[begin]).out == f"{task_id} is cancelled\n"
    watched = taskyard("watch", "--task", task_id[begin], "--until-ended")
    assert task_id in watched.out


def test_what_a_narrow_terminal_shows_is_taken(taskyard, submit, monkeypatch):
    ids = {submit() for _ in range(3)}
    monkeypatch.setenv("COLUMNS", "50")
    shown = [line.split()[0] for line in taskyard("list").out.splitlines()[1:4]]
    assert all(len(each) < len(next(iter(ids))) for each in shown)
    assert {taskyard("get", each, "--json").json["taskId"] for each in shown} == ids


def test_the_beginning_of_several_ids_names_them_and_does_nothing(taskyard, submit):
    ids = [submit(), submit()]
    shared = next(end for end in range(len(ids[0])) if ids[0][end] != ids[1][end])
    refused = taskyard("cancel", ids[0][:shared])
    first, *candidates = refused.err.splitlines()
    assert (refused.code, refused.out) == (1, "")
    assert first == f"taskyard: {ids[0][:shared]} is the beginning of several ids:"
    assert candidates == [f"  {task_id}  ann  click  queued" for task_id in reversed(ids)]
    assert taskyard("list", "--state", "queued", "--json").json["count"] == 2


def test_of_many_candidates_some_are_named(taskyard, submit):
    ids = [submit() for _ in range(12)]
    shared = next(end for end in range(len(ids[0])) if len({each[end] for each in ids}) > 1)
    assert taskyard("get", ids[0][:shared]).err.splitlines()[-1] == "  and more"


@pytest.mark.parametrize("text", ["tsk_01a2", "tsk_", "01a2", "tsk_01a206ede94g", "tsk_01A206EDE947", ""])
def test_a_few_digits_and_what_is_no_beginning_mean_nothing(taskyard, submit, text):
    submit()
    assert taskyard("cancel", text).err == "taskyard: task not found\n"
    assert taskyard("list", "--state", "queued", "--json").json["count"] == 1


def test_a_beginning_means_tasks_of_ones_own_namespace(taskyard, submit):
    task_id = submit()
    assert taskyard("get", task_id[:20], "--namespace", "somewhere-else").err == "taskyard: task not found\n"


def test_tasks_after_others_and_of_a_parent_are_submitted_by_beginnings_too(taskyard, submit):
    parent = submit()
    child = taskyard("get", submit("--parent", parent[:20], "--after", parent[:20]), "--json").json
    assert (child["parentId"], child["after"]) == (parent, [parent])


def test_a_task_is_handed_the_results_of_others_by_their_beginnings_too(taskyard, submit):
    first = submit()
    task = taskyard("get", submit("--input-of", f"page={first[:20]}", "--input-of", f"again={first}"), "--json").json
    assert (task["inputs"], task["state"]) == ({"page": first, "again": first}, "pending")
    for given in ("page", "=x", "page="):
        refused = taskyard("submit", "--agent", "a", "--action", "b", "--input-of", given)
        assert (refused.code, refused.err) == (2, f"taskyard: --input-of: must be NAME=TASK, is {given!r}\n")


def test_lists_are_filtered_by_the_beginning(taskyard, submit):
    ids = [submit(), submit()]
    listed = taskyard("list", "--id-prefix", ids[1][:35], "--json").json["tasks"]
    assert [task["taskId"] for task in listed] == [each for each in ids if each.startswith(ids[1][:35])]
