"""Stores each new image of a latest item from DynamoDB Streams as a version item, one after the other."""

import logging
import os
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

TABLE_NAME = os.environ["TABLE_NAME"]

logger = logging.getLogger(__name__)
# The client accepts an image as it is; the resource would convert it back and forth.
dynamodb = boto3.client("dynamodb")


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Stops at the first record that fails. Lambda retries the batch from there."""
    for record in event["Records"]:
        change = record["dynamodb"]
        if change["Keys"]["SK"]["S"] != "v0" or "NewImage" not in change:
            continue
        try:
            put_version(change["NewImage"])
        except (BotoCoreError, ClientError) as error:
            logger.error("a record failed: %s", type(error).__name__)
            return {"batchItemFailures": [{"itemIdentifier": change["SequenceNumber"]}]}
    return {"batchItemFailures": []}


def put_version(image: dict[str, Any]) -> None:
    """Puts the version item of an image, if it does not exist."""
    item = {name: value for name, value in image.items() if name != "Latest"}
    item["SK"] = {"S": "v" + image["Latest"]["N"]}
    try:
        dynamodb.put_item(TableName=TABLE_NAME, Item=item, ConditionExpression="attribute_not_exists(PK)")
    except dynamodb.exceptions.ConditionalCheckFailedException:
        logger.info("the version already exists")
