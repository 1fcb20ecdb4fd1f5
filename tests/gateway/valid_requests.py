"""For each call of the API, a request that succeeds: what it names is created first."""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from typing import Any

import httpx

HOST = "worker"


@dataclass(frozen=True, slots=True)
class Request:
    """What a call is given, by the names of gateway/openapi.json."""

    path: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    content: str | None = None


ASKED = [
    {"name": "go", "question": {"text": "How much?", "schema": {"type": "object"}, "choices": [{"amount": 7}, {}]}},
    {"name": "pause", "sleep_secs": 60},
]


class ValidRequests:
    """Creates tasks, hosts, leases, schedules and triggers on a server, new ones for each request."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self._numbers = count()
        self._turns = count()
        self._last: dict[str, Request] = {}
        self._host(HOST)

    def turn(self) -> int:
        """The next number, from 0."""
        return next(self._turns)

    def request_for(self, operation: str) -> Request:
        """A request that succeeds, for the call with this operation id."""
        self._last[operation] = REQUESTS[operation](self)
        return self._last[operation]

    def last_request_for(self, operation: str) -> Request:
        """The last one, about which calls may have changed something."""
        return self._last.get(operation) or self.request_for(operation)

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        answer = self._http.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def host(self) -> str:
        """The name of a new host."""
        return self._host()["host_id"]

    def _host(self, name: str = "") -> dict[str, str]:
        name = name or f"host-{next(self._numbers)}"
        self._post("/api/runtime-hosts/register", {"host_id": name})
        return {"host_id": name}

    def _task(self, **fields: Any) -> dict[str, str]:
        task = self._post("/tasks", {"agentId": "ann", "action": "click", **fields})
        return {"taskId": task["taskId"]}

    def _claim(self) -> Request:
        project = f"project-{next(self._numbers)}"
        self._task(project=project, params={"x": [1, None]}, labels={"a": "b"}, retryPolicy={"maxAttempts": 2})
        return Request({"host_id": HOST}, {"project": project, "lease_secs": 60})

    def _lease(self, **fields: Any) -> Request:
        asked = self._claim()
        lease = self._post(f"/api/runtime-hosts/{HOST}/tasks/claim", asked.body)
        return Request(
            {"host_id": HOST, "task_id": lease["task_id"]}, {"fencing_token": lease["fencing_token"], **fields}
        )

    def _upload(self) -> Request:
        lease = self._lease()
        return Request({**lease.path, "name": "notes"}, query={**lease.body, **OF_NOTES}, content=NOTES)

    def _attached(self) -> dict[str, str]:
        path = {**self._task(hold=True), "name": "notes"}
        answer = self._http.put("/tasks/{taskId}/artifacts/{name}".format(**path), params=OF_NOTES, content=NOTES)
        assert answer.is_success, answer.text
        return path

    def _fetched(self) -> Request:
        asked = self._upload()
        path = "/api/runtime-hosts/{host_id}/tasks/{task_id}/artifacts/{name}".format(**asked.path)
        answer = self._http.put(path, params=asked.query, content=NOTES)
        assert answer.is_success, answer.text
        return Request(asked.path, query={"fencing_token": asked.query["fencing_token"]})

    def _with_input(self) -> Request:
        project, page = f"project-{next(self._numbers)}", self._task(hold=True)["taskId"]
        self._post(f"/tasks/{page}/cancel", {})
        self._task(project=project, inputs={"page": page}, afterPolicy="ended")
        lease = self._post(f"/api/runtime-hosts/{HOST}/tasks/claim", {"project": project})
        path = {"host_id": HOST, "task_id": lease["task_id"], "name": "page"}
        return Request(path, query={"fencing_token": lease["fencing_token"]})

    def _of_child(self, **fields: Any) -> Request:
        lease = self._lease()
        return Request(lease.path, {**lease.body, "name": "page", "child": {"action": "click", **fields}})

    def _upload_of_child(self) -> Request:
        child = self._child(hold=True)
        return Request(
            {**child.path, "name": "notes"}, query={**child.query, "child": "page", **OF_NOTES}, content=NOTES
        )

    def _child(self, **fields: Any) -> Request:
        made = self._of_child(**fields)
        self._post(f"/api/runtime-hosts/{HOST}/tasks/{made.path['task_id']}/children", made.body)
        return Request({**made.path, "name": "page"}, query={"fencing_token": made.body["fencing_token"]})

    def _of_lease(self) -> Request:
        lease = self._lease()
        return Request(lease.path, query={"fencing_token": lease.body["fencing_token"]})

    def _link(self) -> str:
        task_id = self._asking()["taskId"]
        token: str = self._post(f"/tasks/{task_id}/questions/go:link", {})["token"]
        return token

    def _asking(self) -> dict[str, str]:
        lease = self._lease(waits=ASKED)
        self._post(f"/api/runtime-hosts/{HOST}/tasks/{lease.path['task_id']}/park", lease.body)
        return {"taskId": lease.path["task_id"]}

    def _running(self) -> dict[str, str]:
        return {"taskId": self._lease().path["task_id"]}

    def _paused(self, **fields: Any) -> dict[str, str]:
        project = f"project-{next(self._numbers)}"
        task = self._task(project=project, **fields)
        self._post(f"/api/runtime-hosts/{HOST}/tasks/claim", {"project": project})
        self._post(f"/tasks/{task['taskId']}/pause", {})
        return task

    def _blocked(self) -> dict[str, str]:
        target = f"target-{next(self._numbers)}"
        return {"target": target, **self._paused(target=target)}

    def _batch(self) -> dict[str, str]:
        batch = self._post("/tasks/batch", {"agentId": "ann", "tasks": [{"action": "click"}, {"action": "type"}]})
        return {"batchId": batch["batchId"]}

    def _many(self, **fields: Any) -> Request:
        body = {"filter": {"agentId": "nobody"}, "operationId": f"operation-{next(self._numbers)}", **fields}
        return Request(body=body)

    def _operation(self) -> dict[str, str]:
        asked = self._many()
        self._post("/tasks:cancel", asked.body)
        return {"operationId": asked.body["operationId"]}

    def _schedule(self) -> dict[str, str]:
        answer = self._post("/schedules", SCHEDULE)
        return {"scheduleId": answer["schedule"]["scheduleId"]}

    def _drain(self) -> Request:
        # A running task keeps the server alive until the answer is sent.
        self._running()
        return Request(body={"gracePeriodSecs": 60})

    def _token(self) -> dict[str, str]:
        return {"tokenId": self._post("/tokens", TOKEN)["token"]["tokenId"]}

    def _namespace(self) -> dict[str, str]:
        name = f"space-{next(self._numbers)}"
        self._post("/namespaces", {"namespace": name, "limits": LIMITS})
        return {"namespace": name}

    def _rule(self, kind: str, rule: dict[str, Any]) -> dict[str, str]:
        pattern = f"pattern-{next(self._numbers)}"
        answer = self._http.put(f"/{kind}/{pattern}", json=rule)
        assert answer.is_success, answer.text
        return {"pattern": pattern}

    def _trigger(self) -> dict[str, str]:
        answer = self._post(f"/schedules/{self._schedule()['scheduleId']}/trigger", {})
        return {"triggerId": answer["trigger"]["triggerId"]}


ABOUT_OTHERS = {"DrainReplica": 409, "ResumeReplica": 409, "ExchangeCode": 400}
"""With what a server refuses, however good the request is, that shares its store with no others and has no issuer."""


def is_done(operation: str, answer: Any) -> bool:
    """True if a request that succeeds was answered as it is to be."""
    if operation in ABOUT_OTHERS:
        return bool(answer.status_code == ABOUT_OTHERS[operation])
    return bool(answer.is_success)


TOKEN = {"name": "ann", "grants": [{"role": "agent", "namespaces": ["default"], "agents": ["ann*"]}], "ttlSecs": 60}
NOTES = "notes"
OF_NOTES = {"sha256": sha256(NOTES.encode()).hexdigest()}
LIMITS = {"maxInflight": 3, "leaseSecs": 7.5}
SCHEDULE = {"cron": "0 3 * * *", "task": {"agentId": "ann", "action": "click", "retryPolicy": {}}}

REQUESTS: dict[str, Callable[[ValidRequests], Request]] = {
    "SubmitTask": lambda _: Request(body={"agentId": "ann", "action": "click"}),
    "GetTask": lambda valid: Request(valid._running()),
    "ListTasks": lambda _: Request(query={"state": "queued,running,paused"}),
    "CancelTask": lambda valid: Request(valid._task()),
    "PauseTask": lambda valid: Request(valid._running()),
    "ResumeTask": lambda valid: Request(valid._paused()),
    "ResolveTask": lambda valid: Request(valid._paused(), {"result": {"x": None}}),
    "WaitTask": lambda valid: Request(valid._task(), query={"timeoutMs": 1}),
    "SubmitBatch": lambda _: Request(body={"agentId": "ann", "tasks": [{"action": "click"}]}),
    "GetBatch": lambda valid: Request(valid._batch()),
    "CancelBatch": lambda valid: Request(valid._batch()),
    "CancelTasks": lambda valid: valid._many(filter={"labels": "site=none", "state": "queued"}),
    "PauseTasks": lambda _: Request(body={"all": True, "dryRun": True}),
    "ResumeTasks": lambda valid: valid._many(tokenLimit=7),
    "ResolveTasks": lambda valid: valid._many(result={"x": None}),
    "ReprioritizeTasks": lambda valid: valid._many(priority=-1),
    "GetOperation": lambda valid: Request(valid._operation()),
    "ListOperations": lambda _: Request(),
    "CancelOperation": lambda valid: Request(valid._operation()),
    "GetStats": lambda _: Request(),
    "ListSnapshots": lambda _: Request(),
    "GetHealth": lambda _: Request(),
    "GetReadiness": lambda _: Request(),
    "ListSamples": lambda _: Request(query={"after": "2026-11-23T08:00:00Z"}),
    "ExplainTask": lambda valid: Request(valid._task()),
    "GetDemand": lambda _: Request(),
    "GetFairness": lambda _: Request(query={"pageSize": 2}),
    "RegisterHost": lambda _: Request(body={"host_id": "other", "machine": {"cpu_percent": 1.5}}),
    "HeartbeatHost": lambda _: Request({"host_id": HOST}, {"status": "busy"}),
    "DeregisterHost": lambda valid: Request(valid._host()),
    "DrainHost": lambda valid: Request(valid._host()),
    "ListHosts": lambda _: Request(),
    "ClaimTask": lambda valid: valid._claim(),
    "RenewLease": lambda valid: valid._lease(),
    "StartTask": lambda valid: valid._lease(),
    "ReportProgress": lambda valid: valid._lease(progress={"fraction": 0.5}, tokens_used=3),
    "CompleteTask": lambda valid: valid._lease(result=[1, "x", None]),
    "FailTask": lambda valid: valid._lease(error="broken"),
    "ReleaseTask": lambda valid: valid._lease(),
    "AppendOutput": lambda valid: valid._lease(
        number=1, chunks=[{"text": "a"}, {"channel": "log", "json": {"x": None}}]
    ),
    "ListOutput": lambda valid: Request(valid._running(), query={"after": 1, "channels": "log"}),
    "StreamOutput": lambda valid: Request({**valid._running(), "format": "text"}),
    "UploadArtifact": lambda valid: valid._upload_of_child(),
    "AttachArtifact": lambda valid: Request({**valid._task(hold=True), "name": "notes"}, query=OF_NOTES, content=NOTES),
    "ReadArtifact": lambda valid: Request(valid._attached(), query={"offset": 1, "length": 2}),
    "FetchArtifact": lambda valid: valid._fetched(),
    "FetchInput": lambda valid: valid._with_input(),
    "RecordStep": lambda valid: valid._lease(name="fetch page", result={"x": [1, None]}, duration_ms=7),
    "FetchSteps": lambda valid: valid._of_lease(),
    "SubmitChild": lambda valid: valid._of_child(),
    "FetchChild": lambda valid: valid._child(),
    "ListSteps": lambda valid: Request(valid._running()),
    "ParkTask": lambda valid: valid._lease(waits=ASKED, release_target=True),
    "CreateAnswerLink": lambda valid: Request({**valid._asking(), "questionId": "go"}, {}),
    "ReadAnswerLink": lambda valid: Request({}, {"token": valid._link()}),
    "AnswerByLink": lambda valid: Request({}, {"token": valid._link(), "answer": {"amount": 7}}),
    "AnswerQuestion": lambda valid: Request({**valid._asking(), "questionId": "go"}, {"answer": {"amount": 7}}),
    "SendEvent": lambda _: Request({"name": "paid"}, {"payload": {"amount": 7}, "lifeSecs": 5, "eventId": "order-7"}),
    "ListQuestions": lambda _: Request(query={"agentId": "ann", "pageSize": 2}),
    "ListLeases": lambda valid: Request(query={"host_id": valid._lease().path["host_id"]}),
    "ListTargets": lambda valid: Request(query={"status": "blocked"} if valid._blocked() else {}),
    "ResumeTargetTask": lambda valid: Request(valid._blocked()),
    "ListLimits": lambda _: Request(query={"pageSize": 2}),
    "PutLimit": lambda _: Request({"pattern": "site:*"}, {"maxInflight": 3, "perSecond": 2.5, "burst": 4}),
    "DeleteLimit": lambda valid: Request(valid._rule("limits", {"maxInflight": 3})),
    "ListAgentWeights": lambda _: Request(),
    "PutAgentWeight": lambda _: Request({"pattern": "team-a*"}, {"weight": 3}),
    "DeleteAgentWeight": lambda valid: Request(valid._rule("agents", {"weight": 3})),
    "CreateSchedule": lambda _: Request(body=SCHEDULE),
    "GetSchedule": lambda valid: Request(valid._schedule()),
    "ListSchedules": lambda _: Request(),
    "UpdateSchedule": lambda valid: Request(valid._schedule(), {"interval": "1h", "updateMask": "interval"}),
    "DeleteSchedule": lambda valid: Request(valid._schedule()),
    "PauseSchedule": lambda valid: Request(valid._schedule()),
    "ResumeSchedule": lambda valid: Request(valid._schedule(), {"catchUp": "last"}),
    "TriggerSchedule": lambda valid: Request(valid._schedule(), {"idempotencyKey": "k"}),
    "PreviewSchedule": lambda valid: Request(valid._schedule(), query={"count": 3}),
    "GetTrigger": lambda valid: Request(valid._trigger()),
    "ListTriggers": lambda valid: Request(query={"scheduleId": valid._schedule()["scheduleId"]}),
    "GetConfig": lambda _: Request(),
    "ReloadConfig": lambda _: Request(),
    "DrainServer": lambda valid: valid._drain(),
    "ListReplicas": lambda _: Request(),
    "DrainReplica": lambda valid: Request({"replica": f"replica-{valid.turn()}"}),
    "ResumeReplica": lambda valid: Request({"replica": f"replica-{valid.turn()}"}),
    "CreateToken": lambda _: Request(body=TOKEN),
    "ListTokens": lambda _: Request(query={"pageSize": 2}),
    "GetToken": lambda valid: Request(valid._token()),
    "RevokeToken": lambda valid: Request(valid._token()),
    "CreateNamespace": lambda valid: Request(body={"namespace": f"new-{valid.turn()}", "limits": LIMITS}),
    "ListNamespaces": lambda _: Request(query={"pageSize": 2}),
    "GetNamespace": lambda valid: Request(valid._namespace()),
    "UpdateNamespace": lambda valid: Request(
        valid._namespace(), {"limits": {"maxInflight": 5}, "updateMask": "limits.maxInflight,limits.leaseSecs"}
    ),
    "DeleteNamespace": lambda valid: Request(valid._namespace(), query={"force": "true"}),
    "WhoAmI": lambda _: Request(),
    "GetSignIn": lambda _: Request(),
    "ExchangeCode": lambda _: Request(
        body={"issuer": "https://issuer.example", "refreshToken": "a-token-that-an-issuer-gave"}
    ),
}
