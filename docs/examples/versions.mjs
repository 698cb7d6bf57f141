// Writes an item, and reads its versions, with the AWS SDK for JavaScript only.
//
// TABLE and WRITER name the table and the function of the stack; ENTITY is the item.

import { randomUUID } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { inflateSync } from "node:zlib";

import { DynamoDBClient, GetItemCommand } from "@aws-sdk/client-dynamodb";
import { InvokeCommand, LambdaClient } from "@aws-sdk/client-lambda";
import { unmarshall } from "@aws-sdk/util-dynamodb";

const { TABLE = "VersionControl", WRITER = "writer-fn", ENTITY = `Example#${randomUUID()}` } = process.env;
const [dynamodb, functions] = [new DynamoDBClient(), new LambdaClient()];

// --- Write ---

/** The update can never be applied as it is: `InvalidEvent`. */
class Rejected extends Error {}

/** `ExpectedVersion` is not the latest version: read, decide, and send a new update. */
class Conflict extends Error {}

/** Sends an update, and repeats it until it is applied. It is applied once, because it keeps its RequestId. */
async function write(members) {
  const update = { RequestId: randomUUID(), RequestSentAt: Date.now(), ...members };
  let response;
  for (let attempt = 0; attempt < 5; attempt++) {
    const output = await functions.send(new InvokeCommand({ FunctionName: WRITER, Payload: JSON.stringify(update) }));
    response = JSON.parse(output.Payload.transformToString());
    if (output.FunctionError === undefined) return response;
    if (response.errorType === "InvalidEvent") throw new Rejected(response.errorMessage);
    if (response.errorType === "VersionConflict") throw new Conflict(response.errorMessage);
    // `Throttled`, `Internal`, or the function timed out: the update can have been applied.
    await setTimeout(100 * 2 ** attempt);
  }
  throw new Error(response.errorMessage);
}

// --- Read ---

/** The entity or the version does not exist, was pruned, or is not in the history yet. */
class NotFound extends Error {}

async function stored(table, entity, key) {
  const input = { TableName: table, Key: { PK: { S: entity }, SK: { S: key } }, ConsistentRead: true };
  return (await dynamodb.send(new GetItemCommand(input))).Item ?? {};
}

async function get(table, entity, key) {
  let item = await stored(table, entity, key);
  if (item.ImageDeflate !== undefined) {
    // Compressed attributes. A large version continues in further items.
    const { ImageDeflate: compressed, Parts: parts, ...outer } = item;
    const bytes = [compressed.B];
    for (let part = 2; part <= Number(parts?.N ?? 1); part++) {
      bytes.push((await stored(table, entity, `part#${key}#${part}`)).ImageDeflate.B);
    }
    item = { ...JSON.parse(inflateSync(Buffer.concat(bytes)).toString(), decoded), ...outer };
  } else if (table !== TABLE) {
    // A history table has the attributes in a map.
    const { Image: image, ...outer } = item;
    item = { ...image?.M, ...outer };
  }
  // A NumberValue has all digits, a number rounds.
  return unmarshall(item, { wrapNumbers: true });
}

/** Decodes a binary value. In JSON, it is base64. */
function decoded(name, value) {
  if (name === "B" && typeof value === "string") return Buffer.from(value, "base64");
  if (name === "BS" && Array.isArray(value)) return value.map((text) => Buffer.from(text, "base64"));
  return value;
}

const config = await get(TABLE, "#vzero", "config");
const historyTable = config.HistoryTable ?? TABLE;
const keyOf = (version) => `v${String(version).padStart(Number(config.VersionDigits ?? 1), "0")}`;
const floorOf = async (entity) => Number((await get(historyTable, entity, "floor")).Floor ?? 1);

async function readLatest(entity) {
  const item = await get(TABLE, entity, "v0");
  if (item.Latest === undefined) throw new NotFound(`${entity} does not exist`);
  return item;
}

async function readVersion(entity, version) {
  const item = await get(historyTable, entity, keyOf(version));
  if (item.PK !== undefined) return item;
  const [latest, floor] = [Number((await readLatest(entity)).Latest), await floorOf(entity)];
  if (version > latest) throw new NotFound(`version ${version} does not exist, the latest is ${latest}`);
  if (version < floor) throw new NotFound(`version ${version} was pruned, history begins at version ${floor}`);
  throw new NotFound(`version ${version} is not in the history yet`);
}

/** Reads the version that was the latest at a time, such as 2026-11-22T06:24:48.123456000Z: a binary search. */
async function readAsOf(entity, recordedAt) {
  let [low, high] = [await floorOf(entity), Number((await readLatest(entity)).Latest)];
  let found;
  while (low <= high) {
    const middle = Math.floor((low + high) / 2);
    const item = await readVersion(entity, middle);
    if (item.RecordedAt <= recordedAt) [low, found] = [middle + 1, item];
    else high = middle - 1;
  }
  return found;
}

/** Reads the versions newest first, page by page. */
async function* history(entity, pageSize = 100) {
  let last = Number((await readLatest(entity)).Latest);
  while (last >= 1) {
    const numbers = Array.from({ length: Math.min(pageSize, last) }, (_, index) => last - index);
    const page = await Promise.all(numbers.map((version) => get(historyTable, entity, keyOf(version))));
    yield page.filter((item) => item.PK !== undefined);
    last -= numbers.length;
  }
}

/** Waits until the latest version is in the history, a second on AWS. */
async function waitForHistory(entity) {
  const { Latest: latest } = await readLatest(entity);
  for (let attempt = 0; attempt < 300; attempt++) {
    if ((await get(historyTable, entity, keyOf(latest))).PK !== undefined) return;
    await setTimeout(100);
  }
  throw new Error("history lags");
}

// --- The example ---

async function attempt(action) {
  try {
    await action();
  } catch (error) {
    if (!(error instanceof Rejected || error instanceof Conflict || error instanceof NotFound)) throw error;
    console.log(`${error.constructor.name}: ${error.message}`.replace(ENTITY, "ENTITY"));
  }
}

// JSON.stringify rounds large numbers: send the digits as text.
const total = { $number: "12345678901234567890.5" };
for (const members of [
  { State: "NEW", RequestId: `${ENTITY}-1`, Actor: "alice", Reason: "created" },
  { State: "OK", Total: total, TypedValues: true },
  { State: "OLD", ExpectedVersion: 2 },
  { State: "NEW", RequestId: `${ENTITY}-1`, Actor: "alice", Reason: "created" },
]) {
  const response = await write({ ID: ENTITY, ...members });
  console.log(response.Outcome, response.Version);
}
await attempt(() => write({ ID: ENTITY, State: "LOST", ExpectedVersion: 2 }));
await attempt(() => write({ ID: ENTITY, Latest: 7 }));

await waitForHistory(ENTITY);
const second = await readVersion(ENTITY, 2);
console.log("version 2:", second.State, String(second.Total));
console.log("as of version 2:", (await readAsOf(ENTITY, second.RecordedAt)).State);
console.log("before version 1:", (await readAsOf(ENTITY, "2020-01-01")) ?? "nothing");
const pages = [];
for await (const page of history(ENTITY, 2)) pages.push(page.map((item) => item.State));
console.log("history:", JSON.stringify(pages));
console.log("latest:", (await readLatest(ENTITY)).State);
await attempt(() => readVersion(ENTITY, 4));
await attempt(() => readLatest("Example#missing"));
