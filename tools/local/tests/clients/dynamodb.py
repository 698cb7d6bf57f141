"""DynamoDB and its streams, by boto3 and by the AWS CLI."""

import json
from decimal import Decimal

from boto3.dynamodb.conditions import Attr, Key
from stack import TABLE, Case, aws, client, eventually, name, table


def write(entity, **attributes):
    update = json.dumps({"ID": entity, **attributes}).encode()
    answer = json.load(client("lambda").invoke(FunctionName="writer-fn", Payload=update)["Payload"])
    assert answer["Outcome"] == "Written", answer


def history(entity, versions):
    """An entity's items, once all its versions are there."""

    def ask():
        items = table().query(KeyConditionExpression=Key("PK").eq(entity), ConsistentRead=True)["Items"]
        return items if len(items) == versions + 1 else None

    return eventually("history", ask)


class Items(Case):
    def test_resource(self):
        entity = name()
        for number in range(1, 13):
            write(entity, Number=number, Text=f"é{number}", List=[number, None, {"a": 1.5}])
        items = history(entity, 12)
        self.assertEqual(items[0]["Latest"], 12)
        versions = {item["SK"]: item["Number"] for item in items[1:]}
        self.assertEqual(versions, {f"v{number}": number for number in range(1, 13)})
        item = table().get_item(Key={"PK": entity, "SK": "v7"})["Item"]
        self.assertEqual(item["List"], [Decimal(7), None, {"a": Decimal("1.5")}])
        some = table().query(KeyConditionExpression=Key("PK").eq(entity) & Key("SK").begins_with("v1"))["Items"]
        self.assertEqual([item["SK"] for item in some], ["v1", "v10", "v11", "v12"])
        found = table().scan(FilterExpression=Attr("PK").eq(entity) & Attr("Number").gt(10))["Items"]
        self.assertEqual(sorted(item["SK"] for item in found), ["v0", "v11", "v12"])

    def test_client(self):
        entity = name()
        for number in range(5):
            write(entity, Number=number)
        history(entity, 5)
        dynamodb = client("dynamodb")
        pages = dynamodb.get_paginator("query").paginate(
            TableName=TABLE,
            KeyConditionExpression="PK = :pk",
            ExpressionAttributeValues={":pk": {"S": entity}},
            PaginationConfig={"PageSize": 2},
        )
        self.assertEqual([page["Count"] for page in pages][:3], [2, 2, 2])
        pages = dynamodb.get_paginator("scan").paginate(TableName=TABLE, PaginationConfig={"PageSize": 3})
        found = [item["SK"]["S"] for page in pages for item in page["Items"] if item["PK"]["S"] == entity]
        self.assertEqual(sorted(found), ["v0", "v1", "v2", "v3", "v4", "v5"])
        got = dynamodb.get_item(TableName=TABLE, Key={"PK": {"S": entity}, "SK": {"S": "v2"}})
        self.assertEqual(got["Item"]["Number"], {"N": "1"})
        key = {"PK": {"S": entity}, "SK": {"S": "v1"}}
        taken = lambda: dynamodb.put_item(TableName=TABLE, Item=key, ConditionExpression="attribute_not_exists(PK)")
        self.refused("ConditionalCheckFailedException", 400, taken)
        self.refused("ResourceNotFoundException", 400, lambda: dynamodb.get_item(TableName="NoSuchTable", Key=key))

    def test_cli(self):
        entity = name()
        write(entity, State="OK")
        history(entity, 1)
        values = json.dumps({":pk": {"S": entity}})
        scanned = aws(
            "dynamodb", "scan", "--table-name", TABLE, "--filter-expression", "PK = :pk", "--expression-attribute-values", values
        )
        self.assertEqual(sorted(item["SK"]["S"] for item in scanned["Items"]), ["v0", "v1"])
        key = json.dumps({"PK": {"S": entity}, "SK": {"S": "v1"}})
        got = aws("dynamodb", "get-item", "--table-name", TABLE, "--key", key)
        self.assertEqual(got["Item"]["State"], {"S": "OK"})
        self.assertIn("ResourceNotFoundException", aws("dynamodb", "scan", "--table-name", "NoSuchTable", code=1))


class Streams(Case):
    def setUp(self):
        self.streams = client("dynamodbstreams")
        self.arn = client("dynamodb").describe_table(TableName=TABLE)["Table"]["LatestStreamArn"]

    def shards(self):
        described = self.streams.describe_stream(StreamArn=self.arn)["StreamDescription"]
        self.assertEqual((described["TableName"], described["StreamViewType"]), (TABLE, "NEW_IMAGE"))
        self.assertEqual(described["StreamStatus"], "ENABLED")
        return [shard["ShardId"] for shard in described["Shards"]]

    def read(self, shard, **start):
        records, iterator = [], self.streams.get_shard_iterator(StreamArn=self.arn, ShardId=shard, **start)["ShardIterator"]
        while iterator:
            page = self.streams.get_records(ShardIterator=iterator, Limit=100)
            records += page["Records"]
            iterator = page.get("NextShardIterator") if page["Records"] else None
        return records

    def test_every_change_in_its_order(self):
        entity = name()
        for number in range(1, 6):
            write(entity, Number=number)
        history(entity, 5)
        of_entity = lambda record: record["dynamodb"]["Keys"]["PK"]["S"] == entity
        for shard in self.shards():
            records = [record for record in self.read(shard, ShardIteratorType="TRIM_HORIZON") if of_entity(record)]
            latest = [record for record in records if record["dynamodb"]["Keys"]["SK"]["S"] == "v0"]
            self.assertEqual([record["eventName"] for record in latest], ["INSERT"] + 4 * ["MODIFY"])
            images = [record["dynamodb"]["NewImage"] for record in latest]
            self.assertEqual([image["Latest"]["N"] for image in images], ["1", "2", "3", "4", "5"])
            self.assertTrue(all("OldImage" not in record["dynamodb"] for record in records))
            self.assertEqual(len(records), 10)
            # Behind the third.
            third = latest[2]["dynamodb"]["SequenceNumber"]
            rest = self.read(shard, ShardIteratorType="AFTER_SEQUENCE_NUMBER", SequenceNumber=third)
            rest = [record for record in rest if of_entity(record) and record["dynamodb"]["Keys"]["SK"]["S"] == "v0"]
            self.assertEqual([record["eventID"] for record in rest], [record["eventID"] for record in latest[3:]])

    def test_what_is_not_there(self):
        missing = self.arn.replace(TABLE, "NoSuchTable")
        self.refused("ResourceNotFoundException", 400, lambda: self.streams.describe_stream(StreamArn=missing))
        listed = self.streams.list_streams(TableName=TABLE)["Streams"]
        self.assertEqual([stream["StreamArn"] for stream in listed], [self.arn])
