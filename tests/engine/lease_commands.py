"""Commands of hosts on the lease of a task, for the tests of engines."""

from tests import reporting
from tests.live import live

NS = "default"

REPORTS = {
    "start": lambda engine, host, task_id, token: reporting.start(engine, NS, host, task_id, token),
    "renew": lambda engine, host, task_id, token: engine.leases.renew(NS, host, task_id, token, show=live),
    "progress": lambda engine, host, task_id, token: reporting.progress(engine, NS, host, task_id, token, b"late"),
    "complete": lambda engine, host, task_id, token: reporting.complete(engine, NS, host, task_id, token, b"late"),
    "fail": lambda engine, host, task_id, token: reporting.fail(engine, NS, host, task_id, token, "late"),
}
"""Each command that needs a live lease, by name."""


async def lease_of(engine, host, lease_secs=None):
    """The lease of the only claimable task."""
    (lease,) = await engine.leases.claim(NS, host, 1, lease_secs, show=live)
    return lease
