"""RuntimeHostService (runtime-host-model; DESIGN, Hosts): the registry, liveness, and what a host is handed."""

import asyncio
from contextlib import AsyncExitStack
from types import SimpleNamespace

import grpc
import pytest
from google.protobuf.json_format import ParseDict

from taskyard.v1 import lease_pb2, lease_pb2_grpc, runtime_host_pb2, runtime_host_pb2_grpc, task_pb2, task_pb2_grpc
from taskyard.v1.runtime_host_pb2 import Machine, RuntimeHost
from taskyard.v1.task_pb2 import Task
from taskyard_server.conversion.task_encoding import encode_event
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.engine.event_log import EventLogs
from taskyard_server.engine.memory.engine import MemoryEngine
from taskyard_server.interceptors.calls import CallInterceptor
from taskyard_server.services.hosts import RuntimeHostService
from taskyard_server.services.leases import LeaseService
from taskyard_server.services.task_watches import TaskWatches
from taskyard_server.services.tasks import TaskService

OTHER = (("taskyard-namespace", "other"),)


class HostApi:
    """A server with its host, lease and task services, as hosts see it."""

    def __init__(self, engine, clock, channel):
        self.engine = engine
        self.clock = clock
        self.hosts = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel)
        self.leases = lease_pb2_grpc.LeaseServiceStub(channel)
        self.tasks = task_pb2_grpc.TaskServiceStub(channel)

    async def register(self, host_id="host", metadata=None, **fields):
        request = runtime_host_pb2.RegisterHostRequest(host_id=host_id, **fields)
        return (await self.hosts.RegisterHost(request, metadata=metadata)).host

    def heartbeat_call(self, host_id="host", metadata=None, **fields):
        request = runtime_host_pb2.HeartbeatHostRequest(host_id=host_id, **fields)
        return self.hosts.HeartbeatHost(request, metadata=metadata)

    async def heartbeat(self, host_id="host", **fields):
        return (await self.heartbeat_call(host_id, **fields)).host

    def deregister(self, host_id="host", metadata=None):
        return self.hosts.DeregisterHost(runtime_host_pb2.DeregisterHostRequest(host_id=host_id), metadata=metadata)

    def drain(self, host_id="host", **fields):
        return self.hosts.DrainHost(runtime_host_pb2.DrainHostRequest(host_id=host_id, **fields))

    def list_hosts(self, metadata=None, **fields):
        return self.hosts.ListHosts(runtime_host_pb2.ListHostsRequest(**fields), metadata=metadata)

    async def look(self, host_id="host"):
        """The host as the listing shows it, which is no sign of life of its own."""
        (host,) = [host for host in (await self.list_hosts()).hosts if host.id == host_id]
        return host

    def claim(self, host_id="host", metadata=None, **fields):
        return self.leases.ClaimTask(lease_pb2.ClaimTaskRequest(host_id=host_id, **fields), metadata=metadata)

    async def submit(self, metadata=None, **fields):
        request = task_pb2.SubmitTaskRequest(**{"agent_id": "ann", "action": "click", **fields})
        return (await self.tasks.SubmitTask(request, metadata=metadata)).task_id

    async def get(self, task_id, metadata=None):
        return await self.tasks.GetTask(task_pb2.GetTaskRequest(task_id=task_id), metadata=metadata)

    async def state(self, task_id):
        return Task.State.Name((await self.get(task_id)).state)

    async def advance(self, secs):
        """Let time pass, and let everything happen that has come due by then."""
        self.clock.now += secs
        for _ in range(4):
            await asyncio.sleep(0)


@pytest.fixture
async def open_hosts(clock, monkeypatch):
    """Starts a server with these limits. Its time and that of the loop stand still until a test moves them."""
    loop = asyncio.get_running_loop()
    loop_begin, begin = loop.time(), clock.now
    monkeypatch.setattr(loop, "time", lambda: loop_begin + clock.now - begin)
    async with AsyncExitStack() as ends:

        async def start(**limits):
            engine = MemoryEngine(Limits(**{"default_deadline_secs": 100_000.0, **limits}), clock)
            ends.push_async_callback(engine.admin.close)
            server = grpc.aio.server(interceptors=(CallInterceptor(),))
            watches = TaskWatches(engine, EventLogs(encode_event, engine.now))
            task_pb2_grpc.add_TaskServiceServicer_to_server(TaskService(engine, 262_144, watches), server)
            lease_pb2_grpc.add_LeaseServiceServicer_to_server(LeaseService(engine, 262_144), server)
            runtime_host_pb2_grpc.add_RuntimeHostServiceServicer_to_server(RuntimeHostService(engine, 262_144), server)
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            ends.push_async_callback(server.stop, None)
            channel = await ends.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
            return HostApi(engine, clock, channel)

        yield start


