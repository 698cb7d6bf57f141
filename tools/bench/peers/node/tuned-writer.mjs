// Applies updates, sent directly or through an SQS queue, to the latest item of their entity: different entities concurrently.

import { DynamoDBClient, UpdateItemCommand } from "@aws-sdk/client-dynamodb";
import { concurrently } from "./concurrently.mjs";

// As many requests at a time as writer-fn.
const CONCURRENCY = 32;

const TABLE_NAME = process.env.TABLE_NAME;
const sockets = { keepAlive: true, maxSockets: CONCURRENCY };
const dynamodb = new DynamoDBClient({ requestHandler: { httpAgent: sockets, httpsAgent: sockets } });

/** Returns the new version for a direct event, and the batch item failures for an SQS batch. */
export async function handler(event) {
  if (!event.Records) {
    return { ID: event.ID, Version: await write(event) };
  }
  const entities = new Map();
  for (const { messageId, body } of event.Records) {
    const update = JSON.parse(body);
    const updates = entities.get(update.ID) ?? [];
    updates.push({ messageId, update });
    entities.set(update.ID, updates);
  }
  const failures = await concurrently(CONCURRENCY, [...entities.values()], writeInOrder);
  return { batchItemFailures: failures.flat().map(({ messageId }) => ({ itemIdentifier: messageId })) };
}

/** Writes the updates of one entity. After a failure, the later ones fail too: they are delivered again in their order. */
async function writeInOrder(updates) {
  for (const [index, { update }] of updates.entries()) {
    try {
      await write(update);
    } catch (error) {
      console.error(`a message failed: ${error.name}`);
      return updates.slice(index);
    }
  }
  return [];
}

/** Sets all attributes of the update on the latest item, and returns its new version. */
async function write({ ID, ...attributes }) {
  const names = { "#latest": "Latest" };
  const values = { ":zero": { N: "0" }, ":one": { N: "1" } };
  const assignments = ["#latest = if_not_exists(#latest, :zero) + :one"];
  for (const [index, [name, value]] of Object.entries(attributes).entries()) {
    names[`#a${index}`] = name;
    values[`:a${index}`] = attribute(value);
    assignments.push(`#a${index} = :a${index}`);
  }
  const response = await dynamodb.send(
    new UpdateItemCommand({
      TableName: TABLE_NAME,
      Key: { PK: { S: ID }, SK: { S: "v0" } },
      UpdateExpression: `SET ${assignments.join(", ")}`,
      ExpressionAttributeNames: names,
      ExpressionAttributeValues: values,
      ReturnValues: "UPDATED_NEW",
    }),
  );
  return Number(response.Attributes.Latest.N);
}

/** Converts a parsed value into DynamoDB's form, without the options of `marshall`. */
function attribute(value) {
  switch (typeof value) {
    case "string":
      return { S: value };
    case "number":
      return { N: String(value) };
    case "boolean":
      return { BOOL: value };
  }
  if (value === null) {
    return { NULL: true };
  }
  if (Array.isArray(value)) {
    return { L: value.map(attribute) };
  }
  return { M: Object.fromEntries(Object.entries(value).map(([name, member]) => [name, attribute(member)])) };
}
