"""The checker finds each fault that it is for, in histories that were made up, and none where there is none."""

from __future__ import annotations

from tests.cases import every_case

from . import faults_of_leases, faults_of_tasks, task_rules
from .checker import RULES, broken_rules, summary
from .history import Outcome
from .made_up import Story
from .made_up_faults import Fault, Faults

FAULTS = Faults(faults_of_tasks.FAULTS | faults_of_leases.FAULTS)


def story_of_everything() -> Story:
    """A story in which everything happens that may happen, and no promise is broken."""
    story = Story()
    story.call("register")
    first, second, third = story.submit(3, target="t", callbackUrl="http://receiver")
    (unknown,) = story.submit(outcome=Outcome.UNKNOWN)
    story.submit(outcome=Outcome.UNKNOWN, exist=False)
    story.submit(outcome=Outcome.REFUSED, exist=False)
    (keyed,) = story.submit(outcome=Outcome.UNKNOWN, idempotencyKey="k")
    (held,) = story.submit(hold=True)
    story.repeat(keyed, keyed, story.tasks[keyed]["createdAt"])
    # One is lost with its host, leased again, and reported late by the first host, which is refused.
    lost = story.start(story.grant(unknown, "one", streamed=True))
    other = story.start(story.grant(unknown, "two"))
    story.add(
        type(story.report("released", story.grant(keyed, "one"))),
        "one",
        outcome=Outcome.REFUSED,
        kind="completed",
        task_id=unknown,
        token=lost.token,
        code="lease_lost",
    )
    story.finish(other)
    story.kill("one")
    # One fails, and is done in its second attempt.
    (retried,) = story.submit()
    attempt = story.start(story.grant(retried))
    story.change(attempt, ended=story.now)
    story.report("failed", attempt, state="pending", value="boom")
    story.tasks[retried]["attempts"] = [{"number": 1, "error": "boom"}, {"number": 2}]
    story.run(retried)
    # The target: one fails and is resolved, the next one fails, is resumed, and is done.
    story.run(first, error="boom")
    story.deliver(first)
    story.move("resolve", first, value="by hand")
    story.run(second, error="boom")
    story.deliver(second)
    story.move("resume", second)
    story.read(second)
    story.run(second)
    story.read(second)
    story.run(third)
    story.run(keyed)
    story.move("unhold", held)
    story.move("cancel", held)
    for task_id in (first, second, third):
        story.deliver(task_id)
    schedule = story.schedule()
    for times in (1, 2, 3):
        story.fire(schedule, times)
    story.fire(schedule, 3, key="by-call")
    for task_id in story.tasks:
        story.watch(task_id)
    return story


def test_a_yard_that_keeps_its_promises_breaks_no_rule() -> None:
    story = story_of_everything()
    assert broken_rules(story.events, story.final()) == {}
    assert "of schedules 4" in summary(story.events, story.final())


@every_case("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_the_checker_finds(fault: Fault) -> None:
    story = Story()
    fault(story)
    assert broken_rules(story.events, story.final()).keys() == FAULTS[fault]


def test_each_rule_has_a_fault() -> None:
    assert {rule.__name__ for rule in RULES} == frozenset().union(*FAULTS.values())


def test_what_is_lost_is_the_newest_where_something_may_be_lost() -> None:
    story = Story()
    ids = [story.submit()[0] for _ in range(3)]
    rule = task_rules.what_is_lost_is_the_newest
    del story.tasks[ids[2]]
    assert broken_rules(story.events, story.final(), [rule]) == {}
    del story.tasks[ids[0]]
    assert broken_rules(story.events, story.final(), [rule]).keys() == {rule.__name__}