@pytest.fixture
async def yard(open_hosts):
    """A server with the documented limits."""
    return await open_hosts()


def status(host):
    """The status as JSON shows it."""
    return RuntimeHost.Status.Name(host.status)


def seconds(timestamp):
    return timestamp.ToNanoseconds() / 1e9


# Behavior Rules 1: register


async def test_registering_again_keeps_the_time_of_registration_and_replaces_the_rest(yard):
    first = await yard.register(
        display_name="One", capabilities=["gpu"], slots=4, project="p", actions=["click"], labels={"rack": "7"}
    )
    assert (first.display_name, list(first.capabilities), first.slots) == ("One", ["gpu"], 4)
    assert (first.project, list(first.actions), dict(first.labels)) == ("p", ["click"], {"rack": "7"})
    await yard.advance(10)
    second = await yard.register(capabilities=["cpu"])
    assert second.registered_at == first.registered_at
    assert seconds(second.last_heartbeat_at) == pytest.approx(seconds(first.last_heartbeat_at) + 10)
    assert (second.display_name, list(second.capabilities)) == ("host", ["cpu"])
    assert not second.HasField("slots")
    assert not second.HasField("project")
    assert (list(second.actions), dict(second.labels)) == ([], {})
    assert list((await yard.list_hosts()).hosts) == [second]


async def test_a_host_that_says_nothing_of_itself_is_named_by_its_id(yard):
    host = await yard.register("h-1")
    assert (host.id, host.display_name, list(host.capabilities)) == ("h-1", "h-1", [])
    assert host.online
    assert status(host) == "idle"
    assert host.registered_at == host.last_heartbeat_at
    assert not host.HasField("machine")
    assert not host.HasField("draining")


async def test_registering_again_keeps_the_leases(yard):
    await yard.register()
    task_id = await yard.submit()
    await yard.claim()
    assert (await yard.register()).leases == 1
    assert await yard.state(task_id) == "assigned"


async def test_a_host_without_an_id_is_refused(yard, refused, by_rest):
    refusal = await refused(yard.register("", metadata=by_rest))
    assert refusal.status is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.trailers["x-http-status"] == "400"
    assert refusal.rest_body == {"code": "bad_request", "error": "host_id: is required"}


async def test_ids_of_built_in_hosts_are_reserved(yard, refused):
    await yard.engine.hosts.register("default", "taskyard:executor", None, HostProfile(), built_in=True)
    asks = [yard.register, yard.heartbeat, yard.deregister, yard.drain, yard.claim]
    for ask in asks:
        refusal = await refused(ask("taskyard:executor"))
        assert refusal.status is grpc.StatusCode.INVALID_ARGUMENT
        assert "host_id" in refusal.message


async def test_built_in_hosts_are_not_listed(yard):
    await yard.engine.hosts.register("default", "taskyard:executor", None, HostProfile(), built_in=True)
    await yard.register()
    assert [host.id for host in (await yard.list_hosts()).hosts] == ["host"]


# Behavior Rules 2: heartbeat


async def test_an_unknown_host_that_calls_is_told_to_register(yard, refused, by_rest):
    await yard.register("known")
    for call in [yard.heartbeat_call("ghost", metadata=by_rest), yard.claim("ghost", metadata=by_rest)]:
        refusal = await refused(call)
        assert refusal.status is grpc.StatusCode.NOT_FOUND
        assert refusal.trailers["x-http-status"] == "404"
        assert refusal.rest_body == {"code": "not_found", "error": "runtime host not found"}
    for call in [yard.deregister("ghost"), yard.drain("ghost")]:
        assert (await refused(call)).status is grpc.StatusCode.NOT_FOUND
    assert [host.id for host in (await yard.list_hosts()).hosts] == ["known"]


async def test_in_a_namespace_that_nothing_entered_every_host_is_unknown(yard, refused):
    for call in [yard.heartbeat_call(), yard.deregister(), yard.drain(), yard.claim()]:
        assert (await refused(call)).message == "runtime host not found"
    assert not (await yard.list_hosts()).hosts


