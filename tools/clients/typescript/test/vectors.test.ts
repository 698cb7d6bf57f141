/** The vectors of tools/clients/vectors.json, in domain code and on tables of the DynamoDB of VZERO_TEST_DYNAMODB. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { DynamoDBClient, GetItemCommand } from "@aws-sdk/client-dynamodb";
import {
  AttachedTable,
  type Attribute,
  type Change,
  CopiedTable,
  diff,
  Layout,
  NotAttached,
  NumberValue,
  ReadError,
  Table,
  VersionNotFound,
  VersionPruned,
} from "../src/index.js";
import { partitionKey } from "../src/attached.js";
import type { Item } from "../src/layout.js";
import type { Reader } from "../src/table.js";
import * as times from "../src/times.js";
import { attachedView, flat, view } from "../src/version.js";
import { client, create, createAttached, dynamodbJson, each, native, request, sortedSets, vectors } from "./support.js";

interface Read {
  read: string;
  entity: unknown;
  version: number;
  time: string;
  from?: number;
  to?: number;
  limit?: number;
  pageSize?: number;
  oldestFirst?: boolean;
  expect: unknown;
}

interface TableVector {
  name: string;
  layout: Item | null;
  items: Item[];
  history: Item[] | null;
  reads: Read[];
}

test("keys", () => {
  for (const { digits, version, key } of vectors.keys) {
    assert.equal(new Layout(digits).key(version), key);
    assert.equal(new Layout(digits).versionOf(key), version);
  }
  for (const { digits, key } of vectors.otherKeys) assert.equal(new Layout(digits).versionOf(key), undefined, key);
  // It cannot be exact in a number.
  assert.equal(new Layout().versionOf("v9007199254740993"), undefined);
});

test("times", () => {
  for (const { text, time } of vectors.times) {
    const nanos = times.parse(text);
    assert.equal(nanos === undefined ? null : times.text(nanos), time, text);
  }
  assert.equal(times.text(times.ofArgument(new Date(-1))), "1969-12-31T23:59:59.999000000Z");
  const dates = [new Date(NaN), new Date(8.64e15), new Date(-8.64e15)];
  for (const invalid of ["soon", "9999-12-31T23:59:59-01:00", "0000-01-01T00:00:00+02:00", ...dates]) {
    assert.throws(() => times.ofArgument(invalid), RangeError);
  }
  for (const extreme of ["0000-01-01T00:00:00.000000000Z", "9999-12-31T23:59:59.999999999Z"]) {
    assert.equal(times.text(times.ofArgument(extreme)), extreme);
  }
});

test("layouts", () => {
  for (const { item, layout, error } of vectors.layouts) {
    const read = () => Layout.of(item ?? undefined);
    if (error === undefined) assert.deepEqual({ ...read() }, layout);
    else assert.throws(read, { name: error });
  }
});

test("views", () => {
  for (const { name, item: json, inHistoryTable, view: expected } of vectors.views) {
    const stored = each(json as Item, request);
    const item = inHistoryTable || stored.ImageDeflate ? flat(stored) : stored;
    const key = String(item.SK?.S);
    const number = key === "v0" ? Number(item.Latest?.N) : new Layout().versionOf(key);
    const found = view("E", Number(number), item);
    const optional = (value: Attribute | undefined) => (value === undefined ? null : dynamodbJson(value));
    const json_of = {
      Version: found.number,
      Deleted: found.deleted,
      RecordedAt: found.recordedAt ?? null,
      RecordedByStream: found.recordedByStream,
      RequestId: found.requestId ?? null,
      Actor: optional(found.actor),
      Reason: optional(found.reason),
      ChangeSet: optional(found.changeSet),
      ChangeSetSize: found.changeSetSize ?? null,
      Sender: found.sender ?? null,
      RestoredFrom: found.restoredFrom ?? null,
      Attributes: each(found.attributes, dynamodbJson),
    };
    assert.deepEqual(json_of, { ...expected, Attributes: each(expected.Attributes, sortedSets) }, name);
  }
});

/** Returns a change with values in DynamoDB JSON. */
function changeJson({ path, kind, old, new: next, fromPath }: Change): unknown {
  return {
    Path: path,
    Kind: kind,
    ...(old === undefined ? {} : { From: dynamodbJson(old) }),
    ...(next === undefined ? {} : { To: dynamodbJson(next) }),
    ...(fromPath === undefined ? {} : { FromPath: fromPath }),
  };
}

