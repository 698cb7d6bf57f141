// Stores each new image of a latest item from DynamoDB Streams as a version item, one after the other.

import { ConditionalCheckFailedException, DynamoDBClient, PutItemCommand } from "@aws-sdk/client-dynamodb";

const TABLE_NAME = process.env.TABLE_NAME;
const dynamodb = new DynamoDBClient();

/** Stops at the first record that fails. Lambda retries the batch from there. */
export async function handler(event) {
  for (const { dynamodb: change } of event.Records) {
    if (change.Keys.SK.S !== "v0" || !change.NewImage) {
      continue;
    }
    try {
      await putVersion(change.NewImage);
    } catch (error) {
      console.error(`a record failed: ${error.name}`);
      return { batchItemFailures: [{ itemIdentifier: change.SequenceNumber }] };
    }
  }
  return { batchItemFailures: [] };
}

/** Puts the version item of an image, if it does not exist. */
async function putVersion({ Latest, ...attributes }) {
  try {
    await dynamodb.send(
      new PutItemCommand({
        TableName: TABLE_NAME,
        Item: { ...attributes, SK: { S: `v${Latest.N}` } },
        ConditionExpression: "attribute_not_exists(PK)",
      }),
    );
  } catch (error) {
    if (!(error instanceof ConditionalCheckFailedException)) {
      throw error;
    }
  }
}
