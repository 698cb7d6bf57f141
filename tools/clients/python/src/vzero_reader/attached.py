"""History of an attached table: of items that other programs write, under their own keys."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from . import times
from .errors import EntityNotFound, NotAttached
from .layout import Item, Layout, number, text
from .store import Store
from .table import Reader
from .version import Version

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Key = str | Mapping[str, str | int | Decimal | bytes]
"""Key attributes of an item by name, or `Version.entity`."""

_DIGITS = 10
"""Width of the version keys of a history table."""
_DEFINITION = ("#vzero", "attached")
_MAX_BYTES, _MAX_DIGITS = 2048, 38


class AttachedTable(Reader[Key]):
    """A table that other programs write, with its history in the table `history`: by default its name and `-history`.

    It reads only the history table, whose latest versions can lag behind the items. Reads are strongly consistent, unless
    `consistent` is False. The definition is read once.
    """

    def __init__(
        self, client: DynamoDBClient, name: str, *, history: str | None = None, consistent: bool = True
    ) -> None:
        self._attached = _AttachedStore(client, name, history or f"{name}-history", consistent)
        super().__init__(self._attached)

    def _id(self, entity: Key) -> str:
        if isinstance(entity, str):
            return entity
        return partition_key(self._attached.keys, entity)

    def as_of(self, entity: Key, time: str | datetime) -> Version | None:
        """Reads the version that was the latest at a time. A late version counts at its place in the stream.

        It is a binary search: log2 N reads, and at most 2 for late versions. Raises as in other tables.
        """
        found = super().as_of(entity, time)
        late = self._attached.last_late(self._id(entity), times.text(times.of_argument(time)))
        if late is None or (found is not None and _place_of(found) >= late[1]):
            return found
        return self.version(entity, late[0])


class _AttachedStore(Store):
    def __init__(self, client: DynamoDBClient, name: str, history: str, consistent: bool) -> None:
        super().__init__(client, name, consistent)
        self._history_table = history
        self._keys: list[tuple[str, str]] = []

    @property
    def keys(self) -> list[tuple[str, str]]:
        """Names and types of the key attributes."""
        _ = self.layout
        return self._keys

    def _read_layout(self) -> Layout:
        item = self._get_from(self._history_table, *_DEFINITION)
        definition = json.loads(text(item or {}, "Definition") or "{}")
        if definition.get("TableName") != self.name:
            raise NotAttached(self.name, self._history_table)
        types = {of["AttributeName"]: of["AttributeType"] for of in definition["AttributeDefinitions"]}
        names = [key["AttributeName"] for key in sorted(definition["KeySchema"], key=lambda key: key["KeyType"])]
        self._keys = [(name, types[name]) for name in names]
        return Layout(_DIGITS, self._history_table)

    def _view(self, entity: str, version: int, item: Item) -> Version:
        return Version.of_attached(entity, version, item)

    def newest(self, entity: str) -> Version:
        """Reads the highest version, which can be late."""
        return self._last(entity, 1)[0]

    def latest(self, entity: str) -> Version:
        """Reads the last version that is not late. If all are late, the oldest of them."""
        return self._last(entity, None)[-1]

    def _last(self, entity: str, limit: int | None) -> list[Version]:
        """Reads versions newest first, up to `limit`, or the first one that is not late."""
        found: list[Version] = []
        first, last = self.layout.key(1), self.layout.key(self.layout.widest)
        for items in self.query(entity, first, last, False, limit or 25):
            for version in self.views(entity, items):
                found.append(version)
                if limit == len(found) or version.change is None or version.change.mark != "Late":
                    return found
        if not found:
            raise EntityNotFound(entity)
        return found

    def last_late(self, entity: str, until: str) -> tuple[int, tuple[str, int, bool]] | None:
        """Returns number and place of the last late version that is not later than a time."""
        for items in self.query(entity, "late#", f"late#{until}#~", False, 1):
            for item in items:
                version = number(item, "Version") or 0
                return int(version), _place(text(item, "Stream"), text(item, "RequestId"))
        return None


def _place_of(version: Version) -> tuple[str, int, bool]:
    return _place(version.change.stream if version.change else None, version.request_id)


def _place(stream: str | None, request_id: str | None) -> tuple[str, int, bool]:
    """Returns the place of a state: by stream, by sequence number, the old image of a record before the new one.

    A state that a backfill read is before all others.
    """
    sequence = (request_id or "").removesuffix("#old")
    return (stream or "", int(sequence), sequence == request_id) if sequence.isdecimal() else ("", 0, False)


def partition_key(keys: list[tuple[str, str]], key: Mapping[str, Any]) -> str:
    """Returns the partition key of the history of an item: compact JSON of its key attributes, or its hash.

    Raises ValueError for another key than that of the table.
    """
    if len(key) != len(keys):
        raise ValueError(f"the key has other attributes than {', '.join(name for name, _ in keys)}")
    members = (f"{json.dumps(name, ensure_ascii=False)}:{_text(name, kind, key.get(name))}" for name, kind in keys)
    json_text = "{" + ",".join(members) + "}"
    encoded = json_text.encode()
    return json_text if len(encoded) <= _MAX_BYTES else f"sha256:{sha256(encoded).hexdigest()}"


def _text(name: str, kind: str, value: Any) -> str:
    match kind, value:
        case "S", str() if value:
            return json.dumps(value, ensure_ascii=False)
        case "B", bytes() if value:
            return json.dumps(b64encode(value).decode())
        case "N", int() | Decimal() if not isinstance(value, bool) and Decimal(value).is_finite():
            return _number_text(Decimal(value))
    raise ValueError(f"the key attribute {name} is missing, empty, or not of type {kind}")


def _number_text(value: Decimal) -> str:
    """Returns the one text of a number: plain if it has at most 38 digits with zeros, else `1e100`, `-1.5e-70`."""
    sign, digits, _ = value.as_tuple()
    text = "".join(map(str, digits)).strip("0")
    if not text:
        return "0"
    # The first digit is not 0: its exponent is that of the number in scientific notation.
    exponent = value.adjusted()
    if exponent >= 0 and max(exponent + 1, len(text)) <= _MAX_DIGITS:
        whole, fraction = text[: exponent + 1].ljust(exponent + 1, "0"), text[exponent + 1 :]
        plain = whole + ("." + fraction if fraction else "")
    elif exponent < 0 and -exponent - 1 + len(text) <= _MAX_DIGITS:
        plain = "0." + text.rjust(-exponent - 1 + len(text), "0")
    else:
        plain = text[0] + ("." + text[1:] if text[1:] else "") + f"e{exponent}"
    return "-" * sign + plain
