"""What may happen to replicas, their database and the paths between them, one thing after another as a seed has it.

Each misfortune ends with everything well again, so that any may follow.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from .cluster import Cluster, Member
from .proxy import Proxy

CALM_SECS: Final = (1.0, 5.0)
LONG_SECS: Final = 14.0
"""More than an owner is trusted for, and more than it takes until it is found dead."""
SLOW_SECS: Final = (0.05, 0.3, 1.0, 3.0)
CLOCK_SECS: Final = 180.0
TWO_AT_ONCE: Final = 0.25


class Misfortunes:
    """Lets things happen to a cluster. `counts` says what did so far."""

    def __init__(self, cluster: Cluster, chance: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        self._cluster = cluster
        self._chance = chance
        self._began = time.monotonic()

    async def go_on(self, secs: float, check: Callable[[], None], kinds: Sequence[str]) -> Counter[str]:
        """Let things of some kinds happen for so long; what happened how often."""
        give_up_at = time.monotonic() + secs
        while time.monotonic() < give_up_at:
            await asyncio.sleep(self._chance.uniform(*CALM_SECS))
            check()
            await self._happen(kinds)
            check()
        await self.make_good()
        return self.counts

    async def make_good(self) -> None:
        """Let everything be well."""
        self._cluster.heal()
        for member in self._cluster.members:
            member.thaw()
            member.set_wall_clock(0.0)
            if not member.yard.is_running:
                await member.start()

    async def _happen(self, kinds: Sequence[str]) -> None:
        name = self._chance.choice(kinds)
        if name in TO_ALL:
            await TO_ALL[name](self)
            return
        members = self._chance.sample(self._cluster.members, 2 if self._chance.random() < TWO_AT_ONCE else 1)
        names = [name, self._chance.choice([kind for kind in kinds if kind in TO_ONE])]
        await asyncio.gather(*(TO_ONE[each](self, member) for each, member in zip(names, members, strict=False)))

    def _note(self, what: str, to: str = "") -> None:
        self.counts[what] += 1
        print(f"{time.monotonic() - self._began:6.1f} s  {what} {to}", flush=True)

    # To one replica

    async def killed(self, member: Member) -> None:
        """kill -9, and started again at once or after others have taken over."""
        self._note("killed", member.name)
        await member.yard.kill("server")
        await asyncio.sleep(self._chance.choice((0.0, self._chance.uniform(0, LONG_SECS))))
        await member.start()

    async def stopped_and_woken(self, member: Member) -> None:
        """It stands still, alone or with its gateway, for a moment or past its time, and goes on."""
        gateway = self._chance.random() < 0.5
        secs = self._chance.choice((self._chance.uniform(0.1, 3), self._chance.uniform(3, LONG_SECS)))
        self._note("stopped and woken", f"{member.name} {'with' if gateway else 'without'} its gateway, {secs:.1f} s")
        member.freeze(gateway=gateway)
        try:
            await asyncio.sleep(secs)
        finally:
            member.thaw()

    async def cut_off_from_the_database(self, member: Member) -> None:
        """In silence or told, for a moment or past its time."""
        await self._cut("cut off from the database", [member.database], member.name)

    async def cut_off_from_other_gateways(self, member: Member) -> None:
        """Nobody can carry a call to it."""
        await self._cut("cut off from other gateways", [member.carried], member.name)

    async def slow_database(self, member: Member) -> None:
        """Each way takes its time, for one replica or for all."""
        members = self._cluster.members if self._chance.random() < 0.4 else [member]
        delay = self._chance.choice(SLOW_SECS)
        self._note("slow database", f"{[each.name for each in members]}, {delay:g} s each way")
        for each in members:
            each.database.delay_secs = delay
        await asyncio.sleep(self._chance.uniform(3, LONG_SECS))
        for each in members:
            each.database.heal()

    async def broken_connections(self, member: Member) -> None:
        """All connections of one path are reset at once."""
        proxy = self._chance.choice((member.database, member.carried))
        self._note("broken connections", member.name)
        proxy.reset()

    async def another_time(self, member: Member) -> None:
        """Its wall clock jumps."""
        offset = self._chance.uniform(-CLOCK_SECS, CLOCK_SECS)
        self._note("another time", f"{member.name} {offset:+.0f} s")
        member.set_wall_clock(offset)

    async def restarted(self, member: Member) -> None:
        """Told to stop, and started again."""
        self._note("restarted", member.name)
        await member.yard.terminate()
        await member.start()

    async def drained(self, member: Member) -> None:
        """It gives everything up, and is resumed after a while."""
        self._note("drained", member.name)
        await self._cluster.ask_of_replica("drain", member.name)
        await asyncio.sleep(self._chance.uniform(1, LONG_SECS))
        await self._cluster.ask_of_replica("resume", member.name)

    # To all of them

    async def clients_cut_off(self) -> None:
        """Nobody reaches the address in front."""
        await self._cut("clients cut off", self._cluster.clients, longest=5.0)

    async def rolling_restart(self) -> None:
        """One after the other, as an upgrade does it."""
        self._note("rolling restart")
        for member in self._chance.sample(self._cluster.members, len(self._cluster.members)):
            await member.yard.terminate()
            await member.start()

    async def all_killed(self) -> None:
        """Nobody is left."""
        self._note("all killed")
        await asyncio.gather(*(member.yard.kill("server") for member in self._cluster.members))
        await asyncio.gather(*(member.start() for member in self._cluster.members))

    async def database_restarted(self) -> None:
        """Stopped in order or killed, and started again."""
        by_kill, away = self._chance.random() < 0.5, self._chance.choice((0.0, self._chance.uniform(0, LONG_SECS)))
        self._note("database restarted", f"{'by kill -9' if by_kill else 'in order'}, {away:.1f} s away")
        await self._cluster.database.restart(away, by_kill=by_kill)

    async def database_failed_over(self) -> None:
        """Lost with its disk; its standby is the database from then on, and another one follows it."""
        if not self._cluster.database.has_standby:
            await self._cluster.database.add_standby()
        self._note("database failed over")
        await self._cluster.database.fail_over()
        self._cluster.follow_database()
        await asyncio.sleep(self._chance.uniform(0, 3))
        await self._cluster.database.add_standby()

    async def no_connections_left(self) -> None:
        """Others hold all connections of the database when those of the replicas break."""
        taken = await self._cluster.database.take_all_connections()
        for member in self._cluster.members:
            member.database.reset()
        taken += await self._cluster.database.take_all_connections()
        self._note("no connections left", f"{taken} taken")
        await asyncio.sleep(self._chance.uniform(1, LONG_SECS))
        await self._cluster.database.release_connections()

    async def _cut(self, what: str, proxies: list[Proxy], whom: str = "", longest: float = LONG_SECS) -> None:
        secs = self._chance.choice((self._chance.uniform(0.1, 3), self._chance.uniform(min(3, longest), longest)))
        how: Any = self._chance.choice((Proxy.silence, Proxy.refuse))
        lossless = self._chance.random() < 0.5
        self._note(what, f"{whom} {how.__name__} {secs:.1f} s")
        for proxy in proxies:
            how(proxy)
        await asyncio.sleep(secs)
        for proxy in proxies:
            proxy.heal(lossless=lossless)


def _named(*kinds: Any) -> dict[str, Any]:
    return {kind.__name__: kind for kind in kinds}


TO_ONE: Final[dict[str, Callable[[Misfortunes, Member], Awaitable[None]]]] = _named(
    *(Misfortunes.killed, Misfortunes.stopped_and_woken, Misfortunes.cut_off_from_the_database),
    *(Misfortunes.cut_off_from_other_gateways, Misfortunes.slow_database, Misfortunes.broken_connections),
    *(Misfortunes.another_time, Misfortunes.restarted, Misfortunes.drained),
)
TO_ALL: Final[dict[str, Callable[[Misfortunes], Awaitable[None]]]] = _named(
    *(Misfortunes.clients_cut_off, Misfortunes.rolling_restart, Misfortunes.all_killed),
    *(Misfortunes.database_restarted, Misfortunes.database_failed_over, Misfortunes.no_connections_left),
)
KINDS: Final = (*TO_ONE, *TO_ALL)
