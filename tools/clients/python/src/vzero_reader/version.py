"""A version, without the bookkeeping attributes of its item."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from . import times
from .errors import UnknownTime
from .layout import Item, number, text

IMAGE, IMAGE_DEFLATE, PARTS = "Image", "ImageDeflate", "Parts"
# Maximum length in bytes of the JSON of a compressed version.
_MAX_JSON = 24 * 2**20
# Attributes of the latest item only, and marks of version items.
_OF_LATEST = {
    "Latest", "RecentRequests", "RequestsSince", "RequestsDropped", "RequestsAhead", "RecordedVersion", "RecordedTick", "TTL",
    "TombstoneState", "TombstoneStaged", "TimePartition", "InsertedAt",
}  # fmt: skip
# Attributes that belong to one version.
_OF_VERSION = {
    "Actor", "Reason", "ChangeSet", "ChangeSetSize", "Time", "Timestamp", "Sender", "RestoredFrom", "RequestId",
    "RequestPayload",
}  # fmt: skip
BOOKKEEPING = _OF_LATEST | (_OF_VERSION - {"Time", "Timestamp"}) | {
    "PK", "SK", "RecordedAt", "RecordedBy", "RecordedSince", "V0Id", "Deleted", "Pinned", "Erased",
}  # fmt: skip
# Attributes of a latest item that is a tombstone and are not state. Its state is in `TombstoneState`.
_OF_TOMBSTONE = BOOKKEEPING | {"Time", "Timestamp"}


Mark = Literal["Baseline", "Missed", "Late"]
_MARKS: tuple[Mark, ...] = ("Baseline", "Missed", "Late")


@dataclass(frozen=True)
class StreamChange:
    """Stream record behind a version of an attached table."""

    stream: str
    """Label of the stream, or `backfill`."""
    mark: Mark | None
    """`Baseline`: the state before the first change. `Missed`: its own record is lost. `Late`: never the latest state."""
    after: int | None
    """Number of the version before a late one, in the order of the stream."""
    in_order: int | None
    """Number of the last version before a late one that is not late."""
    in_order_at: str | None
    """Time of that version."""
    omitted: bool
    """True if the state did not fit: the version has the key attributes only."""
    item_version: Any
    """Version number of the item's own writers."""
    actor_unchanged: bool
    """True if the state before has the same author, so that the change need not be theirs."""

    @classmethod
    def of(cls, outer: Item) -> StreamChange | None:
        """Reads the attributes around the image of a version item. None if it does not come from a stream."""
        stream = text(outer, "Stream")
        if stream is None:
            return None
        return cls(
            stream=stream,
            mark=next((mark for mark in _MARKS if mark in outer), None),
            after=_whole(number(outer, "After")),
            in_order=_whole(number(outer, "InOrder")),
            in_order_at=_time(outer, "InOrderAt"),
            omitted="Omitted" in outer,
            item_version=value(outer["ItemVersion"]) if "ItemVersion" in outer else None,
            actor_unchanged="ActorUnchanged" in outer,
        )


@dataclass(frozen=True)
class Version:
    """One version of an entity. Numbers are Decimal with all their digits, binary values bytes, sets set."""

    entity: str
    number: int
    deleted: bool
    """True if the version is a tombstone."""
    recorded_at: str | None
    """Time of the version in UTC with nine decimal places. Texts sort as times. None if it is not known (yet)."""
    recorded_by_stream: bool
    """True if another program wrote the version, and its time comes from the stream."""
    recorded_since: int
    """First version of its sequence of times: 1, unless a repair of a time that was far ahead began a new one."""
    request_id: str | None
    actor: Any
    reason: Any
    change_set: Any
    change_set_size: int | None
    """Number of entities that the update changed together, as one change set."""
    sender: str | None
    restored_from: int | None
    attributes: dict[str, Any]
    erased: tuple[tuple[str, ...], ...] = ()
    """Paths of erased values: the names of an attribute and of members of maps."""
    change: StreamChange | None = None
    """Stream record, if the table is attached."""

    @classmethod
    def of_attached(cls, entity: str, version: int, item: Item) -> Version:
        """Creates the view of a stored version item of an attached table."""
        outer, image = split(item)
        attributes = {name: value(of) for name, of in image.items()}
        return replace(cls.of(entity, version, outer), attributes=attributes, change=StreamChange.of(outer))

    @classmethod
    def of(cls, entity: str, version: int, item: Item) -> Version:
        """Creates the view of a flat version item, or of a latest item."""
        by_stream, erased = "RecordedBy" in item, item.get("Erased", {}).get("M", {})
        if "Latest" in item:
            item = _of_latest(item, version)
        restored = _whole(number(item, "RestoredFrom"))
        return cls(
            entity=entity,
            number=version,
            deleted=item.get("Deleted") == {"BOOL": True},
            recorded_at=_time(item, "RecordedAt"),
            recorded_by_stream=by_stream,
            recorded_since=min(_whole(number(item, "RecordedSince")) or 1, version),
            request_id=text(item, "RequestId"),
            actor=value(item["Actor"]) if "Actor" in item else None,
            reason=value(item["Reason"]) if "Reason" in item else None,
            change_set=value(item["ChangeSet"]) if "ChangeSet" in item else None,
            change_set_size=_whole(number(item, "ChangeSetSize")),
            sender=text(item, "Sender"),
            restored_from=restored or None,
            attributes={name: value(of) for name, of in item.items() if name not in BOOKKEEPING},
            erased=tuple(path for path in map(_erased_path, erased) if path),
        )

    @property
    def dividing(self) -> tuple[int, str | None]:
        """Number and time of the version in the order of history: a late one has those of the last version before it."""
        change = self.change
        if change is not None and change.mark == "Late" and change.in_order is not None:
            return change.in_order, change.in_order_at
        return self.number, self.recorded_at

    @property
    def is_state(self) -> bool:
        """False for a version of an attached table that is late or omitted: its state cannot be compared."""
        return self.change is None or (self.change.mark != "Late" and not self.change.omitted)

    def client_time(self) -> int | None:
        """Returns `Time`, or else `Timestamp`, in nanoseconds. None if there is neither. Raises UnknownTime."""
        time, stamp = self.attributes.get("Time"), self.attributes.get("Timestamp")
        nanos = times.parse(time) if isinstance(time, str) else None
        if nanos is None and isinstance(stamp, Decimal) and stamp == int(stamp):
            nanos = int(stamp) * 1_000_000
        if nanos is None and ("Time" in self.attributes or "Timestamp" in self.attributes):
            raise UnknownTime(self.number)
        return nanos


