"""What a server exports: its samples, and their labels. Alerts and dashboards are held to it."""

import re
import subprocess
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from prometheus_client.core import Metric

from taskyard_server.core.figures.demand import Pool
from taskyard_server.interceptors.admission import CallAdmission
from taskyard_server.settings.security import AuthSettings
from taskyard_server.store.figures import StoreFigures
from taskyard_server.store.port import Committed
from tests.replicas.members import Yard

DEPLOY = Path(__file__).parents[2] / "deploy"
OF_PROMETHEUS = {"instance", "job"}
"""The labels that Prometheus adds to all it scrapes."""
SERIES = re.compile(r"\b(taskyard_\w+|process_\w+|up)\b(?:\{([^}]*)\})?")
LABEL = re.compile(r'(\w+)\s*=~?\s*"')


async def exported(make_harness: Any) -> dict[str, set[str]]:
    """The names of the labels of each sample of a server that has everything: a store, tokens, pools, replicas."""
    figures = StoreFigures("sqlite:////yard.db")
    harness = await make_harness(store=figures, admission=CallAdmission(AuthSettings(required=True)))
    harness.pools.append(Pool("gpu"))
    figures.note(1, 0.01, Committed(0.01, 1, 1))
    for ends in (harness.complete, harness.fail):
        await harness.submit()
        lease = await harness.claim()
        await harness.start(lease)
        await ends(lease)
    await harness.submit()
    families: list[Metric] = list((await harness.scrape()).families.values())
    async with AsyncExitStack() as stack:
        families += (await Yard(stack).member("a")).metrics.families()
    labels: dict[str, set[str]] = {"up": set()}
    for family in families:
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
        if not family.samples:
            labels.setdefault(family.name, set()).update({"pattern"} if "_keys" in family.name else ())
    return labels


def unknown(expr: str, labels: dict[str, set[str]]) -> list[str]:
    """What an expression asks for that no server exports."""
    wrong = []
    for name, selector in SERIES.findall(expr):
        if name not in labels:
            wrong.append(name)
        elif extra := set(LABEL.findall(selector)) - labels[name] - OF_PROMETHEUS:
            wrong.append(f"{name}{sorted(extra)}")
    return wrong


def promtool(*words: str) -> subprocess.CompletedProcess[str]:
    """Run Prometheus's own tool."""
    return subprocess.run(["promtool", *words], capture_output=True, text=True, check=False, timeout=120)


def outcomes(tests: list[dict[str, Any]]) -> Counter[tuple[str, bool]]:
    """How often unit tests of alerts say that each one fires, and that it does not."""
    return Counter((row["alertname"], bool(row.get("exp_alerts"))) for test in tests for row in test["alert_rule_test"])