async def test_register_heartbeat_and_list_answer_an_online_host(yard):
    await yard.register()
    await yard.advance(100)
    assert not (await yard.look()).online
    beat = await yard.heartbeat()
    assert beat.online
    assert await yard.look() == beat


async def test_a_heartbeat_renews_no_lease(yard):
    await yard.register()
    task_id = await yard.submit()
    await yard.claim()
    await yard.advance(50)
    await yard.heartbeat()
    await yard.advance(12)
    assert await yard.state(task_id) == "queued"


# Behavior Rules 3: deregister


async def test_deregistering_removes_the_host_and_requeues_its_tasks_at_once(yard, refused):
    await yard.register()
    await yard.register("other")
    assigned, running = [await yard.submit() for _ in range(2)]
    await yard.claim()
    begun = await yard.claim()
    await yard.leases.StartTask(
        lease_pb2.StartTaskRequest(host_id="host", task_id=begun.task_id, fencing_token=begun.fencing_token)
    )
    assert await yard.state(running) == "running"
    assert (await yard.deregister()).deregistered
    assert [await yard.state(task_id) for task_id in (assigned, running)] == ["queued", "queued"]
    assert not (await yard.leases.ListLeases(lease_pb2.ListLeasesRequest())).leases
    assert [host.id for host in (await yard.list_hosts()).hosts] == ["other"]
    assert [(await yard.claim("other")).task_id for _ in range(2)] == [assigned, running]
    assert (await refused(yard.deregister())).status is grpc.StatusCode.NOT_FOUND


async def test_deregistering_leaves_the_leases_of_others_alone(yard):
    await yard.register()
    await yard.register("other")
    kept = await yard.submit()
    await yard.claim("other")
    await yard.deregister()
    assert await yard.state(kept) == "assigned"


async def test_a_host_that_comes_back_after_leaving_is_a_new_one(yard):
    first = await yard.register()
    await yard.register("other")
    await yard.deregister()
    await yard.advance(5)
    again = await yard.register()
    assert seconds(again.registered_at) == pytest.approx(seconds(first.registered_at) + 5)
    assert again.leases == 0
    assert [host.id for host in (await yard.list_hosts()).hosts] == ["other", "host"]


# Behavior Rules 4 to 6: claim


async def test_a_claim_takes_only_queued_tasks(yard):
    await yard.register()
    cancelled, done, free = [await yard.submit() for _ in range(3)]
    await yard.tasks.CancelTask(task_pb2.CancelTaskRequest(task_id=cancelled))
    lease = await yard.claim()
    assert lease.task_id == done
    await yard.leases.CompleteTask(
        lease_pb2.CompleteTaskRequest(host_id="host", task_id=done, fencing_token=lease.fencing_token)
    )
    assert (await yard.claim()).task_id == free
    assert not (await yard.claim()).claimed


async def test_a_claim_answers_the_documented_payload(yard):
    await yard.register()
    nothing = await yard.claim()
    assert nothing == lease_pb2.ClaimTaskResponse(claimed=False)
    task_id = await yard.submit()
    lease = await yard.claim()
    assert lease.claimed
    assert lease.task_id == lease.task.task_id == task_id
    assert seconds(lease.lease_expires_at) == pytest.approx(yard.clock.now + 60, abs=1e-5)
    assert lease.fencing_token == 1
    assert Task.State.Name(lease.task.state) == "assigned"
    assert lease.task.host_id == "host"


async def test_a_lease_that_has_not_expired_blocks_every_claim(yard):
    await yard.register()
    await yard.register("other")
    await yard.submit()
    await yard.claim()
    await yard.advance(59.9)
    assert not (await yard.claim("other")).claimed
    assert not (await yard.claim()).claimed


@pytest.mark.parametrize("host_id", ["host", "other"])
async def test_an_expired_lease_can_be_claimed_by_any_host(yard, host_id):
    await yard.register()
    await yard.register("other")
    task_id = await yard.submit()
    await yard.claim()
    await yard.advance(61)
    lease = await yard.claim(host_id)
    assert (lease.task_id, lease.fencing_token) == (task_id, 2)