test("diffs", () => {
  for (const { name, attached, from, to, changes } of vectors.diffs) {
    const version = (number: number, item: Item) => (attached ? attachedView : view)("E", number, each(item, request));
    const found = diff(from === null ? undefined : version(1, from), version(2, to));
    assert.deepEqual(found.map(changeJson), changes, name);
  }
});

test("long lists", () => {
  const version = (list: number[]) => ({ ...view("E", 2, {}), attributes: { L: { L: list.map((of) => NumberValue.from(of)) } } });
  const paths = (old: number[], next: number[]) => diff(version(old), version(next)).map(({ kind, path }) => `${kind} ${path}`);
  const numbers = Array.from({ length: 1000 }, (_, index) => index);
  const changed = [-1, ...numbers.slice(1, 500), ...numbers.slice(501), -2];
  assert.deepEqual(paths(numbers, changed), ["removed L.L[500]", "added L.L[999]", "changed L.L[0]"]);
  // One element is equal, and the others take too long to compare.
  const different = [-1, 1, ...numbers.map((number) => number + 2000)];
  assert.deepEqual(paths(numbers, different), ["changed L.L"]);
});

test("keys of attached tables", () => {
  for (const { keys, key, partitionKey: expected } of vectors.attachedKeys) {
    assert.equal(partitionKey(keys, native(key) as never), expected);
  }
  const schema = [["c", "S"], ["n", "N"]] as const;
  assert.equal(partitionKey(schema, { n: -1e-7, c: "c" }), '{"c":"c","n":-0.0000001}');
  const [bytes, large] = [new Uint8Array([1]), 2 ** 53];
  for (const key of [
    ...[{}, { c: "c" }, { c: "c", n: 1, x: 1 }, { c: "c", x: 1 }, { c: "", n: 1 }, { c: 1, n: 1 }, { c: "c", n: "1" }],
    ...[{ c: bytes, n: 1 }, { c: "c", n: NaN }, { c: "c", n: large }],
  ]) {
    assert.throws(() => partitionKey(schema, key as never), RangeError);
  }
});

test("a tick after the last time", () => {
  const last = "9999-12-31T23:59:59.999999999Z";
  const record = { RecordedAt: { S: last }, RecordedVersion: { N: "1" }, RecordedTick: { N: "3" } };
  assert.equal(view("E", 1, { Latest: { N: "1" }, ...record }).recordedAt, last);
});

async function open({ layout, items, history }: TableVector): Promise<Table> {
  const name = `Node-${randomUUID()}`;
  const renamed = layout?.HistoryTable ? { ...layout, HistoryTable: { S: `${name}-history` } } : layout;
  await create(name, renamed ? [...items, renamed] : items);
  if (history !== null) await create(`${name}-history`, history);
  return new Table(client, name);
}

async function history<Entity>(table: Reader<Entity>, entity: Entity, read: Read): Promise<number[]> {
  const { oldestFirst, from: first, to: last, limit, pageSize } = read;
  const found: number[] = [];
  for await (const page of table.history(entity, { oldestFirst, first, last, limit, pageSize })) {
    assert.ok(page.length > 0 && page.length <= (pageSize ?? 100), `${page.length}`);
    for (const { attributes, change, deleted, number } of page) {
      if (!deleted && !change?.omitted) assert.equal(attributes.State, String(number));
    }
    found.push(...page.map(({ number }) => number));
  }
  return found;
}

async function log<Entity>(table: Reader<Entity>, entity: Entity, read: Read): Promise<unknown[]> {
  const { oldestFirst, from: first, to: last, limit } = read;
  const found: unknown[] = [];
  for await (const { version, changes } of table.log(entity, { oldestFirst, first, last, limit })) {
    found.push([version.number, changes?.map(({ path }) => path) ?? null]);
  }
  return found;
}

