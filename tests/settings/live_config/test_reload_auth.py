"""Who may call changes while the server runs, where authentication is on (docs/operate/security.md, Rotation)."""

import pytest

from taskyard_server.settings.live_config import AUTH

ON = {"required": True}
GRANTS = [{"role": "viewer"}]
KEYS = {
    "adminToken": "0123456789abcdefghijk",
    "jwt": [{"issuer": "https://idp.example", "audience": "taskyard", "jwks": "/elsewhere/jwks.json"}],
    "certificates": [{"uri": "spiffe://taskyard/agents/*", "grants": GRANTS}],
    "limits": {"agent": {"requestsPerSec": 5}},
}


def test_these_are_the_keys_that_reload():
    assert {f"auth.{key}" for key in KEYS} == AUTH


@pytest.mark.parametrize("key", KEYS)
def test_a_changed_key_is_applied(config_file, key):
    live = config_file.start({"auth": ON})
    config_file.write({"auth": ON | {key: KEYS[key]}})
    assert live.reload().changed == [f"auth.{key}"]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_that_is_removed_from_the_file_holds_no_longer(config_file, key):
    live = config_file.start({"auth": ON | {key: KEYS[key]}})
    config_file.write({"auth": ON})
    assert live.reload().changed == [f"auth.{key}"]
    assert live.settings.auth == type(live.settings.auth)(required=True)


@pytest.mark.parametrize("key", ["adminToken", "jwt"])
def test_a_reload_does_not_switch_authentication_on(config_file, key):
    live = config_file.start()
    config_file.write({"auth": {key: KEYS[key]}})
    reload = live.reload()
    assert (reload.changed, reload.needs_restart) == ([], [f"auth.{key}"])
    assert not live.settings.auth.is_on(live.settings.tls)


def test_a_reload_does_not_switch_authentication_off(config_file):
    live = config_file.start({"auth": ON})
    config_file.write({})
    assert live.reload().needs_restart == ["auth.required"]
    assert live.settings.auth.required


@pytest.mark.parametrize("key", ["adminToken", "jwt"])
def test_after_a_reload_without_any_credential_the_next_one_can_bring_some(config_file, key):
    live = config_file.start({"auth": {key: KEYS[key]}})
    config_file.write({})
    live.reload()
    config_file.write({"auth": {key: KEYS[key]}})
    assert live.reload().changed == [f"auth.{key}"]
    assert config_file.applied[-1].auth == live.settings.auth
