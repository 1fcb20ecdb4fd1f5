"""Decides over a history: which rules did what clients saw, and what the server shows in the end, break?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from . import end_rules, figure_rules, lease_rules, schedule_rules, task_rules
from .evidence import Evidence
from .history import Event, FinalState, Grant, Outcome, Submission

Rule = Callable[[Evidence], Iterator[str]]

RULES: tuple[Rule, ...] = (
    task_rules.acknowledged_tasks_are_there,
    task_rules.tasks_are_unchanged,
    task_rules.no_task_is_made_twice_or_without_being_asked_for,
    task_rules.tasks_are_in_the_order_of_their_submission,
    task_rules.ids_and_times_grow_with_the_order,
    task_rules.calls_are_whole,
    task_rules.what_was_shown_is_never_unknown,
    end_rules.all_tasks_have_ended,
    end_rules.no_task_ends_twice,
    end_rules.ends_are_those_that_were_acknowledged,
    end_rules.ends_have_a_cause,
    end_rules.ends_after_a_failure_have_a_cause,
    end_rules.runs_are_counted,
    end_rules.acknowledged_starts_are_kept,
    end_rules.acknowledged_attempts_are_kept,
    end_rules.what_is_shown_is_never_taken_back,
    end_rules.watches_show_every_end,
    end_rules.watches_repeat_nothing,
    end_rules.webhooks_tell_every_end,
    lease_rules.tokens_are_of_one_lease,
    lease_rules.tokens_grow_with_the_grants,
    lease_rules.no_two_tokens_of_a_task_are_acknowledged_at_overlapping_times,
    lease_rules.claimed_leases_live_as_long_as_they_are_renewed,
    lease_rules.no_lease_starts_two_handlers,
    lease_rules.two_tasks_of_a_target_are_never_at_work_at_once,
    lease_rules.targets_go_by_age,
    lease_rules.registered_hosts_stay_known,
    lease_rules.nothing_is_leased_in_the_end,
    schedule_rules.each_trigger_has_one_task,
    schedule_rules.each_key_of_a_schedule_has_one_trigger,
    schedule_rules.intervals_fire_at_every_due_time,
    schedule_rules.triggers_end_as_their_tasks,
    figure_rules.the_counters_add_up,
    figure_rules.the_counters_are_those_of_the_listing,
    figure_rules.the_counters_are_between_what_was_acknowledged_and_what_was_asked_for,
    figure_rules.the_counters_of_agents_are_those_of_the_listing,
)
MOST = 5
"""How many breaks of one rule are told."""


def broken_rules(history: Sequence[Event], final: FinalState, rules: Sequence[Rule] = RULES) -> dict[str, list[str]]:
    """The breaks of each rule that is broken, the first few, by the rule's name."""
    evidence = Evidence(history, final)
    found = {rule.__name__: list(islice(rule(evidence), MOST)) for rule in rules}
    return {name: breaks for name, breaks in found.items() if breaks}


def told(broken: dict[str, list[str]]) -> str:
    """Broken rules as text."""
    return "\n".join(f"{name}:\n" + "\n".join(f"    {each}" for each in breaks) for name, breaks in broken.items())


def summary(history: Sequence[Event], final: FinalState) -> str:
    """What happened, in a few lines."""
    evidence = Evidence(history, final)
    tries = Counter(each.outcome for each in evidence.of(Submission))
    intents = evidence.intents.values()
    unknown = [each for each in intents if any(one.outcome is Outcome.UNKNOWN for one in each.tries)]
    lost = sum(not each.acknowledged for each in unknown)
    states = Counter(task["state"] for task in final.tasks)
    kinds = Counter(type(event).__name__ for event in history)
    again = sum(len(grants) > 1 for grants in evidence.grants.values())
    return "\n".join(
        (
            f"submissions: {dict(tries)}, {len(intents)} tasks, {len(unknown)} were unknown once, {lost} for good",
            f"tasks: {len(final.tasks)}, {dict(states)}; of schedules {len(evidence.trigger_tasks)}",
            f"leases: {len(evidence.of(Grant))}, {again} tasks were leased again",
            f"events: {dict(kinds)}",
        )
    )
