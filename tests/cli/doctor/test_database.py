"""What the doctor says of a store in PostgreSQL, and of the replicas that it knows."""

import asyncio
from urllib.parse import urlsplit

import pytest

from taskyard_server.cli.doctor.database import database
from taskyard_server.cli.doctor.replicas import replicas
from taskyard_server.store.port import FORMAT_LEVEL
from taskyard_server.store.postgres.schema import VERSION
from taskyard_server.store.postgres.store import PostgresStore
from taskyard_server.store.shared_port import Replica
from tests.cli.doctor.yards import ill, only, told, yard
from tests.postgres import awaited

pytestmark = pytest.mark.gate("PostgreSQL")


def of(url):
    return yard({"store": {"url": url}})


def seen(found):
    """What is told of the store itself: the server of tests has `fsync` off, which is told too."""
    return [each for each in ill(found) if "fsync is off" not in each.seen]


def test_a_database_is_well_for_who_owns_its_tables_and_for_who_uses_them(postgres_url, least_postgres_url):
    for url in (postgres_url, least_postgres_url):
        assert not seen(database(of(url)))
        store, *_, clock = [text for _, text in told(database, of(url))]
        assert f": schema {VERSION}, answers in" in store
        assert clock.endswith("s behind this machine's") or "s ahead of this machine's" in clock


def test_what_costs_acknowledged_work_is_a_warning(postgres_url):
    assert [each.status for each in ill(database(of(postgres_url)))] == ["warning"]


def test_an_empty_database_is_well_where_the_role_may_make_the_tables(postgres_server, empty_postgres_url):
    assert not seen(database(of(empty_postgres_url)))
    assert "the first start makes its tables" in str(told(database, of(empty_postgres_url)))
    name = urlsplit(empty_postgres_url).path.strip("/")
    (found,) = seen(database(of(postgres_server.url(name, "user_of_tables"))))
    assert (found.status, "taskyard store migrate" in found.todo) == ("failure", True)


def test_a_role_without_rights_is_a_failure(postgres_server, postgres_database):
    awaited(postgres_server.run("REVOKE DELETE ON taskyard.tasks FROM user_of_tables", postgres_database))
    (found,) = seen(database(of(postgres_server.url(postgres_database, "user_of_tables"))))
    assert (found.status, "may not use its tables" in found.seen) == ("failure", True)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (f"version = {VERSION + 1}", "failure"),
        (f"level = {FORMAT_LEVEL + 1}", "failure"),
        (f"version = {VERSION - 1}", "warning"),
    ],
)
def test_tables_of_another_version_are_told(postgres_server, postgres_url, postgres_database, change, status):
    awaited(postgres_server.run(f"UPDATE taskyard.meta SET {change}", postgres_database))
    (found,) = seen(database(of(postgres_url)))
    assert found.status == status


def test_one_that_cannot_be_reached_is_a_failure_without_its_password(tmp_path):
    found = only(database(of(f"postgresql://ann:s3cret@/yard?host={tmp_path}")))
    assert (found.status, "s3cret" in str(found)) == ("failure", False)
    assert found.todo == "see that it runs, that store.url names it, and that this machine reaches it"


def test_replicas_are_those_that_the_database_knows(postgres_url):
    async def joined():
        store = PostgresStore(postgres_url)
        await store.open()
        try:
            for instance, name in (("a", "one"), ("b", "two")):
                await store.join(Replica(instance, name, None, FORMAT_LEVEL, "1.0"))
            await store.create("team", "b")
            await store.leave("b")
        finally:
            await store.close()

    assert told(replicas, of(postgres_url)) == []
    asyncio.run(joined())
    found = only(replicas(of(postgres_url)))
    assert (found.status, found.check) == ("warning", "replica two")
    assert "start it again" in found.todo
