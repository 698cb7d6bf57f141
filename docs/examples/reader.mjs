// Reads versions with the library vzero-reader. TABLE names the table, ENTITY the item, as of docs/examples/versions.mjs.

import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { EntityNotFound, Table, VersionNotFound, VersionPruned } from "vzero-reader";

const table = new Table(new DynamoDBClient(), process.env.TABLE ?? "VersionControl");
const entity = process.env.ENTITY;

const latest = await table.latest(entity);
console.log(latest.number, latest.attributes.State, String(latest.attributes.Total));
console.log((await table.version(entity, 1)).actor);
console.log((await table.asOf(entity, (await table.version(entity, 2)).recordedAt)).number);
console.log((await table.effectiveAt(entity, "2020-01-01")) ?? "None");
for await (const page of table.history(entity, { pageSize: 2 })) {
  console.log(JSON.stringify(page.map((version) => version.number)).replace(",", ", "));
}
const list = (texts) => `[${texts.map((text) => `'${text}'`).join(", ")}]`;
for await (const { version, changes } of table.log(entity)) {
  console.log(version.number, version.reason ?? "None", list(changes.map(({ kind, path }) => `${kind} ${path}`)));
}
const changes = await table.diff(entity, 1, 3);
console.log(list(changes.filter(({ path }) => path === "State").map((change) => change.new)));
try {
  await table.version(entity, 7);
} catch (error) {
  if (error instanceof VersionNotFound) console.log(`${error.version} is not one of ${error.first} to ${error.latest}`);
  else if (error instanceof VersionPruned) console.log(`history begins at ${error.floor}`);
  else if (error instanceof EntityNotFound) console.log(`${error.entity} does not exist`);
  else throw error;
}
