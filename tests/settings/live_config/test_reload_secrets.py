"""Secrets are replaced while the server runs, and switched on and off by a restart.

See docs/operate/security.md, Rotation.
"""

import pytest

from taskyard_server.settings.live_config import SECRETS

BEFORE = {
    "webhooks.secret": "whsec_b2xkZXItc2VjcmV0",
    "executorToken": "older-token-0123456789",
    "metricsToken": "older-token-0123456789",
}
AFTER = {
    "webhooks.secret": "whsec_bmV3ZXItc2VjcmV0",
    "executorToken": "newer-token-0123456789",
    "metricsToken": "newer-token-0123456789",
}


def in_file(key, value):
    section, _, name = key.rpartition(".")
    return {section: {name: value}} if section else {name: value}


def value_of(settings, key):
    found = {
        "webhooks.secret": settings.webhooks.secret,
        "executorToken": settings.executor_token,
        "metricsToken": settings.metrics_token,
    }[key]
    return None if found is None else found.get_secret_value()


def test_these_are_the_secrets_that_reload():
    assert set(BEFORE) == set(AFTER) == SECRETS


@pytest.mark.parametrize("key", sorted(SECRETS))
def test_another_secret_is_in_force_and_shown_nowhere(config_file, logged, key):
    live = config_file.start(in_file(key, BEFORE[key]))
    config_file.write(in_file(key, AFTER[key]))
    reload = live.reload()
    assert (reload.changed, reload.needs_restart) == ([key], [])
    (applied,) = config_file.applied
    assert value_of(applied, key) == AFTER[key]
    assert "older" not in str(logged) + repr(applied)
    assert "newer" not in str(logged) + repr(applied)
    assert not any(secret[key].removeprefix("whsec_") in str(logged) for secret in (BEFORE, AFTER))


@pytest.mark.parametrize("key", sorted(SECRETS))
def test_a_secret_that_is_removed_from_the_file_stays_until_a_restart(config_file, key):
    live = config_file.start(in_file(key, BEFORE[key]))
    config_file.write({})
    reload = live.reload()
    assert (reload.changed, reload.needs_restart) == ([], [key])
    assert value_of(live.settings, key) == BEFORE[key]


@pytest.mark.parametrize("key", sorted(SECRETS))
def test_the_first_secret_takes_a_restart(config_file, key):
    live = config_file.start()
    config_file.write(in_file(key, AFTER[key]))
    reload = live.reload()
    assert (reload.changed, reload.needs_restart) == ([], [key])
    assert value_of(live.settings, key) is None


def test_a_reload_of_a_secret_changes_no_other_key_of_its_section(config_file):
    live = config_file.start({"webhooks": {"secret": BEFORE["webhooks.secret"], "workers": 3}})
    config_file.write({"webhooks": {"secret": AFTER["webhooks.secret"], "workers": 5}})
    reload = live.reload()
    assert (reload.changed, reload.needs_restart) == (["webhooks.secret"], ["webhooks.workers"])
    assert live.settings.webhooks.workers == 3
