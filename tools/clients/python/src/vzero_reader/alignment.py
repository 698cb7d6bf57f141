"""Alignment of two lists: which elements stay, change in place, or move. It finds what the Rust crate `item-diff` finds.

Elements with the same token are matched: equal values, and maps with the same value of an identifying member. The alignment
minimizes the number of changes: an insertion, a removal, a move and a change of one member count one each.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

_IDENTITIES = ("id", "ID", "key", "sku", "name")
"""Members that identify an element of a list, in this order."""
_MAX_COST = 1_000_000
"""Maximum number of members that one alignment compares."""
_HALF = 64
"""Half the cost of a change."""

Token = tuple[int, int]
"""Rank of the identity, -1 for a value, and number of the value."""
Pair = tuple[int, int]


@dataclass
class Node:
    """A value with a number. Values with the same number are equal."""

    number: int
    value: Any
    children: dict[str, Node] | list[Node] | None = None


class Numbers:
    """Gives each different value a number, as DynamoDB compares values: `1` equals `1.0`, and sets have no order."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def node(self, value: Any) -> Node:
        children: dict[str, Node] | list[Node] | None = None
        content: Hashable
        if isinstance(value, list):
            children = [self.node(element) for element in value]
            content = "L", tuple(child.number for child in children)
        elif isinstance(value, dict):
            children = {name: self.node(member) for name, member in sorted(value.items())}
            content = "M", tuple((name, child.number) for name, child in children.items())
        else:
            content = type(value), frozenset(value) if isinstance(value, set) else value
        return Node(self._numbers.setdefault(content, len(self._numbers)), value, children)


class TooLong(Exception):
    """The lists are too long and too different."""


def align(a: list[Node], b: list[Node]) -> tuple[list[Pair], list[Pair]]:
    """Returns the pairs of elements in their order, and those with another order. Raises TooLong."""
    left, right = _tokens(a, b)
    kept, moved = _align_tokens(a, b, left, right)
    if any(left[i][0] >= 0 and not _is_one_change(a[i], b[j]) for i, j in kept + moved):
        tokens = _without_exchanged(a, b, left, right)
        if tokens is not None:
            return _align_tokens(a, b, *tokens)
    return kept, moved


def _without_exchanged(
    a: list[Node], b: list[Node], left: list[Token], right: list[Token]
) -> tuple[list[Token], list[Token]] | None:
    """Returns tokens without identities that were exchanged: both elements differ from another one in the identity only."""
    left_values, right_values = _values(a), _values(b)
    kept, moved = _align_tokens(a, b, left_values, right_values)
    pairs = [(i, j) for i, j in kept + moved if _is_one_change(a[i], b[j])]
    of_left, of_right = dict(pairs), {j: i for i, j in pairs}
    places = {token: j for j, token in enumerate(right)}
    is_exchanged = False
    for i, token in enumerate(left):
        if token[0] < 0:
            continue
        j = places[token]
        if of_left.get(i, j) != j and of_right.get(j, i) != i:
            is_exchanged = True
        else:
            left_values[i] = right_values[j] = token
    return (left_values, right_values) if is_exchanged else None


def _values(nodes: list[Node]) -> list[Token]:
    return [(-1, node.number) for node in nodes]


def _is_one_change(a: Node, b: Node) -> bool:
    if isinstance(a.children, dict) and isinstance(b.children, dict):
        return _compared(a.children, b.children)[0] <= 1
    return a.number == b.number


def _tokens(a: list[Node], b: list[Node]) -> tuple[list[Token], list[Token]]:
    """Returns the token of each element.

    Maps that differ have one identity if they have the same value of a member such as `id`, which no other element of
    their lists has.
    """
    left, right = _values(a), _values(b)
    for rank, name in enumerate(_IDENTITIES):
        own, others = _unmatched(a, left, right, name), _unmatched(b, right, left, name)
        for number, i in own.items():
            j = others.get(number)
            if i is not None and j is not None:
                left[i] = right[j] = (rank, number)
    return left, right


def _unmatched(nodes: list[Node], tokens: list[Token], others: list[Token], name: str) -> dict[int, int | None]:
    """Returns the elements by the number of a member's value, None if it is matched already or two elements have it."""
    taken, found = set(others), dict[int, int | None]()
    for index, node in enumerate(nodes):
        member = node.children.get(name) if isinstance(node.children, dict) else None
        if member is not None and member.children is None:
            is_free = member.number not in found and tokens[index] not in taken
            found[member.number] = index if is_free else None
    return found


def _align_tokens(
    a: list[Node], b: list[Node], left: list[Token], right: list[Token]
) -> tuple[list[Pair], list[Pair]]:
    anchors = _anchors(left, right) if len(a) * len(b) > _MAX_COST // 8 else []
    gaps, budget, start = list[tuple["_Gap", Pair]](), _MAX_COST, (0, 0)
    for end in [*anchors, (len(a), len(b))]:
        gap = _Gap(a, b, left, right, start, end, budget)
        gaps.append((gap, end))
        budget, start = budget - gap.cost, (end[0] + 1, end[1] + 1)
    # A positive number counts the elements of the first list.
    surplus = Counter(left)
    surplus.subtract(right)
    best: tuple[int, list[Pair], list[Pair]] | None = None
    # The exact saving depends on the other pairs, so all estimates are tried.
    for saves in [(True, True), (True, False), (False, True), (False, False)]:
        kept = [pair for gap, end in gaps for pair in (*gap.align(surplus, saves), end)][:-1]
        moved = _moved(left, right, kept)
        changed = sum(left[i] != right[j] for i, j in kept)
        count = changed + len(moved) + len(a) + len(b) - 2 * (len(kept) + len(moved))
        if best is None or count < best[0]:
            best = count, kept, moved
    assert best is not None
    return best[1:]


