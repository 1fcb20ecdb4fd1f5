"""Where unix sockets lie that only the server's own user may reach."""

import os
import re
import tempfile
from pathlib import Path
from typing import Final

MAX_PATH_BYTES: Final = 107
"""What the system takes as the path of a socket."""
PLAIN: Final = re.compile(r"[A-Za-z0-9._/~+@=,-]+")
"""grpc reads the path of a socket as a part of a URL."""
MAX_NAME_BYTES: Final = len("/taskyard-12345678/") + 16
"""The folder and the longest name of a socket in it."""
SHORT: Final = "/tmp"


def new_private_folder() -> Path:
    """A new folder that only this user can enter, with a path that is short enough for sockets. Raises `OSError`."""
    temporary = tempfile.gettempdir()
    fits = len(os.fsencode(temporary)) + MAX_NAME_BYTES <= MAX_PATH_BYTES and PLAIN.fullmatch(temporary)
    return Path(tempfile.mkdtemp(prefix="taskyard-", dir=temporary if fits else SHORT))
