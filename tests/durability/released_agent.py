"""An agent by the SDK of a release: the `SdkAgent` of the tests of that release, in a process with its Python.

Run in the tree of the release as `python -P THIS_FILE ADDRESS NAMESPACE NAME PAUSE_SECS FILE`, until SIGTERM. A call
that fails ends it with an error. It uses what tests have had since 0.2.0.
"""

import asyncio
import random
import signal
import sys
from pathlib import Path

from tests.durability.doors import Doors
from tests.durability.history import Recorder
from tests.durability.mixture import Mixture
from tests.durability.sdk_agent import SdkAgent


async def main(address: str, namespace: str, name: str, pause_secs: float, file: Path) -> None:
    """Run the agent until it is told to stop, and its last call has succeeded."""
    doors = Doors(address, "http://127.0.0.1:1", namespace)
    mixture = Mixture(random.Random(name), name, callback_url="")
    agent = SdkAgent(doors, mixture, Recorder(file, name), pause_secs)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, agent.stopping.set)
    await agent.run()
    await doors.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]), Path(sys.argv[5])))