def _moved(left: list[Token], right: list[Token], kept: list[Pair]) -> list[Pair]:
    """Returns the pairs of equal tokens that are in no pair yet."""
    used_left, used_right = {i for i, _ in kept}, {j for _, j in kept}
    free: dict[Token, list[int]] = {}
    for i in reversed(range(len(left))):
        if i not in used_left:
            free.setdefault(left[i], []).append(i)
    return [(free[token].pop(), j) for j, token in enumerate(right) if j not in used_right and free.get(token)]


def _anchors(left: list[Token], right: list[Token]) -> list[Pair]:
    """Returns the longest sequence of tokens that both lists have once, in the order of both."""
    once_left, once_right, places = Counter(left), Counter(right), {token: j for j, token in enumerate(right)}
    pairs = [(i, places[token]) for i, token in enumerate(left) if once_left[token] == 1 == once_right[token]]
    # The last element of the best sequence of each length, and the element before each.
    ends, before = list[int](), list[int | None]()
    for number, (_, to) in enumerate(pairs):
        length = bisect_left(ends, to, key=lambda end: pairs[end][1])
        before.append(ends[length - 1] if length > 0 else None)
        ends[length : length + 1] = [number]
    sequence, following = list[Pair](), ends[-1] if ends else None
    while following is not None:
        sequence.append(pairs[following])
        following = before[following]
    return sequence[::-1]


class _Gap:
    """Parts of two lists between two pairs."""

    def __init__(
        self, a: list[Node], b: list[Node], left: list[Token], right: list[Token], start: Pair, end: Pair, budget: int
    ) -> None:
        """Trims equal tokens at both ends, and compares the pairs of the other elements. Raises TooLong."""
        (i, j), (last_i, last_j) = start, end
        while i < last_i and j < last_j and left[i] == right[j]:
            i, j = i + 1, j + 1
        while i < last_i and j < last_j and left[last_i - 1] == right[last_j - 1]:
            last_i, last_j = last_i - 1, last_j - 1
        self._start = list(zip(range(start[0], i), range(start[1], j)))
        self._end = list(zip(range(last_i, end[0]), range(last_j, end[1])))
        self._from, self._left, self._right = (i, j), left[i:last_i], right[j:last_j]
        inner_a, inner_b = a[i:last_i], b[j:last_j]
        self.cost = len(inner_a) * _members(inner_b) + len(inner_b) * _members(inner_a)
        if self.cost > budget:
            raise TooLong
        self._costs = [
            _cost(one, other, node, other_node)
            for one, node in zip(self._left, inner_a)
            for other, other_node in zip(self._right, inner_b)
        ]

    def align(self, surplus: Counter[Token], saves: tuple[bool, bool]) -> Iterator[Pair]:
        """Returns the pairs of the alignment with the lowest cost.

        `saves` is whether a pair saves the half of an element of the first list, and of the second.
        """
        yield from self._start
        yield from self._lowest_cost(surplus, saves)
        yield from self._end

    def _lowest_cost(self, surplus: Counter[Token], saves: tuple[bool, bool]) -> Iterator[Pair]:
        rows, columns = len(self._left), len(self._right)
        # A removed and an added element of the same token are one move. So each of them costs half a change, and an element
        # without such a partner half a change more. This second half is left out of all costs, and added here to a pair that
        # does not save it.
        lefts = [0 if saves[0] and surplus[token] > 0 else 2 * _HALF for token in self._left]
        rights = [0 if saves[1] and surplus[token] < 0 else 2 * _HALF for token in self._right]
        # For each place in both parts, the cost from there to their ends, and the distance to the next place.
        width = columns + 1
        best = [(0, 0)] * ((rows + 1) * width)
        for place in reversed(range(rows * width + columns)):
            row, column = divmod(place, width)
            steps = []
            if row < rows and column < columns:
                cost = self._costs[row * columns + column]
                if cost is not None:
                    is_equal = self._left[row] == self._right[column]
                    penalty = 0 if is_equal else lefts[row] + rights[column]
                    steps.append((cost + penalty + best[place + width + 1][0], width + 1))
            if row < rows:
                steps.append((_HALF + best[place + width][0], width))
            if column < columns:
                steps.append((_HALF + best[place + 1][0], 1))
            best[place] = min(steps, key=lambda step: step[0])
        place = 0
        while (step := best[place][1]) > 0:
            if step > width:
                row, column = divmod(place, width)
                yield self._from[0] + row, self._from[1] + column
            place += step


def _members(nodes: list[Node]) -> int:
    """Returns the number of members of all maps, and 1 for each other value."""
    return sum(len(node.children) or 1 if isinstance(node.children, dict) else 1 for node in nodes)


def _cost(left: Token, right: Token, a: Node, b: Node) -> int | None:
    if left == right:
        return 0
    return None if left[0] >= 0 or right[0] >= 0 else _difference(a, b)


def _difference(a: Node, b: Node) -> int | None:
    """Returns the cost of a changed element without the halves that it saves, None if a removal and an addition are better."""
    if not isinstance(a.children, dict) or not isinstance(b.children, dict):
        return 0
    different, is_similar = _compared(a.children, b.children)
    if different <= 1:
        return 0
    return _HALF + min(different, 32) if is_similar else None


def _compared(a: dict[str, Node], b: dict[str, Node]) -> tuple[int, bool]:
    """Returns the number of members that differ, and True if two maps share half of their members."""
    common = [name for name in a if name in b]
    equal = sum(a[name].number == b[name].number for name in common)
    return len(a) + len(b) - len(common) - equal, equal * 2 >= max(len(a), len(b))
