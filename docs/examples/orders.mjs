// Changes an item of the attached table Orders, and reads its versions with the library vzero-reader. CUSTOMER names the item.

import { setTimeout } from "node:timers/promises";

import { DeleteItemCommand, DynamoDBClient, PutItemCommand } from "@aws-sdk/client-dynamodb";
import { marshall } from "@aws-sdk/util-dynamodb";
import { AttachedTable, EntityNotFound } from "vzero-reader";

const dynamodb = new DynamoDBClient();
const history = new AttachedTable(dynamodb, "Orders");
const key = { customerId: process.env.CUSTOMER, orderNo: 8 };
const put = (item) => dynamodb.send(new PutItemCommand({ TableName: "Orders", Item: marshall({ ...key, ...item }) }));

await put({ status: "open", lines: [{ sku: "A", qty: 1 }], updatedBy: "shop", version: 1 });
await put({ status: "paid", lines: [{ sku: "A", qty: 2 }], updatedBy: "amy", version: 2 });
await dynamodb.send(new DeleteItemCommand({ TableName: "Orders", Key: marshall(key) }));

for (let attempt = 0; attempt < 300; attempt++) {
  try {
    if ((await history.latest(key)).deleted) break;
  } catch (error) {
    if (!(error instanceof EntityNotFound)) throw error;
  }
  await setTimeout(100);
}

for await (const { version, changes } of history.log(key)) {
  const shown = changes.map(({ kind, path }) => `${kind} ${path}`).join(", ");
  console.log(version.number, String(version.change.itemVersion ?? "-"), version.actor ?? "-", shown);
}
for (const { path, old, new: next } of await history.diff(key, 1, 2)) console.log(`${path}: ${old} -> ${next}`);
