"""`taskyard steps`: what the runs of a task have done is listed, with its results."""

import json

import grpc
import pytest

from taskyard.v1 import lease_pb2, lease_pb2_grpc, runtime_host_pb2, runtime_host_pb2_grpc, step_pb2, step_pb2_grpc
from taskyard.v1.task_pb2 import Payload
from taskyard.values.convert import value_from
from taskyard.values.references import Reference


@pytest.fixture
def task_id(address, submit, namespace):
    """A task whose run has recorded steps."""
    task_id = submit()
    call = {"metadata": (("taskyard-namespace", namespace),), "timeout": 20}
    with grpc.insecure_channel(address) as channel:
        hosts = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel)
        hosts.RegisterHost(runtime_host_pb2.RegisterHostRequest(host_id="h"), **call)
        leases = lease_pb2_grpc.LeaseServiceStub(channel)
        lease = leases.ClaimTask(lease_pb2.ClaimTaskRequest(host_id="h", wait_ms=10_000), **call)
        for name, fields in STEPS.items():
            step_pb2_grpc.StepServiceStub(channel).RecordStep(
                step_pb2.RecordStepRequest(
                    host_id="h", task_id=task_id, fencing_token=lease.fencing_token, name=name, **fields
                ),
                **call,
            )
        leases.CompleteTask(
            lease_pb2.CompleteTaskRequest(host_id="h", task_id=task_id, fencing_token=lease.fencing_token), **call
        )
    return task_id


STEPS = {
    "fetch page": {"result": value_from({"ä": [1, None]}), "duration_ms": 1_500},
    "nothing": {},
    "exact": {"output": Payload(data=b"[1152921504606846976]"), "duration_ms": 2},
    "secret": {"output": Payload(data=bytes(2048), encoding="fernet")},
    "long": {"result": value_from("x" * 3_000)},
    "large": {"result": value_from(Reference("step-1.json", 3 * 1024**2, "00").plain())},
}


def test_the_steps_of_a_task_are_listed_with_their_results(taskyard, task_id):
    shown = taskyard("steps", task_id, "--wide")
    assert (shown.code, shown.err) == (0, "")
    head, *rows = shown.out.splitlines()
    assert head.split() == ["name", "result", "took", "recorded", "run", "attempt"]
    assert [row[: row.index(" 20")].split("  ")[0].strip() for row in rows] == list(STEPS)
    told = [" ".join(row.split()) for row in rows]
    assert told[0].startswith('fetch page {"ä": [1, null]} 1.5 s 20')
    assert told[1].startswith("nothing 20")
    assert told[2].startswith("exact [1152921504606846976] 2 ms 20")
    assert told[3].startswith("secret 2 KiB, encoded by fernet 20")
    assert told[4].startswith("long 3 KiB of JSON 20")
    assert told[5].startswith("large 3 MiB, the artifact step-1.json 20")
    assert all(row.endswith(" 1 1") for row in told)


def test_other_programs_get_them_as_rest_has_them(taskyard, task_id):
    steps = json.loads(taskyard("steps", task_id, "-o", "json").out)["steps"]
    assert [each["name"] for each in steps] == list(STEPS)
    first = steps[0]
    assert (first["result"], first["durationMs"], first["run"], first["attempt"]) == ({"ä": [1, None]}, 1_500, 1, 1)
    assert first["recordedAt"].endswith("Z")
    assert steps[3]["output"]["encoding"] == "fernet"


def test_a_task_without_any_has_an_empty_list(taskyard, submit):
    task_id = submit()
    assert taskyard("steps", task_id, "--json").json == {"steps": []}
    assert taskyard("steps", task_id).code == 0
    assert taskyard("steps", "tsk_1").err == "taskyard: task not found\n"
