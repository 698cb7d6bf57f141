"""Differences between two versions, as `vzero diff` finds them. Values are equal if DynamoDB treats them as equal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from .alignment import Node, Numbers, TooLong, align
from .version import Version

_MAX_CHANGED_ELEMENTS = 2_000
"""Maximum number of elements of a list that are added, removed or moved. A list with more is one change."""


@dataclass(frozen=True)
class Change:
    """Change of one value. Changes apply in their order: each path refers to the item at its step, as in RFC 6902."""

    path: str
    """Path of the value: `Status`, `Address.City`, `Lines[2].Price`. An element is added before the one at its index."""
    kind: Literal["added", "removed", "changed", "moved"]
    old: Any = None
    """Value that was removed or changed."""
    new: Any = None
    """Value that was added, or to which it was changed."""
    from_path: str | None = None
    """Path from which an element was moved."""


def diff(old: Version | None, new: Version) -> list[Change]:
    """Compares two versions of one entity. None is the state before version 1.

    A deletion is the addition of an attribute `Deleted`; in an attached table, of `(deleted)`. What was erased from the new
    version is not compared. Lists that are too long and too different are one change.
    """
    before = {} if old is None else _with_tombstone(old)
    for names in new.erased:
        before = _without(before, names)
    numbers, changes = Numbers(), _Changes()
    changes.members("", _members(numbers.node(before)), _members(numbers.node(_with_tombstone(new))))
    return changes.changes


def is_comparable(previous: Version | None, version: Version) -> bool:
    """Returns True if the changes of a version are known. A late version never was the state, and an omitted one is unknown."""
    if previous is None or previous.number + 1 != version.number:
        return version.number == 1 and version.is_state
    return previous.is_state and version.is_state


def _with_tombstone(version: Version) -> dict[str, Any]:
    name = "Deleted" if version.change is None else "(deleted)"
    return {**version.attributes, name: True} if version.deleted else version.attributes


def _without(attributes: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Removes the value at these names, and the maps around it that are then empty."""
    [name, *inner], rest = names, dict(attributes)
    if not inner:
        rest.pop(name, None)
    elif isinstance(rest.get(name), dict):
        rest[name] = _without(rest[name], tuple(inner))
        if not rest[name]:
            del rest[name]
    return rest


def _members(node: Node) -> dict[str, Node]:
    assert isinstance(node.children, dict)
    return node.children


def _step(path: str, name: str) -> str:
    """Returns the path of a member. A name of other characters is a JSON string; for `vzero`, not one with combining marks."""
    is_plain = name.strip() == name != "" and not name.startswith("-")
    is_plain = is_plain and all(char.isalnum() or char in "_-$@#/ " for char in name)
    return path + ("." if path else "") + (name if is_plain else json.dumps(name, ensure_ascii=False))


class _Changes:
    def __init__(self) -> None:
        self.changes: list[Change] = []

    def _value(self, path: str, a: Node, b: Node) -> bool:
        """Adds the changes of a value. Returns True if a part of the values is equal."""
        if a.number == b.number:
            return True
        before = len(self.changes)
        if isinstance(a.children, dict) and isinstance(b.children, dict):
            has_equal_part = self.members(path, a.children, b.children)
        elif isinstance(a.children, list) and isinstance(b.children, list):
            try:
                has_equal_part = self._elements(path, a.children, b.children)
            except TooLong:
                self.changes[before:] = [Change(path, "changed", a.value, b.value)]
                return True
        else:
            has_equal_part = False
            self.changes.append(Change(path, "changed", a.value, b.value))
        if not has_equal_part and len(self.changes) > before + 1:
            self.changes[before:] = [Change(path, "changed", a.value, b.value)]
        return has_equal_part

    def members(self, path: str, a: dict[str, Node], b: dict[str, Node]) -> bool:
        has_equal_part = False
        for name in sorted(a.keys() | b.keys()):
            of = _step(path, name)
            if name not in b:
                self.changes.append(Change(of, "removed", old=a[name].value))
            elif name not in a:
                self.changes.append(Change(of, "added", new=b[name].value))
            else:
                has_equal_part |= self._value(of, a[name], b[name])
        return has_equal_part

    def _elements(self, path: str, a: list[Node], b: list[Node]) -> bool:
        """Adds the changes of a list: removals from the end, moves and additions from the start, then changes of elements."""
        kept, moved = align(a, b)
        start, has_equal_part = len(self.changes), False
        for i, j in kept + moved:
            has_equal_part |= self._value(f"{path}[{j}]", a[i], b[j])
        nested, self.changes[start:] = self.changes[start:], []
        # For each element of the second list the one of the first list.
        sources, targets = {j: i for i, j in kept + moved}, {j for _, j in moved}
        remaining = sorted(sources.values())
        if len(a) - len(remaining) + len(targets) + len(b) - len(sources) > _MAX_CHANGED_ELEMENTS:
            raise TooLong
        for i in sorted(set(range(len(a))).difference(remaining), reverse=True):
            self.changes.append(Change(f"{path}[{i}]", "removed", old=a[i].value))
        # The list while its changes apply: elements of the first list, and indexes of the second one for new elements.
        present: list[tuple[bool, int]] = [(False, i) for i in remaining]
        elements = [(False, sources[j]) if j in sources else (True, j) for j in range(len(b))]
        for j in range(len(b)):
            if j in sources and j not in targets:
                continue
            from_path = None
            if j in sources:
                at = present.index(elements[j])
                del present[at]
                from_path = f"{path}[{at}]"
            to = present.index(elements[j - 1]) + 1 if j > 0 else 0
            present.insert(to, elements[j])
            if from_path is None:
                self.changes.append(Change(f"{path}[{to}]", "added", new=b[j].value))
            else:
                self.changes.append(Change(f"{path}[{to}]", "moved", from_path=from_path))
        self.changes += nested
        return has_equal_part