async def test_many_hosts_that_claim_at_once_share_no_task(open_hosts):
    yard = await open_hosts(max_inflight=100, max_per_agent_inflight=100)
    for number in range(8):
        await yard.register(f"host-{number}")
    ids = [await yard.submit() for _ in range(20)]
    claims = await asyncio.gather(*(yard.claim(f"host-{number % 8}") for number in range(32)))
    assert sorted(claim.task_id for claim in claims if claim.claimed) == sorted(ids)


# Online and status


@pytest.mark.parametrize(("silent", "online"), [(59.0, True), (60.0, True), (60.001, False), (1e5, False)])
async def test_a_host_is_online_up_to_and_at_its_time_out(yard, silent, online):
    yard.clock.now = float(int(yard.clock.now))
    await yard.register()
    await yard.advance(silent)
    assert (await yard.look()).online is online


async def test_the_time_out_is_the_configured_one(open_hosts):
    yard = await open_hosts(heartbeat_timeout_secs=5.0)
    yard.clock.now = float(int(yard.clock.now))
    await yard.register()
    await yard.advance(5)
    assert (await yard.look()).online
    await yard.advance(0.001)
    assert not (await yard.look()).online


@pytest.mark.parametrize(("silent", "word"), [(60.001, "idle"), (120.0, "idle"), (120.001, "dead"), (1e6, "dead")])
async def test_a_host_is_dead_once_silent_for_over_twice_its_time_out(yard, silent, word):
    yard.clock.now = float(int(yard.clock.now))
    await yard.register()
    await yard.advance(silent)
    assert status(await yard.look()) == word


async def test_a_dead_host_is_alive_again_with_its_next_heartbeat(yard):
    await yard.register()
    await yard.advance(1000)
    assert status(await yard.look()) == "dead"
    assert status(await yard.heartbeat()) == "idle"


async def test_without_a_word_of_its_own_the_status_is_told_from_leases_and_slots(yard):
    await yard.register(slots=2)
    shown = []
    for _ in range(3):
        host = await yard.look()
        shown.append((host.leases, status(host)))
        await yard.submit()
        await yard.claim()
    assert shown == [(0, "idle"), (1, "alive"), (2, "busy")]


async def test_a_host_without_slots_is_never_busy_by_its_leases(yard):
    await yard.register()
    for _ in range(5):
        await yard.submit()
        await yard.claim()
    assert status(await yard.look()) == "alive"


@pytest.mark.parametrize("word", ["alive", "idle", "busy"])
async def test_the_word_of_its_last_heartbeat_is_its_status(yard, word):
    await yard.register(slots=1)
    await yard.heartbeat(status=word)
    assert status(await yard.look()) == word
    await yard.submit()
    await yard.claim()
    assert status(await yard.look()) == word
    assert status(await yard.heartbeat()) == "busy"


async def test_the_word_of_a_silent_host_counts_no_more(yard):
    await yard.register()
    await yard.heartbeat(status="busy")
    await yard.advance(121)
    assert status(await yard.look()) == "dead"


async def test_registering_again_takes_the_own_word_back(yard):
    await yard.register()
    await yard.heartbeat(status="busy")
    assert status(await yard.register()) == "idle"


# Machine figures


def machine(**figures):
    return ParseDict(figures, Machine())


FIGURES = {"cpuPercent": 12.5, "memoryMb": 512.0, "activeWorkers": 3, "activeTeams": 1, "sessions": 0}


async def test_the_last_figures_of_the_machine_are_kept(yard):
    await yard.register()
    given = machine(**FIGURES, context={"disk": {"free": 10, "mounts": ["/", None]}})
    assert (await yard.heartbeat(machine=given)).machine == given
    assert (await yard.heartbeat()).machine == given
    assert (await yard.look()).machine == given


async def test_new_figures_replace_the_old_ones_as_a_whole(yard):
    await yard.register(machine=machine(**FIGURES))
    await yard.heartbeat(machine=machine(cpuPercent=99))
    assert (await yard.look()).machine == machine(cpuPercent=99)


async def test_figures_can_come_with_the_registration(yard):
    assert (await yard.register(machine=machine(**FIGURES))).machine == machine(**FIGURES)


