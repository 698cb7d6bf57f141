"""Reads versions with the library vzero_reader. TABLE names the table, ENTITY the item, as of docs/examples/versions.py."""

import os

import boto3

from vzero_reader import EntityNotFound, Table, VersionNotFound, VersionPruned

table = Table(boto3.client("dynamodb"), os.environ.get("TABLE", "VersionControl"))
entity = os.environ["ENTITY"]

latest = table.latest(entity)
print(latest.number, latest.attributes["State"], latest.attributes["Total"])
print(table.version(entity, 1).actor)
found = table.as_of(entity, table.version(entity, 2).recorded_at or "")
print(found and found.number)
print(table.effective_at(entity, "2020-01-01"))
for page in table.history(entity, page_size=2):
    print([version.number for version in page])
for entry in table.log(entity):
    print(entry.version.number, entry.version.reason, [f"{change.kind} {change.path}" for change in entry.changes or ()])
print([change.new for change in table.diff(entity, 1, 3) if change.path == "State"])
try:
    table.version(entity, 7)
except VersionNotFound as error:
    print(f"{error.version} is not one of {error.first} to {error.latest}")
except VersionPruned as error:
    print(f"history begins at {error.floor}")
except EntityNotFound as error:
    print(f"{error.entity} does not exist")
