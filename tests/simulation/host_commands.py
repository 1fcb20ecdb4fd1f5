"""What hosts ask for by single calls: to register, to claim, to report, mostly under a lease that they hold."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from taskyard_server.core.hosts import HostStatus

from .agreement import within_limits_in_flight
from .model_records import Held, Machine
from .plain_values import to_profile
from .random_choices import BUILT_IN, MACHINES

if TYPE_CHECKING:
    from .agent_commands import AgentCommands
    from .simulator import Simulation

EXECUTOR = "tab-executor"


class Lease(NamedTuple):
    """What a host knows of a lease that it was given, whether it still has it or not."""

    host: str
    task: str
    token: int


class HostCommands:
    """The hosts of one life, and the leases that they were given."""

    def __init__(self, simulation: Simulation, agents: AgentCommands) -> None:
        self._sim = simulation
        self._core, self._model, self._chances = simulation.core, simulation.model, simulation.chances
        self._agents = agents
        self._leases: deque[Lease] = deque(maxlen=60)

    def register(self) -> None:
        chances = self._chances
        if chances.under(0.1):
            host_id, machine = EXECUTOR, BUILT_IN
        else:
            host_id, machine = f"host-{chances.below(6)}", chances.one_of(MACHINES)
        self.register_one(host_id, chances.one_of([None, "", "a name"]), machine, chances.slots())

    def register_one(self, host_id: str, name: str | None, machine: Machine, slots: int | None) -> None:
        now, profile = self._sim.now, to_profile(machine)
        self._sim.both(
            "register",
            (host_id, name, machine, slots),
            lambda: self._core.register(now, host_id, name, profile, slots=slots, built_in=machine.built_in),
            lambda _: self._model.register(now, host_id, name, machine, slots),
        )

    def heartbeat(self) -> None:
        now, host_id, chances = self._sim.now, self.some_host_id(), self._chances
        word, figures = chances.reported_status(), chances.figures()
        self._sim.both(
            "heartbeat",
            (host_id, word, figures),
            lambda: self._core.heartbeat(now, host_id, word and HostStatus(word), figures),
            lambda _: self._model.heartbeat(now, host_id, word, figures),
        )

    def drain_host(self) -> None:
        host_id, chances = self.some_host_id(), self._chances
        until = self._sim.now + chances.secs(0.5) if chances.under(0.7) else None
        self._sim.both(
            "drain host",
            (host_id, until),
            lambda: self._core.drain_host(host_id, until),
            lambda _: self._model.drain_host(host_id, until),
        )

    def deregister(self) -> None:
        now, host_id = self._sim.now, self.some_host_id()
        self._sim.both(
            "deregister",
            (host_id,),
            lambda: self._core.deregister(now, host_id),
            lambda _: self._model.deregister(now, host_id),
        )

    def some_host_id(self) -> str:
        hosts = self._model.world.hosts
        if self._chances.under(0.1) or not hosts:
            return f"host-{self._chances.below(9)}"
        return self._chances.one_of(list(hosts))

    def claim(self) -> None:
        chances = self._chances
        count, project = chances.one_of([1, 1, 1, 2, 6]), chances.only_project()
        self._claim_some(self.some_host_id(), count, chances.lease_secs(), project)

    def claim_up_to(self, count: int) -> None:
        """Some host claims so many at once."""
        self._claim_some(self.some_host_id(), count, 30, None)

    def _claim_some(self, host_id: str, count: int, secs: float | None, project: str | None) -> None:
        now, last, claim_id = self._sim.now, self._core.view.last_token, self._chances.claim_id()
        leases = self._sim.both(
            "claim",
            (host_id, count, secs, project, claim_id),
            lambda: self._core.claim(now, host_id, count, secs, project, claim_id),
            lambda _: self._model.claim(now, host_id, count, secs, project, claim_id),
        )
        if leases and leases[0].token <= last:
            self._sim.given["claim", "repeated"] += 1
            return
        if leases is not None and len(leases) < count:
            self._sim.given["bound by", self._core.limited_by or "no limit"] += 1
        if leases:
            self._sim.ledger.claimed(leases)
            self.handed(leases)
            self._sim.given["claim", "handed out"] += 1

    def handed(self, leases: Any) -> None:
        """Remember leases that the core has just granted."""
        self._leases.extend(Lease(lease.host.id, lease.task.id, lease.token) for lease in leases)
        after = [(task.state, task.agent.id) for task in self._core.tasks_after(0)]
        within_limits_in_flight(self._core.limits, after, [lease.task.agent_id for lease in leases])

    def held(self, host_id: str) -> tuple[Held, ...]:
        """Leases that a host speaks of: mostly all that it has, or some; also others', earlier ones, and wrong ones."""
        chances, chance = self._chances, self._chances.part()
        its = [Held(job.id, job.token) for job in self._model.world.leases(host_id)]
        if chance < 0.4:
            return tuple(its)
        its = chances.some_of(its, chances.below(len(its) + 1))
        if chance < 0.7:
            return tuple(its)
        others = [Held(job.id, job.token) for job in self._model.world.flying()]
        earlier = [Held(lease.task, lease.token) for lease in self._leases]
        wrong = [Held(held.task, held.token + chances.one_of([-1, 1])) for held in its or others]
        its += [chances.one_of(each) for each in (others, earlier, wrong) if each and chances.under(0.6)]
        return tuple(chances.some_of(its, len(its)))

    def some_lease(self) -> Lease:
        """Mostly one that is held; else one that was given some time, or one that never was."""
        chances, chance = self._chances, self._chances.part()
        flying = self._model.world.flying()
        if flying and chance < 0.8:
            job = chances.one_of(flying)
            return Lease(job.host or "", job.id, job.token)
        if self._leases and chance < 0.92:
            return chances.one_of(self._leases)
        if flying:
            job = chances.one_of(flying)
            return chances.one_of(
                [Lease(job.host or "", job.id, job.token + 1), Lease(self.some_host_id(), job.id, job.token)]
            )
        return Lease(self.some_host_id(), self._agents.some_task_id(), chances.one_of([0, 1, 2]))

    def _report(self, name: str, *args: Any) -> None:
        now, lease = self._sim.now, self.some_lease()
        core, model = getattr(self._core.reports, name), getattr(self._model, name)
        self._sim.both(name, (*lease, *args), lambda: core(now, *lease, *args), lambda _: model(now, *lease, *args))

    def start(self) -> None:
        self._report("start")

    def progress(self) -> None:
        self._report("progress", self._chances.one_of([None, b"a half", b"all"]), self._chances.tokens())

    def complete(self) -> None:
        chances = self._chances
        self._report("complete", chances.one_of([None, b"1", b"{}"]), chances.tokens(), chances.output())

    def fail(self) -> None:
        chances = self._chances
        error, code = chances.one_of(["broken", "no such tab"]), chances.one_of([None, None, "fatal"])
        retryable, tokens = chances.under(0.85), chances.tokens()
        self._report("fail", error, retryable, code, tokens, chances.traceback(), chances.retry_after())

    def release(self) -> None:
        self._report("release", *self._chances.set_back())

    def stopped(self) -> None:
        """Mostly of one that may still run."""
        stopping, chances = self._model.world.stopping, self._chances
        lease = Lease(*chances.one_of(stopping).key) if stopping and chances.under(0.8) else self.some_lease()
        now = self._sim.now
        self._sim.given["stopped", "of one that may run"] += any(its.key == lease for its in stopping)
        self._sim.both(
            "stopped",
            lease,
            lambda: self._core.reports.stopped(now, *lease),
            lambda _: self._model.stopped(now, *lease),
        )
        self._sim.targets.stopped(lease.host, [(lease.task, lease.token)])

    def renew(self) -> None:
        self._report("renew", self._chances.lease_secs())