async def test_figures_that_are_too_large_or_too_deep_are_refused_and_change_nothing(yard, refused):
    await yard.register(machine=machine(cpuPercent=1))
    large = machine(context={"text": "x" * 262_144})
    assert (await refused(yard.heartbeat_call(machine=large))).code == "too_large"
    deep = {"leaf": 1}
    for _ in range(31):
        deep = {"in": deep}
    assert (await refused(yard.heartbeat_call(machine=machine(context=deep)))).code == "bad_request"
    assert (await refused(yard.register(display_name="new", machine=large))).code == "too_large"
    host = await yard.look()
    assert (host.machine, host.display_name) == (machine(cpuPercent=1), "host")


# Signs of life


CALLS = ["claim", "renew", "start", "progress", "late", "complete", "fail", "release"]


@pytest.mark.parametrize("call", CALLS)
async def test_every_call_of_a_host_is_a_sign_of_life(yard, call):
    await yard.register()
    await yard.submit()
    lease = await yard.claim(lease_secs=3600)
    about = SimpleNamespace(host_id="host", task_id=lease.task_id, fencing_token=lease.fencing_token).__dict__
    await yard.advance(110)
    assert not (await yard.look()).online
    match call:
        case "claim":
            await yard.claim()
        case "renew":
            await yard.leases.RenewLease(lease_pb2.RenewLeaseRequest(**about))
        case "start":
            await yard.leases.StartTask(lease_pb2.StartTaskRequest(**about))
        case "progress":
            await yard.leases.ReportProgress(lease_pb2.ReportProgressRequest(**about))
        case "late":
            with pytest.raises(grpc.aio.AioRpcError):
                await yard.leases.StartTask(lease_pb2.StartTaskRequest(**{**about, "fencing_token": 9}))
        case "complete":
            await yard.leases.CompleteTask(lease_pb2.CompleteTaskRequest(**about))
        case "fail":
            await yard.leases.FailTask(lease_pb2.FailTaskRequest(**about, error="broken"))
        case "release":
            await yard.leases.ReleaseTask(lease_pb2.ReleaseTaskRequest(**about))
    host = await yard.look()
    assert host.online
    assert seconds(host.last_heartbeat_at) == pytest.approx(yard.clock.now, abs=1e-5)


async def test_draining_and_listing_a_host_are_no_signs_of_its_life(yard):
    await yard.register()
    await yard.advance(200)
    assert status((await yard.drain()).host) == "dead"
    assert status(await yard.look()) == "dead"


# Drain


async def test_a_draining_host_is_handed_nothing_until_it_registers_again(yard):
    await yard.register()
    task_id = await yard.submit()
    assert (await yard.drain()).host.draining
    assert not (await yard.claim()).claimed
    assert (await yard.heartbeat()).draining
    assert not (await yard.register()).HasField("draining")
    assert (await yard.claim()).task_id == task_id


async def test_a_draining_host_may_finish_what_it_holds(yard):
    await yard.register()
    task_id = await yard.submit()
    lease = await yard.claim()
    await yard.drain()
    assert (await yard.look()).leases == 1
    await yard.leases.CompleteTask(
        lease_pb2.CompleteTaskRequest(host_id="host", task_id=task_id, fencing_token=lease.fencing_token)
    )
    assert await yard.state(task_id) == "done"


async def test_the_drain_of_one_host_leaves_the_others_working(yard):
    await yard.register()
    await yard.register("other")
    await yard.drain()
    await yard.drain()
    task_id = await yard.submit()
    assert (await yard.claim("other")).task_id == task_id


@pytest.mark.parametrize("grace_period_secs", [0, 5])
async def test_what_still_runs_after_the_grace_period_of_a_drain_is_paused(yard, grace_period_secs):
    await yard.register()
    task_id = await yard.submit()
    await yard.claim()
    await yard.drain(grace_period_secs=grace_period_secs)
    assert await yard.state(task_id) == "assigned"
    await yard.advance(grace_period_secs + 0.2)
    assert await yard.state(task_id) == "paused"
    assert (await yard.look()).leases == 0


# List


async def test_hosts_are_listed_in_order_of_registration_also_after_they_register_again(yard):
    for host_id in ("zoe", "ann", "mia"):
        await yard.register(host_id)
    await yard.register("zoe")
    assert [host.id for host in (await yard.list_hosts()).hosts] == ["zoe", "ann", "mia"]


