"""Records from DynamoDB Streams: every new image of a latest item becomes a version item, one after the other."""

import logging
import os
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

TABLE_NAME = os.environ["TABLE_NAME"]

logger = logging.getLogger(__name__)
# An image comes in the form that the client takes: here the resource would translate it there and back.
dynamodb = boto3.client("dynamodb")


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Stops at the first record that fails: Lambda repeats the batch from there."""
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
    """Writes the version that this image is, if it is not there yet."""
    item = {name: value for name, value in image.items() if name != "Latest"}
    item["SK"] = {"S": "v" + image["Latest"]["N"]}
    try:
        dynamodb.put_item(TableName=TABLE_NAME, Item=item, ConditionExpression="attribute_not_exists(PK)")
    except dynamodb.exceptions.ConditionalCheckFailedException:
        logger.info("written before")
