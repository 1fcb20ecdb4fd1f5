"""Circles of a graph: its strongly connected components of more than one node, by Tarjan's algorithm."""

from collections.abc import Mapping, Set


def circles(edges: Mapping[str, Set[str]]) -> list[set[str]]:
    """The largest groups of nodes in which each leads to each. Edges to unknown nodes count as none."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[set[str]] = []

    def visit(node: str) -> None:
        order[node] = lowest[node] = len(order)
        path.append(node)
        for other in edges[node]:
            if other not in edges:
                continue
            if other not in order:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in path:
                lowest[node] = min(lowest[node], order[other])
        if lowest[node] == order[node]:
            start = path.index(node)
            group, path[start:] = {*path[start:]}, []
            if len(group) > 1:
                found.append(group)

    for node in edges:
        if node not in order:
            visit(node)
    return found