@pytest.mark.parametrize(("size", "pages"), [(0, [7]), (1, [1] * 7), (3, [3, 3, 1]), (7, [7]), (1000, [7])])
async def test_pages_of_hosts_are_whole_and_in_order(yard, size, pages):
    names = [(await yard.register(f"host-{number}")).id for number in (3, 1, 2, 0, 6, 5, 4)]
    found, token = [], None
    while True:
        answer = await yard.list_hosts(page_size=size, page_token=token)
        found.append([host.id for host in answer.hosts])
        if not answer.HasField("next_page_token"):
            break
        token = answer.next_page_token
    assert [len(page) for page in found] == pages
    assert [name for page in found for name in page] == names


async def test_a_host_that_leaves_between_two_pages_costs_no_other(yard):
    for number in range(4):
        await yard.register(f"host-{number}")
    first = await yard.list_hosts(page_size=2)
    await yard.deregister("host-1")
    second = await yard.list_hosts(page_size=2, page_token=first.next_page_token)
    assert [host.id for host in second.hosts] == ["host-2", "host-3"]


async def test_a_token_of_another_listing_is_refused(yard, refused):
    for _ in range(2):
        await yard.submit()
    token = (await yard.tasks.ListTasks(task_pb2.ListTasksRequest(page_size=1))).next_page_token
    for wrong in (token, "nonsense", "%%%"):
        assert (await refused(yard.list_hosts(page_token=wrong))).code == "bad_request"


# What a host is handed


@pytest.mark.parametrize(
    ("host", "task", "taken"),
    [
        ({}, {}, True),
        ({}, {"requires": ["gpu"]}, False),
        ({"capabilities": ["gpu"]}, {"requires": ["gpu"]}, True),
        ({"capabilities": ["gpu"]}, {"requires": ["gpu", "arm"]}, False),
        ({"capabilities": ["gpu", "arm", "x"]}, {"requires": ["arm", "gpu"]}, True),
        ({"capabilities": ["gpu"]}, {}, True),
        ({"capabilities": ["GPU"]}, {"requires": ["gpu"]}, False),
        ({"project": "p"}, {}, False),
        ({"project": "p"}, {"project": "p"}, True),
        ({"project": "p"}, {"project": "q"}, False),
        ({}, {"project": "p"}, True),
        ({"actions": ["click"]}, {"action": "click"}, True),
        ({"actions": ["click", "type"]}, {"action": "type"}, True),
        ({"actions": ["click"]}, {"action": "type"}, False),
        ({"actions": ["click"], "capabilities": ["gpu"]}, {"action": "type", "requires": ["gpu"]}, False),
    ],
)
async def test_capabilities_project_and_actions_decide_what_a_host_is_handed(yard, host, task, taken):
    await yard.register(**host)
    await yard.submit(**task)
    assert (await yard.claim()).claimed is taken


async def test_what_a_host_says_when_it_registers_again_decides_from_then_on(yard):
    await yard.register()
    task_id = await yard.submit(requires=["gpu"])
    assert not (await yard.claim()).claimed
    await yard.register(capabilities=["gpu"])
    assert (await yard.claim()).task_id == task_id


async def test_a_claim_may_narrow_to_a_project_but_not_leave_the_hosts_own(yard, refused):
    await yard.register("any")
    await yard.register("own", project="p")
    plain, of_q, of_p = await yard.submit(), await yard.submit(project="q"), await yard.submit(project="p")
    assert (await yard.claim("any", project="p")).task_id == of_p
    assert not (await yard.claim("any", project="p")).claimed
    refusal = await refused(yard.claim("own", project="q"))
    assert refusal.code == "bad_request"
    assert not (await yard.claim("own", project="p")).claimed
    assert [(await yard.claim("any")).task_id for _ in range(2)] == [plain, of_q]


async def test_namespaces_are_apart(yard, refused):
    here = await yard.submit()
    there = await yard.submit(metadata=OTHER)
    await yard.register("host", display_name="here")
    assert not (await yard.list_hosts(metadata=OTHER)).hosts
    assert (await refused(yard.claim("host", metadata=OTHER))).code == "not_found"
    await yard.register("host", metadata=OTHER, display_name="there")
    assert [host.display_name for host in (await yard.list_hosts(metadata=OTHER)).hosts] == ["there"]
    assert (await yard.claim("host", metadata=OTHER)).task_id == there
    assert not (await yard.claim("host", metadata=OTHER)).claimed
    await yard.deregister("host", metadata=OTHER)
    assert (await yard.look()).display_name == "here"
    assert (await yard.claim("host")).task_id == here
