"""The cheapest set of values to keep: a minimum cut that separates what will be lost from what is needed."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

__all__ = ["INFINITE", "minimum_cut"]

INFINITE = 1 << 62

Node = Hashable
Flow = dict[Node, dict[Node, int]]
N = TypeVar("N", bound=Hashable)


def minimum_cut(
    costs: Mapping[N, int], edges: Iterable[tuple[N, N]], sources: Iterable[N], sinks: Iterable[N]
) -> tuple[int, list[N]]:
    """Return (cost, nodes): every way from a source to a sink goes through one of the nodes, and they cost
    least.

    Of several cheapest sets, the one closest to the sinks is taken.

    Parameters
    ----------
    costs : mapping of node to int
        Of cutting a node; sources and sinks can be cut too.
    edges : iterable of (node, node)
        Between nodes of ``costs``.
    sources, sinks : iterable of nodes
    """
    left: Flow = {"source": {}, "sink": {}}
    for node, cost in costs.items():
        left[node, "in"], left[node, "out"] = {(node, "out"): cost}, {(node, "in"): 0}

    def connect(a: Node, b: Node) -> None:
        left[a][b] = INFINITE
        left[b].setdefault(a, 0)

    for a, b in edges:
        connect((a, "out"), (b, "in"))
    for first in sources:
        connect("source", (first, "in"))
    for last in sinks:
        connect((last, "out"), "sink")
    total = 0
    while (path := _shortest(left)) is not None:
        pairs = list(itertools.pairwise(path))
        amount = min(left[a][b] for a, b in pairs)
        if amount >= INFINITE:
            return INFINITE, []
        for here, there in pairs:
            left[here][there] -= amount
            left[there][here] = left[there].get(here, 0) + amount
        total += amount
    behind = _reaching_sink(left)
    return total, [n for n in costs if (n, "out") in behind and (n, "in") not in behind]


def _shortest(left: Flow) -> list[Node] | None:
    """Return a shortest way along which more can flow."""
    came: dict[Node, Node] = {"source": None}
    todo: deque[Node] = deque(["source"])
    while todo and "sink" not in came:
        node = todo.popleft()
        for other, capacity in left[node].items():
            if capacity > 0 and other not in came:
                came[other] = node
                todo.append(other)
    if "sink" not in came:
        return None
    path: list[Node] = ["sink"]
    while path[-1] != "source":
        path.append(came[path[-1]])
    return path[::-1]


def _reaching_sink(left: Flow) -> set[Node]:
    into: dict[Node, list[Node]] = {}
    for a, row in left.items():
        for b, capacity in row.items():
            if capacity > 0:
                into.setdefault(b, []).append(a)
    found: set[Node] = {"sink"}
    todo: list[Node] = ["sink"]
    while todo:
        for node in into.get(todo.pop(), ()):
            if node not in found:
                found.add(node)
                todo.append(node)
    return found
