"""Rules of leases and targets: tokens grow, stale ones change nothing, and no two tasks of a target are at work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from .evidence import Evidence, number_of
from .history import ALWAYS, NEVER, Grant, HostCall, Outcome, Report, Work

ENDS = frozenset({"completed", "failed", "released"})
MOVES = ("cancel", "pause", "resume", "resolve")


def tokens_are_of_one_lease(evidence: Evidence) -> Iterator[str]:
    holders: dict[int, tuple[str, str]] = {}
    for each in evidence.of(Grant):
        holder = each.task_id, each.who
        if holders.setdefault(each.token, holder) != holder:
            yield f"the token {each.token} was granted to {holders[each.token]} and to {holder}"


def tokens_grow_with_the_grants(evidence: Evidence) -> Iterator[str]:
    """In the order in which they were acknowledged, and in the order of the server's own clock."""
    grants = evidence.of(Grant)
    by_end, place, highest = grants, 0, 0
    for each in sorted(grants, key=lambda grant: grant.begun):
        while by_end[place].ended < each.begun:
            highest = max(highest, by_end[place].token)
            place += 1
        if each.token <= highest:
            yield f"{each.who} was granted the token {each.token} after {highest} had been granted"
    highest, at = 0, ALWAYS
    # Times have microseconds, which a float of seconds holds only nearly.
    for each in sorted(grants, key=lambda grant: (round(grant.claimed_at * 1e6), grant.token)):
        claimed_at = round(each.claimed_at * 1e6)
        if each.token < highest and claimed_at > at:
            yield f"the token {each.token} was claimed at {claimed_at} us, and {highest} at {at} us"
        if each.token > highest:
            highest, at = each.token, claimed_at


def no_two_tokens_of_a_task_are_acknowledged_at_overlapping_times(evidence: Evidence) -> Iterator[str]:
    """Once a lease is known to be in force, or a report under it was taken, no report under an older one is."""
    for task_id in {*evidence.reports, *evidence.grants}:
        by_token: dict[int, list[Grant | Report]] = defaultdict(list)
        for grant in evidence.grants.get(task_id, ()):
            by_token[grant.token].append(grant)
        for report in evidence.reports.get(task_id, ()):
            # That nothing runs any more is taken under an old token, too.
            if report.outcome is Outcome.ACKNOWLEDGED and report.kind != "released":
                by_token[report.token].append(report)
        since, newer = NEVER, 0
        for token, known in sorted(by_token.items(), reverse=True):
            for each in known:
                if each.begun > since:
                    yield f"{task_id}: the token {newer} was in force, and {token} was acknowledged: {each}"
            earliest = min(each.ended for each in known)
            if earliest < since:
                since, newer = earliest, token


def claimed_leases_live_as_long_as_they_are_renewed(evidence: Evidence) -> Iterator[str]:
    """A report in the time of its lease is refused only after a command to the task, or after an end of the lease."""
    for grant in evidence.of(Grant):
        if grant.streamed or evidence.tried(grant.task_id, *MOVES):
            continue
        renewed_at, may_have_ended = grant.begun, False
        for each in evidence.reports.get(grant.task_id, ()):
            if each.token != grant.token:
                continue
            if each.outcome is Outcome.REFUSED:
                if each.code == "lease_lost" and not may_have_ended and each.ended < renewed_at + grant.lease_secs:
                    yield f"{each.who} lost its lease of {grant.task_id} after {each.ended - renewed_at:.2f} s: {each}"
            elif each.kind in ENDS:
                may_have_ended = True
            elif each.kind == "renewed" and each.outcome is Outcome.ACKNOWLEDGED:
                renewed_at = each.begun


def no_lease_starts_two_handlers(evidence: Evidence) -> Iterator[str]:
    seen: dict[tuple[str, int], Work] = {}
    for each in evidence.works:
        if (key := (each.task_id, each.token)) in seen:
            yield f"two starts under one lease: {seen[key]}, {each}"
        seen[key] = each


def two_tasks_of_a_target_are_never_at_work_at_once(evidence: Evidence) -> Iterator[str]:
    at_work: dict[str, Work] = {}
    for each in evidence.works:
        if each.target is None:
            continue
        other = at_work.get(each.target)
        if other is not None and other.ended > each.begun:
            yield f"{each.target}: {each.task_id} began at {each.begun} by {each.who} while {other} was at work"
        if other is None or each.ended >= other.ended:
            at_work[each.target] = each


def targets_go_by_age(evidence: Evidence) -> Iterator[str]:
    """Of the tasks that nothing held back, the first starts are in the order of submission."""
    waited = {task_id for task_id in evidence.moves if evidence.tried(task_id, "unhold", "resume")}
    for task_id, task in evidence.tasks.items():
        intent = evidence.intents.get(number_of(task))
        if intent is not None and "notBefore" in intent.asked:
            waited.add(task_id)
    last: dict[str, str] = {}
    seen: set[str] = set()
    for each in evidence.works:
        if each.target is None or each.task_id in seen or each.task_id in waited:
            continue
        seen.add(each.task_id)
        if each.task_id not in evidence.position:
            continue
        before = last.get(each.target)
        if before is not None and evidence.position[before] > evidence.position[each.task_id]:
            yield f"{each.target}: {each.task_id} began after {before}, which is younger"
        last[each.target] = each.task_id


def registered_hosts_stay_known(evidence: Evidence) -> Iterator[str]:
    registered: dict[str, float] = defaultdict(lambda: NEVER)
    for each in evidence.of(HostCall):
        if each.kind == "register" and each.outcome is Outcome.ACKNOWLEDGED:
            registered[each.who] = min(registered[each.who], each.ended)
        elif each.code == "not_found" and registered[each.who] < each.begun:
            yield f"{each.who} was not known at a {each.kind}"


def nothing_is_leased_in_the_end(evidence: Evidence) -> Iterator[str]:
    for lease in evidence.final.leases:
        yield f"{lease} is live"
