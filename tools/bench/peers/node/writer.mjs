// Applies updates, sent directly or through an SQS queue, to the latest item of their entity.

import { DynamoDBClient, UpdateItemCommand } from "@aws-sdk/client-dynamodb";
import { marshall } from "@aws-sdk/util-dynamodb";

const TABLE_NAME = process.env.TABLE_NAME;
const dynamodb = new DynamoDBClient();

/** Returns the new version for a direct event, and the batch item failures for an SQS batch. */
export async function handler(event) {
  if (!event.Records) {
    return { ID: event.ID, Version: await write(event) };
  }
  const batchItemFailures = [];
  for (const message of event.Records) {
    try {
      await write(JSON.parse(message.body));
    } catch (error) {
      console.error(`a message failed: ${error.name}`);
      batchItemFailures.push({ itemIdentifier: message.messageId });
    }
  }
  return { batchItemFailures };
}

/** Sets all attributes of the update on the latest item, and returns its new version. */
async function write({ ID, ...attributes }) {
  const names = { "#latest": "Latest" };
  const values = { ":zero": 0, ":one": 1 };
  const assignments = ["#latest = if_not_exists(#latest, :zero) + :one"];
  for (const [index, [name, value]] of Object.entries(attributes).entries()) {
    names[`#a${index}`] = name;
    values[`:a${index}`] = value;
    assignments.push(`#a${index} = :a${index}`);
  }
  const response = await dynamodb.send(
    new UpdateItemCommand({
      TableName: TABLE_NAME,
      Key: marshall({ PK: ID, SK: "v0" }),
      UpdateExpression: `SET ${assignments.join(", ")}`,
      ExpressionAttributeNames: names,
      ExpressionAttributeValues: marshall(values),
      ReturnValues: "UPDATED_NEW",
    }),
  );
  return Number(response.Attributes.Latest.N);
}
