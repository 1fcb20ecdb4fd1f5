"""What ExplainTask tells whom: a principal with the role agent learns of nobody else.

See docs/operate/security.md, Agents.
"""

from collections.abc import Iterator

import grpc
import pytest

from taskyard.v1 import lease_pb2, runtime_host_pb2, task_pb2
from taskyard_server.conversion.payload import message_to_json
from tests.access.sight_yard import Stubs, sight_yard, stubs
from tests.access.yards import AGENT, HOST, OTHER_AGENT, Yard


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with sight_yard(
        tmp_path_factory.mktemp("yard"), {"scheduler": {"maxInflight": 1, "defaultDeadlineSec": 600}}
    ) as made:
        yield made


def submit(caller: Stubs, agent: str, **fields: object) -> str:
    request = task_pb2.SubmitTaskRequest(agent_id=agent, action="click", **fields)
    return str(caller.call(caller.tasks.SubmitTask, request).task_id)


def why(caller: Stubs, task_id: str) -> dict[str, object]:
    answer = caller.call(caller.tasks.ExplainTask, task_pb2.ExplainTaskRequest(task_id=task_id))
    return message_to_json(answer)


@pytest.fixture(scope="module")
def tasks(running: Yard) -> dict[str, str]:
    """One of bob in flight at a host, one of bob and one of ann behind it in a target, and one of ann behind nobody."""
    with stubs(running, "operator") as operator, stubs(running, "host") as host:
        running_one = submit(operator, OTHER_AGENT, target="site")
        waits = submit(operator, OTHER_AGENT)
        behind, free = submit(operator, AGENT, target="site"), submit(operator, AGENT)
        register = runtime_host_pb2.RegisterHostRequest(host_id=HOST, slots=1)
        host.call(host.hosts.RegisterHost, register)
        claimed = host.call(host.leases.ClaimTask, lease_pb2.ClaimTaskRequest(host_id=HOST, lease_secs=600))
        assert claimed.task_id == running_one
    return {"running": running_one, "waits": waits, "behind": behind, "free": free}


def test_an_agent_is_told_of_no_other_task_host_figure_or_place(running, tasks):
    with stubs(running, "agent") as ann, stubs(running, "viewer") as viewer:
        target, full, credit = why(ann, tasks["behind"])["reasons"]
        assert target == {
            "kind": "target",
            "message": "the target site waits for another task to end",
            "name": "site",
        }
        assert full == {
            "kind": "max_inflight",
            "message": "as many tasks are in flight as may be (maxInflight)",
            "limit": 1,
        }
        assert set(credit) == {"kind", "message", "name"}
        told = str([why(ann, tasks["behind"]), why(ann, tasks["free"])])
        for secret in (tasks["running"], tasks["waits"], OTHER_AGENT, HOST, "ahead", "overShare", "used"):
            assert secret not in told
        seen = why(viewer, tasks["waits"])
        assert (seen["ahead"], seen["overShare"]) == (1, True)
        assert why(viewer, tasks["free"])["ahead"] == 0
        assert why(viewer, tasks["behind"])["reasons"][0]["taskIds"] == [tasks["running"]]


def test_an_agent_of_every_name_is_told_no_place_either(running, tasks):
    with stubs(running, "every agent") as everyone:
        answer = why(everyone, tasks["behind"])
        assert answer["reasons"][0]["taskIds"] == [tasks["running"]]
        assert "ahead" not in answer
        assert "used" not in str(answer)


def test_the_task_of_another_agent_is_as_one_that_is_not_there(running, tasks):
    with stubs(running, "agent") as ann:
        for task_id in (tasks["waits"], "tsk_nope"):
            with pytest.raises(grpc.RpcError) as refused:
                why(ann, task_id)
            assert (refused.value.code(), refused.value.details()) == (grpc.StatusCode.NOT_FOUND, "task not found")
