"""tools/replica_certificates.py makes what replicas take."""

import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.certificates import Authority, Leaf, replace
from tests.gateway.yards import replica

TOOL = Path(__file__).parents[2] / "tools/replica_certificates.py"


class MadeAuthority(Authority):
    """The one that the tool has made."""

    def __init__(self, folder: Path) -> None:
        self.cert = (folder / "ca.pem").read_bytes()

    def write(self, folder: Path, name: str = "ca") -> Path:
        return replace(folder / f"{name}.pem", self.cert)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """The folder with the certificates of a, and then of b as well."""
    made = tmp_path / "made"
    for names in (["a"], ["a", "b"]):
        subprocess.run([sys.executable, TOOL, made, *names], check=True)
    return made


async def test_replicas_take_what_it_makes(made: Path, tmp_path: Path) -> None:
    leaves = {name: Leaf((made / f"{name}.pem").read_bytes(), (made / f"{name}.key").read_bytes(), 0) for name in "ab"}
    async with AsyncExitStack() as stack:
        a, b = [
            await stack.enter_async_context(replica(name, MadeAuthority(made), tmp_path, leaf=leaf))
            for name, leaf in leaves.items()
        ]
        a.know(b, owners={"theirs": "b"})
        await a.carries("theirs", to="b")


def test_only_its_user_can_read_it_and_what_is_there_stays(made: Path) -> None:
    before = {path.name: path.read_bytes() for path in made.iterdir()}
    subprocess.run([sys.executable, TOOL, made, "a"], check=True)
    assert {path.name: path.read_bytes() for path in made.iterdir()} == before
    assert {path.stat().st_mode & 0o077 for path in (made, *made.iterdir())} == {0}
