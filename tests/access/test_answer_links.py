"""A link opens one question to whoever has it, without a credential, and nothing else (docs/rules.md, Answer links)."""

import grpc
import httpx

from taskyard.v1 import park_pb2, park_pb2_grpc
from tests.access.yards import AGENT, HOST, NAMESPACE, OTHER_AGENT, Yard


def asked(
    yard: Yard, agent: str = AGENT, role: str = "host", namespace: str = NAMESPACE, parent_id: str | None = None
) -> str:
    """The id of a parked task of an agent, which asks `go`."""
    with yard.rest("admin", namespace) as operator, yard.rest(role, namespace) as host:
        submission = {"agentId": agent, "action": "click", "parentId": parent_id}
        task_id = operator.post("/tasks", json=submission).json()["taskId"]
        host.post("/api/runtime-hosts/register", json={"host_id": HOST})
        lease = host.post(f"/api/runtime-hosts/{HOST}/tasks/claim", json={"wait_ms": 20_000}).json()
        assert lease["task_id"] == task_id
        waits = [{"name": "go", "question": {"text": "Go on?", "choices": ["yes", "no"]}}]
        body = {"fencing_token": lease["fencing_token"], "waits": waits}
        assert host.post(f"/api/runtime-hosts/{HOST}/tasks/{task_id}/park", json=body).json()["state"] == "parked"
    return str(task_id)


def link(client: httpx.Client, task_id: str) -> httpx.Response:
    return client.post(f"/tasks/{task_id}/questions/go:link", json={})


def test_a_link_needs_no_credential_and_is_good_for_its_question_alone(yard: Yard) -> None:
    task_id, other_id = asked(yard), asked(yard)
    with yard.rest("agent") as ann, yard.rest("nobody") as nobody, yard.rest("nobody", "elsewhere") as elsewhere:
        token = link(ann, task_id).json()["token"]
        assert nobody.post("/answers:read", json={"token": token}).json()["question"]["text"] == "Go on?"
        assert nobody.get(f"/tasks/{task_id}").status_code == 401
        assert nobody.get("/tasks", headers={"authorization": f"Bearer {token}"}).status_code == 401
        gone = {"code": "not_found", "error": "no such link, or its time is over"}
        for client, wrong in ((elsewhere, token), (nobody, token[:-3] + "abc"), (nobody, ""), (nobody, "s.x")):
            for path in ("/answers:read", "/answers"):
                answer = client.post(path, json={"token": wrong})
                assert (answer.status_code, answer.json()) == (404, gone)
        assert nobody.post("/answers", json={"token": token, "answer": "yes"}).json() == {"questionId": "go"}
        (step,) = ann.get(f"/tasks/{task_id}/steps").json()["steps"]
        assert (step["result"], step["by"]) == ("yes", "a link of agent")
        assert ann.get(f"/tasks/{other_id}").json()["state"] == "parked"
        for each in (task_id, other_id):
            ann.post(f"/tasks/{each}/cancel", json={})


def test_a_link_is_as_good_over_grpc_in_any_namespace(yard: Yard) -> None:
    for namespace in ("default", "another"):
        task_id = asked(yard, role="admin", namespace=namespace)
        with yard.rest("admin", namespace) as admin, grpc.insecure_channel(yard.address) as channel:
            request = park_pb2.ReadAnswerLinkRequest(token=link(admin, task_id).json()["token"])
            read = park_pb2_grpc.ParkServiceStub(channel).ReadAnswerLink
            shown = read(request, metadata=yard.metadata("nobody", namespace), timeout=20)
            assert shown.question_id == "go"


def test_who_may_not_answer_makes_no_link(yard: Yard) -> None:
    task_id = asked(yard, OTHER_AGENT)
    with yard.rest("agent") as ann, yard.rest("viewer") as viewer, yard.rest("nobody") as nobody:
        answer = link(ann, task_id)
        assert (answer.status_code, answer.json()["error"]) == (404, "task not found")
        assert link(viewer, task_id).status_code == 403
        assert link(nobody, task_id).status_code == 401
    with yard.rest("operator") as operator:
        assert link(operator, task_id).status_code == 200
        operator.post(f"/tasks/{task_id}/cancel", json={})


def test_who_may_answer_for_a_parent_sees_what_its_children_ask(yard: Yard) -> None:
    parent_id = asked(yard)
    child_id = asked(yard, OTHER_AGENT, parent_id=parent_id)
    with yard.rest("agent") as ann, yard.rest("viewer") as viewer:
        for client, texts in ((ann, ["Go on?", "Go on?"]), (viewer, [None, None])):
            questions = client.get("/questions").json()["questions"]
            its = [each for each in questions if each["taskId"] in (parent_id, child_id)]
            assert [each.get("question", {}).get("text") for each in its] == texts
        assert ann.post(f"/tasks/{child_id}/questions/go:answer", json={"answer": "yes"}).status_code == 200
        ann.post(f"/tasks/{parent_id}/cancel", json={})
    with yard.rest("operator") as operator:
        operator.post(f"/tasks/{child_id}/cancel", json={})
