// Sends an update until it is applied, once. Its argument is the update. WRITER names the function of the stack.

import { randomUUID } from "node:crypto";
import { setTimeout } from "node:timers/promises";

import { InvokeCommand, LambdaClient } from "@aws-sdk/client-lambda";

const [functions, { WRITER = "writer-fn" }] = [new LambdaClient(), process.env];
const update = { RequestId: randomUUID(), RequestSentAt: Date.now(), ...JSON.parse(process.argv[2]) };
for (let attempt = 0, response; response?.Outcome === undefined; attempt++) {
  const output = await functions.send(new InvokeCommand({ FunctionName: WRITER, Payload: JSON.stringify(update) }));
  response = JSON.parse(output.Payload.transformToString());
  if (output.FunctionError === undefined) console.log(response.Outcome, response.Version);
  else if (attempt === 4 || ["InvalidEvent", "VersionConflict"].includes(response.errorType)) {
    console.error(`${response.errorType}: ${response.errorMessage}`);
    process.exit(1);
  } else await setTimeout(100 * 2 ** attempt);
}
