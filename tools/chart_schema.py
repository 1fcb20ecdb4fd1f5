#!/usr/bin/env python
"""Writes the settings of the server into the schema of the chart's values: `tools/chart_schema.py SCHEMA FRESH`.

Of SCHEMA everything else stays. So Helm refuses a setting that is misspelt before anything is installed.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

from taskyard_server.settings.config import Settings

COLUMNS: Final = 120
TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
DROPPED: Final = frozenset({"default", "description", "format", "title", "writeOnly"})
BOUNDS: Final = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}
"""As pydantic writes them, and as schemas do."""
NULL: Final = {"type": "null"}


def main() -> None:
    """Write the file that the second argument names."""
    schema = json.loads(Path(sys.argv[1]).read_text())
    made = Settings.model_json_schema()
    definitions = made.pop("$defs")
    # A tab may be a URL as well, which its model does not say.
    made["properties"]["tabs"] = {"type": "object"}
    schema["properties"]["settings"] = plain(made)
    schema["$defs"] = {name: plain(each) for name, each in definitions.items() if name != "TabSettings"}
    Path(sys.argv[2]).write_text(f"{text_of(schema)}\n")


def plain(schema: Any) -> Any:
    """A schema without what only people read, and with the words of schemas alone."""
    if isinstance(schema, list):
        return [plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    some = [each for each in schema.get("anyOf", ()) if each != NULL]
    if len(some) == 1:
        schema = {**schema, **some[0]}
        del schema["anyOf"]
    found = {BOUNDS.get(key, key): plain(value) for key, value in schema.items() if key not in DROPPED}
    if "properties" in schema:
        # Here the keys are names, not words of schemas.
        found["properties"] = {name: plain(each) for name, each in schema["properties"].items()}
    if found.get("type", "null") not in TYPES:
        del found["type"]
    return found


def text_of(value: Any, indent: int = 0, used: int = 0) -> str:
    """JSON, in lines as long as they may be. `used` characters stand before it in its line."""
    line = json.dumps(value)
    if not isinstance(value, dict) or used + len(line) < COLUMNS:
        return line
    inner = " " * (indent + 2)
    pairs = (f"{inner}{json.dumps(key)}: " for key in value)
    lines = [f"{pair}{text_of(each, indent + 2, len(pair))}" for pair, each in zip(pairs, value.values(), strict=True)]
    return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"


if __name__ == "__main__":
    main()