def _of_latest(item: Item, version: int) -> Item:
    """Returns the attributes of a latest item that belong to its current version."""
    recorded_version = _whole(number(item, "RecordedVersion"))
    left_out = _OF_LATEST | {"RecordedAt", "RecordedBy"}
    if recorded_version and recorded_version != version:
        # Another program incremented `Latest`, and left the record of an older version.
        left_out |= _OF_VERSION
    own = {name: of for name, of in item.items() if name not in left_out}
    if item.get("Deleted") == {"BOOL": True}:
        if recorded_version == version:
            # What is left of the state before the deletion, and not removed yet.
            own = {name: of for name, of in own.items() if name in _OF_TOMBSTONE}
        own |= item.get("TombstoneState", {}).get("M", {})
    nanos = times.parse(text(item, "RecordedAt") or "")
    if recorded_version == version and nanos is not None:
        tick = _whole(number(item, "RecordedTick")) or 0
        own["RecordedAt"] = {"S": times.text(nanos + tick)}
    return own


def _erased_path(text: str) -> tuple[str, ...]:
    """Reads `["Attribute","Address","City"]`. Empty for metadata, and for a text of another form."""
    try:
        namespace, *names = json.loads(text)
    except (TypeError, ValueError):
        return ()
    return tuple(names) if namespace == "Attribute" and all(isinstance(name, str) for name in names) else ()


def _time(item: Item, name: str) -> str | None:
    nanos = times.parse(text(item, name) or "")
    return None if nanos is None else times.text(nanos)


def _whole(number: Decimal | None) -> int | None:
    return int(number) if number is not None and number >= 0 and number == int(number) else None


def part_keys(item: Item) -> list[str]:
    """Returns the sort keys of the further parts of a stored version item, none if it is not in parts."""
    parts = number(item, PARTS) if "B" in item.get(IMAGE_DEFLATE, {}) else None
    return [f"part#{text(item, 'SK')}#{part}" for part in range(2, int(parts or 0) + 1)]


def joined(item: Item, further: list[Item]) -> Item:
    """Adds the further parts, in their order, to a stored version item."""
    image = b"".join(part[IMAGE_DEFLATE]["B"] for part in [item, *further])
    return {**{name: of for name, of in item.items() if name != PARTS}, IMAGE_DEFLATE: {"B": image}}


def flat(item: Item) -> Item:
    """Converts a version item, whose attributes are in one of the two images, to a flat one."""
    outer, image = split(item)
    return {**image, **outer}


def split(item: Item) -> tuple[Item, Item]:
    """Splits a version item into the attributes around its image, and the attributes in it: none if it cannot be read."""
    names = [name for name in (IMAGE, IMAGE_DEFLATE) if name in item]
    if len(names) != 1:
        return item, {}
    [name] = names
    try:
        image = _image(name, item[name])
    except (ValueError, zlib.error):
        image = None
    return (item, {}) if image is None else ({key: of for key, of in item.items() if key != name}, image)


def _image(name: str, of: Any) -> Mapping[str, Any] | None:
    """Reads an image, None if its type is another one. Raises ValueError or zlib.error."""
    image: Mapping[str, Any] | None
    if name == IMAGE:
        image = of.get("M")
        return image
    if "B" not in of:
        return None
    image = json.loads(_inflated(of["B"]))
    # In a text, binary values are base64, which boto3 decodes only in responses.
    return None if image is None else {key: _decoded(member) for key, member in image.items()}


def _inflated(compressed: bytes) -> bytes:
    inflater = zlib.decompressobj()
    text = inflater.decompress(compressed, _MAX_JSON)
    if not inflater.eof:
        raise ValueError("the image is incomplete or too long")
    return text


def _decoded(of: Any) -> Any:
    """Decodes the binary values of an attribute value in DynamoDB JSON."""
    [(kind, inner)] = of.items()
    if kind == "B":
        inner = b64decode(inner)
    elif kind == "BS":
        inner = [b64decode(text) for text in inner]
    elif kind == "L":
        inner = [_decoded(element) for element in inner]
    elif kind == "M":
        inner = {key: _decoded(member) for key, member in inner.items()}
    return {kind: inner}


def value(of: Mapping[str, Any]) -> Any:
    """Converts an attribute value. boto3's TypeDeserializer wraps binary values, and rejects some numbers."""
    [(kind, inner)] = of.items()
    match kind:
        case "N":
            return Decimal(inner)
        case "NS":
            return {Decimal(text) for text in inner}
        case "SS" | "BS":
            return set(inner)
        case "NULL":
            return None
        case "L":
            return [value(element) for element in inner]
        case "M":
            return {name: value(member) for name, member in inner.items()}
        case _:
            return inner
