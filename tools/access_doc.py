#!/usr/bin/env python
"""Writes the table of docs/operate/access.md from the options of the protos: `tools/access_doc.py FROM TO`.

TO gets the text of FROM, with a fresh table between the two markers; both may be the same file. tools/generate.sh runs
this. tests/access/test_matrix.py calls every method by every role, and compares what happens with the table.
"""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

from google.protobuf.descriptor import MethodDescriptor
from rpcs import route

import taskyard.v1
from taskyard_server.access.grants import CallRequirement, Role
from taskyard_server.access.requirements import OTHERS, requirement_in

BEGIN: Final = "<!-- tools/access_doc.py writes what follows -->"
END: Final = "<!-- and ends here -->"
OWN: Final = frozenset({Role.AGENT, Role.HOST})
"""Roles of certain names. They reach what is under these names."""


def main() -> None:
    """Write the file that the second argument names."""
    source, target = sys.argv[1:]
    before, _, rest = Path(source).read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    Path(target).write_text(f"{before}{BEGIN}\n\n{table()}\n{END}{after}")


def table() -> str:
    """Who may call what, a line a method."""
    lines = [("RPC", "REST", *(role.word for role in Role)), ("---",) * (2 + len(Role))]
    for method in methods():
        rest = route(method)
        path = f"`{rest.verb.upper()} {rest.template}`" if rest else ""
        marks = marks_of(requirement_in(method))
        lines.append((f"[{method.name}](../use/api.md#{method.name.lower()})", path, *marks))
    lines += [(f"`{service}`", "", *marks_of(requirement)) for service, requirement in OTHERS.items()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def methods() -> Iterator[MethodDescriptor]:
    """All methods of our protos."""
    for file in sorted(Path(taskyard.v1.__path__[0]).glob("*_pb2.py")):
        services = import_module(f"taskyard.v1.{file.stem}").DESCRIPTOR.services_by_name
        for service in services.values():
            yield from service.methods


def marks_of(requirement: CallRequirement) -> Iterator[str]:
    """What each role may: `own` names, `yes`, or nothing."""
    for role in Role:
        if requirement.anyone or requirement.any_principal:
            yield "yes"
        elif role in requirement.roles:
            yield "own" if role in OWN else "yes"
        else:
            yield "yes" if role is Role.ADMIN or (role is Role.OPERATOR and requirement.roles != {Role.ADMIN}) else ""


if __name__ == "__main__":
    main()
