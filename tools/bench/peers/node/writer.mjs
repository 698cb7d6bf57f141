// Updates, sent directly or through an SQS queue: each becomes the next version of its entity's latest item.

import { DynamoDBClient, UpdateItemCommand } from "@aws-sdk/client-dynamodb";
import { marshall } from "@aws-sdk/util-dynamodb";

const TABLE_NAME = process.env.TABLE_NAME;
const dynamodb = new DynamoDBClient();

/** Answers a direct event with the new version, and a batch with the messages that failed. */
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

/** Updates the latest item with all attributes of the update, and says which version it is now. */
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
