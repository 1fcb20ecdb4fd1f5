"""The `taskyard` script. It says which package is missing if only the SDK is installed."""

import gc
import sys


def main() -> None:
    """Run the command line. A missing package of the `server` extra is one line on standard error and exit code 1."""
    # What is imported stays to the end: looking through it for garbage is a quarter of what a short command costs.
    gc.disable()
    try:
        from .main import main as run

        run()
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("taskyard"):
            raise
        package = (missing.name or "").partition(".")[0]
        sys.exit(f"taskyard: {package} is not installed: pip install 'taskyard[server,gateway]'")
    finally:
        gc.freeze()
