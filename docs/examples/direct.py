"""Writes latest items directly, without writer-fn. docs/languages.md describes the rules.

TABLE names the table of the stack; ENTITY is the item.
"""

import os
import uuid

import boto3

TABLE = os.environ.get("TABLE", "VersionControl")
ENTITY = os.environ.get("ENTITY", f"Direct#{uuid.uuid4()}")
dynamodb = boto3.client("dynamodb")


def create(entity, state, actor):
    """Creates an entity. It fails if there is a latest item."""
    dynamodb.put_item(
        TableName=TABLE,
        Item={
            "PK": {"S": entity},
            "SK": {"S": "v0"},
            "Latest": {"N": "1"},
            "State": {"S": state},
            "Actor": {"S": actor},
        },
        ConditionExpression="attribute_not_exists(PK)",
    )


def update(entity, state, actor, expected=None):
    """Makes the next version, and returns its number. With `expected`, it fails unless this is the latest version."""
    condition, values = "attribute_exists(Latest)", {":one": {"N": "1"}, ":state": {"S": state}, ":actor": {"S": actor}}
    if expected is not None:
        condition, values[":expected"] = "Latest = :expected", {"N": str(expected)}
    output = dynamodb.update_item(
        TableName=TABLE,
        Key={"PK": {"S": entity}, "SK": {"S": "v0"}},
        UpdateExpression="SET #state = :state, Actor = :actor ADD Latest :one"
        " REMOVE RecordedVersion, RequestId, RequestPayload, Reason, #time, #timestamp, Sender, RestoredFrom, ChangeSetSize",
        ConditionExpression=condition,
        ExpressionAttributeNames={"#state": "State", "#time": "Time", "#timestamp": "Timestamp"},
        ExpressionAttributeValues=values,
        ReturnValues="UPDATED_NEW",
    )
    return int(output["Attributes"]["Latest"]["N"])


if __name__ == "__main__":
    create(ENTITY, "NEW", "importer")
    print("version", update(ENTITY, "OK", "importer"))
    print("version", update(ENTITY, "OLD", "alice", expected=2))
    try:
        update(ENTITY, "LOST", "bob", expected=2)
    except dynamodb.exceptions.ConditionalCheckFailedException:
        print("version 2 is not the latest")
