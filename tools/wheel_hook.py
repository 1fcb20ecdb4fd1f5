"""Puts the compiled form of the server into wheels, beside its sources, where there is a C compiler.

pyproject.toml names this hook. For an editable install, `make compile` compiles in the work tree.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))
import compile_server


class CompiledServer(BuildHookInterface):
    """Takes the compiled form of the work tree if it is fresh, or compiles aside. The work tree stays as it is."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds a wheel."""
        if version == "editable":
            return
        if not compile_server.has_compiler():
            self.app.display_warning(compile_server.NO_COMPILER)
            return
        if compile_server.is_fresh():
            folder, compiled = compile_server.SERVER, compile_server.compiled()
        else:
            self._folder = tempfile.TemporaryDirectory()
            folder = Path(self._folder.name)
            compile_server.compile_to(folder)
            compiled = [path for path in folder.rglob("*") if path.is_file()]
        build_data["force_include"].update({str(path): str(path.relative_to(folder)) for path in compiled})
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called by hatchling when the wheel is written."""
        del version, build_data, artifact_path
        if hasattr(self, "_folder"):
            self._folder.cleanup()
