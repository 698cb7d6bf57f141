"""Writes orders with PynamoDB, and prints each state that the table had: one line of JSON for each item.

  {"Key": {…}, "States": [{…}, null, …]}   items in DynamoDB JSON, null for a deleted one

Usage: pynamodb_orders.py ENDPOINT TABLE versioned|plain
"""

import json
import random
import sys
from datetime import datetime, timezone

import boto3
from pynamodb.attributes import NumberAttribute, UnicodeAttribute, UTCDateTimeAttribute, VersionAttribute
from pynamodb.connection import Connection
from pynamodb.models import Model
from pynamodb.transactions import TransactWrite

ENDPOINT, TABLE, KIND = sys.argv[1:]
ACCOUNT = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}


class Table:
    host, region, table_name = ENDPOINT, "us-east-1", TABLE
    aws_access_key_id, aws_secret_access_key = ACCOUNT.values()


class Versioned(Model):
    """A partition key only, and a version attribute with which PynamoDB locks optimistically."""

    class Meta(Table):
        pass

    id = UnicodeAttribute(hash_key=True)
    text = UnicodeAttribute(null=True)
    version = VersionAttribute()


class Plain(Model):
    """A numeric sort key, and a time that each save changes."""

    class Meta(Table):
        pass

    customer = UnicodeAttribute(hash_key=True)
    number = NumberAttribute(range_key=True)
    text = UnicodeAttribute(null=True)
    total = NumberAttribute(null=True)
    saved_at = UTCDateTimeAttribute(null=True)


class Recorder:
    """Reads each item after a write, as the test's own record of what the client did."""

    def __init__(self):
        self.table = boto3.client("dynamodb", endpoint_url=ENDPOINT, region_name="us-east-1", **ACCOUNT)
        self.states = {}

    def wrote(self, *keys):
        for key in keys:
            item = self.table.get_item(TableName=TABLE, Key=key, ConsistentRead=True).get("Item")
            states = self.states.setdefault(json.dumps(key), [])
            without_time = lambda item: item and {name: value for name, value in item.items() if name != "saved_at"}
            if [without_time(item)] != [without_time(state) for state in states[-1:]] and (item or states):
                states.append(item)

    def print(self):
        for key, states in self.states.items():
            print(json.dumps({"Key": json.loads(key), "States": states}))


def versioned(random, recorder):
    key = lambda number: {"id": {"S": f"é \"{number}\""}}
    for step in range(120):
        number = random.randrange(6)
        name = key(number)["id"]["S"]
        try:
            order = Versioned.get(name, consistent_read=True)
        except Versioned.DoesNotExist:
            order = None
        action = random.random()
        if order is None or action < 0.1:
            fresh = Versioned(name, text=f"put {step}")
            if action < 0.1:
                # The number begins at 1 again.
                fresh.save(add_version_condition=False)
            else:
                fresh.save()
        elif action < 0.6:
            order.update(actions=[Versioned.text.set(f"update {step}")])
        elif action < 0.8:
            order.text = f"save {step}"
            order.save()
        else:
            order.delete()
        recorder.wrote(key(number))
    with Versioned.batch_write() as batch:
        for number in range(300):
            # Keeps the version number of the items that exist.
            batch.save(Versioned(key(number)["id"]["S"], text=f"batch {number}"))
    recorder.wrote(*map(key, range(300)))
    connection = Connection(host=ENDPOINT, region="us-east-1")
    for step in range(10):
        orders = [Versioned.get(key(number)["id"]["S"], consistent_read=True) for number in range(20, 24)]
        with TransactWrite(connection=connection) as transaction:
            for order in orders[:3]:
                transaction.update(order, actions=[Versioned.text.set(f"together {step}")])
            if step == 9:
                transaction.delete(orders[3])
        recorder.wrote(*map(key, range(20, 24)))
    with Versioned.batch_write() as batch:
        for number in range(100, 160):
            batch.delete(Versioned(key(number)["id"]["S"]))
    recorder.wrote(*map(key, range(100, 160)))


def plain(random, recorder):
    numbers = [1, -2.5, 100, 12345678901234567890123456789012345678, 0]
    key = lambda customer, number: {"customer": {"S": customer}, "number": {"N": str(number)}}
    for step in range(120):
        customer, number = f"c{random.randrange(2)}", random.choice(numbers)
        action = random.random()
        order = Plain(customer, number, text=f"text {step // 7}", total=step // 5, saved_at=datetime.now(timezone.utc))
        if action < 0.7:
            order.save()
        elif action < 0.85:
            order.update(actions=[Plain.saved_at.set(datetime.now(timezone.utc)), Plain.text.remove()])
        else:
            order.delete()
        recorder.wrote(key(customer, number))
    with Plain.batch_write() as batch:
        for number in range(400):
            batch.save(Plain("batch", number, text="x" * (number * 40 % 9000)))
    recorder.wrote(*(key("batch", number) for number in range(400)))


recorder = Recorder()
{"versioned": versioned, "plain": plain}[KIND](random.Random(7), recorder)
recorder.print()
