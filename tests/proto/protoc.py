"""Runs protoc over all protos as their users do: with the Google protos beside ours, and no options."""

import os
import subprocess
import sys
from pathlib import Path

import google.api.annotations_pb2

ROOT = Path(__file__).parents[2]
STEMS = sorted(path.stem for path in (ROOT / "proto/taskyard/v1").glob("*.proto"))
GOOGLE_PROTOS = Path(google.api.annotations_pb2.__file__).parents[2]


def protoc(*words: str, plugins: Path | None = None) -> str:
    """Runs protoc, with the plugins of a folder, and returns all that it prints."""
    path = f"{plugins}{os.pathsep}{os.environ['PATH']}" if plugins else os.environ["PATH"]
    command = [Path(sys.prefix, "bin", "protoc"), *words]
    done = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def generate(language: str, into: Path, plugins: Path | None = None) -> str:
    """Generates the code of all protos in a language, and returns what protoc warns of."""
    folders = [f"-I{ROOT / 'proto'}", f"-I{GOOGLE_PROTOS}"]
    protos = [f"taskyard/v1/{stem}.proto" for stem in STEMS]
    return protoc(*folders, f"--{language}_out={into}", *protos, plugins=plugins)


def camel_case(stem: str) -> str:
    """`RuntimeHost` of `runtime_host`."""
    return "".join(word.capitalize() for word in stem.split("_"))
