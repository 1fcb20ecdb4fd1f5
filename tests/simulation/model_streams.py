"""The model's hosts that hold a stream, or wait with a claim; and who of them is handed what
(docs/rules.md, Host stream).

A hand-out looks at everybody who waits, and at every task, for every single task that it hands out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from .model_records import Greeting, Held, Host, Job, Machine, Offer, Refused, lease_length, may_run
from .world import World

BEATS = 3
"""A heartbeat at a third of the shorter of lease and host time-out (docs/rules.md, Heartbeats)."""

Grant = tuple[str, int, float]
"""The task, the fencing token, and when the lease ends."""

Welcome = tuple[list[Grant], list[Held], float]
"""The leases that live on, those that do not, and the seconds between heartbeats."""


class Streams:
    """Commands of hosts that are connected or wait; their room lies in `World.offers`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.opened: Offer | None = None
        """The last offer that was made."""

    def register(self, now: float, host_id: str, display_name: str | None, machine: Machine, slots: int | None) -> Host:
        """An upsert: `registered_at`, the figures of the machine, the leases and the stream stay."""
        known = self._world.hosts.get(host_id)
        host = self._world.hosts[host_id] = Host(host_id, machine, display_name or host_id, now, now, slots)
        if known is not None:
            host.registered_at, host.figures, host.instance = known.registered_at, known.figures, known.instance
            host.losses, host.rested_at, host.rests_until = known.losses, known.rested_at, known.rests_until
        return host

    def stream_of(self, host_id: str) -> Offer | None:
        return next((offer for offer in self._world.offers if offer.host == host_id and offer.streamed), None)

    def connect(self, now: float, greeting: Greeting) -> Welcome:
        """Another instance is refused while the stream lives; what the host does not list of its streams is lost."""
        world, limits = self._world, self._world.limits
        secs = lease_length(greeting.lease_secs, limits["lease_secs"])
        stream = self.stream_of(greeting.host)
        if stream is not None:
            if world.hosts[greeting.host].instance != greeting.instance and not self.silent(now, stream):
                raise Refused("already_exists")
            world.offers.remove(stream)
        host = self.register(now, greeting.host, greeting.name, greeting.machine, greeting.slots)
        if host.instance != greeting.instance:
            host.losses, host.rests_until = 0, None
        host.instance = greeting.instance
        host.figures = greeting.figures or host.figures
        heartbeat = min(secs, limits["heartbeat_timeout_secs"]) / BEATS
        stream = self._open(host.id, 0, secs, silence_limit_secs=2 * heartbeat)
        kept = []
        for job in world.leases(host.id):
            if Held(job.id, job.token) in greeting.held:
                job.stream, job.adopt_by = stream.number, inf
                job.lease_until = max(job.lease_until, now + job.lease_secs)
                if job.state == "assigned":
                    job.start_by = now + limits["start_timeout_secs"]
                kept.append((job.id, job.token, job.lease_until))
            elif job.stream is not None:
                world.lose(now, job, "lease expired")
        known = greeting.held
        forgotten = [its for its in world.stopping if its.host == host.id and its.streamed]
        world.stopped(now, [its for its in forgotten if Held(its.job.id, its.token) not in known])
        alive = {grant[:2] for grant in kept}
        return kept, [held for held in greeting.held if held not in alive], heartbeat

    def credit(self, now: float, number: int, count: int) -> None:
        offer = self.offer_numbered(number)
        offer.room += count
        self._world.heard(now, offer.host)

    def return_credit(self, number: int, count: int) -> None:
        """No sign of life."""
        self.offer_numbered(number).room += count

    def beat(
        self,
        now: float,
        number: int,
        held: Sequence[Held],
        reported_status: str | None,
        figures: bytes | None,
        tokens: Sequence[tuple[str, int, int]],
    ) -> list[Held]:
        """Renews the listed leases of the host, and answers those that are none."""
        host = self._world.heard(now, self.offer_numbered(number).host)
        host.reported_status = reported_status
        host.figures = figures or host.figures
        lost = []
        for each in held:
            job = self._world.tasks.get(each.task)
            if job is None or job.host != host.id or job.token != each.token:
                lost.append(each)
            else:
                job.lease_until = max(job.lease_until, now + job.lease_secs)
        for task_id, token, used in tokens:
            job = self._world.tasks.get(task_id)
            if job is not None and (job.host, job.token, job.state) == (host.id, token, "running"):
                self._world.use_tokens(now, job, used)
        return lost

    def reconfigured(self) -> None:
        """Streams may be silent for as long as their new heartbeat intervals allow."""
        for offer in self._world.offers:
            if offer.streamed:
                offer.silence_limit_secs = 2 * min(offer.secs, self._world.limits["heartbeat_timeout_secs"]) / 3

    def disconnect(self, now: float, number: int) -> None:
        """Its leases wait for the host to come back; nothing happens where the stream had ended before."""
        for offer in self._world.offers:
            if offer.number == number:
                self._world.hosts[offer.host].lost_at = now
        self.withdraw(number)
        for job in self._world.flying():
            if job.stream == number and job.adopt_by == inf:
                job.adopt_by = now + self._world.limits["reconnect_grace_secs"]

    def offer(
        self, now: float, host_id: str, room: int, secs: float | None, project: str | None, claim_id: str | None
    ) -> None:
        """A claim that waits, in the place of the host's one of the same id."""
        world = self._world
        host = world.host(host_id)
        secs = lease_length(secs, world.limits["lease_secs"])
        if project is not None and world.as_it_is(now, host.machine).project not in (None, project):
            raise Refused("bad_request")
        if claim_id is not None:
            world.offers = [its for its in world.offers if (its.host, its.claim_id) != (host_id, claim_id)]
        self._open(host_id, room, secs, project=project).claim_id = claim_id

    def withdraw(self, number: int) -> None:
        self._world.offers = [offer for offer in self._world.offers if offer.number != number]

    def offer_numbered(self, number: int) -> Offer:
        return next(offer for offer in self._world.offers if offer.number == number)

    def reconcile(self, now: float) -> None:
        for host in self._world.mortals():
            if self._world.is_dead(now, host):
                self._world.bury(now, host)

    def dispatch(self, now: float) -> dict[int, list[Grant]]:
        """Task by task: of those who could take one, the least loaded by share of its slots takes its best one."""
        world = self._world
        given: dict[int, list[Grant]] = {}
        machines = {host.id: world.as_it_is(now, host.machine) for host in world.hosts.values()}
        while not world.draining and len(world.flying()) < world.limits["max_inflight"]:
            load = {offer.number: self._load(offer) for offer in world.offers}
            for offer in sorted(world.offers, key=lambda offer: (load[offer.number], offer.last_grant)):
                if not self.may_be_handed(now, offer):
                    continue
                job = world.next_of(now, world.waiting_for(machines[offer.host], offer.project))
                if job is not None:
                    break
            else:
                break
            if job.deadline is not None and job.deadline <= now:
                world.expire(now, job)
                continue
            offer = self._preferred(now, job, offer, machines)
            host = world.hosts[offer.host]
            if not offer.streamed:
                host.heard_at, host.lost_at = now, None
            world.grant(now, job, host, offer.secs, offer if offer.streamed else None, offer.claim_id)
            offer.room -= 1
            offer.last_grant = world.number()
            given.setdefault(offer.number, []).append((job.id, job.token, job.lease_until))
        return given

    def _preferred(self, now: float, job: Job, offer: Offer, machines: Mapping[str, Machine]) -> Offer:
        """One that was parked goes to the host where it was, if that could take it; else to whom it would go."""
        host_id = self._world.parks.preferred_host(job)
        if host_id in (None, offer.host):
            return offer
        its = [each for each in self._world.offers if each.host == host_id and each.project in (None, job.wish.project)]
        fit = [each for each in its if self.may_be_handed(now, each) and may_run(machines[each.host], job.wish)]
        return fit[0] if fit else offer

    def may_be_handed(self, now: float, offer: Offer) -> bool:
        """True if it waits, and its host lives."""
        host = self._world.hosts[offer.host]
        rests = offer.streamed and host.rests_until is not None
        return offer.room > 0 and not host.draining and not rests and not self.silent(now, offer)

    def silent(self, now: float, offer: Offer) -> bool:
        """A stream of which nothing was heard for two heartbeats, or whose host is dead."""
        host = self._world.hosts[offer.host]
        return offer.silence_limit_secs is not None and (
            now - host.heard_at > offer.silence_limit_secs or self._world.is_dead(now, host)
        )

    def wanted(self, now: float) -> tuple[list[list[Job]], list[list[Job]]]:
        """For each who waits, the tasks that it could take; and the same for those of whom it is not sure."""
        world = self._world
        sure, unsure = [], []
        for offer in world.offers:
            host = world.hosts[offer.host]
            if offer.room <= 0 or host.draining or (offer.streamed and host.rests_until is not None):
                continue
            if host.machine.built_in:
                both = (replace(host.machine, tabs=tabs, built_in=False) for tabs in ("only", "or plain"))
                unsure += [world.waiting_for(machine, offer.project) for machine in both]
            else:
                waiting = world.waiting_for(host.machine, offer.project)
                (unsure if self.silent(now, offer) else sure).append(waiting)
        return sure, unsure

    def _open(
        self, host_id: str, room: int, secs: float, silence_limit_secs: float | None = None, project: str | None = None
    ) -> Offer:
        number = self._world.number()
        self.opened = Offer(number, host_id, room, secs, number, silence_limit_secs, project)
        self._world.offers.append(self.opened)
        return self.opened

    def _load(self, offer: Offer) -> float:
        """The share of its slots in use; where it did not say how many it has, of what it holds and offers."""
        leases = len(self._world.leases(offer.host))
        slots = self._world.hosts[offer.host].slots or leases + offer.room
        return leases / slots if slots else 0.0
