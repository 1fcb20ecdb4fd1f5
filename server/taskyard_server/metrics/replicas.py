"""Metrics of a server that shares its store with others: what it owns, what changed hands, whether it is trusted."""

from __future__ import annotations

from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from taskyard_server.replicas.replica import ReplicaRun

from .histograms import Histogram

SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class ReplicaMetrics:
    """Collects what one replica knows of itself and of the others."""

    def __init__(self, replica: ReplicaRun) -> None:
        self._replica = replica
        self._histograms = {"take": Histogram(SECONDS), "give_up": Histogram(SECONDS)}
        replica.figures.observers.append(self._observe)

    def families(self) -> list[Metric]:
        """One scrape."""
        replica = self._replica
        figures, trust, membership = replica.figures, replica.trust, replica.membership
        ownerless = replica.ownership.without_owner
        terms = [row.term for row in replica.ownership.owned()]
        families: list[Metric] = [
            GaugeMetricFamily(f"taskyard_{name}", text, value)
            for name, text, value in (
                ("replicas_alive", "Replicas that live, as this one sees it.", len(membership.living())),
                ("replica_draining", "1 while an operator lets this replica take nothing.", membership.is_draining()),
                ("owned_namespaces", "Namespaces that this replica owns.", len(terms)),
                ("namespaces_without_owner", "Namespaces with something to do that no replica owns.", ownerless),
                ("highest_term", "The highest term of a namespace that this replica owns.", max(terms, default=0)),
                ("trust_seconds", "For how long this replica is trusted without another renewal.", trust.left_secs),
            )
        ]
        for name, text, count in (
            ("namespaces_made", "Namespaces that this replica made.", figures.made),
            ("namespaces_taken", "Namespaces that this replica took.", figures.taken),
            ("namespaces_given_up", "Namespaces that this replica gave up in order.", figures.given_up),
            ("namespaces_lost", "Namespaces that another one owned before they were given up.", figures.lost),
            ("replica_deaths", "How often this replica was found dead and began anew.", membership.deaths),
            ("replica_pauses", "How often this replica was not trusted for a while, and then was again.", trust.pauses),
            ("replica_paused_seconds", "For how long it was not trusted then.", trust.paused_secs),
        ):
            families.append(CounterMetricFamily(f"taskyard_{name}", text, count))
        for kind, text in (
            ("take", "From the request to the store until a namespace was served."),
            ("give_up", "From the last command in a namespace until it was released."),
        ):
            families.append(self._histograms[kind].family(f"taskyard_{kind}_seconds", text))
        return families

    def _observe(self, kind: str, secs: float) -> None:
        self._histograms[kind].observe(secs)
