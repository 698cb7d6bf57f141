"""Stores new images of latest items from DynamoDB Streams as version items: 25 in a request, several requests at a time."""

import logging
import os
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

# Maximum number of statements of a request.
CHUNK_SIZE = 25
# The highest throughput of 1, 2, 4, 8, 16 and 32 threads with requests of 5 ms. More only wait for the interpreter's lock.
THREADS = 16
# Codes of a statement that fails because the version already exists.
EXISTS = {"DuplicateItem", "ConditionalCheckFailed"}

logger = logging.getLogger(__name__)
dynamodb = boto3.client(
    "dynamodb",
    config=Config(
        max_pool_connections=THREADS,
        parameter_validation=False,
        retries={"mode": "standard"},
        tcp_keepalive=True,
        # Otherwise the client composes this header again for each request, a tenth of its CPU time.
        user_agent="tuned",
    ),
)
threads = ThreadPoolExecutor(THREADS)
table = os.environ["TABLE_NAME"].replace('"', '""')

Record = dict[str, Any]
Image = dict[str, dict[str, Any]]


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Names the first record that failed. Lambda retries the batch from there."""
    records = [change for record in event["Records"] if is_new_image(change := record["dynamodb"])]
    chunks = [records[start : start + CHUNK_SIZE] for start in range(0, len(records), CHUNK_SIZE)]
    failures = [failed for failed in threads.map(first_failure, chunks) if failed is not None]
    return {"batchItemFailures": [{"itemIdentifier": failed["SequenceNumber"]} for failed in failures[:1]]}


def is_new_image(change: Record) -> bool:
    return change["Keys"]["SK"]["S"] == "v0" and "NewImage" in change


def first_failure(chunk: list[Record]) -> Record | None:
    """Inserts the versions of a chunk, and returns its first record that failed."""
    # A request must not name a key twice. Both records have the same image.
    statements = {key(change): insert(change["NewImage"]) for change in chunk}
    try:
        response = dynamodb.batch_execute_statement(Statements=list(statements.values()))
    except (BotoCoreError, ClientError) as error:
        logger.error("a request failed: %s", type(error).__name__)
        return chunk[0]
    codes = (result.get("Error", {}).get("Code") for result in response["Responses"])
    failed = {key: code for key, code in zip(statements, codes) if code is not None and code not in EXISTS}
    if not failed:
        return None
    logger.error("statements failed: %s", ", ".join(sorted(set(failed.values()))))
    return next(change for change in chunk if key(change) in failed)


def key(change: Record) -> tuple[str, str]:
    image = change["NewImage"]
    return image["PK"]["S"], image["Latest"]["N"]


def insert(image: Image) -> dict[str, Any]:
    """Returns a statement that inserts the version item of an image, if its key does not exist."""
    names, values = [], []
    for name, value in image.items():
        if name == "Latest":
            continue
        names.append(name)
        values.append({"S": "v" + image["Latest"]["N"]} if name == "SK" else converted(value))
    return {"Statement": statement(tuple(names)), "Parameters": values}


statements: dict[tuple[str, ...], str] = {}


def statement(names: tuple[str, ...]) -> str:
    """Returns the text of a statement. Most images have the same names."""
    text = statements.get(names)
    if text is None:
        members = ", ".join("'" + name.replace("'", "''") + "': ?" for name in names)
        text = f'INSERT INTO "{table}" VALUE {{{members}}}'
        if len(statements) < 1000:
            statements[names] = text
    return text


def converted(value: dict[str, Any]) -> dict[str, Any]:
    """Returns the value for the client, which encodes binary values itself. In a record they are already encoded."""
    ((kind, content),) = value.items()
    if kind == "M":
        return {"M": {name: converted(member) for name, member in content.items()}}
    if kind == "L":
        return {"L": [converted(member) for member in content]}
    if kind == "B":
        return {"B": b64decode(content)}
    if kind == "BS":
        return {"BS": [b64decode(member) for member in content]}
    return value
