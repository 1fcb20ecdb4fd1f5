#!/usr/bin/env python
"""Finds what a change removes from REST, which buf does not check: `tools/rest_breaking.py BEFORE NOW`.

BEFORE and NOW are two OpenAPI descriptions. Paths, verbs, parameters and the status of success must stay; missing ones
are printed. `tools/generate.sh` runs this.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def promises(description: dict[str, Any]) -> Iterator[str]:
    """What callers of the described API rely on, one line each."""
    for path, verbs in description["paths"].items():
        for verb, call in verbs.items():
            name = f"{verb.upper()} {path}"
            yield name
            for parameter in call.get("parameters", ()):
                if "name" in parameter:
                    yield f"{name}: parameter {parameter['name']}"
            for status in call["responses"]:
                if status < "400":
                    yield f"{name}: status {status}"


def main() -> None:
    """Print what is missing; exit code 1 if there is any."""
    before, now = (json.loads(Path(name).read_text()) for name in sys.argv[1:])
    gone = sorted(set(promises(before)) - set(promises(now)))
    for line in gone:
        print(f"gone from REST: {line}")
    sys.exit(bool(gone))


if __name__ == "__main__":
    main()
