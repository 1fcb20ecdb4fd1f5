"""Each limit has one owner of its default: `core/limits.py`, and `core/history.py` for retries."""

import dataclasses
import importlib.util
import sys

import pytest

from taskyard_server.core import history, limits
from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.limits import DEFAULTS, Limits
from taskyard_server.settings import config, retries


@pytest.fixture
def model_with(monkeypatch):
    """Executes a module of settings again with other defaults of the core. Returns it."""

    def execute(defaults, retry=RetryPolicy, settings=config):
        monkeypatch.setattr(limits, "DEFAULTS", defaults)
        monkeypatch.setattr(history, "RetryPolicy", retry)
        spec = importlib.util.spec_from_file_location("taskyard_server.settings.again", settings.__file__)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    return execute


def test_the_settings_have_the_defaults_of_the_core():
    assert config.Settings().limits() == DEFAULTS == Limits()


@pytest.mark.python_core  # what is compiled makes no copies of what it holds
def test_a_default_that_changes_in_the_core_changes_in_the_settings(model_with):
    numbers = {name: value for name, value in dataclasses.asdict(DEFAULTS).items() if isinstance(value, int | float)}
    others = Limits(**{name: value + 1 for name, value in numbers.items()})
    assert model_with(others).Settings().limits() == others


def test_a_default_of_retries_that_changes_in_the_core_changes_in_the_settings(model_with):
    others = RetryPolicy(7, 8.0, 9.0, 10.0)

    def policy(*_args, **given):
        return RetryPolicy(**given) if given else others

    assert model_with(DEFAULTS, policy, retries).RetrySettings().policy() == others
