"""Changes an item of the attached table Orders, and reads its versions with the library vzero_reader. CUSTOMER names the item."""

import os
import time

import boto3

from vzero_reader import AttachedTable, EntityNotFound

orders = boto3.resource("dynamodb").Table("Orders")
history = AttachedTable(boto3.client("dynamodb"), "Orders")
key: dict[str, str | int] = {"customerId": os.environ["CUSTOMER"], "orderNo": 8}

orders.put_item(Item={**key, "status": "open", "lines": [{"sku": "A", "qty": 1}], "updatedBy": "shop", "version": 1})
orders.put_item(Item={**key, "status": "paid", "lines": [{"sku": "A", "qty": 2}], "updatedBy": "amy", "version": 2})
orders.delete_item(Key=key)

for _ in range(300):
    try:
        if history.latest(key).deleted:
            break
    except EntityNotFound:
        pass
    time.sleep(0.1)

for entry in history.log(key):
    version, changes = entry.version, [f"{change.kind} {change.path}" for change in entry.changes or ()]
    print(version.number, (version.change and version.change.item_version) or "-", version.actor or "-", ", ".join(changes))
for change in history.diff(key, 1, 2):
    print(f"{change.path}: {change.old} -> {change.new}")
