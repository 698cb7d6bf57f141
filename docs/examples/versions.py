"""Writes an item, and reads its versions, with boto3 only.

TABLE and WRITER name the table and the function of the stack; ENTITY is the item.
"""

import json
import os
import time
import uuid
import zlib
from base64 import b64decode
from datetime import datetime, timezone
from decimal import Decimal

import boto3
from boto3.dynamodb.types import TypeDeserializer

TABLE, WRITER = os.environ.get("TABLE", "VersionControl"), os.environ.get("WRITER", "writer-fn")
ENTITY = os.environ.get("ENTITY", f"Example#{uuid.uuid4()}")
dynamodb, functions = boto3.client("dynamodb"), boto3.client("lambda")


# --- Write ---


class Rejected(Exception):
    """The update can never be applied as it is: `InvalidEvent`."""


class Conflict(Exception):
    """`ExpectedVersion` is not the latest version: read, decide, and send a new update."""


def write(entity, request_id=None, **members):
    """Sends an update, and repeats it until it is applied. It is applied once, because it keeps its RequestId."""
    sent_at = datetime.now(timezone.utc).isoformat()
    update = {"ID": entity, "RequestId": request_id or str(uuid.uuid4()), "RequestSentAt": sent_at, **members}
    for attempt in range(5):
        output = functions.invoke(FunctionName=WRITER, Payload=json.dumps(update))
        response = json.load(output["Payload"])
        if "FunctionError" not in output:
            return response
        match response["errorType"]:
            case "InvalidEvent":
                raise Rejected(response["errorMessage"])
            case "VersionConflict":
                raise Conflict(response["errorMessage"])
        # `Throttled`, `Internal`, or the function timed out: the update can have been applied.
        time.sleep(0.1 * 2**attempt)
    raise TimeoutError(response["errorMessage"])


# --- Read ---


class NotFound(Exception):
    """The entity or the version does not exist, was pruned, or is not in the history yet."""


def stored(table, entity, key):
    output = dynamodb.get_item(TableName=table, Key={"PK": {"S": entity}, "SK": {"S": key}}, ConsistentRead=True)
    return output.get("Item", {})


def get(table, entity, key):
    item = stored(table, entity, key)
    if "ImageDeflate" in item:
        # Compressed attributes. A large version continues in further items.
        keys = [f"part#{key}#{part}" for part in range(2, int(item.pop("Parts", {"N": "1"})["N"]) + 1)]
        parts = [item.pop("ImageDeflate"), *(stored(table, entity, key)["ImageDeflate"] for key in keys)]
        item = {**json.loads(zlib.decompress(b"".join(part["B"] for part in parts)), object_hook=decoded), **item}
    elif table != TABLE:
        # A history table has the attributes in a map.
        item = {**item.pop("Image", {}).get("M", {}), **item}
    return {name: TypeDeserializer().deserialize(value) for name, value in item.items()}


def decoded(value):
    """Decodes a binary value. In JSON, it is base64."""
    match value:
        case {"B": str(text)} if len(value) == 1:
            return {"B": b64decode(text)}
        case {"BS": list(texts)} if len(value) == 1:
            return {"BS": [b64decode(text) for text in texts]}
        case _:
            return value


CONFIG = get(TABLE, "#vzero", "config")
HISTORY = CONFIG.get("HistoryTable", TABLE)


def key_of(version):
    return f"v{version:0{int(CONFIG.get('VersionDigits', 1))}}"


def read_latest(entity):
    item = get(TABLE, entity, "v0")
    if "Latest" not in item:
        raise NotFound(f"{entity} does not exist")
    return item


def read_version(entity, version):
    item = get(HISTORY, entity, key_of(version))
    if item:
        return item
    latest, floor = read_latest(entity)["Latest"], get(HISTORY, entity, "floor").get("Floor", 1)
    if version > latest:
        raise NotFound(f"version {version} does not exist, the latest is {latest}")
    if version < floor:
        raise NotFound(f"version {version} was pruned, history begins at version {floor}")
    raise NotFound(f"version {version} is not in the history yet")


def read_as_of(entity, recorded_at):
    """Reads the version that was the latest at a time, such as 2026-11-22T06:24:48.123456000Z: a binary search."""
    low, high = int(get(HISTORY, entity, "floor").get("Floor", 1)), int(read_latest(entity)["Latest"])
    found = None
    while low <= high:
        middle = (low + high) // 2
        item = read_version(entity, middle)
        if item["RecordedAt"] <= recorded_at:
            low, found = middle + 1, item
        else:
            high = middle - 1
    return found


def history(entity, page_size=100):
    """Reads the versions newest first, page by page."""
    last = int(read_latest(entity)["Latest"])
    while last >= 1:
        first = max(last - page_size + 1, 1)
        yield [item for item in (get(HISTORY, entity, key_of(n)) for n in range(last, first - 1, -1)) if item]
        last = first - 1


def wait_for_history(entity):
    """Waits until the latest version is in the history, a second on AWS."""
    latest = int(read_latest(entity)["Latest"])
    for _ in range(300):
        if get(HISTORY, entity, key_of(latest)):
            return
        time.sleep(0.1)
    raise TimeoutError("history lags")


# --- The example ---


def attempt(action, *arguments, **members):
    try:
        action(*arguments, **members)
    except (Rejected, Conflict, NotFound) as error:
        print(f"{type(error).__name__}: {error}".replace(ENTITY, "ENTITY"))


# Python has no JSON notation for a Decimal: send the digits as text.
total = {"$number": str(Decimal("12345678901234567890.5"))}
for members in [
    {"State": "NEW", "request_id": f"{ENTITY}-1", "Actor": "alice", "Reason": "created"},
    {"State": "OK", "Total": total, "TypedValues": True},
    {"State": "OLD", "ExpectedVersion": 2},
    {"State": "NEW", "request_id": f"{ENTITY}-1", "Actor": "alice", "Reason": "created"},
]:
    response = write(ENTITY, **members)
    print(response["Outcome"], response["Version"])
attempt(write, ENTITY, State="LOST", ExpectedVersion=2)
attempt(write, ENTITY, Latest=7)

wait_for_history(ENTITY)
second = read_version(ENTITY, 2)
print("version 2:", second["State"], second["Total"])
print("as of version 2:", read_as_of(ENTITY, second["RecordedAt"])["State"])
print("before version 1:", read_as_of(ENTITY, "2020-01-01") or "nothing")
print("history:", json.dumps([[item["State"] for item in page] for page in history(ENTITY, page_size=2)], separators=(",", ":")))
print("latest:", read_latest(ENTITY)["State"])
attempt(read_version, ENTITY, 4)
attempt(read_latest, "Example#missing")
