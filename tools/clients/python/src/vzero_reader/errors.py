"""Reasons why a version cannot be read. Errors of requests are those of botocore."""


class ReadError(Exception):
    """Base class of all errors of this package."""


class EntityNotFound(ReadError):
    """The entity does not exist."""

    def __init__(self, entity: str) -> None:
        super().__init__(f"{entity} does not exist")
        self.entity = entity


class VersionNotFound(ReadError):
    """History does not have the version: it was not written yet, the stream lags, or there is a gap.

    `first` and `latest` bound the versions that exist.
    """

    def __init__(self, version: int, first: int, latest: int) -> None:
        reason = "is not in the history yet" if 1 <= version <= latest else "does not exist"
        super().__init__(f"version {version} {reason}: versions are {first} to {latest}")
        self.version = version
        self.first = first
        self.latest = latest


class VersionPruned(ReadError):
    """The version was pruned. History begins at the version `floor`."""

    def __init__(self, floor: int) -> None:
        super().__init__(f"it was pruned: history begins at version {floor}")
        self.floor = floor


class UnknownTime(ReadError):
    """The time of a version that decides is missing, or cannot be read."""

    def __init__(self, version: int) -> None:
        super().__init__(f"the time of version {version} is not known")
        self.version = version


class LimitReached(ReadError):
    """None of the newest `read` versions has the time or an earlier one."""

    def __init__(self, read: int) -> None:
        super().__init__(f"none of the {read} newest versions has this time or an earlier one")
        self.read = read


class InvalidLatest(ReadError):
    """The latest item has no valid `Latest`: another program wrote it. `vzero admin repair` adds one."""

    def __init__(self, entity: str) -> None:
        super().__init__(f"the latest item of {entity} has no valid Latest, which `vzero admin repair` adds")
        self.entity = entity


class CopiedTable(ReadError):
    """The table has the layout of another one, which was copied with its items. `vzero admin table adopt` replaces it.

    `original` is the name of the other table, None if the layout has none.
    """

    def __init__(self, table: str, original: str | None) -> None:
        super().__init__(f"the table {table} has the layout of another table ({original}): see `vzero admin table adopt --help`")
        self.table = table
        self.original = original


class NotAttached(ReadError):
    """The table `history` does not have the history of the attached table `table`."""

    def __init__(self, table: str, history: str) -> None:
        super().__init__(f"{history} is not the history of an attached table {table}")
        self.table = table
        self.history = history


class InvalidLayout(ReadError):
    """The item `#vzero`, `config` of the table cannot be read."""

    def __init__(self) -> None:
        super().__init__("the table's layout cannot be read")
