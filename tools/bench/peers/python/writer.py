"""Applies updates, sent directly or through an SQS queue, to the latest item of their entity."""

import json
import logging
import os
from decimal import Decimal
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

logger = logging.getLogger(__name__)
table = boto3.resource("dynamodb").Table(os.environ["TABLE_NAME"])


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Returns the new version for a direct event, and the batch item failures for an SQS batch."""
    if "Records" not in event:
        # The resource does not accept floats.
        update = json.loads(json.dumps(event), parse_float=Decimal)
        return {"ID": event["ID"], "Version": write(update)}
    failures = []
    for message in event["Records"]:
        try:
            write(json.loads(message["body"], parse_float=Decimal))
        except (BotoCoreError, ClientError) as error:
            logger.error("a message failed: %s", type(error).__name__)
            failures.append({"itemIdentifier": message["messageId"]})
    return {"batchItemFailures": failures}


def write(update: dict[str, Any]) -> int:
    """Sets all attributes of the update on the latest item, and returns its new version."""
    names = {"#latest": "Latest"}
    values: dict[str, Any] = {":zero": 0, ":one": 1}
    assignments = ["#latest = if_not_exists(#latest, :zero) + :one"]
    for index, (name, value) in enumerate(update.items()):
        if name == "ID":
            continue
        names[f"#a{index}"] = name
        values[f":a{index}"] = value
        assignments.append(f"#a{index} = :a{index}")
    response = table.update_item(
        Key={"PK": update["ID"], "SK": "v0"},
        UpdateExpression="SET " + ", ".join(assignments),
        ExpressionAttributeNames=names,
        ExpressionAttributeValues=values,
        ReturnValues="UPDATED_NEW",
    )
    return int(response["Attributes"]["Latest"])
