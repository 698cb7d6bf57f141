/** The vectors of tools/clients/vectors.json, in domain code and on tables of the DynamoDB of VZERO_TEST_DYNAMODB. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import {
  type AttributeValue,
  BatchWriteItemCommand,
  CreateTableCommand,
  DescribeTableCommand,
  DynamoDBClient,
  GetItemCommand,
  waitUntilTableExists,
} from "@aws-sdk/client-dynamodb";
import {
  type Attribute,
  CopiedTable,
  Layout,
  NumberValue,
  ReadError,
  Table,
  VersionNotFound,
  VersionPruned,
} from "../src/index.js";
import type { Item } from "../src/layout.js";
import * as times from "../src/times.js";
import { flat, view } from "../src/version.js";

interface Read {
  read: string;
  entity: string;
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

const vectors = JSON.parse(readFileSync(String(process.env.VZERO_VECTORS), "utf8"));
const client = new DynamoDBClient({ endpoint: String(process.env.VZERO_TEST_DYNAMODB) });

/** Converts DynamoDB JSON to the form of the SDK, whose binary values are bytes. */
function request(value: AttributeValue): AttributeValue {
  if (value.B !== undefined) return { B: Buffer.from(String(value.B), "base64") };
  if (value.BS !== undefined) return { BS: value.BS.map((text) => Buffer.from(String(text), "base64")) };
  if (value.L !== undefined) return { L: value.L.map(request) };
  if (value.M !== undefined) return { M: each(value.M, request) };
  return value;
}

function each<T, U>(members: Record<string, T>, convert: (member: T) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(members).map(([name, member]) => [name, convert(member)]));
}

/** Converts a value that the library returned back to DynamoDB JSON, with sorted sets. */
function dynamodbJson(value: Attribute): AttributeValue {
  const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");
  if (value === null) return { NULL: true };
  if (typeof value === "boolean") return { BOOL: value };
  if (typeof value === "string") return { S: value };
  if (value instanceof NumberValue) return { N: value.toString() };
  if (value instanceof Uint8Array) return { B: base64(value) as never };
  if (Array.isArray(value)) return { L: value.map(dynamodbJson) };
  if (value instanceof Set) {
    const [first] = value;
    const kind = typeof first === "string" ? "SS" : first instanceof NumberValue ? "NS" : "BS";
    const texts = [...value].map((one) => (one instanceof Uint8Array ? base64(one) : one.toString()));
    return { [kind]: texts.sort() } as never;
  }
  return { M: each(value, dynamodbJson) };
}

/** Sorts the sets in DynamoDB JSON. */
function sortedSets(value: AttributeValue): AttributeValue {
  for (const kind of ["SS", "NS", "BS"] as const) {
    const set = value[kind];
    if (set !== undefined) return { [kind]: [...set].sort() } as never;
  }
  if (value.L !== undefined) return { L: value.L.map(sortedSets) };
  if (value.M !== undefined) return { M: each(value.M, sortedSets) };
  return value;
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

test("a tick after the last time", () => {
  const last = "9999-12-31T23:59:59.999999999Z";
  const record = { RecordedAt: { S: last }, RecordedVersion: { N: "1" }, RecordedTick: { N: "3" } };
  assert.equal(view("E", 1, { Latest: { N: "1" }, ...record }).recordedAt, last);
});

/** Creates a table with these items. A layout that names no table gets the id of this one. */
async function create(name: string, of: Item[]) {
  const keys = ["PK", "SK"] as const;
  await client.send(
    new CreateTableCommand({
      TableName: name,
      BillingMode: "PAY_PER_REQUEST",
      KeySchema: keys.map((key) => ({ AttributeName: key, KeyType: key === "PK" ? "HASH" : "RANGE" })),
      AttributeDefinitions: keys.map((key) => ({ AttributeName: key, AttributeType: "S" })),
    }),
  );
  await waitUntilTableExists({ client, maxWaitTime: 30, minDelay: 1 }, { TableName: name });
  const { Table: described } = await client.send(new DescribeTableCommand({ TableName: name }));
  const own: Item = { TableId: { S: String(described?.TableId ?? described?.TableArn) }, TableName: { S: name } };
  const items = of.map((item) => (item.PK?.S === "#vzero" ? { ...own, ...item } : item));
  for (let start = 0; start < items.length; start += 25) {
    let left = items.slice(start, start + 25).map((item) => ({ PutRequest: { Item: each(item, request) } }));
    while (left.length > 0) {
      const output = await client.send(new BatchWriteItemCommand({ RequestItems: { [name]: left } }));
      left = (output.UnprocessedItems?.[name] ?? []) as typeof left;
    }
  }
}

async function open({ layout, items, history }: TableVector): Promise<Table> {
  const name = `Node-${randomUUID()}`;
  const renamed = layout?.HistoryTable ? { ...layout, HistoryTable: { S: `${name}-history` } } : layout;
  await create(name, renamed ? [...items, renamed] : items);
  if (history !== null) await create(`${name}-history`, history);
  return new Table(client, name);
}

async function history(table: Table, read: Read): Promise<number[]> {
  const { entity, oldestFirst, from: first, to: last, limit, pageSize } = read;
  const found: number[] = [];
  for await (const page of table.history(entity, { oldestFirst, first, last, limit, pageSize })) {
    assert.ok(page.length > 0 && page.length <= (pageSize ?? 100), `${page.length}`);
    for (const version of page) assert.equal(version.attributes.State, String(version.number));
    found.push(...page.map(({ number }) => number));
  }
  return found;
}

async function result(table: Table, read: Read): Promise<unknown> {
  const { entity, version, time, limit } = read;
  try {
    if (read.read === "history") return { versions: await history(table, read) };
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
      assert.deepEqual(await result(table, read), expect, JSON.stringify(asked));
    }
  });
}

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
