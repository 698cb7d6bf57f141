"""The vectors of tools/clients/vectors.json, in domain code and on tables."""

import json
import unittest
import uuid
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import vectors
from vectors import VECTORS
from vzero_reader import (
    AttachedTable,
    CopiedTable,
    Layout,
    NotAttached,
    ReadError,
    Table,
    VersionNotFound,
    VersionPruned,
    diff,
    times,
)
from vzero_reader.attached import partition_key
from vzero_reader.layout import LATEST_KEY
from vzero_reader.version import Version, flat, value


def native(item):
    """Converts attributes in DynamoDB JSON to values of Python."""
    return {name: value(of) for name, of in vectors.item(item).items()}


class Domain(unittest.TestCase):
    maxDiff = None

    def test_keys(self):
        for vector in VECTORS["keys"]:
            layout = Layout(vector["digits"])
            self.assertEqual(layout.key(vector["version"]), vector["key"])
            self.assertEqual(layout.version_of(vector["key"]), vector["version"])
        for vector in VECTORS["otherKeys"]:
            self.assertIsNone(Layout(vector["digits"]).version_of(vector["key"]), vector)
        self.assertEqual(Layout().version_of(f"v{2**63 - 1}"), 2**63 - 1)
        self.assertIsNone(Layout().version_of(f"v{2**63}"))

    def test_times(self):
        for vector in VECTORS["times"]:
            nanos = times.parse(vector["text"])
            self.assertEqual(None if nanos is None else times.text(nanos), vector["time"], vector["text"])
        zone = timezone(timedelta(hours=1))
        self.assertEqual(times.text(times.of_argument(datetime(2026, 1, 1, 1, 0, 0, 5, zone))), "2026-01-01T00:00:00.000005000Z")
        ahead, behind = timezone(timedelta(hours=2)), timezone(timedelta(hours=-1))
        for invalid in [
            "soon",
            "0001-01-01T00:00:00+02:00",
            "9999-12-31T23:59:59-01:00",
            datetime(2026, 1, 1),
            datetime.min.replace(tzinfo=ahead),
            datetime.max.replace(tzinfo=behind),
        ]:
            self.assertRaises(ValueError, times.of_argument, invalid)
        for extreme in [datetime.min, datetime.max]:
            nanos = times.of_argument(extreme.replace(tzinfo=timezone.utc))
            self.assertEqual(times.parse(times.text(nanos)), nanos)

    def test_a_tick_after_the_last_time(self):
        last = "9999-12-31T23:59:59.999999999Z"
        record = {"RecordedAt": {"S": last}, "RecordedVersion": {"N": "1"}, "RecordedTick": {"N": "3"}}
        self.assertEqual(Version.of("E", 1, {"Latest": {"N": "1"}, **record}).recorded_at, last)

    def test_layouts(self):
        for vector in VECTORS["layouts"]:
            if "error" in vector:
                with self.assertRaises(ReadError) as caught:
                    Layout.of(vector["item"])
                self.assertEqual(type(caught.exception).__name__, vector["error"], vector)
            else:
                self.assertEqual(Layout.of(vector["item"]), Layout(**vector["layout"]), vector)

    def test_views(self):
        for vector in VECTORS["views"]:
            item = vectors.item(vector["item"])
            if vector["inHistoryTable"] or "ImageDeflate" in item:
                item = flat(item)
            key = item["SK"]["S"]
            number = int(item["Latest"]["N"]) if key == LATEST_KEY else Layout().version_of(key)
            view, expected = Version.of("E", number or 0, item), vector["view"]
            found = {
                "Version": view.number,
                "Deleted": view.deleted,
                "RecordedAt": view.recorded_at,
                "RecordedByStream": view.recorded_by_stream,
                "RequestId": view.request_id,
                "Actor": self.optional(view.actor, expected["Actor"]),
                "Reason": self.optional(view.reason, expected["Reason"]),
                "ChangeSet": self.optional(view.change_set, expected["ChangeSet"]),
                "ChangeSetSize": view.change_set_size,
                "Sender": view.sender,
                "RestoredFrom": view.restored_from,
                "Attributes": {name: vectors.dynamodb_json(value) for name, value in view.attributes.items()},
            }
            attributes = {name: vectors.sorted_sets(value) for name, value in expected["Attributes"].items()}
            self.assertEqual(found, {**expected, "Attributes": attributes}, vector["name"])

    def test_diffs(self):
        for vector in VECTORS["diffs"]:
            view = Version.of_attached if vector.get("attached") else Version.of
            old = None if vector["from"] is None else view("E", 1, vectors.item(vector["from"]))
            changes = diff(old, view("E", 2, vectors.item(vector["to"])))
            self.assertEqual([self.change(change) for change in changes], vector["changes"], vector["name"])

    def change(self, change):
        json = {"Path": change.path, "Kind": change.kind}
        if change.kind in ("removed", "changed"):
            json["From"] = vectors.dynamodb_json(change.old)
        if change.kind in ("added", "changed"):
            json["To"] = vectors.dynamodb_json(change.new)
        return json if change.from_path is None else {**json, "FromPath": change.from_path}

    def test_long_lists(self):
        def paths(*lists):
            versions = (replace(Version.of("E", 2, {}), attributes={"L": {"L": of}}) for of in lists)
            return [(change.kind, change.path) for change in diff(*versions)]

        numbers = list(range(1000))
        changed = [-1, *numbers[1:500], *numbers[501:], -2]
        self.assertEqual(paths(numbers, changed), [("removed", "L.L[500]"), ("added", "L.L[999]"), ("changed", "L.L[0]")])
        # One element is equal, and the others take too long to compare.
        different = [-1, 1, *range(2000, 3000)]
        self.assertEqual(paths(numbers, different), [("changed", "L.L")])

    def test_keys_of_attached_tables(self):
        for vector in VECTORS["attachedKeys"]:
            self.assertEqual(partition_key(vector["keys"], native(vector["key"])), vector["partitionKey"])
        keys = [("c", "S"), ("n", "N")]
        for key in [
            {},
            {"c": "c"},
            {"c": "c", "n": 1, "x": 1},
            {"c": "c", "x": 1},
            {"c": "", "n": 1},
            {"c": 1, "n": 1},
            {"c": "c", "n": "1"},
            {"c": "c", "n": True},
            {"c": "c", "n": Decimal("NaN")},
        ]:
            self.assertRaises(ValueError, partition_key, keys, key)

    def optional(self, value, expected):
        # NULL and a missing attribute are None.
        return expected if value is None and expected in (None, {"NULL": True}) else vectors.dynamodb_json(value)


