"""What random histories are made of: how often each command is given, which wishes, hosts, limits and times occur."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final, TypeVar

from tests.core.queue.naive_keys import RateLimit

from .model_records import Machine, Retry, Wish

WEIGHTS: Final = {
    "submit": 22,
    "submit batch": 4,
    "claim": 14,
    "start": 7,
    "progress": 2,
    "complete": 5,
    "fail": 1.5,
    "release": 1.5,
    "renew": 4,
    "cancel": 4,
    "cancel batch": 1,
    "pause": 2,
    "resume": 3,
    "resolve": 1,
    "stopped": 2,
    "get": 1,
    "list": 1,
    "batch": 1,
    "register": 2,
    "heartbeat": 2,
    "drain host": 1,
    "deregister": 0.6,
    "connect": 5,
    "credit": 6,
    "return credit": 1,
    "beat": 6,
    "disconnect": 2,
    "offer": 2,
    "withdraw": 1,
    "dispatch": 3,
    "reconcile": 1,
    "reconfigure": 2,
    "advance": 3,
    "pass time": 9,
    "jump": 0.1,
    "crawl": 0.3,
    "flood": 0,
}
FLOOD: Final = 110
"""So many tasks of one kind at once, now and then: enough for the core to clear out what ended ones leave behind."""

LIMITS: Final = {
    "max_queue_size": [1, 7, 15, 15, 30, 30, 60, 60],
    "max_per_agent": [1, 5, 12, 12, 30, 30, 60, 60],
    "max_inflight": [1, 4, 10, 10, 20, 20, 40, 40],
    "max_per_agent_inflight": [1, 2, 4, 4, 10, 10],
    "result_ttl_secs": [0.5, 4.0, 15.0, 60.0],
    "max_retained_tasks": [1, 10, 25, 25, 50],
    "default_deadline_secs": [1.0, 6.0, 20.0, 60.0, 60.0],
    "lease_secs": [1.0, 6.0, 20.0, 60.0],
    "max_deliveries": [1, 2, 3, 5],
    "heartbeat_timeout_secs": [0.5, 4.0, 60.0],
    "dead_heartbeat_threshold": [1, 2, 3],
    "forget_hosts_secs": [300.0, 86_400.0],
    "reconnect_grace_secs": [0.25, 1.0, 5.0],
    "start_timeout_secs": [0.5, 2.0, 10.0],
}
OUTPUT_BYTES: Final = [50, 300, 2_000]
IDEMPOTENCY_SECS: Final = [0.0, 5.0, 30.0, 100.0, 1000.0]
OFTEN_CHANGED: Final = ["max_inflight", "max_per_agent_inflight"] * 2
"""Those that hold back what hosts wait for."""

ROOM_FOR_FLOODS: Final = {"max_queue_size": 400, "max_per_agent": 400, "default_deadline_secs": 60.0}

REQUIRED: Final = [frozenset(needs) for needs in ((), (), (), (), ("gpu",), ("eu",), ("gpu", "eu"))]
ABLE: Final = Machine(frozenset({"gpu", "eu"}))
BUILT_IN: Final = Machine(built_in=True, tabs="or plain", plain_actions=frozenset({"action-0"}))
MACHINES: Final = [
    Machine(),
    Machine(frozenset({"gpu"})),
    ABLE,
    Machine(frozenset({"gpu", "eu", "big"}), project="red"),
    Machine(frozenset({"eu"}), project="blue", actions=frozenset({"action-0"})),
    Machine(actions=frozenset({"action-1", "action-2"})),
    Machine(tabs="only"),
    Machine(frozenset({"eu"}), tabs="or plain"),
]

Thing = TypeVar("Thing")


class Chances:
    """The dice of one seed. Each life of a history has its own mood: how many agents, how many kinds, which clock."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        # Every fourth history has keys that are known longer than their tasks; their dice leave the others as they are.
        self._keys_last = seed % 4 == 0
        self._key_dice = Random(f"keys of {seed}")
        # So do these: run timeouts, families, and failures that say when to try again.
        self._extra_dice = Random(f"extras of {seed}")
        self._possible_parents: deque[str] = deque(maxlen=20)
        # Likewise in every third one claims have ids.
        self._names_claims = seed % 3 == 0
        self._claim_dice = Random(f"claims of {seed}")
        # In every sixth tasks come after others, and have unique keys.
        self._relates = seed % 6 == 0
        self._relation_dice = Random(f"relations of {seed}")
        # In half of these results are handed on.
        self._hands_on = seed % 12 == 6
        self._input_dice = Random(f"inputs of {seed}")
        # In every ninth tasks end with their parents.
        self._ends = seed % 9 == 3
        self._end_dice = Random(f"ends of {seed}")
        # In every fifth tasks have concurrency keys, whose limits change.
        self._limits_keys = seed % 5 == 0
        self._limit_dice = Random(f"key limits of {seed}")
        # In every third few targets may be blocked.
        self._bounds_targets = seed % 3 == 1
        self._target_dice = Random(f"targets of {seed}")
        self._set_back_dice = Random(f"what is set back of {seed}")
        # In every seventh agents have weights, which change.
        self._weighs = seed % 7 == 0
        # In every ninth tasks say something while they run.
        self._says = seed % 9 == 2
        # And in every ninth they put artifacts, whose bounds are small.
        self._puts = seed % 9 == 5
        # And in every ninth they record steps.
        self._records = seed % 9 == 7
        self.step_dice = Random(f"steps of {seed}")
        self.artifact_dice = Random(f"artifacts of {seed}")
        self.output_dice = Random(f"output of {seed}")
        self._weight_dice = Random(f"weights of {seed}")
        self._reason_dice = Random(f"reasons of {seed}")
        self.new_mood()

    def new_mood(self) -> None:
        """Another life begins."""
        self.floods = self.under(0.1)
        self._agents = self.one_of([1, 2, 4, 8, 8, 150])
        self._actions = self.one_of([1, 2, 2, 150])
        self._whole = self.under(0.7)
        self._prompt = self.one_of([1, 1, 0.5, 0.1])
        self._targets = self.one_of([0, 0, 1, 2, 5])
        self._options = self.one_of([0, 0.03, 0.2])
        self._extras = self._extra_dice.choice([0, 0.2, 0.6])
        self._possible_parents.clear()
        self._keyed_share = self._limit_dice.choice([0.2, 0.6, 1.0])
        self._sites = self._limit_dice.choice([1, 3, 20, 300])
        self._keyed: list[Wish] = []
        weights = {name: weight * self.one_of([0.4, 1, 1, 2]) for name, weight in WEIGHTS.items()}
        weights["flood"] = 1.5 * self.floods
        self._weights = list(weights.values())

    def under(self, chance: float) -> bool:
        """True with this probability."""
        return self._random.random() < chance

    def one_of(self, things: Sequence[Thing]) -> Thing:
        return self._random.choice(things)

    def some_of(self, things: Sequence[Thing], count: int) -> list[Thing]:
        return self._random.sample(things, count)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def part(self) -> float:
        """Somewhere from 0 to 1."""
        return self._random.random()

    def command(self) -> str:
        return self._random.choices(list(WEIGHTS), self._weights)[0]

    def limits_keys(self) -> bool:
        """True if limits of keys change now."""
        return self._limits_keys and self._limit_dice.random() < 0.03

    def key_limits(self) -> dict[str, RateLimit]:
        """Limits of keys by pattern; in some cases of none."""
        patterns = ["*", "site:*", "site:1*", "site:2", "all"]
        chosen = self._limit_dice.sample(patterns, self._limit_dice.choice([0, 1, 2, 4]))
        return {pattern: self._key_limit() for pattern in chosen}

    def _key_limit(self) -> RateLimit:
        choose = self._limit_dice.choice
        return RateLimit(
            choose([None, 0, 1, 1, 2, 5]), choose([None, None, 0.1, 0.3, 1.0, 2.5, 50.0]), choose([1, 2, 5])
        )

    def concurrency_keys(self) -> tuple[str, ...]:
        """In some lives of those histories each task has some, in others few do."""
        if not self._limits_keys or self._limit_dice.random() > self._keyed_share:
            return ()
        number = self._limit_dice.randrange(self._sites)
        return self._limit_dice.choice([(f"site:{number}",), (f"site:{number}",), ("all",), ("all", f"site:{number}")])

    def says(self) -> bool:
        """True if a task says something now."""
        return self._says and self.output_dice.random() < 0.2

    def puts(self) -> bool:
        """True if a task gets an artifact now."""
        return self._puts and self.artifact_dice.random() < 0.2

    def records(self) -> bool:
        """True if a run records a step now."""
        return self._records and self.step_dice.random() < 0.2

    def weighs(self) -> bool:
        """True if weights change now."""
        return self._weighs and self._weight_dice.random() < 0.02

    def weights(self) -> dict[str, int]:
        """Weights by pattern; in some cases of nobody."""
        patterns = ["*", "agent-*", "agent-1*", "nobody", *[f"agent-{number}" for number in range(8)]]
        chosen = self._weight_dice.sample(patterns, self._weight_dice.choice([0, 2, 4, 8, 8]))
        return {pattern: self._weight_dice.choice([1, 2, 3, 5, 1000]) for pattern in chosen}

    def prompt(self) -> bool:
        """True if what came free is handed out at once; in some lives seldom, so that several commands come before."""
        return self.under(self._prompt)

    def limits(self) -> dict[str, float]:
        """The limits of a new scheduler."""
        limits = {name: self.one_of(values) for name, values in LIMITS.items()}
        limits["idempotency_secs"] = self._idempotency_secs()
        limits["max_blocked_targets"] = self._max_blocked_targets()
        limits |= self._output_limits()
        limits |= self._artifact_limits()
        return limits | ROOM_FOR_FLOODS if self.floods else limits

    def new_limits(self) -> dict[str, float]:
        """Some limits, changed."""
        names = [*LIMITS, *OFTEN_CHANGED]
        limits = {name: self.one_of(LIMITS[name]) for name in self.some_of(names, self.one_of([1, 1, 3]))}
        if self._key_dice.random() < 0.1:
            limits["idempotency_secs"] = self._idempotency_secs()
        if self._target_dice.random() < 0.1:
            limits["max_blocked_targets"] = self._max_blocked_targets()
        if self._says and self.output_dice.random() < 0.1:
            limits |= self._output_limits()
        if self._puts and self.artifact_dice.random() < 0.1:
            limits |= self._artifact_limits()
        return limits

    def _output_limits(self) -> dict[str, float]:
        own = self.output_dice.choice(OUTPUT_BYTES)
        return {"max_output_bytes": own, "max_namespace_output_bytes": own * self.output_dice.choice([2, 5, 100])}

    def _artifact_limits(self) -> dict[str, float]:
        own = self.artifact_dice.choice([10, 30, 200])
        return {"max_artifact_bytes": own, "max_namespace_artifact_bytes": own * self.artifact_dice.choice([1, 3, 9])}

    def _max_blocked_targets(self) -> int:
        return self._target_dice.choice([1, 1, 2, 10_000]) if self._bounds_targets else 10_000

    def _idempotency_secs(self) -> float:
        return self._key_dice.choice(IDEMPOTENCY_SECS) if self._keys_last else 0.0

    def secs(self, about: float) -> float:
        """A length of time: in some lives a whole number of 1/1024 s, in others anything."""
        secs = self.part() * 2 * about
        return round(secs * 1024) / 1024 + 1 / 1024 if self._whole else secs + 1e-6

    def lease_secs(self) -> float | None:
        """What a host asks for, some of it out of bounds."""
        return None if self.under(0.8) else self.one_of([1, 1.75, self.secs(3) + 1, 3600, 0.5, 3601])

    def claim_id(self) -> str | None:
        """How a host names a claim: of few names, so that many are repeated."""
        return self._claim_dice.choice([None, "one", "one", "two"]) if self._names_claims else None

    def slots(self) -> int | None:
        """How many tasks a host says that it runs at once."""
        return self.one_of([None, None, 1, 4, 10])

    def reported_status(self) -> str | None:
        return self.one_of([None, "alive", "busy"])

    def figures(self) -> bytes | None:
        return self.one_of([None, b"cpu", b"memory"])

    def only_project(self) -> str | None:
        """The only project that a claim asks for."""
        return "red" if self.under(0.1) else None

    def tokens(self) -> int | None:
        """How many tokens a host says that it used."""
        return self.one_of([None, None, None, 10, 60, 200])

    def agent(self) -> str:
        return f"agent-{self.below(self._agents)}"

    def wish(self, now: float, agent: str | None = None) -> Wish:
        """A task; some have a deadline that is not in the future, some repeat the key of an earlier one."""
        if self._keyed and self.under(0.06):
            wish = self.one_of(self._keyed[-20:])
            wish = wish if self.under(0.7) else replace(wish, priority=wish.priority + 1)
            return wish if agent is None else replace(wish, agent=agent)
        if self._keyed and self._keys_last and self._key_dice.random() < 0.3:
            wish = self._key_dice.choice(self._keyed)
            return wish if agent is None else replace(wish, agent=agent)
        chance, deadline = self.part(), None
        if chance < 0.05:
            deadline = now - self.one_of([0.0, 0.125, 5.0])
        elif chance < 0.4:
            deadline = now + self.secs(self.one_of([0.5, 3.0, 10.0]))
        elif chance < 0.47:
            deadline = now + 3600
        wish = Wish(
            agent or self.agent(),
            f"action-{self.below(self._actions)}",
            tab=self.one_of([None, "tab"]),
            priority=self.one_of([-5, -1, 0, 0, 0, 1, 7]),
            deadline=deadline,
            project=self.one_of([None, None, None, "red", "blue"]),
            requires=self.one_of(REQUIRED),
            key=self.one_of([None, None, None, f"key-{self.below(50)}"]),
            target=f"target-{self.below(self._targets)}" if self._targets and self.under(0.5) else None,
            hold=(hold := self.under(self._options)),
            # Many that are held are released before their time.
            not_before=now + self.secs(20 if hold else 2) - 0.5 if self.under(0.5 if hold else self._options) else None,
            retry=self.retry() if self.under(self._options) or (self.extra() and self.under(0.4)) else None,
            token_limit=self.one_of([0, 50, 100]) if self.under(self._options) else None,
            run_timeout=self._extra_dice.choice([0.001, 0.25, 1.0, 4.0]) if self.extra() else None,
            parent=self._extra_dice.choice([*self._possible_parents, "tsk_nope"]) if self.extra() else None,
            keys=self.concurrency_keys(),
        )
        if wish.target is not None and self._target_dice.random() < 0.3:
            wish = replace(wish, on_target_failure=self._target_dice.choice(["block", "continue", "continue"]))
        wish = self._ending(self._related(wish))
        if wish.key is not None:
            self._keyed.append(wish)
        return wish

    def _ending(self, wish: Wish) -> Wish:
        """The same, perhaps such that it ends with its parent."""
        dice = self._end_dice
        if not self._ends or dice.random() < 0.3 or not self._possible_parents:
            return wish
        known = [*self._possible_parents][-dice.choice([1, 3, 10]) :]
        parent = "tsk_nope" if dice.random() < 0.05 else dice.choice(known)
        return replace(wish, parent=parent, on_parent_end=dice.choice(["cancel", "cancel", "cancel", "keep", None]))

    def _related(self, wish: Wish) -> Wish:
        """The same, perhaps after some tasks, or with a unique key."""
        if not self._relates:
            return wish
        dice = self._relation_dice
        if dice.random() < 0.4 and self._possible_parents:
            known = [*self._possible_parents][-6:]
            after = tuple(dice.choices(known, k=dice.choice([1, 1, 2, 4])))
            if dice.random() < 0.05:
                after = (*after, "tsk_nope")
            wish = replace(wish, after=after, after_policy=dice.choice([None, "success", "ended"]))
        if self._hands_on and self._input_dice.random() < 0.4 and self._possible_parents:
            inputs = self._input_dice.choices([*self._possible_parents][-6:], k=self._input_dice.choice([1, 1, 2, 3]))
            if self._input_dice.random() < 0.05:
                inputs.append("tsk_nope")
            wish = replace(wish, inputs=tuple(inputs))
        if dice.random() < 0.4:
            wish = replace(
                wish,
                unique=dice.choice(["sync", "sync", "sync", "clean"]),
                unique_while=dice.choice([None, "live", "queued", "queued"]),
                on_conflict=dice.choice([None, "existing", "reject", "replaceQueued", "replaceQueued"]),
            )
        return wish

    def _placed(self, wishes: list[Wish]) -> list[Wish]:
        """The tasks of a batch, some of them after earlier ones."""
        dice = self._relation_dice
        if not self._relates:
            return wishes
        placed = [
            replace(wish, places=tuple(dice.choices(range(place), k=dice.choice([1, 2]))))
            if place and wish.key is None and dice.random() < 0.4
            else wish
            for place, wish in enumerate(wishes)
        ]
        if not self._hands_on:
            return placed
        return [
            replace(wish, input_places=tuple(self._input_dice.choices(range(place), k=self._input_dice.choice([1, 2]))))
            if place and wish.key is None and self._input_dice.random() < 0.4
            else wish
            for place, wish in enumerate(placed)
        ]

    def extra(self) -> bool:
        """True if something is tried that few do."""
        return self._extra_dice.random() < self._extras

    def could_be_parent(self, task_id: str) -> None:
        """Tasks that follow may be the children of this one."""
        self._possible_parents.append(task_id)

    def retry_after(self) -> float | None:
        """What a host that fails asks for."""
        return self._extra_dice.choice([0.0, 0.001, 1.0, 5.0, 100.0]) if self.extra() else None

    def set_back(self) -> tuple[float | None, str | None]:
        """After which time a task that is given back may be handed out again, and why."""
        dice = self._set_back_dice
        return (dice.choice([0.001, 1.0, 5.0]), dice.choice([None, "busy"])) if dice.random() < 0.3 else (None, None)

    def reason(self) -> str | None:
        """Why a task is cancelled, paused or resolved; mostly nobody says."""
        return self._reason_dice.choice([None, None, "wrong site", "by hand"])

    def traceback(self) -> str | None:
        return self._extra_dice.choice([None, "in crawl"]) if self.extra() else None

    def output(self) -> bytes | None:
        return self._extra_dice.choice([None, b"output"]) if self.extra() else None

    def retry(self) -> Retry:
        fatal = frozenset({"fatal"}) if self.under(0.5) else frozenset()
        return Retry(self.one_of([1, 2, 3, 5]), self.one_of([0.0, 0.25, 1.0]), self.one_of([1.0, 2.0]), 2.0, fatal)

    def wishes(self, now: float) -> list[Wish]:
        """The tasks of one batch; in most batches none has a deadline that is not in the future."""
        agent = self.agent()
        wishes = [self.wish(now, agent) for _ in range(self.one_of([1, 2, 3, 8]))]
        if not self.under(0.2):
            wishes = [wish for wish in wishes if wish.deadline is None or wish.deadline > now]
        return self._placed(wishes) or [Wish(agent, "action-0")]

    def flood(self, now: float) -> list[Wish]:
        """Many tasks of one kind, all of one agent or of many in no order."""
        agents = self.one_of([1, FLOOD // 2, FLOOD])
        numbers = [number % agents for number in self.some_of(range(FLOOD), FLOOD)]
        return [
            Wish(f"agent-{number}", "flood", priority=number % 3, deadline=now + self.secs(60)) for number in numbers
        ]
