"""Applies updates, sent directly or through an SQS queue, to the latest item of their entity: different entities concurrently."""

import json
import logging
import os
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

# As many requests at a time as writer-fn.
THREADS = 32

logger = logging.getLogger(__name__)
TABLE_NAME = os.environ["TABLE_NAME"]
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

Message = dict[str, Any]
Update = dict[str, Any]


class Number(str):
    """A number with the digits of the update."""


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Returns the new version for a direct event, and the batch item failures for an SQS batch."""
    if "Records" not in event:
        return {"ID": event["ID"], "Version": write(parsed(json.dumps(event)))}
    entities: dict[str, list[tuple[str, Update]]] = defaultdict(list)
    for message in event["Records"]:
        update = parsed(message["body"])
        entities[update["ID"]].append((message["messageId"], update))
    failures = [failure for failures in threads.map(write_in_order, entities.values()) for failure in failures]
    return {"batchItemFailures": [{"itemIdentifier": failure} for failure in failures]}


def parsed(body: str) -> Update:
    return json.loads(body, parse_int=Number, parse_float=Number)


def write_in_order(updates: list[tuple[str, Update]]) -> list[str]:
    """Writes the updates of one entity. After a failure, the later ones fail too: they are delivered again in their order."""
    for index, (_, update) in enumerate(updates):
        try:
            write(update)
        except (BotoCoreError, ClientError) as error:
            logger.error("a message failed: %s", type(error).__name__)
            return [message_id for message_id, _ in updates[index:]]
    return []


def write(update: Update) -> int:
    """Sets all attributes of the update on the latest item, and returns its new version."""
    names = {"#latest": "Latest"}
    values: dict[str, Any] = {":zero": {"N": "0"}, ":one": {"N": "1"}}
    assignments = ["#latest = if_not_exists(#latest, :zero) + :one"]
    for index, (name, value) in enumerate(update.items()):
        if name == "ID":
            continue
        names[f"#a{index}"] = name
        values[f":a{index}"] = attribute(value)
        assignments.append(f"#a{index} = :a{index}")
    response = dynamodb.update_item(
        TableName=TABLE_NAME,
        Key={"PK": {"S": update["ID"]}, "SK": {"S": "v0"}},
        UpdateExpression="SET " + ", ".join(assignments),
        ExpressionAttributeNames=names,
        ExpressionAttributeValues=values,
        ReturnValues="UPDATED_NEW",
    )
    return int(response["Attributes"]["Latest"]["N"])


def attribute(value: Any) -> dict[str, Any]:
    """Converts a parsed value into DynamoDB's form, faster than boto3's serializer."""
    if isinstance(value, Number):
        return {"N": value}
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, bool):
        return {"BOOL": value}
    if value is None:
        return {"NULL": True}
    if isinstance(value, list):
        return {"L": [attribute(member) for member in value]}
    return {"M": {name: attribute(member) for name, member in value.items()}}
