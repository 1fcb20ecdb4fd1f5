"""A container of the image under crun, as its configuration says: its user, words and variables, a root that is
read-only, no capability, and one volume. The network is the machine's."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

STOP_SECS: Final = 60.0
NO_CAPABILITIES: Final = dict.fromkeys(("bounding", "effective", "inheritable", "permitted", "ambient"), ())
# Sandboxes within a sandbox see the hierarchy of the outer one, which crun takes for its own.
PREPARE: Final = "umount /sys/fs/cgroup/unified 2>/dev/null; "


class Image:
    """What tools/image.sh has built in a folder."""

    def __init__(self, folder: Path) -> None:
        self.root = (folder / "rootfs").resolve()
        self.config: dict[str, Any] = json.loads((folder / "image.json").read_text())["Docker"]["config"]


class Container:
    """One run of an image. `words` stand in the place of its own, `variables` beside them."""

    def __init__(
        self, image: Image, name: str, folder: Path, volume: Path, words: Sequence[str], variables: Mapping[str, str]
    ) -> None:
        self._image, self._name, self._state = image, name, folder / "crun"
        config = image.config
        self._environment = dict(each.split("=", 1) for each in config["Env"]) | dict(variables)
        bundle = folder / name
        bundle.mkdir()
        (bundle / "config.json").write_text(json.dumps(self._bundle(volume, [*config["Entrypoint"], *words])))
        run = f"exec crun --root {self._state} --cgroup-manager=disabled run --bundle {bundle} {name}"
        self.process = subprocess.Popen(
            ("unshare", "-m", "sh", "-c", PREPARE + run),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """What a command says that runs in it, as `docker exec` does."""
        command = ("crun", "--root", self._state, "exec", "--user", self._image.config["User"], self._name, *words)
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def signal(self, name: str) -> None:
        """Send a signal to its first process."""
        subprocess.run(("crun", "--root", self._state, "kill", self._name, name), check=True)

    def ended(self) -> tuple[int, str, str]:
        """Wait for its end. Returns the exit code, and what it wrote."""
        out, err = self.process.communicate(timeout=STOP_SECS)
        return self.process.returncode, out, err

    def kill(self) -> None:
        """End it, if it has not ended."""
        if self.process.poll() is None:
            self.signal("KILL")
            self.ended()

    def _bundle(self, volume: Path, words: Sequence[str]) -> dict[str, Any]:
        uid, gid = map(int, self._image.config["User"].split(":"))
        (inner,) = self._image.config["Volumes"]
        return {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": uid, "gid": gid},
                "cwd": self._image.config["WorkingDir"],
                "args": words,
                "env": [f"{key}={value}" for key, value in self._environment.items()],
                "capabilities": NO_CAPABILITIES,
                "noNewPrivileges": True,
            },
            "root": {"path": os.fspath(self._image.root), "readonly": True},
            "hostname": self._name,
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
                {"destination": inner, "type": "bind", "source": os.fspath(volume), "options": ["rbind", "rw"]},
            ],
            "linux": {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]},
        }
