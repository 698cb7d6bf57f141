"""Reads versions of DynamoDB items: the latest, by number, as of a time, the history of an entity, and its changes."""

from .attached import AttachedTable, Key
from .diff import Change, diff
from .errors import (
    CopiedTable,
    EntityNotFound,
    InvalidLatest,
    InvalidLayout,
    LimitReached,
    NotAttached,
    ReadError,
    UnknownTime,
    VersionNotFound,
    VersionPruned,
)
from .layout import Layout
from .table import LogEntry, Table
from .version import StreamChange, Version

__all__ = [
    "AttachedTable",
    "Change",
    "CopiedTable",
    "EntityNotFound",
    "InvalidLatest",
    "InvalidLayout",
    "Key",
    "Layout",
    "LimitReached",
    "LogEntry",
    "NotAttached",
    "ReadError",
    "StreamChange",
    "Table",
    "UnknownTime",
    "Version",
    "VersionNotFound",
    "VersionPruned",
    "diff",
]
