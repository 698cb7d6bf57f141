// Stores new images of latest items from DynamoDB Streams as version items: 25 in a request, several requests at a time.

import { BatchExecuteStatementCommand, DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { concurrently } from "./concurrently.mjs";

// Maximum number of statements of a request.
const CHUNK_SIZE = 25;
// The highest throughput of 4, 8, 16 and 32 requests at a time, of 5 ms each.
const CONCURRENCY = 16;
// Codes of a statement that fails because the version already exists.
const EXISTS = new Set(["DuplicateItem", "ConditionalCheckFailed"]);

const TABLE = process.env.TABLE_NAME.replaceAll('"', '""');
const sockets = { keepAlive: true, maxSockets: CONCURRENCY };
const dynamodb = new DynamoDBClient({ requestHandler: { httpAgent: sockets, httpsAgent: sockets } });

/** Names the first record that failed. Lambda retries the batch from there. */
export async function handler(event) {
  const changes = event.Records.map(({ dynamodb: change }) => change);
  const images = changes.filter((change) => change.Keys.SK.S === "v0" && change.NewImage);
  const chunks = [];
  for (let start = 0; start < images.length; start += CHUNK_SIZE) {
    chunks.push(images.slice(start, start + CHUNK_SIZE));
  }
  const failures = await concurrently(CONCURRENCY, chunks, firstFailure);
  const failed = failures.find((change) => change !== undefined);
  return { batchItemFailures: failed ? [{ itemIdentifier: failed.SequenceNumber }] : [] };
}

/** Inserts the versions of a chunk, and returns its first record that failed. */
async function firstFailure(chunk) {
  // A request must not name a key twice. Both records have the same image.
  const statements = new Map(chunk.map((change) => [key(change), insert(change.NewImage)]));
  try {
    const command = new BatchExecuteStatementCommand({ Statements: [...statements.values()] });
    const { Responses } = await dynamodb.send(command);
    const failed = new Map();
    for (const [index, name] of [...statements.keys()].entries()) {
      const code = Responses[index].Error?.Code;
      if (code !== undefined && !EXISTS.has(code)) {
        failed.set(name, code);
      }
    }
    if (failed.size > 0) {
      console.error(`statements failed: ${[...new Set(failed.values())].join(", ")}`);
    }
    return chunk.find((change) => failed.has(key(change)));
  } catch (error) {
    console.error(`a request failed: ${error.name}`);
    return chunk[0];
  }
}

function key({ NewImage: { PK, Latest } }) {
  return `${Latest.N} ${PK.S}`;
}

/** Returns a statement that inserts the version item of an image, if its key does not exist. */
function insert({ Latest, ...attributes }) {
  attributes.SK = { S: `v${Latest.N}` };
  const names = Object.keys(attributes);
  return { Statement: statement(names), Parameters: names.map((name) => converted(attributes[name])) };
}

function statement(names) {
  const members = names.map((name) => `'${name.replaceAll("'", "''")}': ?`);
  return `INSERT INTO "${TABLE}" VALUE {${members.join(", ")}}`;
}

/** Returns the value for the client, which encodes binary values itself. In a record they are already encoded. */
function converted(value) {
  if (value.M) {
    return { M: Object.fromEntries(Object.entries(value.M).map(([name, member]) => [name, converted(member)])) };
  }
  if (value.L) {
    return { L: value.L.map(converted) };
  }
  if (value.B !== undefined) {
    return { B: Buffer.from(value.B, "base64") };
  }
  if (value.BS) {
    return { BS: value.BS.map((member) => Buffer.from(member, "base64")) };
  }
  return value;
}