class Reads(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.client = vectors.client()

    def open(self, vector):
        name = f"Python-{uuid.uuid4()}"
        layout = vector["layout"]
        if layout and "HistoryTable" in layout:
            layout = {**layout, "HistoryTable": {"S": name + "-history"}}
        vectors.create(self.client, name, vector["items"])
        if layout:
            vectors.put(self.client, name, vectors.of_table(self.client, name, layout))
        if vector["history"] is not None:
            vectors.create(self.client, name + "-history", vector["history"])
        return Table(self.client, name)

    def test_reads(self):
        for vector in VECTORS["tables"]:
            table = self.open(vector)
            for read in vector["reads"]:
                with self.subTest(table=vector["name"], **{key: of for key, of in read.items() if key != "expect"}):
                    self.assertEqual(self.result(table, read), read["expect"])

    def attached(self, definition, history):
        name = f"Python-{uuid.uuid4()}"
        vectors.create(self.client, name + "-history", history)
        if definition:
            text = json.dumps({**definition, "TableName": name})
            vectors.put(
                self.client,
                name + "-history",
                {"PK": {"S": "#vzero"}, "SK": {"S": "attached"}, "Definition": {"S": text}},
            )
        return AttachedTable(self.client, name)

    def test_reads_of_an_attached_table(self):
        attached = VECTORS["attached"]
        table = self.attached(attached["definition"], attached["history"])
        for read in attached["reads"]:
            with self.subTest(**{key: of for key, of in read.items() if key != "expect"}):
                self.assertEqual(self.result(table, read), read["expect"])
        version = table.version({"customerId": "c1", "orderNo": 1}, 2)
        self.assertEqual((version.actor, version.change.item_version, version.change.mark), ("amy", 7, None))
        self.assertEqual(table.version(version.entity, 2), version)
        marks = [table.version({"customerId": "c1", "orderNo": 3}, number).change for number in range(1, 5)]
        self.assertEqual([(change.mark, change.omitted) for change in marks], [(None, False), ("Missed", False), (None, False), (None, True)])
        self.assertRaises(ValueError, table.latest, {"customerId": "c1"})

    def test_a_table_without_its_history(self):
        for definition in (None, VECTORS["attached"]["definition"]):
            table = self.attached(definition, [])
            other = AttachedTable(self.client, "Other", history=table.name + "-history")
            with self.assertRaises(NotAttached) as caught:
                other.latest({"customerId": "c1", "orderNo": 1})
            self.assertEqual((caught.exception.table, caught.exception.history), ("Other", table.name + "-history"))

    def result(self, table, read):
        entity = read["entity"] if isinstance(read["entity"], str) else native(read["entity"])
        try:
            match read["read"]:
                case "latest":
                    view = table.latest(entity)
                case "version":
                    view = table.version(entity, read["version"])
                case "asOf":
                    view = table.as_of(entity, read["time"])
                case "effectiveAt":
                    view = table.effective_at(entity, read["time"], limit=read.get("limit"))
                case "log":
                    return {"log": self.log(table, entity, read)}
                case "history":
                    return {"versions": self.history(table, entity, read)}
        except ReadError as error:
            members = {name: of for name, of in vars(error).items() if name != "entity"}
            if isinstance(error, VersionNotFound):
                del members["version"]
            return {"error": type(error).__name__, **members}
        if view is None:
            return {"version": None}
        if view.deleted:
            return {"version": view.number, "deleted": True}
        self.assertEqual(view.attributes["State"], str(view.number))
        return {"version": view.number}

    def log(self, table, entity, read):
        entries = table.log(
            entity,
            oldest_first=read.get("oldestFirst", False),
            first=read.get("from", 1),
            last=read.get("to"),
            limit=read.get("limit"),
        )
        paths = lambda changes: None if changes is None else [change.path for change in changes]
        return [[entry.version.number, paths(entry.changes)] for entry in entries]

    def history(self, table, entity, read):
        size = read.get("pageSize", 100)
        pages = list(
            table.history(
                entity,
                oldest_first=read.get("oldestFirst", False),
                first=read.get("from", 1),
                last=read.get("to"),
                limit=read.get("limit"),
                page_size=size,
            )
        )
        self.assertTrue(all(1 <= len(page) <= size for page in pages), [len(page) for page in pages])
        for view in (view for view in sum(pages, []) if not view.deleted and view.is_state):
            self.assertEqual(view.attributes["State"], str(view.number))
        return [view.number for page in pages for view in page]

    def test_arguments_outside_of_their_range(self):
        table = self.open(VECTORS["tables"][0])
        for number in (0, -1):
            for oldest_first in (False, True):
                for name in ("limit", "page_size"):
                    pages = table.history("Long", oldest_first=oldest_first, **{name: number})
                    self.assertRaises(ValueError, next, pages)
            with self.assertRaises(ValueError):
                table.effective_at("Client", "2026-03-01T00:00:05Z", limit=number)
        for time in ("0001-01-01T00:00:00+02:00", "9999-12-31T23:59:59-01:00"):
            self.assertRaises(ValueError, table.as_of, "Long", time)
            self.assertRaises(ValueError, table.effective_at, "Client", time)

    def test_pages_are_full_while_the_stream_lags(self):
        vector = next(vector for vector in VECTORS["tables"] if vector["name"] == "one table, width 10")
        pages = self.open(vector).history("Lag", page_size=3)
        self.assertEqual([[view.number for view in page] for page in pages], [[5, 3, 2], [1]])

    def test_a_search_reads_few_versions(self):
        times_of = lambda number: f"2026-01-01T00:{number // 60:02}:{number % 60:02}.000000000Z"
        items = [
            {"PK": {"S": "E"}, "SK": {"S": f"v{number}"}, "RecordedAt": {"S": times_of(number)}} for number in range(1, 1001)
        ]
        latest = {**items[-1], "SK": {"S": "v0"}, "Latest": {"N": "1000"}, "RecordedVersion": {"N": "1000"}}
        name = f"Python-{uuid.uuid4()}"
        vectors.create(self.client, name, [*items, latest])
        requests = []
        self.client.meta.events.register("before-call.dynamodb", lambda model, **_: requests.append(model.name))
        table = Table(self.client, name)
        for number in (1, 500, 999):
            requests.clear()
            found = table.as_of("E", times_of(number))
            self.assertEqual(found and found.number, number)
            # The layout, the latest item and log2 1000.
            self.assertLessEqual(len(requests), 12)
        requests.clear()
        self.assertEqual(sum(len(page) for page in table.history("E")), 1000)
        self.assertEqual(requests, ["GetItem"] + 10 * ["BatchGetItem"])

    def test_pages_are_read_when_they_are_asked_for(self):
        vector = next(vector for vector in VECTORS["tables"] if vector["name"] == "one table, width 10")
        table, requests = self.open(vector), []
        self.client.meta.events.register("before-call.dynamodb", lambda model, **_: requests.append(model.name))
        pages = table.history("Long", page_size=5)
        self.assertEqual(requests, [])
        self.assertEqual([view.number for view in next(pages)], [25, 24, 23, 22, 21])
        self.assertEqual(requests, ["GetItem", "GetItem", "DescribeTable", "Query"])

    def test_a_copy_is_not_read(self):
        vector = next(vector for vector in VECTORS["tables"] if vector["name"] == "one table, width 10")
        for original, name in [({"TableId": {"S": "other"}, "TableName": {"S": "Original"}}, "Original"), ({}, None)]:
            table = self.open({**vector, "layout": None})
            layout = {**vector["layout"], **original}
            vectors.put(self.client, table.name, layout)
            for _ in range(2):
                with self.assertRaises(CopiedTable) as caught:
                    table.version("Long", 1)
                self.assertEqual((caught.exception.table, caught.exception.original), (table.name, name))
            vectors.put(self.client, table.name, vectors.of_table(self.client, table.name, layout))
            self.assertEqual(table.version("Long", 1).number, 1)

    def test_messages_name_what_exists(self):
        vector = VECTORS["tables"][0]
        table = self.open(vector)
        for version, kind, message in [
            (26, VersionNotFound, "version 26 does not exist: versions are 1 to 25"),
            (0, VersionNotFound, "version 0 does not exist: versions are 1 to 25"),
            (-1, VersionNotFound, "version -1 does not exist: versions are 1 to 25"),
        ]:
            with self.assertRaises(kind) as caught:
                table.version("Long", version)
            self.assertEqual(str(caught.exception), message)
        with self.assertRaises(VersionPruned) as pruned:
            table.version("Pruned", 1)
        self.assertEqual(str(pruned.exception), "it was pruned: history begins at version 7")


if __name__ == "__main__":
    unittest.main()
