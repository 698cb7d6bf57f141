"""Compares the log of the library with `vzero log`: who, why, when and what changed.

    agreement.py VZERO TABLE KEY...

KEY is an entity, or the words of the key of the attached table Orders: `c1 8`.
"""

import json
import os
import subprocess
import sys

import boto3

from vzero_reader import AttachedTable, Table

vzero, name, *keys = sys.argv[1:]
client = boto3.client("dynamodb")


def shown(key):
    command = [vzero, "--endpoint-url", os.environ["VZERO_TEST_DYNAMODB"], "--table", name, "log", *key.split(" ")]
    output = subprocess.run([*command, "--output", "json"], check=True, capture_output=True, text=True).stdout
    members = ("ID", "Version", "RecordedAt", "RequestId", "Actor", "Reason", "Stream", "ItemVersion")
    for entry in map(json.loads, output.splitlines()):
        changes = [(change["Kind"], change["Path"]) for change in entry["Changes"]]
        yield *(entry.get(member) for member in members), changes


def read(key):
    if name == "Orders":
        customer, number = key.split(" ")
        entries = AttachedTable(client, name).log({"customerId": customer, "orderNo": int(number)})
    else:
        entries = Table(client, name).log(key)
    for entry in entries:
        version, change = entry.version, entry.version.change
        record = (version.entity, version.number, version.recorded_at, version.request_id, version.actor, version.reason)
        changes = [(change.kind, change.path) for change in entry.changes]
        yield *record, change and change.stream, change and change.item_version, changes


for key in keys:
    found, expected = list(read(key)), list(shown(key))
    assert found == expected and len(found) == 3, f"{found}\n{expected}"
