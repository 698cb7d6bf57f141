"""Reads of versions, by the requests of DynamoDB's read API."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from . import times
from .errors import (
    CopiedTable,
    EntityNotFound,
    InvalidLatest,
    LimitReached,
    UnknownTime,
    VersionNotFound,
    VersionPruned,
)
from .layout import CONFIG, FLOOR_KEY, LATEST_KEY, MAX_VERSION, Item, Layout, is_expired, number, text
from .version import IMAGE_DEFLATE, Version, flat, joined, part_keys

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_MAX_KEYS = 100
"""Maximum number of keys of BatchGetItem."""
_FIRST_PAGE = 10
"""Number of versions in the first page of a search by the client's time."""
_MAX_ATTEMPTS = 8
"""Maximum number of requests in a row that DynamoDB does not process."""


class Table:
    """A table of latest items, with its history. `client` is `boto3.client("dynamodb")`.

    Reads are strongly consistent, unless `consistent` is False. The layout is read once.
    """

    def __init__(self, client: DynamoDBClient, name: str, *, consistent: bool = True) -> None:
        self._client, self.name, self._consistent = client, name, consistent
        self._layout: Layout | None = None

    @property
    def layout(self) -> Layout:
        """Layout of the table. Raises InvalidLayout, CopiedTable."""
        if self._layout is None:
            config = self._get_from(self.name, *CONFIG)
            layout = Layout.of(config)
            if config is not None:
                self._check_table(config)
            self._layout = layout
        return self._layout

    def _check_table(self, config: Item) -> None:
        """Checks that this table stored the layout. An endpoint without ids has ARNs."""
        described = self._client.describe_table(TableName=self.name)["Table"]
        if text(config, "TableId") != described.get("TableId", described.get("TableArn")):
            raise CopiedTable(self.name, text(config, "TableName"))

    def latest(self, entity: str) -> Version:
        """Reads the latest version, which can be a tombstone. Raises EntityNotFound, InvalidLatest."""
        item = self._get_from(self.name, entity, LATEST_KEY)
        if item is None:
            raise EntityNotFound(entity)
        return Version.of(entity, _counter(entity, item), item)

    def version(self, entity: str, version: int) -> Version:
        """Reads a version by its number. The latest item supplies its version until it is in history.

        Raises EntityNotFound, VersionNotFound, VersionPruned, InvalidLatest.
        """
        item = self._version_item(entity, version)
        if item is not None:
            return Version.of(entity, version, item)
        newest = self._newest(entity)
        if newest.number == version:
            return newest
        raise self._missing(entity, version, newest.number)

    def as_of(self, entity: str, time: str | datetime) -> Version | None:
        """Reads the version that was the latest at a time, by `RecordedAt`. None if the entity did not exist yet.

        It is a binary search: log2 N reads. Raises EntityNotFound, VersionNotFound, VersionPruned, UnknownTime,
        InvalidLatest, and ValueError for an invalid time.
        """
        limit = times.text(times.of_argument(time))
        newest = self._newest(entity)
        latest = newest.number
        while True:
            found = self._as_of_in_sequence(entity, newest, limit, latest)
            before = newest.recorded_since - 1
            if found is not None or before < 1:
                return found
            # A time before the whole sequence is searched in the one before.
            item = self._version_item(entity, before)
            if item is None:
                raise self._missing(entity, before, latest)
            newest = Version.of(entity, before, item)

    def _as_of_in_sequence(self, entity: str, newest: Version, limit: str, latest: int) -> Version | None:
        """Searches the versions of one sequence of times, of which this one is the newest."""
        undecided: Exception | None = None
        try:
            if newest.recorded_at is None:
                # The latest item of another program has no time, but its version item has.
                newest = self._probe(entity, newest.number, latest)
            if _recorded(newest) <= limit:
                return newest
        except (VersionNotFound, UnknownTime) as error:
            undecided = error
        # Each version below `low` is not later, or was pruned. Each one from `high` on is later, or undecided.
        low, high = newest.recorded_since, newest.number
        found: Version | None = None
        pruned: VersionPruned | None = None
        while low < high:
            middle = (low + high) // 2
            try:
                view = self._first_of(entity, middle, high, limit, latest)
            except (VersionNotFound, VersionPruned, UnknownTime) as error:
                floor = self._floor(entity)
                if floor <= middle:
                    high, undecided = middle, error
                else:
                    low, found, pruned = floor, None, VersionPruned(floor)
                continue
            if view is None:
                high, undecided = middle, None
            else:
                low, found = view.number + 1, view
        if undecided is not None:
            raise undecided
        if found is None and pruned is not None:
            raise pruned
        return found

    def effective_at(self, entity: str, time: str | datetime, *, limit: int | None = None) -> Version | None:
        """Reads the highest version whose `Time` or `Timestamp` is not later. None if there is none.

        It reads versions newest first, at most `limit`. Raises LimitReached, UnknownTime, ValueError for a limit below
        1, and as `as_of` does.
        """
        _check_positive(limit=limit)
        wanted = times.of_argument(time)
        newest = self._newest(entity)
        read, last, size = 1, newest.number - 1, _FIRST_PAGE
        own = newest.client_time()
        if own is not None and own <= wanted:
            return newest
        while last > 0:
            if limit is not None:
                if read >= limit:
                    raise LimitReached(read)
                size = min(size, limit - read)
            first = max(1, last - size + 1)
            page = {view.number: view for view in self._by_keys(entity, range(first, last + 1))}
            for version in range(last, first - 1, -1):
                if version not in page:
                    raise self._missing(entity, version, newest.number)
                own = page[version].client_time()
                if own is not None and own <= wanted:
                    return page[version]
            read, last, size = read + last - first + 1, first - 1, _MAX_KEYS
        return None

    def history(
        self,
        entity: str,
        *,
        oldest_first: bool = False,
        first: int = 1,
        last: int | None = None,
        limit: int | None = None,
        page_size: int = _MAX_KEYS,
    ) -> Iterator[list[Version]]:
        """Reads the versions from `first` to `last`, newest first, page by page. A page is not empty.

        Versions that are not stored are left out; the latest item supplies its version. To continue later, pass
        `last` or `first` one beyond the last version that was read. A page has at most `page_size` versions. Raises
        EntityNotFound, InvalidLatest, and ValueError for a limit or page size below 1, with the first page.
        """
        _check_positive(limit=limit, page_size=page_size)
        newest = self._newest(entity)
        last = newest.number if last is None else min(last, newest.number)
        left = MAX_VERSION if limit is None else limit
        pending = first <= newest.number <= last
        carried: list[Version] = []
        for page in self._pages(entity, max(first, 1), last, oldest_first, page_size):
            if not oldest_first and pending:
                pending = False
                if not page or page[0].number != newest.number:
                    page.insert(0, newest)
            pending = pending and not any(view.number == newest.number for view in page)
            # With the latest item, a page can have one version too many. It moves to the next page.
            page = carried + page
            page, carried = page[:page_size], page[page_size:]
            page = page[:left]
            left -= len(page)
            if page:
                yield page
            if left <= 0:
                return
        if pending:
            carried.append(newest)
        if carried:
            yield carried

    def _pages(
        self, entity: str, first: int, last: int, oldest_first: bool, size: int
    ) -> Iterator[list[Version]]:
        fits = min(last, self.layout.widest)
        parts = [self._query(entity, first, fits, oldest_first, size)] if first <= fits else []
        beyond = max(first, fits + 1)
        if beyond <= last:
            parts.append(self._key_pages(entity, beyond, last, oldest_first, size))
        for part in parts if oldest_first else reversed(parts):
            yield from part

    def _query(self, entity: str, first: int, last: int, oldest_first: bool, size: int) -> Iterator[list[Version]]:
        bounds = {":from": {"S": self.layout.key(first)}, ":to": {"S": self.layout.key(last)}}
        request: dict[str, Any] = {
            "TableName": self._history,
            "KeyConditionExpression": "PK = :pk AND SK BETWEEN :from AND :to",
            "ExpressionAttributeValues": {":pk": {"S": entity}, **bounds},
            "ScanIndexForward": oldest_first,
            "ConsistentRead": self._consistent,
            "Limit": size,
        }
        while True:
            output = self._client.query(**request)
            views = self._views(entity, output["Items"], self._history)
            # `v100` sorts between `v10` and `v11`, but does not fit the width of 2.
            yield [view for view in views if first <= view.number <= last]
            if not output.get("LastEvaluatedKey"):
                return
            request["ExclusiveStartKey"] = output["LastEvaluatedKey"]

    def _key_pages(self, entity: str, first: int, last: int, oldest_first: bool, size: int) -> Iterator[list[Version]]:
        size = max(1, min(size, _MAX_KEYS))
        existing: list[int] | None = None
        while first <= last:
            if oldest_first:
                numbers = range(first, min(first + size, last + 1))
                first = numbers.stop
            else:
                numbers = range(max(last - size + 1, first), last + 1)
                last = numbers.start - 1
            page = self._by_keys(entity, numbers)
            yield page if oldest_first else page[::-1]
            if not page and first <= last:
                # A gap can be wide: look up which versions exist.
                existing = [version for version in self._stored(entity) if first <= version <= last]
                break
        else:
            return
        for start in range(0, len(existing), size):
            if oldest_first:
                yield self._by_keys(entity, existing[start : start + size])
            else:
                end = len(existing) - start
                yield self._by_keys(entity, existing[max(end - size, 0) : end])[::-1]

    def _by_keys(self, entity: str, versions: range | list[int]) -> list[Version]:
        """Reads at most 100 versions by their keys, in ascending order."""
        keys: list[Any] = [{"PK": {"S": entity}, "SK": {"S": self.layout.key(version)}} for version in versions]
        if not keys:
            return []
        found = self._views(entity, self._batch_get(self._history, keys), self._history)
        return sorted(found, key=lambda version: version.number)

    def _batch_get(self, table: str, keys: list[Any]) -> list[Any]:
        items: list[Any] = []
        request: Any = {table: {"Keys": keys, "ConsistentRead": self._consistent}}
        attempts = 0
        while request:
            output = self._client.batch_get_item(RequestItems=request)
            got = output["Responses"].get(table, [])
            items += got
            request = output.get("UnprocessedKeys")
            attempts = 0 if got else attempts + 1
            if request:
                if attempts >= _MAX_ATTEMPTS:
                    raise TimeoutError("DynamoDB does not process the keys: the table is throttled")
                clock.sleep(0.05 * 2**attempts)
        return items

    def _stored(self, entity: str) -> list[int]:
        """Returns the versions that have an item, in ascending order. It reads the keys of the entity."""
        versions = set()
        pages = self._client.get_paginator("query").paginate(
            TableName=self._history,
            KeyConditionExpression="PK = :pk AND SK BETWEEN :from AND :to",
            ExpressionAttributeValues={":pk": {"S": entity}, ":from": {"S": "v"}, ":to": {"S": "w"}},
            ProjectionExpression="SK",
            ConsistentRead=self._consistent,
        )
        for page in pages:
            versions |= {self.layout.version_of(item["SK"]["S"]) for item in page["Items"]}
        return sorted(version for version in versions if version is not None)

    def _views(self, entity: str, items: list[Any], table: str) -> list[Version]:
        views = []
        for item in items:
            version = self.layout.version_of(item["SK"]["S"])
            if version is not None and not is_expired(item):
                views.append(Version.of(entity, version, self._flat(item, table)))
        return views

    def _newest(self, entity: str) -> Version:
        """Reads the latest item, or the highest version in history if there is none."""
        latest = self._get_from(self.name, entity, LATEST_KEY)
        if latest is not None and "Latest" in latest:
            return Version.of(entity, _counter(entity, latest), latest)
        for version in reversed(self._stored(entity)):
            item = self._version_item(entity, version)
            if item is not None:
                return Version.of(entity, version, item)
        raise EntityNotFound(entity) if latest is None else InvalidLatest(entity)

    def _first_of(self, entity: str, middle: int, high: int, limit: str, latest: int) -> Version | None:
        """Returns the first version from `middle` on that is not later, None if all are later.

        A time that comes from the stream can also be later than that of the next version.
        """
        for version in range(middle, high):
            view = self._probe(entity, version, latest)
            if _recorded(view) <= limit:
                return view
            if not view.recorded_by_stream:
                break
        return None

    def _probe(self, entity: str, version: int, latest: int) -> Version:
        item = self._version_item(entity, version)
        if item is None:
            raise self._missing(entity, version, latest)
        view = Version.of(entity, version, item)
        if view.recorded_at is None:
            raise UnknownTime(version)
        return view

    def _missing(self, entity: str, version: int, latest: int) -> VersionNotFound | VersionPruned:
        floor = self._floor(entity)
        return VersionPruned(floor) if 1 <= version < floor else VersionNotFound(version, floor, latest)

    def _floor(self, entity: str) -> int:
        """Reads the first version of history: 1, unless it was pruned. Below, only pinned versions remain."""
        item = self._get(entity, FLOOR_KEY)
        floor = number(item, "Floor") if item is not None else None
        return int(floor) if floor is not None and floor >= 1 else 1

    def _version_item(self, entity: str, version: int) -> Item | None:
        if not 1 <= version <= MAX_VERSION:
            return None
        item = self._get(entity, self.layout.key(version))
        return None if item is None or is_expired(item) else item

    @property
    def _history(self) -> str:
        return self.layout.history or self.name

    def _flat(self, item: Item, table: str) -> Item:
        """Converts a version item to a flat one. Beside the latest items, it has an image only if it is compressed."""
        is_version = self.layout.version_of(text(item, "SK") or "") is not None
        if not is_version or (table == self.name and IMAGE_DEFLATE not in item):
            return item
        keys = part_keys(item)
        if keys:
            further = [self._stored_item(table, text(item, "PK") or "", key) for key in keys]
            if None in further:
                return item
            item = joined(item, [part for part in further if part is not None])
        return flat(item)

    def _get(self, entity: str, sort_key: str) -> Item | None:
        """Reads an item of history."""
        return self._get_from(self._history, entity, sort_key)

    def _get_from(self, table: str, entity: str, sort_key: str) -> Item | None:
        item = self._stored_item(table, entity, sort_key, self._consistent)
        return item if item is None or sort_key == CONFIG[1] else self._flat(item, table)

    def _stored_item(self, table: str, entity: str, sort_key: str, consistent: bool = True) -> Item | None:
        key = {"PK": {"S": entity}, "SK": {"S": sort_key}}
        output = self._client.get_item(TableName=table, Key=key, ConsistentRead=consistent)
        item: Item | None = output.get("Item")
        return item


def _counter(entity: str, latest: Item) -> int:
    counter = number(latest, "Latest")
    if counter is None or counter != int(counter) or not 1 <= counter <= MAX_VERSION:
        raise InvalidLatest(entity)
    return int(counter)


def _check_positive(**arguments: int | None) -> None:
    for name, value in arguments.items():
        if value is not None and value < 1:
            raise ValueError(f"{name} is {value}, less than 1")


def _recorded(view: Version) -> str:
    if view.recorded_at is None:
        raise UnknownTime(view.number)
    return view.recorded_at
