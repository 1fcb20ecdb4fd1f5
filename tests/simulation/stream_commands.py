"""What hosts do that wait: over a stream, with all the ways in which one breaks and comes back, or by a claim."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from taskyard_server.core.hosts import HostStatus
from taskyard_server.core.offers import Offer
from taskyard_server.core.streams import Hello

from .host_commands import EXECUTOR
from .model_records import Greeting, Machine
from .offer_indexes import nothing_left
from .plain_values import plain, to_profile
from .random_choices import ABLE, MACHINES

if TYPE_CHECKING:
    from .host_commands import HostCommands
    from .simulator import Simulation


class StreamCommands:
    """The streams and waiting claims of one life. `names` are the model's numbers of the core's offers."""

    def __init__(self, simulation: Simulation, hosts: HostCommands) -> None:
        self._sim = simulation
        self._core, self._model, self._chances = simulation.core, simulation.model, simulation.chances
        self._hosts = hosts
        self.names: dict[Offer, int] = {}

    def connect(self) -> None:
        chances, known = self._chances, self._model.world.hosts
        broken = [job.host for job in self._model.world.flying() if job.adopt_by < inf and job.host is not None]
        host_id = chances.one_of(broken) if broken and chances.under(0.6) else self._hosts.some_host_id()
        if host_id == EXECUTOR:
            host_id = "host-0"
        instance = known[host_id].instance if host_id in known else None
        if instance is None or chances.under(0.3):
            instance = chances.one_of(["red", "green"])
        same = host_id in known and chances.under(0.6)
        machine = known[host_id].machine if same else chances.one_of([ABLE, ABLE, *MACHINES])
        self._connect(host_id, instance, machine)

    def _connect(self, host_id: str, instance: str, machine: Machine) -> None:
        now, chances = self._sim.now, self._chances
        name, slots, secs = chances.one_of([None, "a name"]), chances.slots(), chances.lease_secs()
        held, figures = self._hosts.held(host_id), chances.figures()
        greeting = Greeting(host_id, instance, name, machine, slots, held, secs, figures)
        broken = {job.id for job in self._model.world.leases(host_id) if job.adopt_by < inf}
        hello = Hello(host_id, instance, to_profile(machine), name, slots, (), held, secs, figures)
        welcome = self._sim.both(
            "connect",
            (greeting,),
            lambda: self._core.connect(now, hello),
            lambda _: self._model.streams.connect(now, greeting),
        )
        if welcome is not None:
            self._name(welcome.offer)
            self._sim.ledger.connected(welcome)
            self._sim.targets.connected(host_id, held)
            self._sim.given["connect", "kept a lease"] += len(welcome.kept)
            self._sim.given["connect", "lost a lease"] += len(welcome.lost)
            self._sim.given["connect", "adopted a lease"] += sum(lease.task.id in broken for lease in welcome.kept)
            if chances.under(0.8):
                self._credit(welcome.offer)

    def credit(self) -> None:
        offer = self._some_stream()
        if offer is not None:
            self._credit(offer)

    def _credit(self, offer: Offer) -> None:
        now, number, count = self._sim.now, self.names[offer], self._chances.one_of([1, 1, 2, 5])
        self._sim.both(
            "credit",
            (number, count),
            lambda: self._core.give_credit(now, offer, count),
            lambda _: self._model.streams.credit(now, number, count),
        )
        self._sim.ledger.credited(offer, count)

    def return_credit(self) -> None:
        offer = self._some_stream()
        if offer is not None:
            number = self.names[offer]
            self._sim.both(
                "return credit",
                (number,),
                lambda: self._core.return_credit(offer, 1),
                lambda _: self._model.streams.return_credit(number, 1),
            )
            self._sim.ledger.credited(offer, 1)

    def beat(self) -> None:
        offer, now, chances = self._some_stream(), self._sim.now, self._chances
        if offer is None:
            return
        number, held = self.names[offer], self._hosts.held(offer.host.id)
        word, figures = chances.reported_status(), chances.figures()
        # Of few numbers, so that many a count stays as it was.
        tokens = [(each.task, each.token, chances.one_of([0, 20, 60, 200])) for each in held if chances.under(0.4)]
        lost = self._sim.both(
            "beat",
            (number, held, word, figures, tokens),
            lambda: self._core.beat(now, offer, held, word and HostStatus(word), figures, tokens),
            lambda _: self._model.streams.beat(now, number, held, word, figures, tokens),
        )
        self._sim.given["beat", "lost a lease"] += len(lost)

    def disconnect(self) -> None:
        """Mostly of a stream that stands; one that was superseded breaks, too."""
        now = self._sim.now
        streams = [offer for offer in self.names if offer.streamed]
        offer = self._chances.one_of(streams[-5:]) if streams and self._chances.under(0.4) else self._some_stream()
        if offer is not None:
            number = self.names[offer]
            self._sim.both(
                "disconnect",
                (number,),
                lambda: self._core.disconnect(now, offer),
                lambda _: self._model.streams.disconnect(now, number),
            )

    def offer(self) -> None:
        now, chances, host_id = self._sim.now, self._chances, self._hosts.some_host_id()
        room, secs, project = chances.one_of([1, 1, 3]), chances.lease_secs(), chances.only_project()
        claim_id = chances.claim_id()
        offer = self._sim.both(
            "offer",
            (host_id, room, secs, project, claim_id),
            lambda: self._core.offer(now, host_id, room, secs, project, claim_id),
            lambda _: self._model.streams.offer(now, host_id, room, secs, project, claim_id),
        )
        if offer is not None:
            self._name(offer)
            self._sim.ledger.opened(offer, room)

    def withdraw(self) -> None:
        """Of a claim that waits, or that waits no longer."""
        claims = [offer for offer in self.names if not offer.streamed]
        if claims:
            offer = self._chances.one_of(claims[-5:])
            number = self.names[offer]
            self._sim.both(
                "withdraw",
                (number,),
                lambda: self._core.withdraw(offer),
                lambda _: self._model.streams.withdraw(number),
            )

    def dispatch(self) -> None:
        """After it nobody who waits could be handed anything."""
        now = self._sim.now
        given = {}

        def core() -> list[tuple[int, object]]:
            given.update(self._core.dispatch(now))
            return [(self.names[offer], plain(leases)) for offer, leases in given.items()]

        self._sim.both("dispatch", (), core, lambda _: list(self._model.streams.dispatch(now).items()))
        nothing_left(self._core, now)
        self._sim.ledger.handed(given)
        for offer, leases in given.items():
            self._hosts.handed(leases)
            self._sim.given["handed over", "a stream" if offer.streamed else "a claim"] += len(leases)
            # What a claim got is its answer; most ask only once.
            if not offer.streamed and self._chances.under(0.7):
                self._core.withdraw(offer)
                self._model.streams.withdraw(self.names[offer])

    def reconcile(self) -> None:
        now = self._sim.now
        self._sim.both("reconcile", (), lambda: self._core.reconcile(now), lambda _: self._model.streams.reconcile(now))

    def _name(self, offer: Offer) -> None:
        opened = self._model.streams.opened
        assert opened is not None
        self.names[offer] = opened.number

    def _some_stream(self) -> Offer | None:
        """One that stands."""
        streams = [host.stream for host in self._core.hosts if host.stream is not None]
        return self._chances.one_of(streams) if streams else None