async function result<Entity>(table: Reader<Entity>, entity: Entity, read: Read): Promise<unknown> {
  const { version, time, limit } = read;
  try {
    if (read.read === "log") return { log: await log(table, entity, read) };
    if (read.read === "history") return { versions: await history(table, entity, read) };
    const reads: Record<string, () => Promise<Awaited<ReturnType<Table["asOf"]>>>> = {
      latest: () => table.latest(entity),
      version: () => table.version(entity, version),
      asOf: () => table.asOf(entity, time),
      effectiveAt: () => table.effectiveAt(entity, time, { limit }),
    };
    const found = await reads[read.read]?.();
    if (found === undefined) return { version: null };
    if (found.deleted) return { version: found.number, deleted: true };
    assert.equal(found.attributes.State, String(found.number));
    return { version: found.number };
  } catch (error) {
    if (!(error instanceof ReadError)) throw error;
    const { entity: _, version, ...members } = { ...error } as Record<string, unknown>;
    const own = error instanceof VersionNotFound || version === undefined ? members : { version, ...members };
    return { error: error.name, ...own };
  }
}

for (const vector of vectors.tables as TableVector[]) {
  test(vector.name, async () => {
    const table = await open(vector);
    for (const read of vector.reads) {
      const { expect, ...asked } = read;
      assert.deepEqual(await result(table, String(read.entity), read), expect, JSON.stringify(asked));
    }
  });
}

test("reads of an attached table", async () => {
  const { definition, history, reads } = vectors.attached;
  const table = await createAttached(definition, history);
  for (const { expect, ...asked } of reads) {
    assert.deepEqual(await result(table, native(asked.entity) as never, asked), expect, JSON.stringify(asked));
  }
  const { actor, change, entity } = await table.version({ customerId: "c1", orderNo: 1n }, 2);
  assert.deepEqual([actor, String(change?.itemVersion), change?.mark], ["amy", "7", undefined]);
  assert.equal((await table.version(entity, 2)).number, 2);
  const marks: unknown[] = [];
  for await (const page of table.history({ customerId: "c1", orderNo: 3 }, { first: 2, oldestFirst: true })) {
    for (const version of page) marks.push([version.change?.mark, version.change?.omitted]);
  }
  assert.deepEqual(marks, [["Missed", false], [undefined, false], [undefined, true], [undefined, false]]);
  await assert.rejects(table.latest({ customerId: "c1" }), RangeError);
});

test("a table without its history", async () => {
  for (const definition of [undefined, vectors.attached.definition]) {
    const history = `${(await createAttached(definition, [])).name}-history`;
    const other = new AttachedTable(client, "Other", { history });
    const isOther = (error: unknown) =>
      error instanceof NotAttached && error.table === "Other" && error.history === history;
    await assert.rejects(other.latest({ customerId: "c1", orderNo: 1 }), isOther);
  }
});

test("arguments outside of their range", async () => {
  const table = await open(vectors.tables[0]);
  for (const number of [0, -1, 1.5, NaN]) {
    for (const oldestFirst of [false, true]) {
      for (const name of ["limit", "pageSize"]) {
        await assert.rejects(table.history("Long", { oldestFirst, [name]: number }).next(), RangeError);
      }
    }
    await assert.rejects(table.effectiveAt("Client", "2026-03-01T00:00:05Z", { limit: number }), RangeError);
  }
  for (const time of ["9999-12-31T23:59:59-01:00", new Date(8.64e15)]) {
    await assert.rejects(table.asOf("Long", time), RangeError);
    await assert.rejects(table.effectiveAt("Client", time), RangeError);
  }
});

test("a copy is not read", async () => {
  const vector: TableVector = vectors.tables.find(({ name }: TableVector) => name === "one table, width 10");
  const original = { TableId: { S: "other" }, TableName: { S: "Original" } };
  const table = await open({ ...vector, layout: { ...vector.layout, ...original } });
  for (let attempt = 0; attempt < 2; attempt += 1) {
    const isCopy = (error: unknown) => error instanceof CopiedTable && error.original === "Original";
    await assert.rejects(table.version("Long", 1), isCopy);
  }
});

test("pages are full while the stream lags", async () => {
  const table = await open(vectors.tables.find(({ name }: TableVector) => name === "one table, width 10"));
  const pages: number[][] = [];
  for await (const page of table.history("Lag", { pageSize: 3 })) pages.push(page.map(({ number }) => number));
  assert.deepEqual(pages, [[5, 3, 2], [1]]);
});

