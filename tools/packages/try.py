"""Installs each packed client where nothing else is, and runs the first program of its README against a server.

    python tools/packages/try.py FOLDER [LANGUAGE...]

FOLDER is what tools/packages/pack.sh has written. Server and host are those of the packed wheel, the host as the first
program of the repository's README. A line tells of each client. One that has not printed its greeting has failed.
"""

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parents[2]
VERSION: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
GO: Final = "github.com/taskyard/taskyard/clients/go"
WAIT_SECS: Final = 60
POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>it</groupId><artifactId>it</artifactId><version>1</version>
  <properties><maven.compiler.source>17</maven.compiler.source><maven.compiler.target>17</maven.compiler.target></properties>
  <repositories><repository><id>packed</id><url>{url}</url></repository></repositories>
  <dependencies><dependency>
    <groupId>dev.taskyard</groupId><artifactId>taskyard-client</artifactId><version>{version}</version>
  </dependency></dependencies>
</project>"""


class Trial:
    """One client in a folder of its own. `address` is that of the server."""

    def __init__(self, packed: Path, folder: Path, address: str) -> None:
        self.packed, self.folder, self.address = packed, folder, address

    def program(self, document: str, language: str, name: str, number: int = 0) -> Path:
        """Write a program of a README, which calls this server, into the folder."""
        text = re.findall(rf"(?ms)^```{language}\n(.*?)^```$", (ROOT / document).read_text())[number]
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(re.sub(r"(127\.0\.0\.1|localhost):50051", self.address, text))
        return path

    def run(self, *words: object, **environment: str) -> str:
        """What a command prints. Raises `CalledProcessError` where it fails, with what it said."""
        command = [str(word) for word in words]
        return subprocess.run(
            command, cwd=self.folder, env=os.environ | environment, stdout=subprocess.PIPE, text=True, check=True
        ).stdout

    def python(self, package: Path, extra: str = "") -> Path:
        """The folder of programs of an environment that has this package alone."""
        self.run("uv", "venv", "--quiet", "venv")
        # As where there is no compiler.
        self.run("uv", "pip", "install", "--quiet", "--python", "venv", f"{package}{extra}", CC="none")
        return self.folder / "venv/bin"


def try_wheel(trial: Trial) -> str:
    """Python, from the wheel."""
    (wheel,) = trial.packed.glob("python/*.whl")
    return trial.run(trial.python(wheel) / "python", trial.program("README.md", "python", "agent.py", 1))


def try_sdist(trial: Trial) -> str:
    """Python, from the sdist."""
    (sdist,) = trial.packed.glob("python/*.tar.gz")
    return trial.run(trial.python(sdist) / "python", trial.program("README.md", "python", "agent.py", 1))


def try_npm(trial: Trial) -> str:
    """TypeScript, checked by its compiler."""
    (archive,) = trial.packed.glob("npm/*.tgz")
    (trial.folder / "package.json").write_text('{"type": "module"}')
    trial.run("npm", "install", "--no-audit", "--no-fund", "--silent", archive, "typescript@5.9.3", "@types/node@20")
    program = trial.program("clients/typescript/README.md", "ts", "agent.ts")
    trial.run("npx", "tsc", "--strict", "--module", "nodenext", "--target", "es2022", program)
    return trial.run("node", "agent.js")


def try_go(trial: Trial) -> str:
    """Go, by a proxy that is a folder."""
    trial.program("clients/go/README.md", "go", "main.go")
    proxy = f"file://{trial.packed}/go,{trial.run('go', 'env', 'GOPROXY').strip()}"
    # What is packed anew has the same version: nothing of it may be found in a cache, and no database knows it.
    places = {"GOMODCACHE": str(trial.folder / "modules"), "GOPROXY": proxy, "GONOSUMDB": GO, "GOFLAGS": "-modcacherw"}
    trial.run("go", "mod", "init", "it", **places)
    trial.run("go", "get", f"{GO}@v{VERSION}", f"{GO}/taskyardotel@v{VERSION}", **places)
    trial.run("go", "mod", "tidy", **places)
    return trial.run("go", "run", ".", **places)


def try_maven(trial: Trial) -> str:
    """Java, by a repository that is a folder."""
    trial.program("clients/java/README.md", "java", "src/main/java/Hello.java")
    (trial.folder / "pom.xml").write_text(POM.format(url=f"file://{trial.packed}/maven", version=VERSION))
    maven = ("mvn", "--quiet", "--batch-mode", f"-Dmaven.repo.local={trial.folder}/repository")
    plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
    trial.run(*maven, "compile", f"{plugin}:build-classpath", "-Dmdep.outputFile=classpath")
    classpath = (trial.folder / "classpath").read_text()
    return trial.run("java", "-cp", f"target/classes:{classpath}", "Hello")


TRIALS: Final[dict[str, Callable[[Trial], str]]] = {
    "wheel": try_wheel,
    "sdist": try_sdist,
    "npm": try_npm,
    "go": try_go,
    "maven": try_maven,
}


@contextmanager
def served(trial: Trial) -> Iterator[None]:
    """A server and a host, both of the wheel, for as long as this lasts."""
    (wheel,) = trial.packed.glob("python/*.whl")
    programs = trial.python(wheel, "[server]")
    host = trial.program("README.md", "python", "host.py")
    server = [programs / "taskyard", "up", "--no-gateway", "--store", "memory://", "--grpc", trial.address]
    log = (trial.folder / "log").open("w")
    running = [subprocess.Popen([*server, "--metrics", f"127.0.0.1:{_free_port()}"], stdout=log, stderr=log)]
    try:
        _wait_for(trial.address)
        running.append(subprocess.Popen([programs / "python", host], stdout=log, stderr=log))
        yield
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait()


def _wait_for(address: str) -> None:
    host, port = address.split(":")
    ends = time.monotonic() + WAIT_SECS
    while True:
        try:
            socket.create_connection((host, int(port))).close()
            return
        except OSError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def main(packed: Path, chosen: list[str]) -> int:
    """Try all, or those that are chosen, and return how many have failed."""
    failed, address = 0, f"127.0.0.1:{_free_port()}"
    with tempfile.TemporaryDirectory() as folder:
        places = {name: Path(folder, name) for name in ("server", *(chosen or TRIALS))}
        for place in places.values():
            place.mkdir()
        with served(Trial(packed, places.pop("server"), address)):
            for name, place in places.items():
                began = time.monotonic()
                try:
                    said = TRIALS[name](Trial(packed, place, address)).strip()
                except subprocess.CalledProcessError as error:
                    said = f"{error}: {error.stdout.strip()}"
                is_well = "Hello, " in said and not said.startswith("Command")
                failed += not is_well
                shown = said.splitlines()[0] if is_well else said
                print(
                    f"{name:6} {'ok' if is_well else 'FAILED':6} {time.monotonic() - began:4.0f} s  {shown}", flush=True
                )
    return failed


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute(), sys.argv[2:]))
