"""The form of the core that the tests are about is the one that they were asked to take."""

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from taskyard_server.conversion import task_encoding as encoding
from taskyard_server.core import scheduler, task
from taskyard_server.engine import event_log


def test_the_core_is_of_the_form_that_was_asked_for(pytestconfig):
    suffix = ".py" if pytestconfig.option.core == "python" else EXTENSION_SUFFIXES[0]
    for module in (scheduler, task, event_log, encoding):
        assert Path(module.__file__).name == module.__name__.rpartition(".")[2] + suffix
