"""The version that was the latest at a time: binary search by `RecordedAt`."""

from __future__ import annotations

from .errors import UnknownTime, VersionNotFound, VersionPruned
from .store import Store
from .version import Version


class Search:
    """Search for the last version whose `RecordedAt` is not later than a time."""

    def __init__(self, store: Store, entity: str, limit: str) -> None:
        self._store, self._entity, self._limit = store, entity, limit
        self._newest = store.newest(entity)
        self._known: dict[int, Version] = {}

    def run(self) -> Version | None:
        """Raises VersionNotFound, VersionPruned, UnknownTime."""
        newest = self._newest
        while True:
            found, before = self._bisect(newest), newest.recorded_since - 1
            if found is not None:
                return self._read(found)
            if before < 1:
                return None
            # A time before the whole sequence is searched in the one before.
            newest = self._read(before)

    def _bisect(self, newest: Version) -> int | None:
        """Searches the versions of one sequence of times, of which this one is the newest."""
        if newest.recorded_at is not None:
            # Else the latest item of another program has no time, but its version item has.
            self._known[newest.number] = newest
        # Each version below `low` is not later, or was pruned. Each one from `high` on is later, or undecided.
        low, high, probed = newest.recorded_since, newest.number + 1, newest.number
        found: int | None = None
        undecided: Exception | None = None
        pruned: VersionPruned | None = None
        while low < high:
            try:
                after, version = self._probe(probed, high)
            except (VersionNotFound, VersionPruned, UnknownTime) as error:
                floor = self._store.floor(self._entity)
                if floor <= probed:
                    high, undecided = probed, error
                else:
                    low, found, pruned = floor, None, VersionPruned(floor)
            else:
                if after is None:
                    high, undecided = version, None
                else:
                    low, found = after, version
            probed = low + (high - low) // 2
        if undecided is not None:
            raise undecided
        if found is None and pruned is not None:
            raise pruned
        return found

    def _probe(self, probed: int, high: int) -> tuple[int | None, int]:
        """Compares the time of a version. A late one stands for the last version before it that is not late.

        Returns the number from which to search, and a version that is not later; or None, and the first version that is
        later. A time that comes from the stream can also be later than that of the next version.
        """
        for number in range(probed, high):
            version = self._read(number)
            divides, recorded = version.dividing
            if recorded is None:
                raise UnknownTime(divides)
            if recorded <= self._limit:
                return number + 1, divides
            if version.change is not None:
                return None, divides
            if not version.recorded_by_stream:
                break
        return None, probed

    def _read(self, number: int) -> Version:
        version = self._known.get(number) or self._store.version(self._entity, number)
        if version is None:
            raise self._store.missing(self._entity, number, self._newest.number)
        self._known[number] = version
        return version
