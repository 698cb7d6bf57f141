"""Reads of versions, by the requests of DynamoDB's read API."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Generic, TypeVar

from . import times
from .as_of import Search
from .diff import Change, diff, is_comparable
from .errors import LimitReached
from .layout import MAX_VERSION, Layout
from .store import MAX_KEYS, Store
from .version import Version

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_FIRST_PAGE = 10
"""Number of versions in the first page of a search by the client's time."""

Entity = TypeVar("Entity")


@dataclass(frozen=True)
class LogEntry:
    """A version, with its changes."""

    version: Version
    changes: list[Change] | None
    """Changes from the version before. None if they are not known: that version is missing, or one of both is late or omitted."""


class Reader(Generic[Entity]):
    """Reads of one table. Subclasses open it, and name its entities."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def _id(self, entity: Entity) -> str:
        """Returns the partition key of the history of an entity."""
        return str(entity)

    @property
    def name(self) -> str:
        """Name of the table."""
        return self._store.name

    @property
    def layout(self) -> Layout:
        """Layout of the table. Raises InvalidLayout, CopiedTable, or NotAttached for an attached table."""
        return self._store.layout

    def latest(self, entity: Entity) -> Version:
        """Reads the latest version, which can be a tombstone. Raises EntityNotFound, InvalidLatest."""
        return self._store.latest(self._id(entity))

    def version(self, entity: Entity, version: int) -> Version:
        """Reads a version by its number. The latest item supplies its version until it is in history.

        Raises EntityNotFound, VersionNotFound, VersionPruned, InvalidLatest.
        """
        store, key = self._store, self._id(entity)
        found = store.version(key, version)
        if found is not None:
            return found
        newest = store.newest(key)
        if newest.number == version:
            return newest
        raise store.missing(key, version, newest.number)

    def as_of(self, entity: Entity, time: str | datetime) -> Version | None:
        """Reads the version that was the latest at a time, by `RecordedAt`. None if the entity did not exist yet.

        It is a binary search: log2 N reads. Raises EntityNotFound, VersionNotFound, VersionPruned, UnknownTime,
        InvalidLatest, and ValueError for an invalid time.
        """
        limit = times.text(times.of_argument(time))
        return Search(self._store, self._id(entity), limit).run()

    def effective_at(self, entity: Entity, time: str | datetime, *, limit: int | None = None) -> Version | None:
        """Reads the highest version whose `Time` or `Timestamp` is not later. None if there is none.

        It reads versions newest first, at most `limit`. Raises LimitReached, UnknownTime, ValueError for a limit below
        1, and as `as_of` does.
        """
        _check_positive(limit=limit)
        wanted = times.of_argument(time)
        store, key = self._store, self._id(entity)
        newest = store.newest(key)
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
            page = {view.number: view for view in store.by_keys(key, range(first, last + 1))}
            for version in range(last, first - 1, -1):
                if version not in page:
                    raise store.missing(key, version, newest.number)
                own = page[version].client_time()
                if own is not None and own <= wanted:
                    return page[version]
            read, last, size = read + last - first + 1, first - 1, MAX_KEYS
        return None

    def diff(self, entity: Entity, old: int, new: int) -> list[Change]:
        """Compares two versions by their numbers. Raises as `version` does."""
        return diff(self.version(entity, old), self.version(entity, new))

    def log(
        self,
        entity: Entity,
        *,
        oldest_first: bool = False,
        first: int = 1,
        last: int | None = None,
        limit: int | None = None,
    ) -> Iterator[LogEntry]:
        """Reads the versions from `first` to `last`, newest first, each with its changes. Raises as `history` does."""
        _check_positive(limit=limit)
        # One version more is read, for the changes of the first one.
        further = None if limit is None else limit + 1
        pages = self.history(entity, oldest_first=oldest_first, first=first - 1, last=last, limit=further)
        entries = _entries(chain.from_iterable(pages), oldest_first)
        yield from islice((entry for entry in entries if entry.version.number >= first), limit)

    def history(
        self,
        entity: Entity,
        *,
        oldest_first: bool = False,
        first: int = 1,
        last: int | None = None,
        limit: int | None = None,
        page_size: int = MAX_KEYS,
    ) -> Iterator[list[Version]]:
        """Reads the versions from `first` to `last`, newest first, page by page. A page is not empty.

        Versions that are not stored are left out; the latest item supplies its version. To continue later, pass
        `last` or `first` one beyond the last version that was read. A page has at most `page_size` versions. Raises
        EntityNotFound, InvalidLatest, and ValueError for a limit or page size below 1, with the first page.
        """
        _check_positive(limit=limit, page_size=page_size)
        store, key = self._store, self._id(entity)
        newest = store.newest(key)
        last = newest.number if last is None else min(last, newest.number)
        left = MAX_VERSION if limit is None else limit
        pending = first <= newest.number <= last
        carried: list[Version] = []
        for page in self._pages(key, max(first, 1), last, oldest_first, page_size):
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
        fits = min(last, self._store.layout.widest)
        parts = [self._query(entity, first, fits, oldest_first, size)] if first <= fits else []
        beyond = max(first, fits + 1)
        if beyond <= last:
            parts.append(self._key_pages(entity, beyond, last, oldest_first, size))
        for part in parts if oldest_first else reversed(parts):
            yield from part

    def _query(self, entity: str, first: int, last: int, oldest_first: bool, size: int) -> Iterator[list[Version]]:
        key = self._store.layout.key
        for items in self._store.query(entity, key(first), key(last), oldest_first, size):
            # `v100` sorts between `v10` and `v11`, but does not fit the width of 2.
            yield [view for view in self._store.views(entity, items) if first <= view.number <= last]

    def _key_pages(self, entity: str, first: int, last: int, oldest_first: bool, size: int) -> Iterator[list[Version]]:
        size = max(1, min(size, MAX_KEYS))
        existing: list[int] | None = None
        while first <= last:
            if oldest_first:
                numbers = range(first, min(first + size, last + 1))
                first = numbers.stop
            else:
                numbers = range(max(last - size + 1, first), last + 1)
                last = numbers.start - 1
            page = self._store.by_keys(entity, numbers)
            yield page if oldest_first else page[::-1]
            if not page and first <= last:
                # A gap can be wide: look up which versions exist.
                existing = [version for version in self._store.stored(entity) if first <= version <= last]
                break
        else:
            return
        for start in range(0, len(existing), size):
            if oldest_first:
                yield self._store.by_keys(entity, existing[start : start + size])
            else:
                end = len(existing) - start
                yield self._store.by_keys(entity, existing[max(end - size, 0) : end])[::-1]


class Table(Reader[str]):
    """A table of latest items, with its history. `client` is `boto3.client("dynamodb")`.

    Reads are strongly consistent, unless `consistent` is False. The layout is read once.
    """

    def __init__(self, client: DynamoDBClient, name: str, *, consistent: bool = True) -> None:
        super().__init__(Store(client, name, consistent))


def _entries(versions: Iterator[Version], oldest_first: bool) -> Iterator[LogEntry]:
    """Compares each version with the previous one, which is read before or after it."""
    last: Version | None = None
    for version in versions:
        if oldest_first:
            yield _entry(last, version)
        elif last is not None:
            yield _entry(version, last)
        last = version
    if last is not None and not oldest_first:
        yield _entry(None, last)


def _entry(previous: Version | None, version: Version) -> LogEntry:
    is_known = is_comparable(previous, version)
    return LogEntry(version, diff(previous, version) if is_known else None)


def _check_positive(**arguments: int | None) -> None:
    for name, value in arguments.items():
        if value is not None and value < 1:
            raise ValueError(f"{name} is {value}, less than 1")