test("an attribute named __proto__ does not hide the others", async () => {
  const stored: Item = JSON.parse('{"State": {"S": "OK"}, "__proto__": {"S": "a name"}}');
  for (const digits of [1, 10]) {
    const name = `Node-${randomUUID()}`;
    const layout = new Layout(digits);
    await create(name, [
      { PK: { S: "#vzero" }, SK: { S: "config" }, VersionDigits: { N: `${digits}` } },
      { PK: { S: "E" }, SK: { S: "v0" }, Latest: { N: "2" }, ...stored },
      { PK: { S: "E" }, SK: { S: layout.key(1) }, RecordedAt: { S: "2026-01-01T00:00:01Z" }, ...stored },
      { PK: { S: "E" }, SK: { S: layout.key(2) }, RecordedAt: { S: "2026-01-01T00:00:02Z" }, ...stored },
    ]);
    const raw = await client.send(new GetItemCommand({ TableName: name, Key: { PK: { S: "E" }, SK: { S: "v0" } } }));
    assert.ok(Object.hasOwn(raw.Item ?? {}, "__proto__"));
    const table = new Table(client, name);
    const found = [await table.latest("E"), await table.version("E", 1), await table.asOf("E", "2026-01-01T00:00:01Z")];
    for await (const page of table.history("E")) found.push(...page);
    assert.deepEqual(found.map((version) => version?.number), [2, 1, 1, 2, 1]);
    for (const version of found) {
      // The SDK loses the value.
      const { State, ...others } = version?.attributes ?? {};
      assert.equal(State, "OK");
      assert.deepEqual(Object.values(others).filter((value) => value !== "a name"), []);
    }
  }
});

test("a history table keeps an attribute named __proto__", async () => {
  const name = `Node-${randomUUID()}`;
  const config = { PK: { S: "#vzero" }, SK: { S: "config" }, VersionDigits: { N: "10" }, HistoryTable: { S: `${name}-history` } };
  const image: Item = JSON.parse('{"__proto__": {"S": "a name"}}');
  await create(name, [config, { PK: { S: "E" }, SK: { S: "v0" }, Latest: { N: "1" }, ...image }]);
  await create(`${name}-history`, [{ PK: { S: "E" }, SK: { S: "v0000000001" }, Image: { M: image } }]);
  const found = await new Table(client, name).version("E", 1);
  assert.deepEqual(Object.entries(found.attributes), [["__proto__", "a name"]]);
});

test("messages name what exists", async () => {
  const table = await open(vectors.tables[0]);
  for (const number of [26, 0, -1, 1.5]) {
    const message = `version ${number} does not exist: versions are 1 to 25`;
    await assert.rejects(table.version("Long", number), (error) => error instanceof VersionNotFound && error.message === message);
  }
  const message = "it was pruned: history begins at version 7";
  await assert.rejects(table.version("Pruned", 1), (error) => error instanceof VersionPruned && error.message === message);
});

test("a search reads few versions, and pages are read when they are asked for", async () => {
  const timeOf = (number: number) => times.text(BigInt(number) * 1_000_000_000n);
  const items: Item[] = Array.from({ length: 1000 }, (_, index) => ({
    PK: { S: "E" },
    SK: { S: `v${index + 1}` },
    RecordedAt: { S: timeOf(index + 1) },
  }));
  const name = `Node-${randomUUID()}`;
  const latest = { ...items[999], SK: { S: "v0" }, Latest: { N: "1000" }, RecordedVersion: { N: "1000" } } as Item;
  await create(name, [...items, latest]);
  let requests = 0;
  const counted = new DynamoDBClient({ endpoint: String(process.env.VZERO_TEST_DYNAMODB) });
  counted.middlewareStack.add((next) => (args) => ((requests += 1), next(args)), { step: "initialize" });
  const table = new Table(counted, name);
  for (const number of [1, 500, 999]) {
    requests = 0;
    assert.equal((await table.asOf("E", timeOf(number)))?.number, number);
    // The layout, the latest item and log2 1000.
    assert.ok(requests <= 12, `${requests}`);
  }
  const pages = table.history("E");
  requests = 0;
  const first = await pages.next();
  assert.equal(first.value?.[0]?.number, 1000);
  assert.equal(requests, 2);
});
