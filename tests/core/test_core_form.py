"""The option `--core` decides which form of the core the tests import."""

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from taskyard_server.conversion import task_encoding as encoding
from taskyard_server.core import scheduler, task
from taskyard_server.engine import event_log


def test_the_imported_core_has_the_form_of_the_option(pytestconfig):
    suffix = ".py" if pytestconfig.option.core == "python" else EXTENSION_SUFFIXES[0]
    for module in (scheduler, task, event_log, encoding):
        assert Path(module.__file__).name == module.__name__.rpartition(".")[2] + suffix
