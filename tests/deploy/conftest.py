"""Fixtures of the tests of how Taskyard is shipped: Helm, which comes as a library."""

from collections.abc import Callable
from typing import Any

import pytest

from .chart import CHART, NAMESPACE, RELEASE, Object, Rendered, objects_in


@pytest.fixture(scope="session")
def helm() -> Any:
    """Helm's own library. Without it a test is skipped, which CI takes for a failure."""
    return pytest.importorskip("helm_python", reason="needs Helm: make gate-tools")


@pytest.fixture(scope="session")
def render(helm: Any) -> Callable[[Object], Rendered]:
    """Renders the chart with values, as `helm template` does. Raises `helm.HelmError`."""
    chart = helm.Chart.load(CHART)

    def rendered(values: Object) -> Rendered:
        return Rendered(objects_in(chart.render(values, name=RELEASE, namespace=NAMESPACE)))

    return rendered
