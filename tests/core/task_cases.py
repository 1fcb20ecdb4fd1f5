"""Tasks in every state, reached by commands alone, and the commands that can be given to them."""

from itertools import product

from taskyard_server.core.history import RetryPolicy, Wait
from taskyard_server.core.task import TERMINAL

TRY_AGAIN = RetryPolicy(max_attempts=5, first_delay_secs=5.0)


class Case:
    """One task and the last lease of it, if there was one."""

    def __init__(self, yard, **fields):
        yard.register()
        self.yard = yard
        self.task = yard.submit(deadline=yard.now + 1_000, **fields)
        self.lease = None

    def claim(self):
        self.lease = self.yard.claim_one(lease_secs=3_600)
        return self

    def start(self):
        self.yard.start(self.lease)
        return self

    def end(self, how):
        how(self)
        return self


STATES = {
    "pending, held": lambda yard: Case(yard, hold=True),
    "pending, not due": lambda yard: Case(yard, not_before=yard.now + 5),
    "pending, next attempt": lambda yard: Case(yard, retry=TRY_AGAIN).claim().start().end(report_failure),
    "queued": Case,
    "queued again": lambda yard: Case(yard).claim().end(release),
    "assigned": lambda yard: Case(yard).claim(),
    "assigned, may be retried": lambda yard: Case(yard, retry=TRY_AGAIN).claim(),
    "running": lambda yard: Case(yard).claim().start(),
    "running, may be retried": lambda yard: Case(yard, retry=TRY_AGAIN).claim().start(),
    "paused": lambda yard: Case(yard).claim().start().end(pause),
    "paused, assigned": lambda yard: Case(yard).claim().end(pause),
    "parked": lambda yard: Case(yard).claim().start().end(park),
    "done": lambda yard: Case(yard).claim().start().end(complete),
    "failed": lambda yard: Case(yard).claim().start().end(report_failure),
    "failed, blocks": lambda yard: Case(yard, target="t").claim().start().end(report_failure),
    "cancelled": lambda yard: Case(yard).claim().start().end(cancel),
}


def pause(case):
    case.yard.pause(case.task)


def resume(case):
    case.yard.resume(case.task)


def resolve(case):
    case.yard.resolve(case.task)


def cancel(case):
    case.yard.cancel(case.task)


def park(case):
    case.yard.park(case.lease, Wait("answer", "go"))


def answer(case):
    case.yard.answer(case.task, "go")


def start(case):
    case.yard.start(case.lease)


def complete(case):
    case.yard.complete(case.lease)


def report_failure(case):
    case.yard.fail(case.lease)


def release(case):
    case.yard.release(case.lease)


def claim(case):
    assert case.yard.claim()


def meet_its_deadline(case):
    if case.task.deadline is None or case.task.state in TERMINAL:
        return
    case.yard.reconfigure(heartbeat_timeout_secs=10_000.0)
    case.yard.pass_time(case.task.deadline - case.yard.now + 0.2)


def pass_some_time(case):
    case.yard.pass_time(6)


def lose_the_host(case):
    case.yard.pass_time(121)


LEADS_TO = {
    "pending, held": {resume: "queued", cancel: "cancelled"},
    "pending, not due": {cancel: "cancelled"},
    "pending, next attempt": {cancel: "cancelled"},
    "queued": {claim: "assigned", cancel: "cancelled"},
    "queued again": {claim: "assigned", cancel: "cancelled"},
    "assigned": {
        start: "running",
        release: "queued",
        complete: "done",
        report_failure: "failed",
        pause: "paused",
        park: "parked",
        cancel: "cancelled",
    },
    "assigned, may be retried": {
        start: "running",
        release: "queued",
        complete: "done",
        report_failure: "pending",
        pause: "paused",
        park: "parked",
        cancel: "cancelled",
    },
    "running": {
        release: "queued",
        complete: "done",
        report_failure: "failed",
        pause: "paused",
        park: "parked",
        cancel: "cancelled",
    },
    "running, may be retried": {
        release: "queued",
        complete: "done",
        report_failure: "pending",
        pause: "paused",
        park: "parked",
        cancel: "cancelled",
    },
    "paused": {resume: "queued", resolve: "done", cancel: "cancelled"},
    "paused, assigned": {resume: "queued", resolve: "done", cancel: "cancelled"},
    "parked": {answer: "queued", cancel: "cancelled"},
    "done": {},
    "failed": {resume: "queued", resolve: "done"},
    "failed, blocks": {resume: "queued", resolve: "done", cancel: "cancelled"},
    "cancelled": {},
}
OF_AGENTS = (pause, resume, resolve, cancel)
OF_HOSTS = (start, complete, report_failure, release)
ALLOWED = [(state, command) for state, commands in LEADS_TO.items() for command in commands]
REFUSED = [(state, command) for state, command in product(STATES, OF_AGENTS) if command not in LEADS_TO[state]]
STALE = [
    (state, command)
    for state, command in product(STATES, OF_HOSTS)
    if command not in LEADS_TO[state] and state not in ("pending, held", "pending, not due", "queued")
]


def name(part):
    return part if isinstance(part, str) else part.__name__
