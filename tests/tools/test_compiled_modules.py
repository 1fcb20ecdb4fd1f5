"""Each compiled module can be imported first: none counts on another one that happens to be there already.

The compiled form of a named tuple, for one, looks for the classes of its fields where their module puts them. Before
that module is imported there is nothing, and the process dies.
"""

import subprocess
import sys

import pytest

from tests.environment import without_settings
from tools import compile_server

pytestmark = pytest.mark.gate("a compiler")

IMPORT_EACH = """
import importlib, os, sys
import google.protobuf.struct_pb2, grpc.aio, msgspec, pydantic, structlog
for name in sys.argv[1:]:
    child = os.fork()
    if not child:
        importlib.import_module(name)
        os._exit(0)
    if (status := os.waitpid(child, 0)[1]) != 0:
        print(name, os.waitstatus_to_exitcode(status))
"""


def test_each_compiled_module_can_be_imported_first():
    assert compile_server.is_fresh()
    paths = [source.relative_to(compile_server.SERVER).with_suffix("") for source in compile_server.sources()]
    names = [".".join(path.parts) for path in paths]
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_EACH, *names],
        capture_output=True,
        text=True,
        check=True,
        cwd=compile_server.SERVER,
        env=without_settings(),
    )
    assert done.stdout.splitlines() == [], done.stderr
