"""What the gateway carries calls by, whatever the order in which processes tell what they serve."""

import pytest

from taskyard_server.processes.routes import Routes

pytestmark = pytest.mark.gate("many processes, whose rules tests/replicas holds in one")


def test_a_namespace_is_the_process_that_serves_it():
    routes = Routes()
    routes.serves("one", {"shop": 1, "mail": 1}, [])
    routes.serves("two", {"test": 1}, [])
    assert routes.owners == {"shop": "one", "mail": "one", "test": "two"}
    routes.serves("one", {}, ["mail"])
    assert routes.owners == {"shop": "one", "test": "two"}


def test_news_of_a_former_owner_change_nothing():
    routes = Routes()
    routes.serves("two", {"shop": 2}, [])
    routes.serves("one", {"shop": 1}, [])
    assert routes.owners == {"shop": "two"}
    routes.serves("one", {}, ["shop"])
    assert routes.owners == {"shop": "two"}


def test_who_has_ended_serves_nothing():
    routes = Routes()
    routes.serves("one", {"shop": 1}, [])
    routes.serves("two", {"mail": 1}, [])
    routes.ended("one")
    assert routes.owners == {"mail": "two"}
    routes.serves("one", {"shop": 1}, [])
    assert routes.owners == {"mail": "two", "shop": "one"}
