/** Support of the tests: the vectors, and tables with their items on the DynamoDB of VZERO_TEST_DYNAMODB. */

import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";

import {
  type AttributeValue,
  BatchWriteItemCommand,
  CreateTableCommand,
  DescribeTableCommand,
  DynamoDBClient,
  waitUntilTableExists,
} from "@aws-sdk/client-dynamodb";
import { type Attribute, AttachedTable, NumberValue } from "../src/index.js";
import type { Item } from "../src/layout.js";
import { view } from "../src/version.js";

export const vectors = JSON.parse(readFileSync(String(process.env.VZERO_VECTORS), "utf8"));
export const client = new DynamoDBClient({ endpoint: String(process.env.VZERO_TEST_DYNAMODB) });

/** Converts DynamoDB JSON to the form of the SDK, whose binary values are bytes. */
export function request(value: AttributeValue): AttributeValue {
  if (value.B !== undefined) return { B: Buffer.from(String(value.B), "base64") };
  if (value.BS !== undefined) return { BS: value.BS.map((text) => Buffer.from(String(text), "base64")) };
  if (value.L !== undefined) return { L: value.L.map(request) };
  if (value.M !== undefined) return { M: each(value.M, request) };
  return value;
}

export function each<T, U>(members: Record<string, T>, convert: (member: T) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(members).map(([name, member]) => [name, convert(member)]));
}

/** Converts a value that the library returned back to DynamoDB JSON, with sorted sets. */
export function dynamodbJson(value: Attribute): AttributeValue {
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
export function sortedSets(value: AttributeValue): AttributeValue {
  for (const kind of ["SS", "NS", "BS"] as const) {
    const set = value[kind];
    if (set !== undefined) return { [kind]: [...set].sort() } as never;
  }
  if (value.L !== undefined) return { L: value.L.map(sortedSets) };
  if (value.M !== undefined) return { M: each(value.M, sortedSets) };
  return value;
}

/** Converts attributes in DynamoDB JSON to values as the library returns them. */
export function native(item: Item): Record<string, Attribute> {
  return view("E", 1, each(item, request)).attributes;
}

/** Creates a table with these items. A layout that names no table gets the id of this one. */
export async function create(name: string, of: Item[]) {
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

/** Creates the history table of an attached table, with its definition if there is one. */
export async function createAttached(definition: object | undefined, history: Item[]): Promise<AttachedTable> {
  const name = `Node-${randomUUID()}`;
  const text = JSON.stringify({ ...definition, TableName: name });
  const item = { PK: { S: "#vzero" }, SK: { S: "attached" }, Definition: { S: text } };
  await create(`${name}-history`, definition ? [...history, item] : history);
  return new AttachedTable(client, name);
}
