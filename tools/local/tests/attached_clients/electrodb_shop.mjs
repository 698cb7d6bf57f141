// Writes a single-table design with ElectroDB, and prints each state that the table had, as pynamodb_orders.py does.
// Usage: electrodb_shop.mjs ENDPOINT TABLE

import { DynamoDBClient, GetItemCommand } from "@aws-sdk/client-dynamodb";
import { Entity, Service } from "electrodb";

const [endpoint, table] = process.argv.slice(2);
const credentials = { accessKeyId: "local", secretAccessKey: "local" };
const client = new DynamoDBClient({ endpoint, region: "us-east-1", credentials });

const customer = new Entity(
  {
    model: { entity: "customer", version: "1", service: "shop" },
    attributes: { id: { type: "string", required: true }, name: { type: "string" }, tags: { type: "set", items: "string" } },
    indexes: { primary: { pk: { field: "pk", composite: ["id"] }, sk: { field: "sk", composite: [] } } },
  },
  { client, table },
);
const order = new Entity(
  {
    model: { entity: "order", version: "1", service: "shop" },
    attributes: {
      id: { type: "string", required: true },
      number: { type: "string", required: true },
      status: { type: ["open", "paid", "sent"] },
      lines: { type: "list", items: { type: "map", properties: { sku: { type: "string" }, count: { type: "number" } } } },
    },
    indexes: {
      primary: { pk: { field: "pk", composite: ["id"] }, sk: { field: "sk", composite: ["number"] } },
      byStatus: {
        index: "byStatus",
        pk: { field: "gsi1pk", composite: ["status"] },
        sk: { field: "gsi1sk", composite: ["number"] },
      },
    },
  },
  { client, table },
);
const shop = new Service({ customer, order }, { client, table });

const states = new Map();
// Members in one order: a set and a map have none.
const canonical = (value) =>
  JSON.stringify(value, (_, member) =>
    member instanceof Uint8Array || Array.isArray(member) || member === null || typeof member !== "object"
      ? member
      : Object.fromEntries(Object.entries(member).sort()),
  );
async function wrote(entity, key) {
  const { pk, sk } = entity.get(key).params().Key;
  const Key = { pk: { S: pk }, sk: { S: sk } };
  const { Item = null } = await client.send(new GetItemCommand({ TableName: table, Key, ConsistentRead: true }));
  const name = JSON.stringify(Key);
  const all = states.get(name) ?? [];
  states.set(name, all);
  if ((Item || all.length) && canonical(Item) !== canonical(all.at(-1) ?? (all.length ? null : undefined))) all.push(Item);
}

for (let step = 0; step < 60; step++) {
  const id = `c${step % 3}`;
  const number = `${step % 5}`.padStart(4, "0");
  if (step % 10 === 0) await customer.put({ id, name: `name ${step}`, tags: ["b", "a", `${step}`] }).go();
  if (step % 10 === 5) await customer.upsert({ id, name: `name ${step}` }).go();
  await wrote(customer, { id });
  const action = step % 4;
  if (action === 0) await order.put({ id, number, status: "open", lines: [{ sku: "s", count: step }] }).go();
  if (action === 1) await order.upsert({ id, number, status: "paid" }).go();
  if (action === 2) await order.upsert({ id, number, status: "sent", lines: [] }).go();
  if (action === 3) await order.delete({ id, number }).go();
  await wrote(order, { id, number });
}
const many = Array.from({ length: 350 }, (_, n) => ({ id: "batch", number: `${n}`.padStart(4, "0"), status: "open" }));
await order.put(many).go({ concurrency: 4 });
for (const key of many) await wrote(order, key);
for (let step = 0; step < 10; step++) {
  const key = { id: "batch", number: `${step}`.padStart(4, "0") };
  await shop.transaction
    .write(({ order, customer }) => [
      order.patch(key).set({ status: "paid" }).commit(),
      customer.upsert({ id: "batch", name: `order ${step}` }).commit(),
    ])
    .go();
  await wrote(order, key);
  await wrote(customer, { id: "batch" });
}
await order.delete(many.slice(200, 300)).go({ concurrency: 4 });
for (const key of many.slice(200, 300)) await wrote(order, key);
for (const [key, all] of states) {
  // A number has up to 38 digits, and bytes are base64; neither occurs here.
  console.log(JSON.stringify({ Key: JSON.parse(key), States: all }));
}
