"""Requests for items, and the versions in them."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .errors import CopiedTable, EntityNotFound, InvalidLatest, VersionNotFound, VersionPruned
from .layout import CONFIG, FLOOR_KEY, LATEST_KEY, MAX_VERSION, Item, Layout, is_expired, number, text
from .version import IMAGE_DEFLATE, Version, flat, joined, part_keys

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

MAX_KEYS = 100
"""Maximum number of keys of BatchGetItem."""
_MAX_ATTEMPTS = 8
"""Maximum number of requests in a row that DynamoDB does not process."""


class Store:
    """Items of a table that this project writes, and of its history."""

    def __init__(self, client: DynamoDBClient, name: str, consistent: bool) -> None:
        self._client, self.name, self._consistent = client, name, consistent
        self._layout: Layout | None = None

    @property
    def layout(self) -> Layout:
        """Layout of the table, which is read once."""
        if self._layout is None:
            self._layout = self._read_layout()
        return self._layout

    def _read_layout(self) -> Layout:
        config = self._get_from(self.name, *CONFIG)
        layout = Layout.of(config)
        if config is not None:
            self._check_table(config)
        return layout

    def _check_table(self, config: Item) -> None:
        """Checks that this table stored the layout. An endpoint without ids has ARNs."""
        described = self._client.describe_table(TableName=self.name)["Table"]
        if text(config, "TableId") != described.get("TableId", described.get("TableArn")):
            raise CopiedTable(self.name, text(config, "TableName"))

    def latest(self, entity: str) -> Version:
        """Reads the latest version. Raises EntityNotFound, InvalidLatest."""
        item = self._get_from(self.name, entity, LATEST_KEY)
        if item is None:
            raise EntityNotFound(entity)
        return Version.of(entity, _counter(entity, item), item)

    def newest(self, entity: str) -> Version:
        """Reads the latest version, or the highest one in history if there is no latest item."""
        latest = self._get_from(self.name, entity, LATEST_KEY)
        if latest is not None and "Latest" in latest:
            return Version.of(entity, _counter(entity, latest), latest)
        for number in reversed(self.stored(entity)):
            version = self.version(entity, number)
            if version is not None:
                return version
        raise EntityNotFound(entity) if latest is None else InvalidLatest(entity)

    def version(self, entity: str, version: int) -> Version | None:
        """Reads a version in history."""
        if not 1 <= version <= MAX_VERSION:
            return None
        item = self._get(entity, self.layout.key(version))
        return None if item is None or is_expired(item) else self._view(entity, version, item)

    def query(self, entity: str, first: str, last: str, oldest_first: bool, size: int) -> Iterator[Sequence[Item]]:
        """Reads the items with these sort keys and those between them, page by page."""
        request = self._between(entity, first, last) | {"ScanIndexForward": oldest_first, "Limit": size}
        while True:
            output = self._client.query(**request)
            yield output["Items"]
            if not output.get("LastEvaluatedKey"):
                return
            request["ExclusiveStartKey"] = output["LastEvaluatedKey"]

    def by_keys(self, entity: str, versions: range | list[int]) -> list[Version]:
        """Reads at most 100 versions by their keys, in ascending order."""
        keys: list[Any] = [{"PK": {"S": entity}, "SK": {"S": self.layout.key(version)}} for version in versions]
        if not keys:
            return []
        found = self.views(entity, self._batch_get(keys))
        return sorted(found, key=lambda version: version.number)

    def _batch_get(self, keys: list[Any]) -> list[Any]:
        items: list[Any] = []
        request: Any = {self._history: {"Keys": keys, "ConsistentRead": self._consistent}}
        attempts = 0
        while request:
            output = self._client.batch_get_item(RequestItems=request)
            got = output["Responses"].get(self._history, [])
            items += got
            request = output.get("UnprocessedKeys")
            attempts = 0 if got else attempts + 1
            if request:
                if attempts >= _MAX_ATTEMPTS:
                    raise TimeoutError("DynamoDB does not process the keys: the table is throttled")
                clock.sleep(0.05 * 2**attempts)
        return items

    def stored(self, entity: str) -> list[int]:
        """Returns the versions that have an item, in ascending order. It reads the keys of the entity."""
        versions = set()
        request = self._between(entity, "v", "w")
        for page in self._client.get_paginator("query").paginate(**request, ProjectionExpression="SK"):
            versions |= {self.layout.version_of(item["SK"]["S"]) for item in page["Items"]}
        return sorted(version for version in versions if version is not None)

    def views(self, entity: str, items: Sequence[Item]) -> list[Version]:
        """Returns the versions in items of history, without other items and expired ones."""
        views = []
        for item in items:
            version = self.layout.version_of(item["SK"]["S"])
            if version is not None and not is_expired(item):
                views.append(self._view(entity, version, self._whole(item)))
        return views

    def missing(self, entity: str, version: int, latest: int) -> VersionNotFound | VersionPruned:
        """Returns why history does not have a version."""
        floor = self.floor(entity)
        return VersionPruned(floor) if 1 <= version < floor else VersionNotFound(version, floor, latest)

    def floor(self, entity: str) -> int:
        """Reads the first version of history: 1, unless it was pruned. Below, only pinned versions remain."""
        item = self._get(entity, FLOOR_KEY)
        floor = number(item, "Floor") if item is not None else None
        return int(floor) if floor is not None and floor >= 1 else 1

    @property
    def _history(self) -> str:
        return self.layout.history or self.name

    def _between(self, entity: str, first: str, last: str) -> dict[str, Any]:
        return {
            "TableName": self._history,
            "KeyConditionExpression": "PK = :pk AND SK BETWEEN :from AND :to",
            "ExpressionAttributeValues": {":pk": {"S": entity}, ":from": {"S": first}, ":to": {"S": last}},
            "ConsistentRead": self._consistent,
        }

    def _view(self, entity: str, version: int, item: Item) -> Version:
        """Creates the view of a version item. Beside the latest items, it has an image only if it is compressed."""
        has_image = self._history != self.name or IMAGE_DEFLATE in item
        return Version.of(entity, version, flat(item) if has_image else item)

    def _whole(self, item: Item) -> Item:
        """Adds the further parts of a version item."""
        keys = part_keys(item)
        further = [self._get_from(self._history, text(item, "PK") or "", key, True) for key in keys]
        parts = [part for part in further if part is not None]
        return joined(item, parts) if keys and len(parts) == len(keys) else item

    def _get(self, entity: str, sort_key: str) -> Item | None:
        """Reads an item of history."""
        item = self._get_from(self._history, entity, sort_key)
        return None if item is None else self._whole(item)

    def _get_from(self, table: str, entity: str, sort_key: str, consistent: bool | None = None) -> Item | None:
        key = {"PK": {"S": entity}, "SK": {"S": sort_key}}
        consistent = self._consistent if consistent is None else consistent
        item: Item | None = self._client.get_item(TableName=table, Key=key, ConsistentRead=consistent).get("Item")
        return item


def _counter(entity: str, latest: Item) -> int:
    counter = number(latest, "Latest")
    if counter is None or counter != int(counter) or not 1 <= counter <= MAX_VERSION:
        raise InvalidLatest(entity)
    return int(counter)
