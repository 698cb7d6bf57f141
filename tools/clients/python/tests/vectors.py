"""Support of the tests: the vectors, and tables with their items on the DynamoDB of VZERO_TEST_DYNAMODB."""

import base64
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3

VECTORS = json.loads(Path(os.environ["VZERO_VECTORS"]).read_text())


def client():
    return boto3.client("dynamodb", endpoint_url=os.environ["VZERO_TEST_DYNAMODB"])


def request(value):
    """Converts DynamoDB JSON to the form of boto3, whose binary values are bytes."""
    [(kind, of)] = value.items()
    match kind:
        case "B":
            return {kind: base64.b64decode(of)}
        case "BS":
            return {kind: [base64.b64decode(text) for text in of]}
        case "L":
            return {kind: [request(element) for element in of]}
        case "M":
            return {kind: {name: request(member) for name, member in of.items()}}
    return value


def item(of):
    return {name: request(value) for name, value in of.items()}


def dynamodb_json(value):
    """Converts a value that the library returned back to DynamoDB JSON, with sorted sets."""
    text = lambda number: format(number, "f")
    base = lambda data: base64.b64encode(data).decode()
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": value}
        case Decimal():
            return {"N": text(value)}
        case bytes():
            return {"B": base(value)}
        case list():
            return {"L": [dynamodb_json(element) for element in value]}
        case dict():
            return {"M": {name: dynamodb_json(member) for name, member in value.items()}}
        case set():
            kind = {str: "SS", Decimal: "NS", bytes: "BS"}[type(next(iter(value)))]
            convert: Any = {"SS": str, "NS": text, "BS": base}[kind]
            return {kind: sorted(convert(element) for element in value)}
    raise TypeError(type(value))


def sorted_sets(value):
    """Sorts the sets in DynamoDB JSON."""
    [(kind, of)] = value.items()
    match kind:
        case "SS" | "NS" | "BS":
            return {kind: sorted(of)}
        case "L":
            return {kind: [sorted_sets(element) for element in of]}
        case "M":
            return {kind: {name: sorted_sets(member) for name, member in of.items()}}
    return value


def of_table(dynamodb, name, layout):
    """Returns a layout that belongs to a table."""
    table = dynamodb.describe_table(TableName=name)["Table"]
    return {**layout, "TableId": {"S": table.get("TableId", table.get("TableArn"))}, "TableName": {"S": name}}


def put(dynamodb, name, of):
    """Puts an item."""
    dynamodb.put_item(TableName=name, Item=item(of))


def create(dynamodb, name, items):
    """Creates a table, and puts the items."""
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in ("PK", "SK")],
    )
    dynamodb.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
    for start in range(0, len(items), 25):
        puts = [{"PutRequest": {"Item": item(of)}} for of in items[start : start + 25]]
        while puts:
            puts = dynamodb.batch_write_item(RequestItems={name: puts}).get("UnprocessedItems", {}).get(name)
