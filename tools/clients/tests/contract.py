"""What happens to latest items that a client writes without writer-fn, as docs/languages.md describes it."""

import json
import os
import sys
import time
import unittest
import uuid
from pathlib import Path

import boto3

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "docs/examples"))

import direct  # noqa: E402
from vzero_reader import EntityNotFound, Table  # noqa: E402

TIMEOUT = 30
dynamodb, functions = boto3.client("dynamodb"), boto3.client("lambda")
table = Table(dynamodb, direct.TABLE)
history = table.layout.history or direct.TABLE


def eventually(read):
    """Repeats a read until it has a result."""
    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until:
        if found := read():
            return found
        time.sleep(0.05)
    raise AssertionError(f"nothing within {TIMEOUT} s")


def item(entity, key, name=history):
    output = dynamodb.get_item(TableName=name, Key={"PK": {"S": entity}, "SK": {"S": key}}, ConsistentRead=True)
    return output.get("Item")


def recorded(entity, number):
    """Waits until a version is in history, and reads it."""
    eventually(lambda: item(entity, table.layout.key(number)))
    return table.version(entity, number)


def quarantined(entity):
    """Waits until a record of the entity is in quarantine, and returns its kind."""
    output = eventually(
        lambda: dynamodb.query(
            TableName=history,
            KeyConditionExpression="PK = :pk AND begins_with(SK, :quarantine)",
            ExpressionAttributeValues={":pk": {"S": entity}, ":quarantine": {"S": "quarantine#"}},
        )["Items"]
    )
    return output[0]["Kind"]["S"]


def send(entity, **members):
    response = functions.invoke(FunctionName="writer-fn", Payload=json.dumps({"ID": entity, **members}))
    return json.load(response["Payload"])


def change(entity, expression, **values):
    """Changes the latest item as a client does that does not know the rules."""
    request = {"TableName": direct.TABLE, "Key": {"PK": {"S": entity}, "SK": {"S": "v0"}}, "UpdateExpression": expression}
    if values:
        request["ExpressionAttributeValues"] = {f":{name}": value for name, value in values.items()}
    dynamodb.update_item(**request)


class Contract(unittest.TestCase):
    def setUp(self):
        self.entity = f"Contract#{uuid.uuid4()}"

    def test_each_counted_write_is_a_version(self):
        direct.create(self.entity, "NEW", "importer")
        self.assertEqual(direct.update(self.entity, "OK", "alice"), 2)
        for number, state, actor in [(1, "NEW", "importer"), (2, "OK", "alice")]:
            version = recorded(self.entity, number)
            self.assertEqual((version.attributes, version.actor), ({"State": state}, actor))
            self.assertTrue(version.recorded_by_stream and version.recorded_at)
        self.assertRaises(dynamodb.exceptions.ConditionalCheckFailedException, direct.create, self.entity, "X", "x")

    def test_both_kinds_of_writers_take_turns(self):
        self.assertEqual(send(self.entity, State="A", Actor="writer", Reason="why", RequestId="r-1")["Version"], 1)
        self.assertEqual(direct.update(self.entity, "B", "alice"), 2)
        self.assertEqual(send(self.entity, State="C")["Version"], 3)
        second, third = recorded(self.entity, 2), recorded(self.entity, 3)
        self.assertEqual((second.actor, second.reason, second.request_id), ("alice", None, None))
        self.assertEqual((third.actor, third.attributes), (None, {"State": "C"}))
        # A request is still known after a direct update.
        self.assertEqual(send(self.entity, State="A", Actor="writer", Reason="why", RequestId="r-1")["Outcome"], "Duplicate")

    def test_the_record_of_an_older_version_is_not_inherited(self):
        send(self.entity, State="A", Actor="writer", Reason="why", Time="2026-01-01T00:00:00Z", RequestId="r-1")
        change(self.entity, "SET Qty = :qty ADD Latest :one", qty={"N": "5"}, one={"N": "1"})
        version = recorded(self.entity, 2)
        self.assertEqual((version.actor, version.reason, version.request_id), (None, None, None))
        self.assertEqual(version.attributes, {"State": "A", "Qty": 5})

    def test_without_the_counter_a_change_is_no_version(self):
        send(self.entity, State="A")
        recorded(self.entity, 1)
        change(self.entity, "SET Qty = :qty", qty={"N": "5"})
        self.assertEqual(quarantined(self.entity), "Conflict")
        self.assertEqual(table.version(self.entity, 1).attributes, {"State": "A"})
        self.assertEqual(table.latest(self.entity).attributes, {"State": "A", "Qty": 5})
        # The next version contains the change.
        self.assertEqual(send(self.entity, State="B")["Version"], 2)
        self.assertEqual(recorded(self.entity, 2).attributes, {"State": "B", "Qty": 5})

    def test_without_a_number_the_next_update_fails(self):
        send(self.entity, State="A")
        recorded(self.entity, 1)
        change(self.entity, "REMOVE Latest")
        self.assertEqual(quarantined(self.entity), "Malformed")
        response = send(self.entity, State="B")
        self.assertEqual(response["errorType"], "Internal")
        self.assertIn("vzero admin repair", response["errorMessage"])

    def test_a_jump_leaves_a_gap(self):
        send(self.entity, State="A")
        change(self.entity, "ADD Latest :two", two={"N": "2"})
        recorded(self.entity, 3)
        self.assertIsNone(item(self.entity, table.layout.key(2)))
        self.assertEqual([version.number for page in table.history(self.entity) for version in page], [3, 1])

    def test_a_replaced_item_forgets_its_requests(self):
        send(self.entity, State="A", RequestId="r-1")
        put = {"PK": {"S": self.entity}, "SK": {"S": "v0"}, "Latest": {"N": "2"}, "State": {"S": "B"}}
        dynamodb.put_item(TableName=direct.TABLE, Item=put)
        recorded(self.entity, 2)
        self.assertEqual(send(self.entity, State="A", RequestId="r-1")["Outcome"], "Written")

    def test_a_deleted_item_keeps_its_history(self):
        send(self.entity, State="A")
        recorded(self.entity, 1)
        dynamodb.delete_item(TableName=direct.TABLE, Key={"PK": {"S": self.entity}, "SK": {"S": "v0"}})
        self.assertRaises(EntityNotFound, table.latest, self.entity)
        self.assertEqual(table.version(self.entity, 1).attributes, {"State": "A"})
        self.assertEqual(send(self.entity, State="B")["errorType"], "Internal")


if __name__ == "__main__":
    unittest.main()
