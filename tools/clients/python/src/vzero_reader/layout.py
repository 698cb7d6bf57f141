"""Keys of version items, and the table in which they are."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from .errors import InvalidLayout

LATEST_KEY = "v0"
FLOOR_KEY = "floor"
CONFIG = ("#vzero", "config")
MAX_VERSION = 2**63 - 1

Item = Mapping[str, Any]
"""Item in DynamoDB JSON, as a client of boto3 returns it."""

_KEY = re.compile(r"v[0-9]{1,20}")


@dataclass(frozen=True)
class Layout:
    """Layout of a table: the width of its version keys, and the table of its history."""

    digits: int = 1
    """Minimum number of digits in a version's sort key."""
    history: str | None = None
    """Table of history, None if history is beside the latest items."""

    @classmethod
    def of(cls, config: Item | None) -> Layout:
        """Reads the item `#vzero`, `config`. A table without it has the default layout. Raises InvalidLayout."""
        if config is None:
            return cls()
        digits, history = number(config, "VersionDigits"), config.get("HistoryTable")
        if digits is None or digits != int(digits) or not 1 <= digits <= 20:
            raise InvalidLayout
        if history is not None and "S" not in history:
            raise InvalidLayout
        return cls(int(digits), history and history["S"])

    def key(self, version: int) -> str:
        """Returns the sort key of a version item."""
        return f"v{version:0{self.digits}}"

    def version_of(self, key: str) -> int | None:
        """Returns the version with this sort key, None for any other item."""
        if not _KEY.fullmatch(key):
            return None
        version = int(key[1:])
        return version if 1 <= version <= MAX_VERSION and self.key(version) == key else None

    @property
    def widest(self) -> int:
        """Greatest version up to which the order of keys is that of versions, 0 if there is none."""
        return 0 if self.digits == 1 else min(10**self.digits - 1, MAX_VERSION)


def text(item: Item, name: str) -> str | None:
    """Returns the value of a string attribute."""
    value: str | None = item.get(name, {}).get("S")
    return value


def number(item: Item, name: str) -> Decimal | None:
    """Returns the value of a number attribute."""
    value = item.get(name, {}).get("N")
    return None if value is None else Decimal(value)


def is_expired(item: Item) -> bool:
    """Returns True from the second of the item's TTL on. DynamoDB deletes the item within a few days."""
    ttl = number(item, "TTL")
    return ttl is not None and ttl <= int(time.time())
