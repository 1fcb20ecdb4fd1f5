"""The figures of the store as Prometheus metrics (docs/operate/durability.md, Metrics)."""

import asyncio
from pathlib import Path

import pytest

from taskyard_server.store.figures import StoreFigures
from taskyard_server.store.port import Committed
from tests.cases import every_case

from .conftest import MIN_FREE_BYTES

PAGE = (Path(__file__).parents[2] / "docs/operate/durability.md").read_text()
TYPES = {
    "taskyard_store_commits": "counter",
    "taskyard_store_delayed_commits": "counter",
    "taskyard_store_failed_commits": "counter",
    "taskyard_store_rows": "counter",
    "taskyard_store_forgotten_tasks": "counter",
    "taskyard_store_bytes": "gauge",
    "taskyard_store_free_bytes": "gauge",
    "taskyard_store_min_free_bytes": "gauge",
    "taskyard_store_load_seconds": "gauge",
    "taskyard_store_commit_under_way_seconds": "gauge",
    "taskyard_store_commit_rows": "histogram",
    "taskyard_store_commit_seconds": "histogram",
}


@pytest.fixture
def figures():
    return StoreFigures("sqlite:////yard.db", free_bytes=1_000_000)


@pytest.fixture
async def harness(make_harness, figures):
    """A harness with a store."""
    return await make_harness(store=figures)


async def test_each_metric_of_the_store_has_its_name_type_and_text(harness):
    families = (await harness.scrape()).families
    ours = {name: family for name, family in families.items() if name.startswith("taskyard_store_")}
    assert {name: family.type for name, family in ours.items()} == TYPES
    assert all(family.documentation for family in ours.values())


@every_case("name", TYPES)
def test_each_metric_of_the_store_is_documented(name):
    total = "_total" if TYPES[name] == "counter" else ""
    assert f"`{name}{total}`" in PAGE


async def test_a_yard_that_keeps_nothing_has_none(make_harness):
    families = (await (await make_harness()).scrape()).families
    assert not [name for name in families if name.startswith("taskyard_store_")]


async def test_commits_and_their_rows_are_counted(harness, figures):
    figures.note(3, 0.004, Committed(0.003, 8_192, 1_000_000))
    figures.note(40, 0.3, Committed(0.2, 16_384, 900_000))
    scrape = await harness.scrape()
    assert scrape.value("taskyard_store_commits_total") == 2
    assert scrape.value("taskyard_store_rows_total") == 43
    assert scrape.value("taskyard_store_bytes") == 16_384
    assert scrape.value("taskyard_store_free_bytes") == 900_000


async def test_a_commit_that_hangs_is_seen_while_it_does(harness, figures):
    assert (await harness.scrape()).value("taskyard_store_commit_under_way_seconds") == 0
    figures.under_way_since = asyncio.get_running_loop().time() - 100
    assert (await harness.scrape()).value("taskyard_store_commit_under_way_seconds") >= 100


async def test_the_bound_below_which_tasks_are_refused_stands_beside_what_is_free(harness):
    assert (await harness.scrape()).value("taskyard_store_min_free_bytes") == MIN_FREE_BYTES


async def test_failures_history_and_loading_are_shown(harness, figures):
    figures.delayed, figures.failed, figures.forgotten, figures.load_secs = 4, 1, 500, 2.5
    scrape = await harness.scrape()
    assert scrape.value("taskyard_store_delayed_commits_total") == 4
    assert scrape.value("taskyard_store_failed_commits_total") == 1
    assert scrape.value("taskyard_store_forgotten_tasks_total") == 500
    assert scrape.value("taskyard_store_load_seconds") == 2.5


async def test_rows_and_seconds_of_a_commit_fall_into_buckets(harness, figures):
    for rows, secs in ((1, 0.0001), (3, 0.004), (70_000, 100.0)):
        figures.note(rows, secs, Committed(secs, 0, 0))
    scrape = await harness.scrape()
    rows, secs = (scrape.buckets(f"taskyard_store_commit_{name}") for name in ("rows", "seconds"))
    assert (rows["1.0"], rows["2.0"], rows["5.0"], rows["50000.0"], rows["+Inf"]) == (1, 1, 2, 2, 3)
    assert (secs["0.0002"], secs["0.002"], secs["0.005"], secs["60.0"], secs["+Inf"]) == (1, 1, 2, 2, 3)
    assert scrape.value("taskyard_store_commit_rows_sum") == 70_004
    assert scrape.value("taskyard_store_commit_seconds_sum") == pytest.approx(100.0041)
