"""Reads versions of DynamoDB items: the latest, by number, as of a time, and the history of an entity."""

from .errors import (
    CopiedTable,
    EntityNotFound,
    InvalidLatest,
    InvalidLayout,
    LimitReached,
    ReadError,
    UnknownTime,
    VersionNotFound,
    VersionPruned,
)
from .layout import Layout
from .table import Table
from .version import Version

__all__ = [
    "CopiedTable",
    "EntityNotFound",
    "InvalidLatest",
    "InvalidLayout",
    "Layout",
    "LimitReached",
    "ReadError",
    "Table",
    "UnknownTime",
    "Version",
    "VersionNotFound",
    "VersionPruned",
]
