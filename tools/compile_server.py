"""Compile the hot part of the server to machine code, beside its sources: `python tools/compile_server.py`.

The core and the modules outside it that run for every task are plain, typed Python. mypyc compiles them unchanged; the
uncompiled core has a third of the speed. Python prefers the compiled form, so a stale one is removed before anything
else. Without a C compiler nothing is compiled, and one line says so.
"""

import argparse
import hashlib
import importlib.metadata
import os
import platform
import shlex
import shutil
import sys
import sysconfig
import tempfile
from contextlib import chdir
from importlib.machinery import EXTENSION_SUFFIXES
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

SERVER = Path(__file__).resolve().parents[1] / "server"
PACKAGE = SERVER / "taskyard_server"
STAMP = PACKAGE / ".compiled"
GROUP = "taskyard_server"
BESIDE_THE_CORE = (
    "conversion/agent_figures.py",
    "conversion/output.py",
    "conversion/payload.py",
    "conversion/plain_structs.py",
    "conversion/refusals.py",
    "conversion/report_requests.py",
    "conversion/requests.py",
    "conversion/submission_scan.py",
    "conversion/submissions.py",
    "conversion/submit_requests.py",
    "conversion/task_encoding.py",
    "conversion/task_fields.py",
    "conversion/wire.py",
    "engine/driver.py",
    "engine/event_feeds.py",
    "engine/event_log.py",
    "engine/namespace.py",
    "engine/namespaces.py",
    "engine/output_log.py",
    "engine/pace.py",
    "engine/recent_events.py",
    "engine/sessions.py",
    "interceptors/callers.py",
    "logs/throttle.py",
    "metrics/histograms.py",
    "metrics/tasks.py",
    "services/host_outbox.py",
    "services/report_acks.py",
    "store/records/tasks.py",
    "store/rows.py",
)
"""The modules outside the core that run for every task, or for every agent in an answer."""
LEFT_OUT = ("__init__.py", "native.py", "history.py", "task_options.py")
"""Of the core: what holds no code, what speaks to the compiler, and the classes whose types a store reads."""
NO_COMPILER = "There is no C compiler with Python's headers: nothing is compiled, so all is slower."


def main(*words: str) -> None:
    """Bring the compiled form up to date, or remove it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--remove", action="store_true", help="remove what is compiled")
    parser.add_argument("--remove-stale", action="store_true", help="remove it where a source has changed since")
    how = parser.parse_args(words)
    if is_fresh() and not how.remove:
        return
    remove()
    if how.remove or how.remove_stale:
        return
    if not has_compiler():
        print(NO_COMPILER)
    else:
        print("Compiling the hot part of the server; this takes a minute.", flush=True)
        # Of the sources as they are now: what changes meanwhile is not compiled.
        stamp = fingerprint()
        compile_to(SERVER)
        STAMP.write_text(stamp)


def is_fresh() -> bool:
    """True if the compiled form is complete and up to date."""
    is_whole = len(compiled()) == len(sources()) + 1
    return is_whole and STAMP.exists() and STAMP.read_text() == fingerprint()


def fingerprint() -> str:
    """A hash of everything that the compiled form depends on."""
    try:
        compiler = importlib.metadata.version("mypy")
    except importlib.metadata.PackageNotFoundError:
        compiler = "none"  # Only who changes the server has it.
    digest = hashlib.sha256(f"{platform.python_version()} {compiler}".encode())
    for source in (Path(__file__), *sources()):
        digest.update(f"{source} {source.stat().st_size} ".encode() + source.read_bytes())
    return digest.hexdigest()


def sources() -> list[Path]:
    """The modules that are compiled."""
    core = sorted(path for path in (PACKAGE / "core").rglob("*.py") if path.name not in LEFT_OUT)
    return [*core, *(PACKAGE / name for name in BESIDE_THE_CORE)]


def folders() -> set[Path]:
    """The folders of these modules."""
    return {source.parent for source in sources()}


def compiled() -> list[Path]:
    """The compiled files: a stub for each module, and the library that all stubs share."""
    stubs = (source.with_suffix(EXTENSION_SUFFIXES[0]) for source in sources())
    return [path for path in (*stubs, SERVER / f"{GROUP}__mypyc{EXTENSION_SUFFIXES[0]}") if path.exists()]


def remove() -> None:
    """Remove the compiled form."""
    STAMP.unlink(missing_ok=True)
    for path in (*PACKAGE.rglob("*.so"), *SERVER.glob(f"{GROUP}__mypyc*.so")):
        path.unlink()


def has_compiler() -> bool:
    """True if there is a C compiler, and the headers of this Python."""
    compiler = shlex.split(os.environ.get("CC", "cc"))[0]
    return shutil.which(compiler) is not None and Path(sysconfig.get_path("include"), "Python.h").exists()


def compile_to(folder: Path) -> None:
    """Compile into `folder`, in the layout of the packages."""
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    class SideBySide(build_ext):
        """Compiles on all cores, file by file; setuptools takes the files of an extension one after the other."""

        def build_extensions(self) -> None:
            self.parallel = os.cpu_count()
            compile_all = self.compiler.compile

            def compile_each(sources: list[str], **options: Any) -> list[str]:
                largest_first = sorted(sources, key=os.path.getsize, reverse=True)
                with ThreadPool(os.cpu_count()) as pool:
                    made = pool.map(lambda source: compile_all([source], **options), largest_first, chunksize=1)
                return [file for files in made for file in files]

            self.compiler.compile = compile_each
            super().build_extensions()

    # mypyc derives the names of modules from relative paths.
    with chdir(SERVER), tempfile.TemporaryDirectory() as build:
        names = [str(path.relative_to(SERVER)) for path in sources()]
        # `make lint` checks types. A wheel may be built where the server's dependencies are not installed.
        flags = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent", f"--cache-dir={build}/cache"]
        # One file for all would be optimised by 4 % more, on one core and for twice as long.
        how = {"multi_file": True, "opt_level": "2", "debug_level": "0"}
        extensions = mypycify([*flags, *names], group_name=GROUP, target_dir=build, **how)
        distribution = Distribution({"name": GROUP, "ext_modules": extensions, "cmdclass": {"build_ext": SideBySide}})
        command = distribution.get_command_obj("build_ext")
        command.build_lib, command.build_temp = str(folder), build
        command.ensure_finalized()
        command.run()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
